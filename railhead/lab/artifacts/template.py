"""containerd's root directory with every image imported and unpacked; nodes are clones of it.

Content blobs and unpacked layers never change once they are committed, so a node's copy is made of
hard links; only containerd's two databases are really copied.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from railhead.base.errors import PrerequisiteError, RailheadError
from railhead.base.paths import cache_root
from railhead.catalog.images import TORCH_CPU
from railhead.lab.artifacts.commands import Runner, log_path
from railhead.lab.artifacts.files import digest, publish, remove_tree, scratch, scratch_root
from railhead.lab.artifacts.golang import core_dir, core_key
from railhead.lab.artifacts.images import (
    BUSYBOX_IMAGE,
    CONTROLLER_PROGRAMS,
    PAUSE_IMAGE,
    PROVISIONER_IMAGE,
    Image,
    busybox_image,
    controller_image,
    pause_image,
    provisioner_image,
    stream_archive,
)
from railhead.lab.artifacts.packages import os_release, require_program
from railhead.lab.artifacts.steps import Tell
from railhead.lab.artifacts.training import TRAINING, training_image

#: containerd's namespace of what Kubernetes uses.
NAMESPACE = "k8s.io"
SNAPSHOTTER = "overlayfs"

#: Counts up when what an image is made of changes in a way that no other key shows.
_RECIPE = "1"
_RELEASE = ("ID", "VERSION_ID")
_START_S = 20.0
_SOCKET_ROOM = 75
_KEPT = (
    "io.containerd.content.v1.content",
    "io.containerd.metadata.v1.bolt",
    "io.containerd.snapshotter.v1.overlayfs",
)
_DATABASES = (
    "io.containerd.metadata.v1.bolt/meta.db",
    "io.containerd.snapshotter.v1.overlayfs/metadata.db",
)
#: Written last into a clone, so that half of one is never taken for whole.
_CLONED = "railhead-clone"
#: Not needed for an import; some of them would make directories outside their root.
_DISABLED = (
    "io.containerd.grpc.v1.cri",
    "io.containerd.internal.v1.opt",
    "io.containerd.internal.v1.restart",
    "io.containerd.internal.v1.tracing",
    "io.containerd.tracing.processor.v1.otlp",
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.blockfile",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.native",
    "io.containerd.snapshotter.v1.zfs",
)


def base_key() -> str:
    """Return the key of the template with the images that hold no program of the core."""
    release = os_release()
    names = (TORCH_CPU.reference, BUSYBOX_IMAGE)
    return digest(_RECIPE, TRAINING.key, *names, *(release.get(k, "") for k in _RELEASE))


def template_key() -> str:
    """Return the key of the whole template."""
    names = [f"{c.image}:{c.tag}" for c, _ in CONTROLLER_PROGRAMS]
    return digest(_RECIPE, base_key(), core_key(), PAUSE_IMAGE, PROVISIONER_IMAGE, *names)


def base_dir() -> Path:
    """Return the template with the images that hold no program of the core."""
    return cache_root() / "images" / f"base-{base_key()}"


def template_dir() -> Path:
    """Return containerd's root directory with every image of the lab."""
    return cache_root() / "images" / f"template-{template_key()}"


def clone_template(dest: Path) -> None:
    """Make ``dest`` a containerd root directory of its own with every image of the lab.

    Uses hard links where the file system allows, else copies; keeps owners, modes, device nodes,
    links and extended attributes. Leaves a complete clone alone, with what its node has put there
    since; replaces one whose cloning was interrupted.

    Raises:
        PrerequisiteError: the template is not built.
        RailheadError: the copy failed.
    """
    if (dest / _CLONED).exists():
        return
    source = template_dir()
    if not source.is_dir():
        raise PrerequisiteError(
            f"the images of the lab are not built: {source} is not there",
            remedy="run `railhead lab build`",
        )
    clone(source, dest)
    (dest / _CLONED).write_text(f"{source.name}\n")


def clone(source: Path, dest: Path) -> None:
    """Clone one containerd root directory; what ``dest`` held is removed."""
    linked = _copy(source, dest, link=True)
    if linked is not None:
        # Another file system, or a mount between the two.
        copied = _copy(source, dest, link=False)
        if copied is not None:
            raise RailheadError(
                f"could not clone {source} to {dest}: {copied}",
                remedy="look at the free space and the permissions of both",
            )
        return
    for name in _DATABASES:
        database = dest / name
        database.unlink()
        shutil.copy2(source / name, database)


def _copy(source: Path, dest: Path, *, link: bool) -> str | None:
    """Copy a tree with `cp`; return None on success, else its last words."""
    dest.mkdir(parents=True, exist_ok=True)
    for rest in dest.iterdir():
        remove_tree(rest)
    # It ends with its parent: the next step removes what it has written so far.
    ends = ("setpriv", "--pdeathsig", "KILL")
    done = subprocess.run(
        [*ends, "cp", "--archive", *(["--link"] if link else []), "--", f"{source}/.", str(dest)],
        capture_output=True,
        text=True,
        check=False,
    )
    return None if done.returncode == 0 else done.stderr.strip()[-500:]


def build_base(runner: Runner, tell: Tell) -> None:
    """Import the training image and busybox into :func:`base_dir`."""
    with scratch("base") as work:
        root = work / "root"
        root.mkdir()
        busybox = require_program("busybox")
        applets = subprocess.run(
            [str(busybox), "--list"], capture_output=True, text=True, check=True
        ).stdout.split()
        images = [busybox_image(busybox, tuple(applets), work), training_image()]
        import_images(root, images, runner, tell, "base")
        publish(root, base_dir())


def build_template(runner: Runner, tell: Tell) -> None:
    """Add the images of the core's programs to a clone of the base, as :func:`template_dir`."""
    with scratch("template") as work:
        root = work / "root"
        clone(base_dir(), root)
        programs = core_dir()
        images = [pause_image(programs / "pause", work)]
        images += [controller_image(c, programs / name, work) for c, name in CONTROLLER_PROGRAMS]
        images.append(provisioner_image(programs / "local-path-provisioner", work))
        import_images(root, images, runner, tell, "template")
        publish(root, template_dir())


def import_images(
    root: Path, images: Sequence[Image], runner: Runner, tell: Tell, log: str
) -> None:
    """Import and unpack images into a containerd root directory; their layers' files are deleted.

    A private containerd does it and is then stopped.
    """
    with containerd(root, runner, log) as address:
        total = sum(i.layer.size for i in images)
        written = 0

        def count(chunk: bytes) -> None:
            nonlocal written
            written += len(chunk)

        for image in images:
            _import(image, address, runner, log, count)
            image.layer.path.unlink()
            tell(min(written / total, 0.99), image.reference)
            # Not to be collected as unused: there is no registry to pull it from again.
            _ctr(address, runner, log, "images", "label", image.reference, *_LABELS)
    for entry in root.iterdir():
        if entry.name not in _KEPT:
            shutil.rmtree(entry)


def import_archive(address: str, archive: Path) -> tuple[str, ...]:
    """Import an archive's images into a running containerd; returns their names.

    Raises:
        RailheadError: it is no archive of images, or there is no room.
    """
    ctr = [str(require_program("ctr")), "--address", address, "--namespace", NAMESPACE, "images"]

    def run(*arguments: str) -> str:
        done = subprocess.run([*ctr, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RailheadError(
                f"containerd does not take {archive}: {done.stderr.strip()[-500:]}",
                remedy="give it what `docker save` or `podman save` writes, for this machine's "
                "architecture",
            )
        return done.stdout

    message = run("import", "--snapshotter", SNAPSHOTTER, str(archive))
    named = re.findall(r"^unpacking (\S+)", message, re.MULTILINE)
    for reference in named:
        # Not to be collected as unused: there is no registry to pull it from again.
        run("label", reference, *_LABELS)
    return tuple(named)


_LABELS = ("io.cri-containerd.image=managed", "io.cri-containerd.pinned=pinned")


def _ctr(address: str, runner: Runner, log: str, *arguments: str) -> None:
    command = [str(require_program("ctr")), "--address", address, "--namespace", NAMESPACE]
    runner.run([*command, *arguments], log=log_path(log))


def _import(
    image: Image, address: str, runner: Runner, log: str, count: Callable[[bytes], None]
) -> None:
    command = [str(require_program("ctr")), "--address", address, "--namespace", NAMESPACE]
    command += ["images", "import", "--snapshotter", SNAPSHOTTER, "-"]
    log_path(log).parent.mkdir(parents=True, exist_ok=True)
    with log_path(log).open("ab") as out:
        process = runner.start(command, stdin=subprocess.PIPE, stdout=out.fileno(), stderr=None)
        pipe = process.stdin
        assert pipe is not None  # noqa: S101 - asked for above

        def write(chunk: bytes) -> None:
            pipe.write(chunk)
            count(chunk)

        try:
            # When ctr ends early, its status says more than the broken pipe.
            with contextlib.suppress(BrokenPipeError), pipe:
                stream_archive(image, write)
            status = process.wait()
        finally:
            runner.forget(process)
    if status != 0:
        tail = "\n".join(log_path(log).read_text(errors="replace").splitlines()[-5:])
        raise RailheadError(
            f"containerd could not import {image.reference}:\n{tail}",
            remedy=f"see {log_path(log)}; the cache ({cache_root()}) must lie on a file system "
            "that overlayfs can use, such as ext4 or xfs: RAILHEAD_CACHE moves it",
        )


@contextlib.contextmanager
def containerd(root: Path, runner: Runner, log: str) -> Iterator[str]:
    """Run a private containerd, without CRI, on ``root``; yield the address of its socket."""
    scratch_root().mkdir(parents=True, exist_ok=True)
    # A socket's path may have 107 bytes; where the cache's own is too long, /tmp serves.
    roomy = len(str(scratch_root())) <= _SOCKET_ROOM
    with tempfile.TemporaryDirectory(
        prefix="railhead-", dir=scratch_root() if roomy else None
    ) as temporary:
        state = Path(temporary)
        address = str(state / "c.sock")
        config = state / "config.toml"
        config.write_text(_config(root, state, address))
        log_path(log).parent.mkdir(parents=True, exist_ok=True)
        with log_path(log).open("ab") as out:
            process = runner.start(
                [
                    # Its mounts go with it, even when it is killed.
                    *("unshare", "--mount", "--propagation", "private", "--"),
                    *(str(require_program("containerd")), "--config", str(config)),
                ],
                stdout=out.fileno(),
                stderr=subprocess.STDOUT,
            )
            try:
                _await_socket(process, address, log)
                yield address
                process.terminate()
                process.wait()
            finally:
                runner.forget(process)


def _config(root: Path, state: Path, address: str) -> str:
    # TOML's basic strings are JSON's, and these values are paths and identifiers.
    disabled = ", ".join(f'"{name}"' for name in _DISABLED)
    return (
        "version = 2\n"
        f'root = "{root}"\n'
        f'state = "{state / "state"}"\n'
        f"disabled_plugins = [{disabled}]\n"
        f'[grpc]\n  address = "{address}"\n'
        f'[ttrpc]\n  address = "{address}.ttrpc"\n'
    )


def _await_socket(process: subprocess.Popen[bytes], address: str, log: str) -> None:
    ctr = str(require_program("ctr"))
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        asked = subprocess.run(
            [ctr, "--address", address, "--connect-timeout", "1s", "version"],
            capture_output=True,
            check=False,
        )
        if asked.returncode == 0:
            return
        threading.Event().wait(0.1)
    tail = "\n".join(log_path(log).read_text(errors="replace").splitlines()[-5:])
    raise RailheadError(
        f"a private containerd did not start within {_START_S:.0f} s:\n{tail}",
        remedy=f"see {log_path(log)}",
    )
