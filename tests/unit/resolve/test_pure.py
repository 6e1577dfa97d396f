"""Resolving needs a stack's file and nothing else: no engine, no cloud's SDK, no cluster."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.components.recording import REPO, STACKS

_WITHOUT = """
import sys
from pathlib import Path

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0].startswith(("pulumi", "grpc", "kubernetes")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())

from railhead.config import load
from railhead.resolve.cluster import resolve

for stack in sys.argv[1:]:
    resolved = resolve(load(Path(f"stacks/Pulumi.{stack}.yaml")))
    print(resolved.contract.cluster, len(resolved.runtimes), *resolved.guards)
"""


@pytest.mark.slow
def test_every_stack_is_resolved_where_pulumi_is_not_installed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, *STACKS],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(STACKS)
    assert all("railhead-train-job" in line for line in done.stdout.splitlines())
