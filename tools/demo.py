"""What `make demo` runs: a cluster, `pulumi up` on it, a training run, and a table of it all.

Each step is a command that a user would type; it is printed before it runs. The lab stays up.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

REPO = Path(__file__).resolve().parent.parent
STACK = "lab"
JOB = "examples/torch-ddp.yaml"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command of the demo. ``outcome`` says in a few words what came of it."""

    title: str
    command: list[str]
    outcome: Callable[[], str]


class Demo:
    """Runs the steps in order and keeps their wall-clock seconds."""

    def __init__(self, console: Console, lab: str, nodes: int) -> None:
        self.console = console
        self.lab = lab
        self.nodes = nodes
        self.rows: list[tuple[str, float, str]] = []

    def in_lab(self, *command: str) -> list[str]:
        """A command with the lab's environment: its PATH, kubeconfig and Pulumi backend."""
        return ["railhead", "lab", "exec", "--name", self.lab, "--", *command]

    def read(self, command: list[str]) -> Any:
        """The JSON that a command prints, or None where it fails: the table is no proof."""
        done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
        try:
            return json.loads(done.stdout) if done.returncode == 0 else None
        except ValueError:
            return None

    def nodes_ready(self) -> str:
        """How many nodes say Ready, and their Kubernetes version."""
        listed = self.read(self.in_lab("kubectl", "get", "nodes", "-o", "json"))
        items = listed["items"] if listed else []
        ready = [
            node
            for node in items
            for condition in node["status"]["conditions"]
            if condition["type"] == "Ready" and condition["status"] == "True"
        ]
        versions = sorted({node["status"]["nodeInfo"]["kubeletVersion"] for node in ready})
        return f"{len(ready)} of {len(items)} nodes Ready, Kubernetes {', '.join(versions)}"

    def resources(self) -> str:
        """How many resources the stack's state holds."""
        state = self.read(self.in_lab("pulumi", "stack", "export", "--stack", STACK))
        found = state["deployment"].get("resources", []) if state else []
        return f"{len(found)} resources in stack {STACK}"

    def steps(self) -> list[Step]:
        """The demo: what a platform engineer does, then what a researcher does."""
        pulumi = ("pulumi", "--non-interactive")
        return [
            Step(
                title="the cluster",
                command=["railhead", "lab", "up", "--name", self.lab, "--nodes", str(self.nodes)],
                outcome=self.nodes_ready,
            ),
            Step(
                title="the stack is chosen",
                command=self.in_lab(*pulumi, "stack", "select", "--create", STACK),
                outcome=lambda: "state in the lab's own file backend",
            ),
            Step(
                title="pulumi up",
                command=self.in_lab(*pulumi, "up", "--stack", STACK, "--yes", "--skip-preview"),
                outcome=self.resources,
            ),
            Step(
                title="pulumi up again",
                command=self.in_lab(
                    *pulumi,
                    "up",
                    "--stack",
                    STACK,
                    "--yes",
                    "--skip-preview",
                    "--expect-no-changes",
                ),
                outcome=lambda: "nothing to change",
            ),
            Step(
                title="the training run",
                command=self.in_lab("railhead", "launch", JOB, "--follow"),
                outcome=lambda: "finished, checkpoints in the shared claim",
            ),
        ]

    def run(self) -> int:
        """Run every step; stop at the first that fails and say how to go on. Returns its code."""
        steps = self.steps()
        for number, step in enumerate(steps, 1):
            shown = shlex.join(step.command)
            self.console.rule(f"[bold]{number}/{len(steps)} {step.title}", align="left")
            self.console.print(f"$ {shown}", style="dim", highlight=False)
            start = time.monotonic()
            done = subprocess.run(step.command, cwd=REPO, check=False)
            seconds = time.monotonic() - start
            if done.returncode:
                self.console.print(
                    f"\n[bold red]demo: step {number} ({step.title}) ended with code "
                    f"{done.returncode} after {seconds:.0f} s.[/]\n"
                    f"  fix: read what it printed above; `railhead lab logs --name {self.lab}` has "
                    "more. Then `make demo` again: it goes on from here.",
                    highlight=False,
                )
                return done.returncode
            self.rows.append((step.title, seconds, step.outcome()))
        self.summary()
        return 0

    def summary(self) -> None:
        """The closing table, and what to do next."""
        table = Table(title="Railhead demo", title_justify="left", show_footer=True)
        total = sum(seconds for _, seconds, _ in self.rows)
        table.add_column("step", footer="in all")
        table.add_column("seconds", justify="right", footer=f"{total:.0f}")
        table.add_column("outcome")
        for title, seconds, outcome in self.rows:
            table.add_row(title, f"{seconds:.0f}", outcome)
        name = "" if self.lab == "lab" else f" --name {self.lab}"
        self.console.print()
        self.console.print(table)
        self.console.print(
            f"""
The lab is still up. To look around (`source .venv/bin/activate` first):
  railhead lab status{name}
  eval "$(railhead lab env{name})"      # kubectl, helm and pulumi, set to this lab
  kubectl get nodes,pods -A
  pulumi stack -s {STACK}
  railhead launch {JOB} --follow
To take it down, leaving nothing but the cache:
  make down{"" if self.lab == "lab" else f" LAB={self.lab}"}""",
            highlight=False,
            markup=False,
        )


def main() -> int:
    """Read the options and run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="lab", help="the lab's name (default: lab)")
    parser.add_argument("--nodes", type=int, default=2, help="real nodes (default: 2)")
    options = parser.parse_args()
    # Without a terminal rich would wrap at 80 columns and break the commands apart.
    width = None if sys.stdout.isatty() else 110
    return Demo(Console(width=width, soft_wrap=True), options.name, options.nodes).run()


if __name__ == "__main__":
    sys.exit(main())
