"""Images: the same bytes for the same content, and archives that hold together."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from railhead.catalog.versions import LAB
from railhead.lab.artifacts import images


def archive(image: images.Image) -> dict[str, bytes]:
    """Name to content of an image's archive."""
    raw = io.BytesIO()
    images.stream_archive(image, raw.write)
    raw.seek(0)
    with tarfile.open(fileobj=raw) as tar:
        return {m.name: f.read() for m in tar if (f := tar.extractfile(m)) is not None}


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, (1 << 20) + 7])
def test_an_archive_is_a_whole_oci_layout(size: int, tmp_path: Path) -> None:
    layer = images.LayerWriter()
    layer.file("data", b"x" * size)
    image = images.Image(
        reference="example.test/data:1",
        layer=layer.write(tmp_path / "layer.tar"),
        entrypoint=("/data",),
        user="7:8",
    )
    content = archive(image)
    assert json.loads(content["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    for name, raw in content.items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(raw).hexdigest() == name.rpartition("/")[2]

    def blob(descriptor: dict[str, object]) -> bytes:
        result = content["blobs/sha256/" + str(descriptor["digest"]).removeprefix("sha256:")]
        assert len(result) == descriptor["size"]
        return result

    (entry,) = json.loads(content["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "example.test/data:1"
    manifest = json.loads(blob(entry))
    config = json.loads(blob(manifest["config"]))
    (only,) = manifest["layers"]
    assert config["rootfs"]["diff_ids"] == [only["digest"]]
    assert config["config"]["Entrypoint"] == ["/data"]
    assert config["config"]["User"] == "7:8"
    with tarfile.open(fileobj=io.BytesIO(blob(only))) as tar:
        member = tar.extractfile("data")
        assert member is not None
        assert member.read() == b"x" * size


def test_a_layer_depends_on_its_content_only(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x7fELF")

    def write(target: str, names: list[str]) -> images.Blob:
        layer = images.LayerWriter()
        for name in names:
            layer.file(name, binary, mode=0o755)
        layer.link("etc/link", "target")
        return layer.write(tmp_path / target)

    item = write("one", ["usr/bin/a", "usr/bin/b"])
    binary.touch()
    two = write("two", ["usr/bin/b", "usr/bin/a"])
    assert (item.sha256, item.size) == (two.sha256, two.size)
    assert hashlib.sha256(item.path.read_bytes()).hexdigest() == item.sha256
    assert item.path.stat().st_size == item.size
    with tarfile.open(item.path) as tar:
        names = tar.getnames()
        assert names == sorted(names)
        # Parents come before what they hold.
        assert names[:3] == ["etc", "etc/link", "usr"]
        assert {m.mtime for m in tar.getmembers()} == {images.EPOCH}
        assert {(m.uid, m.gid) for m in tar.getmembers()} == {(0, 0)}


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF program")
    return path


@pytest.mark.parametrize(("controller", "program"), images.CONTROLLER_PROGRAMS)
def test_controllers_run_as_the_charts_expect(
    controller: object, program: str, binary: Path, tmp_path: Path
) -> None:
    result = next(c for c, name in images.CONTROLLER_PROGRAMS if name == program)
    assert result is controller
    image = images.controller_image(result, binary, tmp_path)
    assert image.reference == f"{result.image}:{result.tag}"
    assert image.entrypoint == ("/manager",)
    # A number: the kubelet cannot tell that a name is not root (runAsNonRoot).
    assert image.user.split(":")[0].isdigit()
    assert image.user.split(":")[0] != "0"
    with tarfile.open(image.layer.path) as tar:
        assert tar.getmember("manager").mode == 0o755
        assert tar.getmember("tmp").mode == 0o1777
        passwd = tar.extractfile("etc/passwd")
        assert passwd is not None
        assert b"nonroot:x:65532:65532:" in passwd.read()


def test_images_of_the_combination_are_all_made() -> None:
    assert {c.name for c, _ in images.CONTROLLER_PROGRAMS} == {
        LAB.kueue.name,
        LAB.jobset.name,
        LAB.trainer.name,
    }


def test_busybox_has_a_link_for_each_applet(binary: Path, tmp_path: Path) -> None:
    image = images.busybox_image(binary, ("busybox", "sh", "ip"), tmp_path)
    with tarfile.open(image.layer.path) as tar:
        assert tar.getmember("bin/busybox").isfile()
        assert tar.getmember("bin/sh").linkname == "busybox"
        assert tar.getmember("bin/ip").linkname == "busybox"
    assert image.reference == "railhead.local/busybox:1"


def test_pause_and_provisioner(binary: Path, tmp_path: Path) -> None:
    pause = images.pause_image(binary, tmp_path)
    assert (pause.reference, pause.entrypoint) == ("registry.k8s.io/pause:3.10", ("/pause",))
    provisioner = images.provisioner_image(binary, tmp_path)
    assert provisioner.command == ("local-path-provisioner",)
