"""The choice of the cluster that a command talks to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from railhead.base import paths
from railhead.base.errors import InputError, PrerequisiteError, did_you_mean
from railhead.kube.kubeconfig import SERVICE_ACCOUNT


@dataclass(frozen=True, kw_only=True)
class Target:
    """The cluster to talk to, and why it was chosen."""

    kubeconfig: Path | None
    context: str | None
    why: str


def running_labs() -> list[str]:
    """Return the names of the labs that have a kubeconfig on this machine."""
    directory = paths.labs_dir()
    if not directory.is_dir():
        return []
    return sorted(p.parent.name for p in directory.glob("*/kubeconfig") if p.is_file())


def choose_target(
    *, kubeconfig: Path | None = None, context: str | None = None, lab: str | None = None
) -> Target:
    """Decide which cluster a command talks to.

    The order: ``--kubeconfig`` or ``--lab``, then ``$KUBECONFIG``, then ``~/.kube/config``, then a
    pod's own service account, then the lab that runs on this machine if there is exactly one.

    Raises:
        InputError: two of the flags contradict each other, or the named file or lab is not there.
        PrerequisiteError: nothing names a cluster.
    """
    if kubeconfig and lab:
        raise InputError("--kubeconfig and --lab both name a cluster", remedy="give one of the two")
    if kubeconfig:
        return Target(
            kubeconfig=_existing(kubeconfig, "--kubeconfig"),
            context=context,
            why=f"--kubeconfig {kubeconfig}",
        )
    labs = running_labs()
    if lab:
        if lab not in labs:
            known = ", ".join(labs) or "none"
            raise InputError(
                f"--lab {lab}: no lab of that name runs here; running: {known}"
                + did_you_mean(lab, labs),
                remedy=f"start it with `railhead lab up --name {lab}`, or name a running one",
            )
        return Target(kubeconfig=paths.lab_kubeconfig(lab), context=context, why=f"lab {lab}")
    if variable := os.environ.get("KUBECONFIG"):
        return Target(
            kubeconfig=_existing(Path(variable), "KUBECONFIG"), context=context, why="$KUBECONFIG"
        )
    home = Path.home() / ".kube" / "config"
    if home.is_file():
        return Target(kubeconfig=home, context=context, why="~/.kube/config")
    if (SERVICE_ACCOUNT / "token").is_file() and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return Target(kubeconfig=None, context=None, why="this pod's service account")
    if len(labs) == 1:
        return Target(
            kubeconfig=paths.lab_kubeconfig(labs[0]), context=context, why=f"lab {labs[0]}"
        )
    if labs:
        raise InputError(
            f"several labs run here: {', '.join(labs)}", remedy="name one with --lab NAME"
        )
    raise PrerequisiteError(
        "no cluster to talk to: no --kubeconfig, $KUBECONFIG or ~/.kube/config, and no lab runs",
        remedy="name the kubeconfig that the cluster's platform team gave you by --kubeconfig, or "
        "start a lab on this machine with `railhead lab up`",
    )


def _existing(path: Path, source: str) -> Path:
    # kubectl merges a list of files; one is enough here, and a wrong guess would be worse.
    parts = [Path(p) for p in str(path).split(os.pathsep) if p]
    if len(parts) > 1:
        existing = [p for p in parts if p.expanduser().is_file()]
        if len(existing) != 1:
            raise InputError(
                f"{source} lists {len(parts)} files, {len(existing)} of which exist",
                remedy="name one file with --kubeconfig",
            )
        return existing[0].expanduser()
    path = path.expanduser()
    if not path.is_file():
        raise InputError(f"{source}: {path} is not a file", remedy="name an existing kubeconfig")
    return path
