"""A process that trains in another world than was asked for is ended at its first step.

PyTorch is a play; what finds and calls the program is Python's own reading of entry points.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from railhead import config
from railhead.base.retries import HOPELESS
from railhead.framework import FRAMEWORKS
from railhead.framework.programs.world import WRONG_WORLD, wrong_world
from railhead.resolve.pods import PYTHON_DIRECTORY
from railhead.resolve.runtimes import runtimes
from tests.components.recording import lab_cluster

TORCH = {
    # torch/__init__.py, _import_device_backends
    "torch/__init__.py": "from importlib.metadata import entry_points\n"
    "for one in entry_points(group='torch.backends'):\n    one.load()()\n",
    "torch/optim/__init__.py": "",
    "torch/optim/optimizer.py": "HOOKS = []\nregister_optimizer_step_pre_hook = HOOKS.append\n",
    "torch/distributed.py": "import os\n"
    "is_available = lambda: True\n"
    "is_initialized = lambda: 'WORLD' in os.environ\n"
    "get_world_size = lambda: int(os.environ['WORLD'])\n",
}
TRAIN = """
import torch
from torch.optim.optimizer import HOOKS
try:
    for hook in HOOKS:
        assert hook(None, (), {}) is None
except BaseException:
    print("swallowed")
print("trained")
"""
ASKED = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "4"}


@pytest.mark.parametrize(
    ("nodes", "processes", "built", "right"),
    [
        ("2", "4", 8, True),
        ("2", "4", 0, False),
        ("2", "4", 1, False),
        ("2", "4", 4, False),
        ("2", "4", 16, False),
        ("1", "4", 0, True),
        ("1", "4", 1, True),
        # How many a word means is known on the node alone, but every node has as many.
        ("3", "auto", 24, True),
        ("3", "auto", 8, False),
        ("3", "gpu", 1, False),
        ("2", "auto", 0, False),
        # A range is any number of nodes; nobody has said anything.
        ("2:4", "4", 12, True),
        ("", "", 0, True),
    ],
)
def test_which_worlds_are_wrong(nodes: str, processes: str, built: int, right: bool) -> None:
    assert (wrong_world(nodes, processes, built) == "") is right


def test_runtimes_start_nothing_again_after_it() -> None:
    assert WRONG_WORLD in HOPELESS


def test_a_runtime_with_a_path_of_its_own_keeps_the_program() -> None:
    for own, wanted in (
        ({}, PYTHON_DIRECTORY),
        ({"PYTHONPATH": "/mine"}, f"/mine:{PYTHON_DIRECTORY}"),
    ):
        raw = lab_cluster()
        raw["runtimes"][0]["environment"] = own
        [runtime] = runtimes(config.parse(raw, where="test"))
        assert runtime.environment["PYTHONPATH"] == wanted


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages that a pod's Python imports: a fake PyTorch, and the framework's own files."""
    result = tmp_path_factory.mktemp("site")
    for path, text in (TORCH | dict(FRAMEWORKS["torch"].python)).items():
        (result / path).parent.mkdir(parents=True, exist_ok=True)
        (result / path).write_text(text)
    return result


def test_inventories_of_packages_find_a_name(site: Path) -> None:
    """A distribution without METADATA has None for its name, on which `.lower()` fails."""
    [package] = importlib.metadata.distributions(path=[str(site)])
    assert (package.metadata["Name"], package.version) == ("railhead-world", "1")


def trained(
    site: Path, program: str = TRAIN, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(site)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("world", [{}, {"WORLD": "1"}], ids=["no world", "a world of one"])
def test_it_ends_whatever_its_own_handlers_do(site: Path, world: dict[str, str]) -> None:
    done = trained(site, **ASKED, **world)
    assert (done.returncode, done.stdout) == (WRONG_WORLD, "")
    assert "asked for one world of 8 (2 nodes with 4 processes each)" in done.stderr


def test_it_looks_once(site: Path) -> None:
    again = TRAIN + "import os\nos.environ['WORLD'] = '1'\nassert HOOKS[0](None, (), {}) is None\n"
    done = trained(site, program=again, **ASKED, WORLD="8")
    assert (done.returncode, done.stdout, done.stderr) == (0, "trained\n", "")


@pytest.mark.parametrize(
    "environment",
    [ASKED | {"WORLD": "8"}, ASKED | {"RAILHEAD_LAUNCHER": "none"}],
    ids=["the world that was asked for", "alone, in words"],
)
def test_it_trains_where_that_is_what_was_asked_for(
    site: Path, environment: dict[str, str]
) -> None:
    done = trained(site, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "trained\n", "")
