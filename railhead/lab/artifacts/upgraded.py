"""The controllers that a lab is upgraded to (docs/upgrading.md), built when they are asked for.

Those of :data:`LAB_UPGRADED` that the lab does not run anyway: their charts go to where the lab's
own are, and their images into archives that `railhead lab load-image` takes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from railhead.base.paths import cache_root
from railhead.catalog.versions import LAB_UPGRADED, Controller
from railhead.lab.artifacts import charts, golang
from railhead.lab.artifacts.commands import Runner
from railhead.lab.artifacts.files import building, digest, publish, remove_tree, scratch
from railhead.lab.artifacts.images import CONTROLLER_PROGRAMS, controller_image, stream_archive
from railhead.lab.artifacts.progress import display
from railhead.lab.artifacts.steps import Lane, Step, Tell, run_steps

if TYPE_CHECKING:
    from rich.console import Console

#: Counts up when what an archive is made of changes in a way that no other key shows.
_RECIPE = "1"
#: What `railhead lab build --only` calls it.
NAME = "upgraded"


def controllers() -> tuple[tuple[Controller, golang.Program], ...]:
    """Each controller of another version than the lab's, and its program."""
    programs = {program.name: program for program in golang.UPSTREAM}
    pairs = zip(CONTROLLER_PROGRAMS, LAB_UPGRADED.controllers, strict=True)
    return tuple((wanted, programs[name]) for (own, name), wanted in pairs if wanted != own)


def directory() -> Path:
    """Where the archives lie, or will."""
    programs = [program for _, program in controllers()]
    rows = [repr(controller) for controller, _ in controllers()]
    key = digest(_RECIPE, golang.lock_key(golang.UPGRADED, programs), _link_flags(), *rows)
    return cache_root() / "images" / f"{NAME}-{key}"


def archives() -> tuple[Path, ...]:
    """An archive for each controller; whether it is there is for the caller to see."""
    return tuple(directory() / f"{program.name}.tar" for _, program in controllers())


def ready() -> bool:
    """Whether all of it is built."""
    unpacked = (charts.chart_dir(c) / "Chart.yaml" for c, _ in controllers())
    return all(path.is_file() for path in (*archives(), *unpacked))


def ensure(console: Console) -> tuple[Path, ...]:
    """Build what is missing, with a display on ``console``; returns the archives.

    Raises:
        PrerequisiteError: there is no Go.
        CommandError: a build failed; carries its last words and its log.
    """
    if not ready():
        progress = display(console)
        step = Step(
            name=NAME,
            title=f"the controllers of {LAB_UPGRADED.name}",
            expected_s=120,
            lane=Lane.COMPILE,
            action=build,
        )
        with building(lambda who: progress.note(f"{who} is building already; waiting for it")):
            # Another process may have built it while this one waited.
            if not ready():
                run_steps([step], progress, Runner())
    return archives()


def build(runner: Runner, tell: Tell) -> None:
    """Build the programs, unpack their charts and pack their images."""
    with scratch(NAME) as work:
        for part in ("layers", "archives"):
            (work / part).mkdir()
        programs = [program for _, program in controllers()]
        golang.build(golang.UPGRADED, programs, work, NAME, runner, tell, flags=_link_flags())
        for controller, program in controllers():
            charts.unpack_chart(controller, lambda name: golang.module_dir(name, golang.UPGRADED))
            image = controller_image(controller, work / program.name, work / "layers")
            with (work / "archives" / f"{program.name}.tar").open("wb") as archive:
                stream_archive(image, archive.write)
        for old in directory().parent.glob(f"{NAME}-*"):
            remove_tree(old)
        publish(work / "archives", directory())


def _link_flags() -> str:
    return golang.link_flags({"kueue": LAB_UPGRADED.kueue.tag, "jobset": LAB_UPGRADED.jobset.tag})
