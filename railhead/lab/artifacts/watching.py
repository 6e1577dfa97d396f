"""Prometheus, its promtool and Alertmanager, out of Debian's packages: unpacked, not installed.

They are statically linked but for libc. Nothing of a lab needs them but what watches it, so they
are fetched when first asked for, in seconds.
"""

from __future__ import annotations

import os
from pathlib import Path

from railhead.base.errors import PrerequisiteError
from railhead.base.paths import cache_root
from railhead.lab.artifacts import packages
from railhead.lab.artifacts.commands import CommandError, Runner, log_path
from railhead.lab.artifacts.files import building, digest, publish, scratch
from railhead.lab.artifacts.steps import Tell

#: Debian 12: prometheus 2.42 with promtool, prometheus-alertmanager 0.25.
PACKAGES = ("prometheus", "prometheus-alertmanager")
PROGRAMS = ("promtool", "prometheus", "prometheus-alertmanager", "amtool")


def directory() -> Path:
    """Where they lie once unpacked, of the machine's own release."""
    release = packages.os_release()
    return cache_root() / "watching" / digest(*PACKAGES, release.get("VERSION_ID", ""))


def program(name: str) -> Path | None:
    """One of :data:`PROGRAMS`: the machine's own, else the unpacked one, else None."""
    own = packages.program(name)
    if own is not None:
        return own
    found = directory() / "usr" / "bin" / name
    return found if found.is_file() else None


def ensure(runner: Runner | None = None, tell: Tell = lambda _fraction, _words: None) -> None:
    """Fetch what is missing; nothing when all is there. No root is needed where lists are read.

    Raises:
        PrerequisiteError: the machine's package sources do not have them.
    """
    if all(program(name) for name in PROGRAMS):
        return
    runner = runner or Runner()
    packages.require_apt()
    with building(lambda _who: None):
        if all(program(name) for name in PROGRAMS):
            return
        with scratch("watching") as work:
            tree = work / "tree"
            tree.mkdir()
            _download(work, runner, tell)
            for archive in sorted(work.glob("*.deb")):
                runner.run(["dpkg-deb", "-x", str(archive), str(tree)], log=log_path("watching"))
            publish(tree, directory())


def _download(work: Path, runner: Runner, tell: Tell) -> None:
    command = ["apt-get", "-q", "download", *PACKAGES]
    try:
        runner.run(command, log=log_path("watching"), env=packages.apt_environment(), cwd=work)
        return
    except CommandError as error:
        if os.geteuid() != 0:
            raise _absent(error) from error
    # A fresh image has no lists, and those of an old one name packages that are gone.
    packages.update(runner, tell)
    try:
        runner.run(command, log=log_path("watching"), env=packages.apt_environment(), cwd=work)
    except CommandError as error:
        raise _absent(error) from error


def _absent(error: CommandError) -> PrerequisiteError:
    return PrerequisiteError(
        f"apt could not download {', '.join(PACKAGES)}:\n{error.tail}",
        remedy="run `apt-get update` as root, or put promtool, prometheus and "
        "prometheus-alertmanager on PATH",
    )
