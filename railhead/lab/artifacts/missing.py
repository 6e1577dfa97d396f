"""Steps that build what the lab's cache lacks."""

from __future__ import annotations

from functools import partial

from railhead.lab.artifacts import charts, golang, packages, template, training
from railhead.lab.artifacts.commands import Runner
from railhead.lab.artifacts.steps import Lane, Step, Tell

#: Steps that compile or unpack what Go has fetched.
_NEED_GO = {"sources", "core", "own", "pulumi", "charts"}


def plan() -> tuple[Step, ...]:
    """Return the steps that build what is missing, by lane, in the order in which they begin.

    Raises:
        PrerequisiteError: something has to be built and there is no Go for it, or no apt.
    """
    absent = packages.missing()
    needed = _needed(absent)
    if needed & _NEED_GO:
        golang.find_go()
    if "packages" in needed:
        packages.require_apt()
    return tuple(step for step in (*_compiled(), *_filed(absent)) if step.name in needed)


def pulumi_steps() -> tuple[Step, ...]:
    """Return the steps that build the Pulumi CLI alone.

    Raises:
        PrerequisiteError: there is no Go for it.
    """
    golang.find_go()
    return tuple(s for s in (*_compiled(), *_filed(())) if s.name in ("pulumi", "pulumi-sources"))


def _needed(absent: tuple[str, ...]) -> set[str]:
    """Return the names of the steps whose result is missing."""
    upstream = not golang.upstream_dir().is_dir()
    core = upstream or not golang.core_dir().is_dir()
    pulumi = golang.pulumi_path() is None
    files = not charts.charts_ready() or not charts.nad_crd_path().is_file()
    base = not template.base_dir().is_dir()
    layer = base and not (training.TRAINING.layer_dir / "layer.tar").is_file()
    needed = {
        "packages": bool(absent) or layer,
        "sources": core or files,
        "core": upstream,
        "own": core,
        "pulumi": pulumi,
        "pulumi-sources": pulumi,
        "training": layer,
        "base": base,
        "charts": files,
        # A template that is there needs no core: it is named by the core's sources.
        "template": not template.template_dir().is_dir(),
    }
    return {name for name, is_needed in needed.items() if is_needed}


def _compiled() -> tuple[Step, ...]:
    return (
        Step(
            name="sources",
            title="Go modules",
            expected_s=30,
            lane=Lane.COMPILE,
            action=_fetch_sources,
        ),
        Step(
            name="core",
            title="Kubernetes and the controllers",
            expected_s=400,
            lane=Lane.COMPILE,
            needs=("sources",),
            action=golang.build_upstream,
        ),
        Step(
            name="own",
            title="the lab's own programs",
            expected_s=10,
            lane=Lane.COMPILE,
            needs=("core",),
            action=golang.build_own,
        ),
        Step(
            name="pulumi",
            title="the Pulumi CLI",
            expected_s=215,
            lane=Lane.COMPILE,
            needs=("pulumi-sources", "own"),
            action=golang.build_pulumi,
        ),
    )


def _filed(absent: tuple[str, ...]) -> tuple[Step, ...]:
    return (
        Step(
            name="packages",
            title="Debian packages" if absent else "Debian package lists",
            expected_s=30 if absent else 5,
            lane=Lane.FILES,
            action=partial(_install, absent),
        ),
        Step(
            name="training",
            title="the training image, from packages",
            expected_s=90,
            lane=Lane.FILES,
            needs=("packages",),
            action=training.build_training_layer,
        ),
        Step(
            name="base",
            title="importing the training image",
            expected_s=20,
            lane=Lane.FILES,
            needs=("packages", "training"),
            action=template.build_base,
        ),
        Step(
            name="pulumi-sources",
            title="Pulumi's Go modules",
            expected_s=25,
            lane=Lane.FILES,
            action=_fetch_pulumi_sources,
        ),
        Step(
            name="charts",
            title="charts and manifests of the modules",
            expected_s=3,
            lane=Lane.FILES,
            needs=("sources",),
            action=_unpack,
        ),
        Step(
            name="template",
            title="the controllers' images",
            expected_s=10,
            lane=Lane.FILES,
            needs=("own", "base"),
            action=template.build_template,
        ),
    )


def _install(absent: tuple[str, ...], runner: Runner, tell: Tell) -> None:
    packages.update(runner, tell)
    if absent:
        packages.install(absent, runner, tell)


def _fetch_sources(runner: Runner, tell: Tell) -> None:
    tell(None, "Kubernetes and the controllers")
    groups = [golang.UPSTREAM, golang.APART, golang.own_programs()]
    golang.fetch_sources(golang.CORE, groups, runner, tell)


def _fetch_pulumi_sources(runner: Runner, tell: Tell) -> None:
    tell(None, "Pulumi and the clouds' libraries that it is linked with")
    golang.fetch_sources(golang.PULUMI, [[golang.PULUMI_CLI]], runner, tell)


def _unpack(_: Runner, tell: Tell) -> None:
    tell(None, "from the modules' own directories")
    charts.unpack_charts()
    charts.unpack_manifests()
