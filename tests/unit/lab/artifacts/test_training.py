"""The training image's tree: packages unpacked side by side, and packed as one layer."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from railhead.base.errors import InputError, RailheadError
from railhead.lab.artifacts import missing, store, training
from railhead.lab.artifacts.commands import CommandError, Runner
from railhead.lab.artifacts.images import EPOCH, Blob

needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not here")


def deb(directory: Path, name: str, files: dict[str, str]) -> Path:
    root = directory / f"{name}.root"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "DEBIAN" / "control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: T <t@example.test>\n"
        "Description: a test\n"
    )
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    target = directory / f"{name}_1_all.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "--build", root, target], check=True, capture_output=True
    )
    return target


@needs_dpkg
def test_packages_unpack_into_merged_usr_without_docs(tmp_path: Path, runner: Runner) -> None:
    archives = [
        deb(
            tmp_path,
            "libc",
            {"lib/x86_64-linux-gnu/libc.so": "c", "usr/share/doc/libc/README": "d"},
        ),
        deb(
            tmp_path,
            "bash",
            {"bin/bash": "sh", "usr/share/man/man1/bash.1": "m", "usr/lib/a.a": "a"},
        ),
        *(deb(tmp_path, f"more{i}", {f"usr/share/more/{i}": str(i)}) for i in range(6)),
    ]
    root = tmp_path / "root"
    training.make_merged_usr(root)
    reported: list[float] = []
    training.unpack(archives, root, runner, reported.append)
    assert (root / "usr/lib/x86_64-linux-gnu/libc.so").read_text() == "c"
    assert (root / "usr/bin/bash").read_text() == "sh"
    assert (root / "bin").is_symlink()
    assert sorted(p.name for p in (root / "usr/share").iterdir()) == ["more"]
    assert len(list((root / "usr/share/more").iterdir())) == 6
    assert not (root / "usr/lib/a.a").exists()
    assert max(reported) <= 1


@needs_dpkg
def test_a_damaged_package_is_named(tmp_path: Path, runner: Runner) -> None:
    broken = tmp_path / "broken_1_all.deb"
    broken.write_bytes(b"!<arch>\nnonsense")
    training.make_merged_usr(tmp_path / "root")
    with pytest.raises(RailheadError, match=r"could not unpack broken_1_all\.deb"):
        training.unpack([broken], tmp_path / "root", runner, lambda _f: None)


@needs_dpkg
def test_one_file_is_taken_out_of_a_package(tmp_path: Path, runner: Runner) -> None:
    archive = deb(
        tmp_path,
        "sklearn",
        {
            "usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz": "digits",
            "etc/x": "x",
        },
    )
    target = tmp_path / "digits"
    assert training._extract_member(archive, "/sklearn/datasets/data/digits.csv.gz", target, runner)
    assert target.read_text() == "digits"
    assert not training._extract_member(archive, "/iris.csv", tmp_path / "iris", runner)


def test_a_packed_tree_is_the_same_bytes_whatever_its_times(tmp_path: Path) -> None:
    blobs = []
    for turn in range(2):
        root = tmp_path / str(turn) / "root"
        for name in sorted(("b", "a", "c/d"), reverse=bool(turn)):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(name)
        (root / "link").symlink_to("a")
        blobs.append(training.pack(root, tmp_path / f"{turn}.tar"))
    assert blobs[0].sha256 == blobs[1].sha256
    raw = blobs[0].path.read_bytes()
    assert (hashlib.sha256(raw).hexdigest(), len(raw)) == (blobs[0].sha256, blobs[0].size)
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        assert {m.mtime for m in tar} == {EPOCH}


def test_times_are_set_on_links_and_files_alike(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f.py").write_text("x = 1")
    (tmp_path / "d" / "l").symlink_to("nowhere")
    training.set_times(tmp_path)
    assert (tmp_path / "d" / "f.py").stat().st_mtime == EPOCH
    assert (tmp_path / "d" / "l").lstat().st_mtime == EPOCH


def test_the_key_follows_the_release_and_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    key = training.TRAINING.key
    monkeypatch.setattr(training, "os_release", lambda: {"ID": "ubuntu", "VERSION_ID": "24.04"})
    ubuntu = training.TRAINING.key
    monkeypatch.setattr(training, "SEEDS", (*training.SEEDS, "python3-torchvision"))
    assert len({key, ubuntu, training.TRAINING.key}) == 3


def test_effects_of_package_scripts_are_reproduced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    training.make_merged_usr(root)
    for library in ("blas", "lapack"):
        directory = root / "usr/lib/x86_64-linux-gnu" / library
        directory.mkdir(parents=True)
        (directory / f"lib{library}.so.3").write_text(library)
    (root / "etc").mkdir()
    ran: list[list[str]] = []

    def in_root(_root: Path, command: list[str], _runner: Runner) -> str:
        ran.append(command)
        return ""

    monkeypatch.setattr(training, "_in_root", in_root)
    training.configure(training.TRAINING, root, Runner())
    assert (root / "usr/lib/x86_64-linux-gnu/libblas.so.3").read_text() == "blas"
    assert (root / "usr/lib/x86_64-linux-gnu/liblapack.so.3").read_text() == "lapack"
    assert (root / "usr/bin/torchrun").stat().st_mode & 0o111
    assert f"{training.USER}:x:{training.UID}:" in (root / "etc/passwd").read_text()
    assert (root / "usr/bin/sh").readlink() == Path("dash")
    assert ran == [["/sbin/ldconfig"]]


@pytest.mark.parametrize("failures", [0, 1, 2])
def test_left_out_packages_are_installed_if_needed(
    failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Runner
) -> None:
    archives = [tmp_path / f"{name}_1_all.deb" for name in ("python3-torch", "libz3-4")]
    unpacked: list[str] = []
    proofs: list[int] = []

    def prove(_recipe: training.Recipe, root: Path, _runner: Runner) -> None:
        proofs.append(len(unpacked))
        if len(proofs) <= failures:
            raise CommandError(["torchrun"], 1, "libz3.so.4: cannot open", tmp_path / "log")
        (root / "file").write_text("x")

    monkeypatch.setattr(training, "download", lambda *_: archives)
    monkeypatch.setattr(training, "add_digits", lambda *_: None)
    monkeypatch.setattr(training, "install", lambda *_: None)
    monkeypatch.setattr(training, "configure", lambda *_: None)
    monkeypatch.setattr(training, "prove", prove)
    monkeypatch.setattr(
        training, "unpack", lambda some, *_: unpacked.extend(a.name.split("_")[0] for a in some)
    )
    if failures == 2:
        with pytest.raises(CommandError, match="libz3"):
            training.build_training_layer(runner, lambda _fraction, _detail: None)
        assert not training.TRAINING.layer_dir.exists()
        return
    training.build_training_layer(runner, lambda _fraction, _detail: None)
    assert unpacked == ["python3-torch", "libz3-4"][: failures + 1]
    image = training.training_image()
    pins = training.TRAINING.requirements.read_text()
    assert f"\ntorch=={image.labels['dev.railhead.torch']} " in pins
    assert image.user == "1000:1000"


def test_an_image_on_request_is_an_archive_and_no_layer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Runner
) -> None:
    recipe = training.ON_REQUEST["frameworks"]

    def build(_recipe: training.Recipe, _work: Path, target: Path, *_: object) -> Blob:
        (tmp_path / "root").mkdir()
        (tmp_path / "root" / "file").write_text("x")
        return training.pack(tmp_path / "root", target / "layer.tar")

    monkeypatch.setattr(training, "_build", build)
    training.build_archive(recipe, runner, lambda _fraction, _detail: None)
    assert [path.name for path in recipe.archive.parent.iterdir()] == ["image.tar"]
    with tarfile.open(recipe.archive) as tar:
        config = next(
            item
            for member in tar.getmembers()
            if member.name.startswith("blobs/") and (file := tar.extractfile(member))
            for item in [file.read()]
            if item.startswith(b'{"architecture"')
        )
    labels = json.loads(config)["config"]["Labels"]
    assert set(labels) >= {"dev.railhead.tensorflow-cpu", "dev.railhead.paddlepaddle"}
    # What no lab needs is not part of what every lab's build makes.
    assert recipe.key != training.TRAINING.key
    assert recipe.name not in {step.name for step in missing.plan()}


def test_an_image_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match="--only: there is no 'framework'; did you mean"):
        store.build_on_request("framework", Console())


def test_source_packages_are_built_with_a_pinned_builder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[list[str], dict[str, str] | None, str]] = []

    class Recorder(Runner):
        def run(self, command: Sequence[str], **more: Any) -> str:
            texts = list(command)
            pins = Path(texts[texts.index("--requirement") + 1]).read_text()
            ran.append((texts, more["env"], pins))
            return ""

    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/python3").symlink_to("python3.11")
    training.install(training.TRAINING, root, tmp_path, Recorder())
    wheels, builder, sources = ran
    assert all("--require-hashes" in command for command, _, _ in ran)
    assert "--only-binary=:all:" in wheels[0]
    assert "\ntorch==" in wheels[2]
    assert "deepspeed" not in wheels[2]
    assert [pin.partition("==")[0] for pin in builder[2].splitlines()] == ["setuptools"]
    assert [pin.partition("==")[0] for pin in sources[2].splitlines()] == ["deepspeed"]
    # Nothing is fetched for it but itself.
    assert "--no-build-isolation" in sources[0]
    assert sources[1] is not None
    assert sources[1]["PYTHONPATH"] == builder[0][builder[0].index("--target") + 1]


def test_pins_are_those_of_the_images_python() -> None:
    text = (
        "a==1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:01\n"
        "b==2 ; python_full_version < '3.12' \\\n    --hash=sha256:02\n"
        "b==3 ; python_full_version >= '3.12' \\\n    --hash=sha256:03\n"
        "c==4 ; sys_platform == 'win32' \\\n    --hash=sha256:04\n"
    )
    old = training.pins_for(text, "3.11").splitlines()
    assert [line.split() for line in old] == [
        ["a==1", "--hash=sha256:00", "--hash=sha256:01"],
        ["b==2", "--hash=sha256:02"],
    ]
    assert "b==3 --hash=sha256:03" in training.pins_for(text, "3.13")


@pytest.mark.parametrize(
    ("recipe", "holds"),
    [
        (
            training.TRAINING,
            "torch jax jaxlib orbax-checkpoint accelerate deepspeed megatron-core ray pip",
        ),
        (training.FRAMEWORKS, "tensorflow-cpu paddlepaddle numpy pip"),
    ],
)
def test_the_images_pins_have_hashes_and_no_cuda(recipe: training.Recipe, holds: str) -> None:
    text = recipe.requirements.read_text()
    lines = training.pins_for(text, "3.11").splitlines()
    names = {line.partition("==")[0] for line in lines}
    assert set(holds.split()) <= names
    assert not [name for name in names if name.startswith(("nvidia", "cuda", "triton"))]
    assert all(" --hash=sha256:" in line for line in lines)
    assert "://" not in text
