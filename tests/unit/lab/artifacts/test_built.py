"""Tests of what `railhead lab build` left, as it will be used: containers out of a clone."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from railhead.base.errors import PrerequisiteError
from railhead.base.paths import cache_root
from railhead.catalog.images import TORCH_CPU
from railhead.catalog.lab import KUBERNETES, part
from railhead.lab import artifacts
from railhead.lab.artifacts import files, images, template
from railhead.lab.artifacts.commands import Runner

pytestmark = pytest.mark.slow

Ctr = Callable[..., str]


@pytest.fixture(scope="module")
def built() -> artifacts.Artifacts:
    if os.geteuid() != 0:
        pytest.skip("containers need root")
    try:
        return artifacts.installed()
    except PrerequisiteError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def ctr(built: artifacts.Artifacts) -> Iterator[Ctr]:
    """Runs ctr on a containerd whose root is a clone of the template."""
    clone = cache_root() / "labs" / f".clone-test-{os.getpid()}"
    artifacts.clone_template(clone)
    # Gigabytes of images are linked, not copied.
    blobs = template.template_dir() / "io.containerd.content.v1.content" / "blobs"
    blob = next(path for path in blobs.rglob("*") if path.is_file())
    assert (clone / blob.relative_to(template.template_dir())).samefile(blob)
    # What `ctr run` leaves on the host.
    runtime = Path("/run/containerd")
    existed = runtime.exists()
    try:
        with template.containerd(clone, Runner(), "clone-test") as address:

            def run(*arguments: str) -> str:
                done = subprocess.run(
                    ["ctr", "--address", address, "--namespace", "k8s.io", *arguments],
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=120,
                )
                assert done.returncode == 0, done.stderr
                return done.stdout

            yield run
    finally:
        files.remove_tree(clone)
        if not existed:
            files.remove_tree(runtime)


@pytest.mark.parametrize(
    ("program", "arguments", "says"),
    [
        ("kubelet", ["--version"], KUBERNETES),
        ("kube-apiserver", ["--version"], KUBERNETES),
        ("kube-proxy", ["--version"], KUBERNETES),
        ("kubectl", ["version", "--client"], KUBERNETES),
        ("etcd", ["--version"], part("etcd").version.removeprefix("v")),
        ("helm", ["version", "--short"], part("helm").version),
        ("kwok", ["--version"], part("kwok").version.removeprefix("v")),
        ("coredns", ["-version"], "CoreDNS"),
        ("multus", ["--version"], "multus"),
    ],
)
def test_programs_run_and_know_their_version(
    program: str, arguments: list[str], says: str, built: artifacts.Artifacts
) -> None:
    done = subprocess.run(
        [built.bin_dir / program, *arguments], capture_output=True, text=True, check=True
    )
    assert says in done.stdout + done.stderr


def test_every_image_is_whole_and_unpacked(ctr: Ctr, built: artifacts.Artifacts) -> None:
    rows = {line.split()[0]: line for line in ctr("images", "check").splitlines()[1:]}
    wanted = {f"{c.image}:{c.tag}" for c, _ in images.CONTROLLER_PROGRAMS}
    wanted |= {images.PAUSE_IMAGE, images.BUSYBOX_IMAGE, images.PROVISIONER_IMAGE}
    wanted |= {TORCH_CPU.reference}
    assert set(rows) == wanted
    for reference, row in rows.items():
        assert "complete (2/2)" in row, reference
        assert row.endswith("true"), reference
        labels = ctr("images", "list", f"name=={reference}").splitlines()[1]
        assert "io.cri-containerd.pinned=pinned" in labels


def test_a_container_of_busybox_runs(ctr: Ctr) -> None:
    script = "wget --help 2>&1 | head -1; ip -o link show lo; id -u"
    text = ctr("run", "--rm", images.BUSYBOX_IMAGE, "clone-busybox", "sh", "-c", script)
    assert "BusyBox" in text
    assert "1: lo" in text


def test_the_training_image_trains_without_being_root(ctr: Ctr) -> None:
    program = (
        "import os, gzip, csv, torch, torch.distributed as d; d.init_process_group('gloo');"
        "t = torch.ones(1); d.all_reduce(t);"
        "rows = list(csv.reader(gzip.open('/usr/share/railhead/digits.csv.gz', 'rt')));"
        "print('uid', os.getuid(), 'sum', int(t), 'rows', len(rows), len(rows[0]))"
    )
    environment = [f"--env={v.name}={v.value}" for v in TORCH_CPU.environment]
    command = ["torchrun", "--nproc_per_node=2", "--master_port=29517", "--no_python"]
    text = ctr(
        *("run", "--rm", *environment, TORCH_CPU.reference, "clone-torch"),
        *(*command, "python3", "-c", program),
    )
    assert text.count("uid 1000 sum 2 rows 1797 65") == 2


def test_modules_were_compiled_when_the_image_was_made(ctr: Ctr) -> None:
    program = "import torch, os; print(os.path.exists(torch.__cached__))"
    text = ctr("run", "--rm", TORCH_CPU.reference, "clone-cached", "python3", "-v", "-c", program)
    assert text.strip() == "True"


def test_pause_reaps_what_its_pod_orphans(built: artifacts.Artifacts) -> None:
    with subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", str(built.bin_dir / "pause")]
    ) as outer:
        try:
            deadline = time.monotonic() + 5
            children: list[str] = []
            while not children and time.monotonic() < deadline:
                path = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
                children = path.read_text().split()
                time.sleep(0.05)
            (pause,) = children
            # The shell ends at once; its sleep is left to process 1.
            subprocess.run(
                ["nsenter", "--target", pause, "--pid", "sh", "-c", "sleep 0.3 &"], check=True
            )
            listing = Path(f"/proc/{pause}/task/{pause}/children")
            assert len(listing.read_text().split()) == 1
            while listing.read_text().split() and time.monotonic() < deadline:
                time.sleep(0.05)
            assert listing.read_text().split() == []
        finally:
            outer.kill()


def test_pause_ends_on_a_signal(built: artifacts.Artifacts) -> None:
    with subprocess.Popen([built.bin_dir / "pause"]) as pause:
        time.sleep(0.3)
        pause.terminate()
        assert pause.wait(5) == 0
