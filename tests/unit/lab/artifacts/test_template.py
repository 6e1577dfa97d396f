"""Clones of the template: linked where nothing changes, copied where something does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from railhead.base.errors import PrerequisiteError, RailheadError
from railhead.lab.artifacts import files, template

DATABASE = "io.containerd.metadata.v1.bolt/meta.db"
SNAPSHOTS = "io.containerd.snapshotter.v1.overlayfs"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Path:
    """A small copy of what containerd leaves behind."""
    root = cache / "images" / "template-1"
    monkeypatch.setattr(template, "template_dir", lambda: root)
    for name, content in (
        (DATABASE, "bolt"),
        (f"{SNAPSHOTS}/metadata.db", "bolt"),
        (f"{SNAPSHOTS}/snapshots/1/fs/bin/busybox", "elf"),
        ("io.containerd.content.v1.content/blobs/sha256/abc", "blob"),
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    binaries = root / SNAPSHOTS / "snapshots" / "1" / "fs" / "bin"
    (binaries / "sh").symlink_to("busybox")
    (binaries / "busybox").chmod(0o4755)
    (root / SNAPSHOTS / "snapshots" / "1" / "fs" / "tmp").mkdir()
    (root / SNAPSHOTS / "snapshots" / "1" / "fs" / "tmp").chmod(0o1777)
    os.utime(binaries / "busybox", (1000, 1000))
    return root


def test_content_is_linked_and_databases_are_copied(built: Path, tmp_path: Path) -> None:
    dest = tmp_path / "cache" / "labs" / "node"
    template.clone_template(dest)
    for name in (
        f"{SNAPSHOTS}/snapshots/1/fs/bin/busybox",
        "io.containerd.content.v1.content/blobs/sha256/abc",
    ):
        assert (dest / name).samefile(built / name)
    for name in (DATABASE, f"{SNAPSHOTS}/metadata.db"):
        assert not (dest / name).samefile(built / name)
        (dest / name).write_text("changed by a node")
        assert (built / name).read_text() == "bolt"
    copied = dest / SNAPSHOTS / "snapshots" / "1" / "fs"
    assert (copied / "bin" / "sh").readlink() == Path("busybox")
    assert (copied / "bin" / "busybox").stat().st_mode & 0o7777 == 0o4755
    assert (copied / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_a_whole_clone_is_left_alone(built: Path, tmp_path: Path) -> None:
    dest = tmp_path / "node"
    template.clone_template(dest)
    (dest / DATABASE).write_text("the node's own")
    template.clone_template(dest)
    assert (dest / DATABASE).read_text() == "the node's own"


def test_interrupted_clone_is_recreated(built: Path, tmp_path: Path) -> None:
    dest = tmp_path / "node"
    (dest / SNAPSHOTS).mkdir(parents=True)
    (dest / "half").touch()
    template.clone_template(dest)
    assert (dest / DATABASE).read_text() == "bolt"
    assert not (dest / "half").exists()


def test_another_file_system_gets_copies(built: Path, tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm")
    if not os.access(elsewhere, os.W_OK) or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second file system to write to")
    dest = elsewhere / f"railhead-test-{os.getpid()}"
    try:
        template.clone_template(dest)
        busybox = f"{SNAPSHOTS}/snapshots/1/fs/bin/busybox"
        assert (dest / busybox).read_text() == "elf"
        assert (dest / busybox).stat().st_mtime == 1000
        assert (dest / DATABASE).read_text() == "bolt"
    finally:
        files.remove_tree(dest)


@pytest.mark.skipif(os.geteuid() != 0, reason="owners and devices need root")
def test_owners_devices_and_attributes_are_kept(built: Path, tmp_path: Path) -> None:
    fs = built / SNAPSHOTS / "snapshots" / "1" / "fs"
    os.mknod(fs / "whiteout", 0o020000, os.makedev(0, 0))
    os.chown(fs / "tmp", 1000, 1001)
    os.setxattr(fs / "tmp", "trusted.overlay.opaque", b"y")
    dest = tmp_path / "node"
    template.clone_template(dest)
    copied = dest / SNAPSHOTS / "snapshots" / "1" / "fs"
    assert os.lstat(copied / "whiteout").st_rdev == os.makedev(0, 0)
    assert ((copied / "tmp").stat().st_uid, (copied / "tmp").stat().st_gid) == (1000, 1001)
    assert os.getxattr(copied / "tmp", "trusted.overlay.opaque") == b"y"


def test_without_a_template_the_error_says_what_to_run(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError) as caught:
        template.clone_template(tmp_path / "node")
    assert "railhead lab build" in caught.value.remedy


def test_a_copy_that_fails_says_why(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template, "_copy", lambda *_args, **_kwargs: "No space left on device")
    with pytest.raises(RailheadError, match="No space left on device"):
        template.clone_template(tmp_path / "node")
    assert not (tmp_path / "node" / "railhead-clone").exists()


def test_keys_follow_programs_images_and_release(monkeypatch: pytest.MonkeyPatch) -> None:
    key, base = template.template_key(), template.base_key()
    monkeypatch.setattr(template, "core_key", lambda: "another core")
    assert template.template_key() != key
    assert template.base_key() == base
    monkeypatch.setattr(template, "os_release", lambda: {"ID": "ubuntu", "VERSION_ID": "24.04"})
    assert template.base_key() != base
