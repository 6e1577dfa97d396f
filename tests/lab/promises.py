"""Helpers for tests of `railhead accept` on the lab: the command, and a run with its report."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railhead.accept.site import PREFIX
from railhead.kube import client as kube
from railhead.kube.client import Cluster
from tests.lab.jobs import NAMESPACE


@dataclass(frozen=True, kw_only=True)
class Suite:
    """One run of the command, and what it wrote."""

    done: subprocess.CompletedProcess[str]
    report: dict[str, Any]

    def check(self, name: str) -> dict[str, Any]:
        """Return one promise's result."""
        result: dict[str, Any] = next(c for c in self.report["checks"] if c["name"] == name)
        return result


@dataclass(frozen=True, kw_only=True)
class Lab:
    """The command line against the lab."""

    env: dict[str, str]
    cluster: Cluster
    folder: Path

    def command(self, *arguments: str) -> list[str]:
        """`railhead accept` with its evidence in this test's folder."""
        out = ("--out", str(self.folder / "kept"))
        return [sys.executable, "-m", "railhead", "accept", *out, *arguments]

    def run(self, *arguments: str, timeout: float = 2700) -> subprocess.CompletedProcess[str]:
        """Run the command to its end, and assert that it prints no traceback."""
        done = subprocess.run(
            self.command(*arguments),
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def accept(self, *arguments: str) -> Suite:
        """Return a quick run that asks nothing, with its report."""
        path = self.folder / "report.json"
        path.unlink(missing_ok=True)
        done = self.run("--quick", "--yes", "--json", str(path), *arguments)
        assert path.exists(), done.stderr
        return Suite(done=done, report=json.loads(path.read_text()))

    def jobs(self) -> list[str]:
        """Jobs of an acceptance that are in the cluster."""
        result = self.cluster.list(kube.trainjobs(NAMESPACE))
        return [j["metadata"]["name"] for j in result if j["metadata"]["name"].startswith(PREFIX)]
