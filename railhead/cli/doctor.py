"""`railhead doctor`: whether this machine can deploy the stacks of the project that it is in."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from railhead.base.finding import Finding
from railhead.base.options import Json
from railhead.base.version import DISTRIBUTIONS, __version__, installing
from railhead.cli.findings import rows, show

if TYPE_CHECKING:
    from railhead.model.cluster import Cluster

#: The engine that `railhead lab build --only pulumi` builds, and that the tests run.
ENGINE = (3, 250)
#: Entry points that return an engine that a distribution built, or None.
ENGINES = "railhead.engines"


def doctor(as_json: Json = False) -> None:
    """Check this machine for what the project's stacks need, and say what to install.

    Looks at the Python environment, the project, Pulumi, the clouds' packages and their command
    lines. Asks no cloud and no cluster: `railhead config verify` and `pulumi preview` do.

    Example: [bold]railhead doctor[/bold]

    Exits 0 when nothing is missing, 4 when something is.
    """
    from railhead.base.errors import ExitCode

    findings = list(checked())
    if as_json:
        typer.echo(json.dumps(rows(findings)))
    else:
        show(findings, {True: "ok", False: "missing", None: "unknown"})
    if any(finding.passed is False for finding in findings):
        raise typer.Exit(ExitCode.MISSING_PREREQUISITE)


def checked() -> Iterator[Finding]:
    """Yield the findings on this machine, and on the project around the current folder."""
    from railhead.base.errors import RailheadError
    from railhead.config import load
    from railhead.config.files import project_folder, stack_files

    yield _distributions()
    project = project_folder(Path.cwd())
    if project is None:
        yield Finding(
            name="project",
            passed=None,
            text="there is no Pulumi.yaml here or above",
            remedy="run it in the project's folder, or make one with `railhead new DIR`",
        )
        return
    yield _pins(project)
    yield from _pulumi()
    yield _backend(project)
    clusters: list[Cluster] = []
    for file in stack_files():
        try:
            clusters.append(load(file))
        except RailheadError as error:
            first, *more = error.problem.splitlines()
            text = f"{first} (and {len(more)} more)" if more else first
            yield Finding(
                name="stack", passed=False, text=text, remedy="`railhead config check` lists all"
            )
    yield from _platforms(clusters)


def _distributions() -> Finding:
    from importlib.metadata import PackageNotFoundError, version

    there: dict[str, str] = {}
    for name in DISTRIBUTIONS:
        try:
            there[name] = version(name)
        except PackageNotFoundError:
            continue
    text = f"Python {sys.version.split()[0]}, " + ", ".join(f"{n} {v}" for n, v in there.items())
    if set(there.values()) != {__version__}:
        return Finding(
            name="railhead", passed=False, text=text, remedy=f"they are one: {installing('deploy')}"
        )
    return Finding(name="railhead", passed=True, text=text)


def _pins(project: Path) -> Finding:
    """Return whether the project's requirements pin the Railhead that runs."""
    from railhead.cli.repository import REQUIREMENTS, WHEELS, named

    file = project / REQUIREMENTS
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    for name in named(file):
        if not (project / name).is_file():
            return Finding(
                name="pins",
                passed=False,
                text=f"{file.name} names {name}, which is not there",
                remedy=f"copy a release's *.whl and requirements-*.txt into {project / WHEELS}",
            )
        text += (project / name).read_text(encoding="utf-8")
    pinned = set(re.findall(r"^railhead[a-z-]*(?:\[[^\]]*\])?==(\S+)", text, re.MULTILINE))
    if not pinned:
        return Finding(name="pins", passed=None, text=f"{project} pins no version of railhead")
    if pinned != {__version__}:
        return Finding(
            name="pins",
            passed=False,
            text=f"{file} pins {', '.join(sorted(pinned))}, and {__version__} runs",
            remedy=f"pip install -r {file}, or put the wheels of {__version__} into {WHEELS}/",
        )
    return Finding(name="pins", passed=True, text=f"{file.name} pins {__version__}")


def _pulumi() -> Iterator[Finding]:
    path = shutil.which("pulumi")
    remedy = "install Pulumi's command line"
    if path is not None:
        yield _on_path(path, remedy)
        return
    if built := _built():
        text = f"{built}, by `railhead lab build`, serves plan, rehearse and review"
        yield Finding(name="pulumi", passed=True, text=text)
    else:
        remedy += (
            "; `railhead plan` and `review` need none, and for `rehearse` alone "
            "`railhead lab build --only pulumi` builds one"
        )
    yield Finding(
        name="pulumi", passed=False, text="is not on PATH, for `pulumi up`", remedy=remedy
    )


def _built() -> Path | None:
    """Return the engine that `railhead rehearse` takes where none is on PATH."""
    from importlib.metadata import entry_points

    paths = (point.load()() for point in entry_points(group=ENGINES))
    return next((path for path in paths if path is not None), None)


def _on_path(path: str, remedy: str) -> Finding:
    try:
        ran = subprocess.run(
            [path, "version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name="pulumi", passed=False, text=f"{path}: {error}", remedy=remedy)
    version = re.match(r"v?(\d+)\.(\d+)\.", ran.stdout.strip())
    if version is None:
        return Finding(
            name="pulumi", passed=None, text=f"{path} names no version: {ran.stdout.strip()!r}"
        )
    text = f"{ran.stdout.strip()} at {path}"
    if find_spec("pulumi") is None:
        return Finding(
            name="pulumi",
            passed=False,
            text=f"{text}, and its SDK is not installed",
            remedy=installing("deploy"),
        )
    if (int(version[1]), int(version[2])) < ENGINE:
        text += f", older than {ENGINE[0]}.{ENGINE[1]}, with which Railhead is tested"
        return Finding(name="pulumi", passed=None, text=text, remedy=remedy)
    return Finding(name="pulumi", passed=True, text=text)


def _backend(project: Path) -> Finding:
    """Return where state is kept, by Pulumi's own order: variable, project, login."""
    import os

    import yaml

    if url := os.environ.get("PULUMI_BACKEND_URL"):
        return Finding(name="state", passed=True, text=f"in {url}, by PULUMI_BACKEND_URL")
    try:
        settings = yaml.safe_load((project / "Pulumi.yaml").read_text(encoding="utf-8"))
        if url := ((settings or {}).get("backend") or {}).get("url"):
            return Finding(name="state", passed=True, text=f"in {url}, by Pulumi.yaml")
        home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi")
        login = json.loads((home / "credentials.json").read_text(encoding="utf-8"))
        if url := login.get("current"):
            return Finding(name="state", passed=True, text=f"in {url}, by `pulumi login`")
    except (OSError, UnicodeDecodeError, ValueError, AttributeError, yaml.YAMLError):
        pass
    return Finding(
        name="state",
        passed=False,
        text="no backend is chosen",
        remedy="`pulumi login s3://BUCKET` (or gs://, azblob://, file://~) as your team does",
    )


def _platforms(clusters: list[Cluster]) -> Iterator[Finding]:
    """Yield what each platform of the stacks needs on this machine."""
    from railhead.platform.registry import PLATFORMS, platform_of
    from railhead.platform.starter import starters

    known = starters(PLATFORMS).values()
    for kind in dict.fromkeys(platform_of(cluster).kind for cluster in clusters):
        needs = next((starter for starter in known if starter.kind == kind), None)
        if needs is None:
            continue
        sdk = "pulumi_kubernetes" if needs.extra == "deploy" else f"pulumi_{needs.extra}"
        there = find_spec(sdk) is not None
        yield Finding(
            name=kind,
            passed=there,
            text=f"the package {sdk} is {'there' if there else 'not installed'}",
            remedy="" if there else installing(needs.extra),
        )
        for program in needs.programs:
            path = shutil.which(program)
            yield Finding(
                name=kind,
                passed=path is not None,
                text=f"{program} is {f'at {path}' if path else 'not on PATH'}",
                remedy="" if path else f"install {program}: the cluster's kubeconfig calls it",
            )
