"""The lab's stack at other versions than its file names, by the path of docs/upgrading.md."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from railhead.catalog.versions import Combination, Controller
from railhead.lab.artifacts import charts
from railhead.lab.artifacts.upgraded import Upgrade
from tests.lab.conftest import LAB, STACK, Run, railhead, succeed


def load(*upgrades: Upgrade) -> None:
    """Give the lab the images of other controllers, which are built where they are not yet."""
    for upgrade in upgrades:
        for archive in upgrade.ensure(Console(stderr=True)):
            succeed(railhead("lab", "load-image", str(archive), "--name", LAB))


@dataclass(frozen=True, kw_only=True)
class Versions:
    """Changes of the stack's versions; ``folder`` holds the stack's changed file."""

    pulumi: Run
    kubectl: Run
    repo: Path
    folder: Path

    @property
    def stack(self) -> dict[str, Any]:
        """The stack's file, read on each access."""
        path = self.repo / "stacks" / f"Pulumi.{STACK}.yaml"
        return dict(yaml.safe_load(path.read_text()))

    def define(self, controllers: Sequence[Controller]) -> None:
        """Apply the definitions that Helm leaves."""
        for controller in controllers:
            definitions = charts.chart_dir(controller) / "crds"
            words = ("--server-side", "--force-conflicts", "-f", str(definitions))
            succeed(self.kubectl("apply", *words))

    def up(self, combination: Combination, **more: Any) -> subprocess.CompletedProcess[str]:
        """`pulumi up` of the stack's file with these versions, and what else it says."""
        settings = self.stack
        settings["config"]["railhead:cluster"] |= {"versions": combination.name, **more}
        file = self.folder / f"Pulumi.{STACK}.yaml"
        file.write_text(yaml.safe_dump(settings))
        return self.pulumi("up", "--stack", STACK, "--yes", "--config-file", str(file))
