"""Container images without Docker: an OCI layout made of one layer and streamed as a tar.

Layers are the same bytes for the same content: sorted names, one time stamp, numeric owners.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from railhead.catalog.versions import LAB, Controller
from railhead.lab.artifacts.golang import architecture

#: Time stamp of everything in an image: 2026-01-01 UTC.
EPOCH = 1767225600

PAUSE_IMAGE = "registry.k8s.io/pause:3.10"
BUSYBOX_IMAGE = "railhead.local/busybox:1"
PROVISIONER_IMAGE = "docker.io/rancher/local-path-provisioner:v0.0.30"

#: The user of images whose charts ask for runAsNonRoot, as in their published images.
NONROOT = "65532:65532"

_CHUNK = 1 << 20
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A finished layer.

    Args:
        path: an uncompressed tar.
        sha256: of its bytes, hexadecimal.
        size: its bytes.
    """

    path: Path
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image of one layer.

    Args:
        reference: repository and tag.
        layer: its file system.
        entrypoint: what a container runs.
        user: ``uid:gid``; empty for root.
        env: ``NAME=value`` each.
        labels: descriptions of the image.
    """

    reference: str
    layer: Blob
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    user: str = ""
    env: tuple[str, ...] = (_PATH,)
    workdir: str = "/"
    labels: Mapping[str, str] = field(default_factory=dict)


class HashingFile:
    """Writes to a file and knows the SHA-256 and the size of what it wrote."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._sha = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        """Write all of ``data``."""
        self._target.write(data)
        self._sha.update(data)
        self.size += len(data)
        return len(data)

    @property
    def sha256(self) -> str:
        """The SHA-256 of everything written so far, hexadecimal."""
        return self._sha.hexdigest()


class LayerWriter:
    """Collects the content of a layer and writes it sorted by name."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[tarfile.TarInfo, Path | bytes | None]] = {}

    def _add(self, info: tarfile.TarInfo, content: Path | bytes | None) -> None:
        info.mtime = EPOCH
        parent = info.name.rpartition("/")[0]
        if parent and parent not in self._entries:
            self.directory(parent)
        self._entries[info.name] = (info, content)

    def directory(self, name: str, *, mode: int = 0o755) -> None:
        """Add a directory; its parents are added as needed."""
        info = tarfile.TarInfo(name)
        info.type, info.mode = tarfile.DIRTYPE, mode
        self._add(info, None)

    def file(self, name: str, content: Path | bytes, *, mode: int = 0o644) -> None:
        """Add a file, its bytes given or read from a path."""
        info = tarfile.TarInfo(name)
        info.mode = mode
        info.size = content.stat().st_size if isinstance(content, Path) else len(content)
        self._add(info, content)

    def link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
        self._add(info, None)

    def accounts(self, users: Mapping[str, tuple[int, str]]) -> None:
        """Add /etc/passwd, /etc/group and /etc/nsswitch.conf.

        Args:
            users: name to (uid, home); the group has the same name and number.
        """
        every = {"root": (0, "/root"), **users, "nobody": (65534, "/nonexistent")}
        passwd = [f"{n}:x:{uid}:{uid}:{n}:{home}:/bin/sh" for n, (uid, home) in every.items()]
        self.file("etc/passwd", ("\n".join(passwd) + "\n").encode())
        self.file("etc/group", "".join(f"{n}:x:{u}:\n" for n, (u, _) in every.items()).encode())
        self.file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")

    def write(self, target: Path) -> Blob:
        """Write the layer's tar."""
        with target.open("wb") as raw:
            hashing = HashingFile(raw)
            stream = _stream(hashing)
            with tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar:
                for name in sorted(self._entries):
                    info, content = self._entries[name]
                    if isinstance(content, Path):
                        with content.open("rb") as opened:
                            tar.addfile(info, opened)
                    else:
                        tar.addfile(info, None if content is None else io.BytesIO(content))
        return Blob(path=target, sha256=hashing.sha256, size=hashing.size)


def _stream(hashing: HashingFile) -> IO[bytes]:
    # tarfile's stream mode calls nothing but write().
    return hashing  # type: ignore[return-value]


def controller_image(controller: Controller, binary: Path, work: Path) -> Image:
    """Return a controller's image, as its project publishes it."""
    image = manager_image(
        f"{controller.image}:{controller.tag}", binary, work / f"{controller.name}.tar"
    )
    return replace(image, labels={"org.opencontainers.image.version": controller.tag})


def manager_image(reference: str, binary: Path, layer_at: Path) -> Image:
    """Return an image with a static binary as /manager, whose user is not root."""
    layer = LayerWriter()
    layer.accounts({"nonroot": (65532, "/home/nonroot")})
    layer.directory("tmp", mode=0o1777)
    layer.file("manager", binary, mode=0o755)
    return Image(
        reference=reference, layer=layer.write(layer_at), entrypoint=("/manager",), user=NONROOT
    )


def pause_image(binary: Path, work: Path) -> Image:
    """Return the image that every pod's sandbox runs."""
    layer = LayerWriter()
    layer.file("pause", binary, mode=0o755)
    blob = layer.write(work / "pause.tar")
    return Image(reference=PAUSE_IMAGE, layer=blob, entrypoint=("/pause",), user="65535:65535")


def provisioner_image(binary: Path, work: Path) -> Image:
    """Return the image of the local-path provisioner."""
    layer = LayerWriter()
    layer.accounts({})
    layer.directory("tmp", mode=0o1777)
    layer.file("usr/bin/local-path-provisioner", binary, mode=0o755)
    return Image(
        reference=PROVISIONER_IMAGE,
        layer=layer.write(work / "local-path-provisioner.tar"),
        command=("local-path-provisioner",),
    )


def busybox_image(binary: Path, applets: tuple[str, ...], work: Path) -> Image:
    """Return a shell and small tools: Debian's static busybox, with a link for each applet."""
    layer = LayerWriter()
    layer.accounts({})
    layer.directory("tmp", mode=0o1777)
    layer.file("bin/busybox", binary, mode=0o755)
    for applet in applets:
        if applet != "busybox":
            layer.link(f"bin/{applet}", "busybox")
    blob = layer.write(work / "busybox.tar")
    return Image(reference=BUSYBOX_IMAGE, layer=blob, command=("sh",))


#: The lab's controllers and the program that is each one's image.
CONTROLLER_PROGRAMS: tuple[tuple[Controller, str], ...] = (
    (LAB.kueue, "kueue"),
    (LAB.jobset, "jobset"),
    (LAB.trainer, "trainer"),
)


def descriptions(image: Image) -> tuple[bytes, bytes, bytes]:
    """Return an image's config, manifest and index, as they are written."""
    config = _json(
        {
            "architecture": architecture(),
            "os": "linux",
            "created": "2026-01-01T00:00:00Z",
            "config": {
                "Env": list(image.env),
                "Entrypoint": list(image.entrypoint) or None,
                "Cmd": list(image.command) or None,
                "User": image.user,
                "WorkingDir": image.workdir,
                "Labels": dict(image.labels),
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{image.layer.sha256}"]},
            "history": [{"created": "2026-01-01T00:00:00Z", "created_by": "railhead lab build"}],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST_TYPE,
            "config": _descriptor(_CONFIG_TYPE, _sha(config), len(config)),
            "layers": [_descriptor(_LAYER_TYPE, image.layer.sha256, image.layer.size)],
        }
    )
    entry = {
        **_descriptor(_MANIFEST_TYPE, _sha(manifest), len(manifest)),
        "annotations": {"io.containerd.image.name": image.reference},
        "platform": {"architecture": architecture(), "os": "linux"},
    }
    return config, manifest, _json({"schemaVersion": 2, "manifests": [entry]})


def stream_archive(image: Image, write: Callable[[bytes], object]) -> None:
    """Write an image as the tar of an OCI layout; the layer is read once and never copied."""
    config, manifest, index = descriptions(image)
    small: list[tuple[str, bytes]] = [
        ("oci-layout", _json({"imageLayoutVersion": "1.0.0"})),
        (f"blobs/sha256/{_sha(config)}", config),
        (f"blobs/sha256/{_sha(manifest)}", manifest),
        ("index.json", index),
    ]
    for name, content in small:
        write(_header(name, len(content)))
        for chunk in _padded(io.BytesIO(content), len(content)):
            write(chunk)
    write(_header(f"blobs/sha256/{image.layer.sha256}", image.layer.size))
    with image.layer.path.open("rb") as layer:
        for chunk in _padded(layer, image.layer.size):
            write(chunk)
    write(b"\0" * 2 * tarfile.BLOCKSIZE)


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, EPOCH, 0o644
    return info.tobuf(tarfile.GNU_FORMAT)


def _padded(source: IO[bytes], size: int) -> Iterator[bytes]:
    while chunk := source.read(_CHUNK):
        yield chunk
    if size % tarfile.BLOCKSIZE:
        yield b"\0" * (tarfile.BLOCKSIZE - size % tarfile.BLOCKSIZE)


def _descriptor(media_type: str, sha256: str, size: int) -> dict[str, object]:
    return {"mediaType": media_type, "digest": f"sha256:{sha256}", "size": size}


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
