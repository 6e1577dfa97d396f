"""The example refuses a wrong world before it loads PyTorch, so these need none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RIGHT = {
    "PATH": os.environ["PATH"],
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "4",
    "PET_NNODES": "2",
    "PET_NPROC_PER_NODE": "2",
    "PET_NODE_RANK": "0",
    "RAILHEAD_WORLD_SIZE": "4",
    "GLOO_SOCKET_IFNAME": "lo",
}


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        ({"WORLD_SIZE": "2"}, 64, "world size is 2, Trainer set 2 nodes x 2 processes"),
        ({"RAILHEAD_WORLD_SIZE": "6"}, 64, "world size is 4, the job asked for 6"),
        ({"WORLD_SIZE": ""}, 64, "WORLD_SIZE is ''"),
        ({"PET_NNODES": "1", "WORLD_SIZE": "2"}, 64, "world size is 2, the job asked for 4"),
        ({"PET_NNODES": "auto"}, 64, "PET_NNODES is 'auto'"),
        ({"GLOO_SOCKET_IFNAME": "rail9"}, 65, "GLOO_SOCKET_IFNAME is 'rail9'; interfaces: "),
        ({"GLOO_SOCKET_IFNAME": ""}, 65, "GLOO_SOCKET_IFNAME is not set"),
    ],
)
def test_it_refuses_at_once(repo: Path, change: dict[str, str], code: int, says: str) -> None:
    done = subprocess.run(
        [sys.executable, str(repo / "examples/torch_ddp/train.py")],
        env=RIGHT | change,
        capture_output=True,
        text=True,
        check=False,
        # A rendezvous that nobody answers takes minutes to give up.
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith("error: ")
    assert says in done.stdout


def test_the_right_world_gets_past_the_checks(repo: Path) -> None:
    """The example ends at PyTorch or, if that is installed, at a rendezvous nobody answers."""
    done = subprocess.run(
        [sys.executable, "-c", CHECKS_ONLY, str(repo / "examples/torch_ddp/train.py")],
        env=RIGHT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "checked lo\n"), done.stderr


# The script up to the import of PyTorch, run as the main program.
CHECKS_ONLY = """
import sys
source = open(sys.argv[1]).read().split("\\nimport torch")[0]
scope = {"__name__": "__main__"}
exec(compile(source, sys.argv[1], "exec"), scope)
print("checked", scope["RAIL"])
"""
