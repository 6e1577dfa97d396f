"""Puts the stand-in plugins on a PATH, and steps aside for official ones."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from railhead.base import backend
from railhead.base.backend import ENGINE_PID


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One stand-in.

    Args:
        executable: the file name that the engine looks for on PATH.
        module: what the launcher runs.
        kind: the directory prefix of an official plugin under ``$PULUMI_HOME/plugins``.
        official: official executables that make the stand-in unnecessary, found on PATH.
        purpose: for people.
    """

    executable: str
    module: str
    kind: str
    purpose: str


PLUGINS = (
    Plugin(
        executable="pulumi-language-python",
        module="railhead.lab.engine.language",
        kind="language-python",
        purpose="runs Pulumi programs written in Python",
    ),
    Plugin(
        executable="pulumi-analyzer-policy-python",
        module="railhead.lab.engine.analyzer",
        kind="analyzer-policy-python",
        purpose="runs policy packs written in Python",
    ),
    Plugin(
        executable="pulumi-resource-kubernetes",
        module="railhead.lab.engine.provider",
        kind="resource-kubernetes",
        purpose="manages Kubernetes objects and Helm releases",
    ),
)
# A launcher of ours is recognised by this line, so that it never passes for an official plugin.
_MARK = "# Railhead stand-in"
# Not `-m`: that puts the working directory, a Pulumi project, first on sys.path. Not PYTHONPATH:
# the programs that the plugins start would inherit it.
_BOOT = (
    "import runpy, sys; sys.path[0] = sys.argv.pop(1); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def pulumi_home() -> Path:
    """Return ``$PULUMI_HOME``, else ``~/.pulumi``."""
    return Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi").expanduser()


def official_plugin(plugin: Plugin, bin_dir: Path) -> Path | None:
    """Return the official plugin: on PATH outside ``bin_dir``, else in Pulumi's home."""
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        candidate = Path(entry or ".") / plugin.executable
        if not os.access(candidate, os.X_OK) or candidate.is_dir():
            continue
        if Path(entry).absolute() == bin_dir.absolute() or _is_stand_in(candidate):
            continue
        return candidate
    for folder in sorted((pulumi_home() / "plugins").glob(f"{plugin.kind}-v*")):
        executable = folder / plugin.executable
        if executable.is_file() and os.access(executable, os.X_OK):
            return executable
    return None


def _is_stand_in(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _MARK.encode() in file.read(400)
    except OSError:
        return False


def install(
    bin_dir: Path, *, python: Path, helm: Path | None, pulumi: Path | None = None
) -> list[str]:
    """Write launchers for the stand-ins that are needed; remove those no longer needed.

    Args:
        bin_dir: an existing or new directory that the caller puts first on PATH for `pulumi`.
        python: the interpreter of a virtual environment in which Railhead is importable.
        helm: the Helm 3 binary for Helm releases; None takes ``helm`` in ``bin_dir``, else on PATH.
            ``$RAILHEAD_HELM`` wins over either when a plugin runs.
        pulumi: an engine, whose launcher mends its ``file://`` backend before each command.

    Returns:
        One line a plugin: which are stand-ins, which are official and where they are.
    """
    bin_dir.mkdir(parents=True, exist_ok=True)
    report = []
    package_root = Path(__file__).resolve().parents[3]
    for plugin in PLUGINS:
        launcher = bin_dir / plugin.executable
        official = official_plugin(plugin, bin_dir)
        if official is not None:
            if _is_stand_in(launcher):
                launcher.unlink()
            report.append(f"{plugin.executable}: official, {official}")
            continue
        lines = [
            "#!/bin/sh",
            f"{_MARK} for {plugin.executable}: {plugin.purpose}.",
            # Taken before Python starts: a `pulumi` killed in between must be noticed too.
            f"{ENGINE_PID}=$PPID",
            f"export {ENGINE_PID}",
        ]
        if plugin.kind == "resource-kubernetes":
            chosen = shlex.quote(str(helm.absolute())) if helm else '"$(dirname -- "$0")/helm"'
            lines += [
                f'if [ -z "${{RAILHEAD_HELM:-}}" ] && [ -x {chosen} ]; then',
                f"  RAILHEAD_HELM={chosen}",
                "  export RAILHEAD_HELM",
                "fi",
            ]
        # `absolute`, never `resolve`: a virtual environment's python is a link out of it.
        words = [str(python.absolute()), "-c", _BOOT, str(package_root), plugin.module]
        lines.append(f'exec {shlex.join(words)} "$@"')
        _write(launcher, lines)
        report.append(f"{plugin.executable}: Railhead stand-in, {plugin.purpose}")
    if pulumi is not None:
        mend = shlex.join([str(python.absolute()), "-I", "-S", str(Path(backend.__file__))])
        _write(
            bin_dir / "pulumi",
            ["#!/bin/sh", mend, f'exec {shlex.quote(str(pulumi.absolute()))} "$@"'],
        )
    return report


def _write(launcher: Path, lines: Sequence[str]) -> None:
    temporary = launcher.with_name(launcher.name + ".new")
    temporary.write_text("\n".join(lines) + "\n")
    temporary.chmod(0o755)
    temporary.replace(launcher)
