"""Programs that watch a lab: Prometheus and kube-state-metrics built, the rest from Debian.

The packages are unpacked, not installed; their programs are static but for libc. No lab needs any
of it to run, so it is fetched, in seconds, and built, in minutes, when first asked for.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from railhead.base.errors import PrerequisiteError
from railhead.base.paths import cache_root
from railhead.catalog.versions import KUBE_STATE_METRICS
from railhead.lab.artifacts import golang, packages
from railhead.lab.artifacts.commands import CommandError, Runner, log_path
from railhead.lab.artifacts.files import building, digest, publish, scratch
from railhead.lab.artifacts.images import Image, LayerWriter, stream_archive
from railhead.lab.artifacts.steps import Tell

if TYPE_CHECKING:
    from rich.console import Console

#: Debian 12: promtool of prometheus 2.42, prometheus-alertmanager 0.25, node exporter 1.5.
PACKAGES = ("prometheus", "prometheus-alertmanager", "prometheus-node-exporter")
#: What pods run of them, and what tests do.
SERVERS = ("prometheus-alertmanager", "prometheus-node-exporter")
PROGRAMS = (*SERVERS, "promtool", "amtool")

PROMETHEUS_IMAGE = "railhead.local/prometheus:lab"
#: As in the published image.
_NOBODY = "65534:65534"
#: Counts up when what the images are made of changes in a way that no other key shows.
_RECIPE = "1"


def directory() -> Path:
    """Return where the packages of the machine's own release are unpacked."""
    release = packages.os_release()
    return cache_root() / "watching" / digest(*PACKAGES, release.get("VERSION_ID", ""))


def program(name: str) -> Path | None:
    """Return one of :data:`PROGRAMS`: the machine's own, else the unpacked one, else None."""
    own = packages.program(name)
    if own is not None:
        return own
    result = directory() / "usr" / "bin" / name
    return result if result.is_file() else None


def ensure(runner: Runner | None = None, tell: Tell = lambda _fraction, _words: None) -> None:
    """Fetch what is missing; root is needed only to update the package lists.

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
        remedy=f"run `apt-get update` as root, or put {', '.join(PROGRAMS)} on PATH",
    )


def archives_dir() -> Path:
    """Return the directory of the images' archives."""
    key = digest(_RECIPE, directory().name, golang.watching_dir().name)
    return cache_root() / "images" / f"watching-{key}"


def archives(console: Console) -> tuple[Path, ...]:
    """Return the images of the programs that watch a lab; fetch and build missing ones first.

    Raises:
        PrerequisiteError: the package sources do not have the packages, or there is no Go.
        CommandError: a build failed.
    """
    runner = Runner()
    ensure(runner)
    with building(lambda who: console.print(f"{who} is building already; waiting for it")):
        if not golang.watching_dir().is_dir():
            console.print("Building Prometheus and kube-state-metrics, once: minutes.")
            golang.build_watching(runner, lambda _fraction, _words: None)
        if not archives_dir().is_dir():
            _write_archives()
    return tuple(sorted(archives_dir().iterdir()))


def _write_archives() -> None:
    with scratch("watching-layers") as layers, scratch("watching-images") as work:
        for image in (_prometheus(layers), _kube_state_metrics(layers)):
            with (work / image.layer.path.name).open("wb") as file:
                stream_archive(image, file.write)
        publish(work, archives_dir())


def _prometheus(work: Path) -> Image:
    """Return one image with Prometheus, Alertmanager and node exporter."""
    layer = LayerWriter()
    layer.accounts({})
    layer.file("bin/prometheus", golang.watching_dir() / "prometheus", mode=0o755)
    for name in SERVERS:
        result = program(name)
        assert result is not None, name  # noqa: S101 - ensure() has seen to it
        layer.file(f"bin/{name}", result, mode=0o755)
        for library in _libraries(result):
            layer.file(str(library).lstrip("/"), library, mode=0o755)
        # Debian's Alertmanager does not start without its templates.
        for template in result.parent.parent.glob("share/prometheus/alertmanager/*.tmpl"):
            layer.file(f"usr/share/prometheus/alertmanager/{template.name}", template)
    blob = layer.write(work / "prometheus.tar")
    return Image(reference=PROMETHEUS_IMAGE, layer=blob, user=_NOBODY)


def _libraries(binary: Path) -> list[Path]:
    """Return the libraries that the dynamic linker loads for a program; none for a static one."""
    message = subprocess.run(
        ["ldd", str(binary)], capture_output=True, text=True, check=False
    ).stdout
    return [Path(name) for name in re.findall(r"(/\S+) \(0x", message)]


def _kube_state_metrics(work: Path) -> Image:
    """Return the image, as its project publishes it."""
    layer = LayerWriter()
    layer.accounts({})
    binary = golang.watching_dir() / "kube-state-metrics"
    layer.file("kube-state-metrics", binary, mode=0o755)
    return Image(
        reference=KUBE_STATE_METRICS.reference,
        layer=layer.write(work / "kube-state-metrics.tar"),
        entrypoint=("/kube-state-metrics",),
        user=_NOBODY,
        labels={"org.opencontainers.image.version": KUBE_STATE_METRICS.tag},
    )
