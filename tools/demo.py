"""Runs the demo of `make demo`: a cluster, `pulumi up`, a training run, and a table of it all.

Each step is a command that a user would type; it is printed before it runs. The lab stays up.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

REPO = Path(__file__).resolve().parent.parent
STACK = "lab"
JOB = "examples/torch-ddp.yaml"
JOB_NAME = "demo"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One command of the demo. ``outcome`` says in a few words what came of it."""

    title: str
    command: list[str]
    outcome: Callable[[], str]


class Demo:
    """Runs the steps in order and keeps their wall-clock seconds."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.rows: list[tuple[str, float, str]] = []

    def in_lab(self, *command: str) -> list[str]:
        """Return a command with the lab's environment: its PATH, kubeconfig and Pulumi backend."""
        return ["railhead", "lab", "exec", "--", *command]

    def read(self, command: list[str]) -> Any:
        """Return the JSON that a command prints, or None where it fails: the table is no proof."""
        done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=False)
        try:
            return json.loads(done.stdout) if done.returncode == 0 else None
        except ValueError:
            return None

    def nodes_ready(self) -> str:
        """Return how many nodes are Ready, and how much memory the whole lab uses."""
        status = self.read(["railhead", "lab", "status", "--json"])
        if not status:
            return "its status could not be read"
        ready = sum(node["ready"] for node in status["nodes"])
        return f"{ready} of {len(status['nodes'])} nodes Ready, {status['memory_mib']:.0f} MiB"

    def resources(self) -> str:
        """Return how many resources the stack's state holds."""
        state = self.read(self.in_lab("pulumi", "stack", "export", "--stack", STACK))
        result = state["deployment"].get("resources", []) if state else []
        return f"{len(result)} resources in stack {STACK}"

    def job_name(self) -> str:
        """Return the demo's own name, which leaves the job file's to people, or the next free."""
        jobs = self.read(["railhead", "status", "--lab", "lab", "--json"]) or []
        taken = {job["name"] for job in jobs}
        names = (f"{JOB_NAME}-{number}" for number in itertools.count(2))
        return JOB_NAME if JOB_NAME not in taken else next(n for n in names if n not in taken)

    def launch(self) -> list[str]:
        """Return the command that launches the job."""
        return ["railhead", "launch", JOB, "--name", self.job_name(), "--lab", "lab", "--follow"]

    def steps(self) -> Iterator[Step]:
        """Yield the demo: what a platform engineer does, then what a researcher does."""
        pulumi = ("pulumi", "--non-interactive")
        yield Step(
            title="the cluster",
            command=["railhead", "lab", "up"],
            outcome=self.nodes_ready,
        )
        yield Step(
            title="the stack is chosen",
            command=self.in_lab(*pulumi, "stack", "select", "--create", STACK),
            outcome=lambda: "state in the lab's own file backend",
        )
        # The contract among the outputs is long; `pulumi stack output` shows it.
        up = (*pulumi, "up", "--stack", STACK, "--yes", "--skip-preview", "--suppress-outputs")
        yield Step(title="pulumi up", command=self.in_lab(*up), outcome=self.resources)
        yield Step(
            title="pulumi up again",
            command=self.in_lab(*up, "--expect-no-changes"),
            outcome=lambda: "nothing to change",
        )
        yield Step(
            title="the training run",
            command=self.launch(),
            outcome=lambda: "completed; its checkpoints are in the shared claim",
        )

    def run(self) -> int:
        """Run every step; stop at the first that fails and say how to go on. Returns its code."""
        # One by one: the last command depends on what the earlier ones left.
        for number, step in enumerate(self.steps(), 1):
            shown = shlex.join(step.command)
            self.console.rule(f"[bold]{number}. {step.title}", align="left")
            self.console.print(f"$ {shown}", style="dim", highlight=False)
            start = time.monotonic()
            done = subprocess.run(step.command, cwd=REPO, check=False)
            seconds = time.monotonic() - start
            if done.returncode:
                self.console.print(
                    f"\n[bold red]demo: step {number} ({step.title}) ended with code "
                    f"{done.returncode} after {seconds:.0f} s.[/]\n"
                    f"  fix: read what it printed above; `railhead lab logs` has more. "
                    "Then `make demo` again: it goes on from here.",
                    highlight=False,
                )
                return done.returncode
            self.rows.append((step.title, seconds, step.outcome()))
        self.summary()
        return 0

    def summary(self) -> None:
        """Print the closing table, and what to do next."""
        table = Table(title="Railhead demo", title_justify="left", show_footer=True)
        total = sum(seconds for _, seconds, _ in self.rows)
        table.add_column("step", footer="in all")
        table.add_column("seconds", justify="right", footer=f"{total:.0f}")
        table.add_column("outcome")
        for title, seconds, outcome in self.rows:
            table.add_row(title, f"{seconds:.0f}", outcome)
        self.console.print()
        self.console.print(table)
        self.console.print(
            f"""
The lab is still up. To look around (`source .venv/bin/activate` first):
  railhead lab status
  railhead status
  railhead launch {JOB} --name my-first-run --follow
  eval "$(railhead lab env)"      # kubectl, helm and pulumi, set to this lab
  kubectl get nodes,pods -A
  pulumi stack -s {STACK}
To take it down, leaving nothing but the cache of builds:
  make down""",
            highlight=False,
            markup=False,
        )


def main() -> int:
    """Run the demo; returns the exit code."""
    # The commands of this very environment, whether or not it is activated.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # Without a terminal rich would wrap at 80 columns and break the commands apart.
    width = None if sys.stdout.isatty() else 110
    try:
        return Demo(Console(width=width, soft_wrap=True)).run()
    except KeyboardInterrupt:
        print("\ndemo: interrupted; `make demo` goes on from here, `make down` takes the lab down")
        return 130


if __name__ == "__main__":
    sys.exit(main())
