"""A copy of this repository's own project, run by the real engine on recording providers."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.lab.recorders.workspace import workspace
from tests.engine.controlplane import locate

REPO = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Preview:
    """Operations that `pulumi preview` lists, and how many seconds it took."""

    operations: Mapping[str, int]
    steps: tuple[tuple[str, str], ...]
    seconds: float


class Project:
    """One stack of a copy of the project, with a ``file://`` backend and a journal of its own."""

    def __init__(self, folder: Path, stack: str) -> None:
        pulumi = locate("pulumi")
        if pulumi is None:
            pytest.skip("no pulumi: set RAILHEAD_TEST_BIN or run `railhead lab build`")
        laid = workspace(
            folder,
            checkout=REPO,
            stack=stack,
            file=REPO / "stacks" / f"Pulumi.{stack}.yaml",
            pulumi=pulumi,
        )
        self.stack, self.pulumi = stack, pulumi
        self.folder, self.file, self.journal = laid.project, laid.stack_file, laid.journal
        self.environment = dict(laid.environment)
        self.run("stack", "init", stack)

    def run(self, *arguments: str, status: int = 0) -> str:
        """Run `pulumi`; its standard output, after checking how it ended."""
        done = subprocess.run(
            [str(self.pulumi), *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=300,
            check=False,
        )
        text = done.stdout.decode(errors="replace")
        if done.returncode and text.startswith("{"):
            # A plan as JSON is megabytes.
            reported = json.loads(text).get("diagnostics", [])
            text = "\n".join(item["message"] for item in reported if item["severity"] == "error")
        assert (done.returncode == 0) == (status == 0), (
            f"pulumi {' '.join(arguments)} ended with {done.returncode}:\n"
            f"{text}\n{done.stderr.decode(errors='replace')}"
        )
        return text if status == 0 else text + done.stderr.decode(errors="replace")

    def preview(self) -> Preview:
        """`pulumi preview`, resources alone (the stack itself and same steps left out)."""
        start = time.monotonic()
        plan = json.loads(self.run("preview", "--json"))
        seconds = time.monotonic() - start
        steps = tuple(
            (step["op"], step["urn"])
            for step in plan["steps"]
            if not step["urn"].endswith(f"::{self.stack}")
            or "pulumi:pulumi:Stack" not in step["urn"]
        )
        return Preview(
            operations=Counter(operation for operation, _ in steps), steps=steps, seconds=seconds
        )

    def up(self, *arguments: str) -> list[dict[str, Any]]:
        """`pulumi up`; what the providers were asked to do by it, in order."""
        before = len(self.entries())
        self.run("up", "--yes", "--skip-preview", *arguments)
        return self.entries()[before:]

    def destroy(self) -> list[dict[str, Any]]:
        """`pulumi destroy`; what the providers were asked to do by it, in order."""
        before = len(self.entries())
        self.run("destroy", "--yes", "--skip-preview")
        return self.entries()[before:]

    def entries(self) -> list[dict[str, Any]]:
        """Return the whole journal."""
        return [json.loads(line) for line in self.journal.read_text().splitlines()]

    def change(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Edit `railhead:cluster` in the copy of the stack's file."""
        data = yaml.safe_load(self.file.read_text())
        edit(data["config"]["railhead:cluster"])
        self.file.write_text(yaml.safe_dump(data, sort_keys=False))

    def resources(self) -> list[dict[str, Any]]:
        """Return the resources of the state."""
        state = json.loads(self.run("stack", "export"))
        result: list[dict[str, Any]] = state["deployment"].get("resources", [])
        return result
