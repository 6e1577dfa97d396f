"""The store of the lab's artifacts: it lists what is missing, builds it, and hands it out."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from railhead.base.errors import InputError, PrerequisiteError, choices
from railhead.base.paths import cache_root
from railhead.lab.artifacts import (
    charts,
    golang,
    packages,
    template,
    training,
    twin_operators,
    upgraded,
    volcano,
)
from railhead.lab.artifacts.commands import Runner, log_path
from railhead.lab.artifacts.files import (
    building,
    remove_older,
    remove_tree,
    scratch_root,
    size_bytes,
    sweep_scratch,
)
from railhead.lab.artifacts.missing import plan, pulumi_steps
from railhead.lab.artifacts.on_request import build_once
from railhead.lab.artifacts.progress import Bars, Lines, clock, display
from railhead.lab.artifacts.space import check_space
from railhead.lab.artifacts.steps import Lane, Step, Timing, run_steps

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Artifacts:
    """Everything that a lab is run from.

    Args:
        bin_dir: etcd, the Kubernetes programs, kubectl, helm, multus, kwok, coredns, labagent, ...
        pulumi: the Pulumi CLI: the user's own when new enough, else the built one.
        template: containerd's root directory with every image; :func:`clone_template` copies it.
        charts: chart name to unpacked directory.
        nad_crd: the NetworkAttachmentDefinition CRD, one JSON object.
        kwok_stages: KWOK's stages, each a ``--config`` of kwok.
        cni_bin_dir: the CNI plugins of the machine's package.
    """

    bin_dir: Path
    pulumi: Path | None
    template: Path
    charts: dict[str, Path]
    nad_crd: Path
    kwok_stages: tuple[Path, ...]
    cni_bin_dir: Path


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """The simulator of nodes: the kwok program, and its stages (each a ``--config`` of it)."""

    binary: Path
    stages: tuple[Path, ...]


def locate(name: str) -> Path | None:
    """Return the built program of that name, or None while it is not built."""
    if name == golang.PULUMI_CLI.name:
        return golang.pulumi_path()
    result = golang.core_dir() / name
    return result if result.is_file() else None


def ensure(console: Console) -> Artifacts:
    """Build and install what is missing, with a display on ``console``.

    Raises:
        PrerequisiteError: the machine lacks something that cannot be installed, or space.
        CommandError: a build failed; carries its last words and its log.
    """
    return _ensure(lambda: display(console))[0]


def _ensure(make_display: Callable[[], Bars | Lines]) -> tuple[Artifacts, tuple[Timing, ...]]:
    timings: tuple[Timing, ...] = ()
    if plan():
        if os.geteuid() != 0:
            raise PrerequisiteError(
                "building the lab needs root: packages are installed and images unpacked",
                remedy="run it as root",
            )
        progress = make_display()
        with building(lambda who: progress.note(f"{who} is building already; waiting for it")):
            # Another process may have built everything while this one waited.
            steps = plan()
            if steps:
                sweep_scratch()
                check_space(steps)
                for step in steps:
                    log_path(step.name).unlink(missing_ok=True)
                scratch_root().mkdir(parents=True, exist_ok=True)
                timings = run_steps(steps, progress, Runner())
                _record(timings)
                _clean()
    return installed(), timings


def build_on_request(name: str, console: Console) -> tuple[Path, ...]:
    """Build one thing alone (`railhead lab build --only`); return its files.

    Args:
        name: an image that no lab has by itself, or `pulumi`, which needs Go and no lab.
        console: shows the progress.

    Raises:
        InputError: there is no such thing.
        PrerequisiteError: Go, or the machine's or Python's packages, cannot be had, or there is
            no space.
    """
    if name == golang.PULUMI_CLI.name:
        build_once(lambda: golang.pulumi_path() is not None, pulumi_steps, console)
        return tuple(path for path in [golang.pulumi_path()] if path is not None)
    from_modules = {name: upgrade.ensure for name, upgrade in upgraded.UPGRADES.items()}
    from_modules[volcano.NAME] = volcano.ensure
    from_modules[twin_operators.NAME] = twin_operators.ensure
    if name in from_modules:
        return from_modules[name](console)
    recipe = training.ON_REQUEST.get(name)
    if recipe is None:
        known = [*training.ON_REQUEST, *from_modules, golang.PULUMI_CLI.name]
        raise InputError(
            f"--only: there is no {name!r}{choices(name, known)}",
            remedy="name one of them, or leave --only out for what every lab needs",
        )
    steps = (
        packages.lists_step(),
        Step(
            name=name,
            title=f"the image {recipe.reference}, from packages",
            expected_s=120,
            lane=Lane.FILES,
            needs=("packages",),
            action=partial(training.build_archive, recipe),
        ),
    )

    def prepared() -> Sequence[Step]:
        packages.require_apt()
        sweep_scratch()
        return steps

    build_once(recipe.archive.is_file, prepared, console)
    return (recipe.archive,)


def _record(timings: Sequence[Timing]) -> None:
    """Save the durations of this build, and the last duration of every step."""
    latest: dict[str, float] = {}
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        latest.update(json.loads(timings_path().read_text())["latest"])
    latest.update({t.name: round(t.seconds, 1) for t in timings})
    record = {
        "cores": os.cpu_count(),
        "seconds": round(max(t.started_s + t.seconds for t in timings), 1),
        "steps": [
            {**asdict(t), "seconds": round(t.seconds, 1), "started_s": round(t.started_s, 1)}
            for t in timings
        ],
        "latest": latest,
    }
    unfinished = timings_path().with_suffix(".tmp")
    unfinished.write_text(json.dumps(record, indent=1) + "\n")
    unfinished.rename(timings_path())


def _clean() -> None:
    """Remove what only the build needed, and what newer sources have replaced.

    The newest two of each kind stay, so that two checkouts do not build in turns.
    """
    if template.base_dir().is_dir():
        remove_tree(training.TRAINING.layer_dir)
    current = {
        template.base_dir(),
        template.template_dir(),
        golang.core_dir(),
        golang.upstream_dir(),
        golang.pulumi_dir(),
        *(recipe.archive.parent for recipe in training.ON_REQUEST.values()),
        golang.watching_dir(),
    }
    for kind in current:
        remove_older(kind.parent, kind.name.split("-", 1)[0], current)


def timings_path() -> Path:
    """Return the file with the durations of the last build and of each step; JSON, seconds."""
    return cache_root() / "timings.json"


def installed() -> Artifacts:
    """Return the artifacts without building any.

    Raises:
        PrerequisiteError: something is missing; names it and ``railhead lab build``.
    """
    absent = [
        *(f"{name} (Debian package)" for name in packages.missing()),
        *(f"{p.name}" for p in _programs() if locate(p.name) is None),
    ]
    if not charts.charts_ready() or not charts.nad_crd_path().is_file():
        absent.append("the charts of the Go modules")
    if not template.template_dir().is_dir():
        absent.append("the container images")
    if absent:
        raise PrerequisiteError(
            f"not built or installed yet: {', '.join(absent)}", remedy="run `railhead lab build`"
        )
    return Artifacts(
        bin_dir=golang.core_dir(),
        pulumi=golang.pulumi_path(),
        template=template.template_dir(),
        charts={c.name: charts.chart_dir(c) for c in charts.module_charts()},
        nad_crd=charts.nad_crd_path(),
        kwok_stages=tuple(sorted(charts.kwok_stages_dir().iterdir())),
        cni_bin_dir=packages.CNI_BIN_DIR,
    )


def _programs() -> tuple[golang.Program, ...]:
    own = golang.own_programs()
    return (*golang.UPSTREAM, *golang.APART, *own, golang.PULUMI_CLI)


def ensure_kwok(console: Console | None = None) -> Simulation:
    """Return the simulator of nodes; build it first if it is missing and ``console`` is given.

    Raises:
        PrerequisiteError: it is missing and there is no ``console`` to show a build on.
    """
    artifacts = installed() if console is None else ensure(console)
    return Simulation(binary=artifacts.bin_dir / "kwok", stages=artifacts.kwok_stages)


def main_build(console: Console) -> None:
    """Build what is missing, then print the durations (`railhead lab build`)."""
    artifacts, timings = _ensure(lambda: display(console))
    if timings:
        console.print(_table(timings))
    else:
        console.print("Everything is built already.", highlight=False)
    parts = ("bin", "charts", "images", "manifests")
    gib = sum(size_bytes(cache_root() / part) for part in parts) / 2**30
    console.print(f"cache: {cache_root()} ({gib:.1f} GiB)", highlight=False, soft_wrap=True)
    pulumi = artifacts.pulumi or "none"
    console.print(f"pulumi: {pulumi}", highlight=False, soft_wrap=True)


def _table(timings: Sequence[Timing]) -> Table:
    from rich.table import Table

    table = Table(title="What was built", title_justify="left")
    table.add_column("step")
    table.add_column("began", justify="right")
    table.add_column("took", justify="right")
    for timing in sorted(timings, key=lambda t: t.started_s):
        table.add_row(timing.title, clock(timing.started_s), clock(timing.seconds))
    whole = max(t.started_s + t.seconds for t in timings)
    table.add_section()
    table.add_row("all of it", "0s", clock(whole), style="bold")
    return table
