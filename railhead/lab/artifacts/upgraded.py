"""The controllers that a lab is upgraded to (docs/upgrading.md), built when they are asked for.

Those of an :class:`Upgrade` that the lab does not run anyway: their charts go to where the lab's
own are, and their images into archives that `railhead lab load-image` takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from railhead.base.paths import cache_root
from railhead.catalog.lab import KUBERNETES
from railhead.catalog.versions import LAB_TRAINER, LAB_UPGRADED, Combination, Controller
from railhead.lab.artifacts import charts, golang
from railhead.lab.artifacts.commands import Runner
from railhead.lab.artifacts.files import digest, publish, remove_tree, scratch
from railhead.lab.artifacts.images import CONTROLLER_PROGRAMS, controller_image, stream_archive
from railhead.lab.artifacts.on_request import build_once
from railhead.lab.artifacts.steps import Lane, Step, Tell

if TYPE_CHECKING:
    from rich.console import Console

#: Counts up when what an archive is made of changes in a way that no other key shows.
_RECIPE = "1"


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """An upgrade of a lab.

    Args:
        name: what `railhead lab build --only` calls it.
        combination: the versions.
        lock: the directory of their go.mod.
        kubernetes: the version of that lock's Kubernetes libraries, for the programs' version.
        expected_s: how long a first build takes on two cores, in seconds.
    """

    name: str
    combination: Combination
    lock: Path
    kubernetes: str
    expected_s: int

    def controllers(self) -> tuple[tuple[Controller, golang.Program], ...]:
        """Return each controller of another version than the lab's, and its program."""
        programs = {program.name: program for program in golang.UPSTREAM}
        pairs = zip(CONTROLLER_PROGRAMS, self.combination.controllers, strict=True)
        return tuple((wanted, programs[name]) for (own, name), wanted in pairs if wanted != own)

    def directory(self) -> Path:
        """Return the directory of the archives, which may not be built yet."""
        programs = [program for _, program in self.controllers()]
        rows = [repr(controller) for controller, _ in self.controllers()]
        key = digest(_RECIPE, golang.lock_key(self.lock, programs), self.link_flags(), *rows)
        return cache_root() / "images" / f"{self.name}-{key}"

    def archives(self) -> tuple[Path, ...]:
        """Return the path of each controller's archive, which may not be built yet."""
        return tuple(self.directory() / f"{program.name}.tar" for _, program in self.controllers())

    def ready(self) -> bool:
        """Return whether all of it is built."""
        unpacked = (charts.chart_dir(c) / "Chart.yaml" for c, _ in self.controllers())
        return all(path.is_file() for path in (*self.archives(), *unpacked))

    def ensure(self, console: Console) -> tuple[Path, ...]:
        """Build what is missing, with a display on ``console``; returns the archives.

        Raises:
            PrerequisiteError: there is no Go.
            CommandError: a build failed; carries its last words and its log.
        """
        step = Step(
            name=self.name,
            title=f"the controllers of {self.combination.name}",
            expected_s=self.expected_s,
            lane=Lane.COMPILE,
            action=self.build,
        )
        build_once(self.ready, lambda: [step], console)
        return self.archives()

    def build(self, runner: Runner, tell: Tell) -> None:
        """Build the programs, unpack their charts and pack their images."""
        with scratch(self.name) as work:
            for part in ("layers", "archives"):
                (work / part).mkdir()
            programs = [program for _, program in self.controllers()]
            flags = self.link_flags()
            golang.build(self.lock, programs, work, self.name, runner, tell, flags=flags)
            for controller, program in self.controllers():
                charts.unpack_chart(controller, lambda name: golang.module_dir(name, self.lock))
                image = controller_image(controller, work / program.name, work / "layers")
                with (work / "archives" / f"{program.name}.tar").open("wb") as archive:
                    stream_archive(image, archive.write)
            for old in self.directory().parent.glob(f"{self.name}-*"):
                remove_tree(old)
            publish(work / "archives", self.directory())

    def link_flags(self) -> str:
        """Return the linker's flags, with the programs' versions."""
        reported = {"kueue": self.combination.kueue.tag, "jobset": self.combination.jobset.tag}
        return golang.link_flags(reported, self.kubernetes)


#: By name.
UPGRADES: Mapping[str, Upgrade] = MappingProxyType(
    {
        upgrade.name: upgrade
        for upgrade in (
            Upgrade(
                name="upgraded",
                combination=LAB_UPGRADED,
                lock=golang.UPGRADED,
                kubernetes=KUBERNETES,
                expected_s=120,
            ),
            Upgrade(
                name="trainer-upgraded",
                combination=LAB_TRAINER,
                lock=golang.UPGRADED_TRAINER,
                kubernetes="v1.36.1",
                expected_s=400,
            ),
        )
    }
)
