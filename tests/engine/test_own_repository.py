"""A team's own repository, made in an empty folder and used by what our wheels alone install.

The engine is the real one. Its language host, policy runner and providers are railhead-lab's, from
its wheel; the cluster's objects go to recorders.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from railhead.base.errors import ExitCode
from railhead.base.paths import cache_root
from railhead.platform.registry import PLATFORMS
from railhead.platform.starter import starters
from tests import wheels
from tests.engine.controlplane import locate
from tests.wheels import REPO, Environment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment outside the checkout, as requirements.txt asks for it."""
    built = wheels.build_all(tmp_path_factory.mktemp("dist"))
    asked = ["railhead[aws]", "railhead-accept", "railhead-lab"]
    return wheels.environment(tmp_path_factory.mktemp("installed") / "venv", built, asked)


class Own:
    """A repository that `railhead new` made, and its commands."""

    def __init__(self, installed: Environment, folder: Path, *words: str) -> None:
        self.environment, self.folder, self.home = installed, folder / "clusters", folder / "home"
        self.home.mkdir()
        installed.run("railhead", "new", str(self.folder), "--yes", *words)

    def railhead(self, *words: str, status: int = 0) -> str:
        """Run `railhead` in the repository; return its output after checking how it ended."""
        pulumi = locate("pulumi")
        assert pulumi is not None
        done = subprocess.run(
            [str(self.environment.python.parent / "railhead"), *words],
            cwd=self.folder,
            env={
                "PATH": f"{pulumi.parent}:/usr/bin:/bin",
                "HOME": str(self.home),
                "RAILHEAD_CACHE": str(cache_root()),
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def edit(self, stack: str, old: str, new: str) -> None:
        """Replace a text of a stack's file, which is there once."""
        file = self.folder / "stacks" / f"Pulumi.{stack}.yaml"
        text = file.read_text()
        assert text.count(old) == 1
        file.write_text(text.replace(old, new))


@pytest.fixture
def _engine() -> None:
    if locate("pulumi") is None:
        pytest.skip("no pulumi: set RAILHEAD_TEST_BIN or run `railhead lab build`")


def test_every_starter_is_a_correct_stack(installed: Environment, tmp_path: Path) -> None:
    for name in starters(PLATFORMS):
        (tmp_path / name).mkdir()
        own = Own(installed, tmp_path / name, "--platform", name)
        reported = own.railhead("config", "check")
        assert f"Pulumi.{name}.yaml: correct: cluster {name} on" in reported
        assert "warning" not in reported, reported
        schema = own.folder / "stacks" / "stack.schema.json"
        assert schema.read_bytes() == (REPO / "stacks" / "stack.schema.json").read_bytes()
        for file in ("torch-ddp.yaml", "torch_ddp/train.py", "job.schema.json"):
            written = own.folder / "examples" / file
            assert written.read_bytes() == (REPO / "examples" / file).read_bytes()
        assert len((own.folder / "__main__.py").read_text().splitlines()) == 5


@pytest.mark.usefixtures("_engine")
def test_a_stack_of_ones_own_is_planned(installed: Environment, tmp_path: Path) -> None:
    """The reservation and the region are those of no shipped stack."""
    own = Own(
        installed,
        tmp_path,
        *("--platform", "aws", "--stack", "mine", "--set", "region=us-west-2"),
        *("--set", "reservation=cr-0ffffffffffffff01", "--set", "nodes=3"),
    )
    plan = json.loads(own.railhead("plan", "mine", "--json").splitlines()[0])
    assert plan["policies"] == "run"
    assert plan["violations"] == []
    assert plan["pools"] == [
        {"pool": "gpu", "nodes": 3, "instance_type": "p5.48xlarge", "gpus": 24}
    ]
    assert plan["counts"]["aws:eks/nodeGroup:NodeGroup"] == 2
    # The team's file decides the levels, and refuses a rule that there is not.
    (own.folder / "policies.yaml").write_text("version-ran: mandatory\n")
    assert "'version-ran' is no rule" in own.railhead("plan", "mine", status=ExitCode.FAILED)
    # The pack is the repository's own: a rule of the team's judges too.
    (own.folder / "policies.yaml").write_text("versions-ran: disabled\n")
    pack = own.folder / "policies" / "__main__.py"
    pack.write_text(
        pack.read_text()
        .replace("import Policy\n", "import EnforcementLevel, Policy, StackValidationPolicy\n")
        .replace(
            "OWN: list[Policy] = []",
            'OWN: list[Policy] = [StackValidationPolicy("ours", "No plan at all.", '
            'lambda args, report: report("not today"), EnforcementLevel.MANDATORY)]',
        )
    )
    assert "refused by ours:" in own.railhead("plan", "mine", status=ExitCode.REFUSED)


@pytest.mark.usefixtures("_engine")
def test_an_existing_network_and_a_block_of_ones_own_are_planned(
    installed: Environment, tmp_path: Path
) -> None:
    """A plan answers for the account by the file, not by a shipped stack."""
    own = Own(installed, tmp_path, "--platform", "aws", "--stack", "block")
    shutil.copy(REPO / "stacks" / "Pulumi.aws-p5en-block.yaml", own.folder / "stacks")
    for old, new in (
        ("vpc-0a1b2c3d4e5f60718", "vpc-0fff2c3d4e5f60718"),
        ("nodes: 4", "nodes: 6"),
        ("subnet-0a1b2c3d4e5f60711", "subnet-0fffffffffff60711"),
        ("id: cr-0b1c2d3e4f5061728", "id: cr-0b1c2d3e4f5061799"),
    ):
        own.edit("aws-p5en-block", old, new)
    plan = json.loads(own.railhead("plan", "aws-p5en-block", "--json").splitlines()[0])
    assert plan["pools"][0]["nodes"] == 6


@pytest.mark.exhaustive
@pytest.mark.controlplane
@pytest.mark.usefixtures("_engine")
def test_a_repository_runs_a_job_on_a_twin_of_its_cluster(
    installed: Environment, tmp_path: Path
) -> None:
    own = Own(installed, tmp_path, "--platform", "metal", "--set", "nodes=2")
    reported = own.railhead("rehearse", "metal", "--only", "job", "--only", "destroy")
    assert "job:torch:training" in reported


def test_a_repositorys_program_is_found_from_below(installed: Environment, tmp_path: Path) -> None:
    own = Own(installed, tmp_path, "--platform", "lab")
    below = own.folder / "notes"
    below.mkdir()
    done = subprocess.run(
        [str(installed.python.parent / "railhead"), "config", "check", "lab"],
        cwd=below,
        env={"PATH": os.defpath, "HOME": str(own.home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert str(own.folder / "stacks" / "Pulumi.lab.yaml") in done.stdout


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["--platform", "metl"], "'metl' is not known; did you mean 'metal'"),
        (["--platform", "aws", "--set", "regoin=x"], "'regoin' is no question of aws"),
        (["--platform", "aws", "--set", "machine=p5.47xlarge"], "did you mean 'p5.4"),
        (["--platform", "aws", "--set", "nodes=none"], "'none' is not a number of at least 1"),
        (["--platform", "aws", "--set", "region=mars-1"], "platform.region"),
        ([], "--platform '' is not known"),
        (["--platform", "lab", "--stack", "My Cluster"], "is no name of lower-case letters"),
    ],
)
def test_a_mistaken_answer_writes_nothing(
    installed: Environment, tmp_path: Path, words: list[str], reported: str
) -> None:
    folder = tmp_path / "clusters"
    text = installed.run(
        *("railhead", "new", str(folder), "--yes", *words), status=ExitCode.BAD_INPUT
    )
    assert reported in text
    assert not folder.exists()


def test_a_folder_with_files_is_left_alone(installed: Environment, tmp_path: Path) -> None:
    (tmp_path / "clusters" / ".git").mkdir(parents=True)
    (tmp_path / "clusters" / "README.md").write_text("mine\n")
    text = installed.run(
        "railhead",
        "new",
        str(tmp_path / "clusters"),
        "-y",
        "--platform",
        "lab",
        status=ExitCode.BAD_INPUT,
    )
    assert "is there already, and not empty" in text
    assert {path.name for path in (tmp_path / "clusters").iterdir()} == {".git", "README.md"}


def test_a_pull_request_is_reviewed_as_the_documentation_says(
    installed: Environment, tmp_path: Path
) -> None:
    own = Own(installed, tmp_path, "--platform", "lab")
    for name in ("review", "comment"):
        written = own.folder / f".github/workflows/railhead-{name}.yml"
        documented = REPO / "docs/pipelines" / f"github-{name}.yml"
        assert written.read_bytes() == documented.read_bytes()
