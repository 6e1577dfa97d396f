"""The training images: Python, MPI, ssh from the machine's packages, frameworks from Python's.

Python's are pinned with hashes.
apt resolves against an empty machine and downloads; the packages are unpacked side by side and no
maintainer script is run. The few things that such scripts would have done are done here, and runs
of each framework inside the finished tree prove that it is whole.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from packaging.requirements import Requirement

from railhead.base.errors import PrerequisiteError, RailheadError
from railhead.base.paths import cache_root
from railhead.catalog.images import TORCH_CPU
from railhead.lab.artifacts.commands import CommandError, Runner, log_path
from railhead.lab.artifacts.files import digest, publish, remove_tree, scratch
from railhead.lab.artifacts.images import EPOCH, Blob, HashingFile, Image, stream_archive
from railhead.lab.artifacts.packages import apt_environment, os_release
from railhead.lab.artifacts.steps import Tell
from railhead.lab.artifacts.stubs import stand_in

#: Counts up when what is done here changes the image.
_RECIPE = "3"

#: What the image is asked to hold; apt adds what these need, without recommendations.
SEEDS = (
    "base-files",
    "base-passwd",
    "bash",
    "coreutils",
    "dash",
    "grep",
    "hostname",
    "iproute2",
    "libc-bin",
    "libgomp1",
    "openmpi-bin",
    "openssh-client",
    "openssh-server",
    "procps",
    "python3",
    "python3-mpi4py",
    "sed",
)

#: Of those, what is published as source alone: Python without extensions, made into a wheel here.
_FROM_SOURCE = ("deepspeed",)
#: What makes wheels of them; among the pins, and any Python can run it.
_BUILDER = "setuptools"

#: Needed by the packages above on paper only, in Debian 12: graphics drivers and compilers, tests,
#: map data; a quarter of the image. Where the proof fails without them they are unpacked after all.
_LEFT_OUT = (
    "adwaita-icon-theme",
    "apt",
    "debconf",
    "fonts-*",
    "iso-codes",
    "libgl1-mesa-dri",
    "libllvm*",
    "libtorch-test",
    "libz3-4",
    "mesa-*",
    "perl",
    "perl-*",
    "proj-data",
    "shared-mime-info",
    "xkb-data",
)

_NOT_UNPACKED = (
    "./usr/include",
    "./usr/share/bug",
    "./usr/share/doc",
    "./usr/share/info",
    "./usr/share/lintian",
    "./usr/share/locale",
    "./usr/share/man",
    "./usr/share/zoneinfo",
    "*.a",
    "*/torch/test",
)

#: Where the data set lies in the image, and in which package and file Debian ships it: 1797
#: handwritten digits of 8 x 8 pixels, one row each, 64 pixels (0 to 16) and the digit.
DIGITS = "usr/share/railhead/digits.csv.gz"
_DIGITS_PACKAGES = ("python3-sklearn", "python3-sklearn-lib")
_DIGITS_FILE = "/sklearn/datasets/data/digits.csv.gz"

# The name that Trainer and the MPI operator have for it.
USER, UID = "mpiuser", 1000
HOME = f"/home/{USER}"

#: Where the ssh of MPI's launcher finds the servers that Trainer's MPI policy has pods run, as in
#: the images of Trainer and of the MPI operator (build/base/sshd_config and ssh_config there).
SSH_PORT = 2222
_SSHD_CONFIG = f"""\
Port {SSH_PORT}
PidFile {HOME}/sshd.pid
HostKey {HOME}/.ssh/id_rsa
AuthorizedKeysFile {HOME}/.ssh/authorized_keys
StrictModes no
PasswordAuthentication no
UsePAM no
LogLevel ERROR
"""
_SSH_CONFIG = f"""\
Host *
    Port {SSH_PORT}
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
"""

_WORKERS = 2


_PINS = Path(__file__).resolve().parents[1] / "build"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The recipe of one training image.

    Args:
        name: of its files in the cache.
        reference: the image's repository and tag.
        named_for: the packages whose versions are the image's labels.
        unused: folders of Python's packages that only compiling against these, testing them and
            other languages need.
        programs: what is on its PATH beside the machine's -> the module of Python that it starts.
        proofs: commands that must end well inside; what they import is compiled for all pods.
    """

    name: str
    reference: str
    named_for: tuple[str, ...]
    unused: tuple[str, ...]
    programs: Mapping[str, str]
    proofs: Callable[[], Sequence[Sequence[str]]]

    @property
    def requirements(self) -> Path:
        """The requirements of the image's own Python, pinned with hashes by `make lock`."""
        return _PINS / self.name / "requirements.txt"

    @property
    def key(self) -> str:
        """The machine's release and this recipe, not the day's updates."""
        release = os_release()
        return digest(
            _RECIPE,
            release.get("ID", ""),
            release.get("VERSION_ID", ""),
            os.uname().machine,
            *SEEDS,
            *_LEFT_OUT,
            *_NOT_UNPACKED,
            *self.unused,
            self.requirements.read_text(),
        )

    @property
    def layer_dir(self) -> Path:
        """The directory in which the finished layer waits for its import."""
        return cache_root() / "images" / f"layer-{self.key}"

    @property
    def archive(self) -> Path:
        """Return the archive of an image that no lab has by itself, for `load-image`."""
        return cache_root() / "images" / f"{self.name}-{self.key}" / "image.tar"

    def image(self, layer: Blob) -> Image:
        """Return the image of a layer."""
        pins = dict(re.findall(r"^(\S+)==(\S+)", self.requirements.read_text(), re.MULTILINE))
        return Image(
            reference=self.reference,
            layer=layer,
            command=("python3",),
            user=f"{UID}:{UID}",
            env=(
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                f"HOME={HOME}",
                "LANG=C.UTF-8",
                "PYTHONUNBUFFERED=1",
            ),
            workdir=HOME,
            labels={f"dev.railhead.{name}": pins[name] for name in self.named_for},
        )


def training_image() -> Image:
    """Return the image of every lab, whose layer was built by :func:`build_training_layer`."""
    path = TRAINING.layer_dir / "layer.tar"
    sha256 = (TRAINING.layer_dir / "layer.txt").read_text().strip()
    return TRAINING.image(Blob(path=path, sha256=sha256, size=path.stat().st_size))


def build_training_layer(runner: Runner, tell: Tell) -> None:
    """Make the layer of the image of every lab."""
    with scratch("training") as work:
        layer = work / "layer"
        layer.mkdir()
        blob = _build(TRAINING, work, layer, runner, tell)
        (layer / "layer.txt").write_text(f"{blob.sha256}\n")
        publish(layer, TRAINING.layer_dir)


def build_archive(recipe: Recipe, runner: Runner, tell: Tell) -> None:
    """Make the archive of an image that no lab has by itself."""
    with scratch(recipe.name) as work:
        made = work / "made"
        made.mkdir()
        image = recipe.image(_build(recipe, work, made, runner, tell))
        tell(0.9, "writing the archive")
        with (made / recipe.archive.name).open("wb") as file:
            stream_archive(image, file.write)
        image.layer.path.unlink()
        publish(made, recipe.archive.parent)


def _build(recipe: Recipe, work: Path, target: Path, runner: Runner, tell: Tell) -> Blob:
    """Make an image's tree below ``work`` and pack it into ``target``."""
    root = work / "root"
    tell(0.0, "downloading packages")
    archives = download(SEEDS, work / "apt", runner)
    left_out = [a for a in archives if any(fnmatch(_package(a), p) for p in _LEFT_OUT)]
    chosen = [a for a in archives if a not in left_out]
    make_merged_usr(root)
    unpack(chosen, root, runner, lambda f: tell(0.1 + 0.3 * f, "unpacking packages"))
    add_digits(work / "apt", root, runner)
    tell(0.4, "Python's packages")
    install(recipe, root, work, runner)
    configure(recipe, root, runner)
    tell(0.6, "runs of each framework inside")
    try:
        prove(recipe, root, runner)
    except CommandError:
        tell(0.6, "this release needs the packages that were left out")
        unpack(left_out, root, runner, lambda _fraction: None)
        configure(recipe, root, runner)
        prove(recipe, root, runner)
    remove_tree(work / "apt")
    tell(0.8, "packing the layer")
    return pack(root, target / "layer.tar")


def _apt_options(directory: Path) -> list[str]:
    """Return options that let apt plan for an empty machine and store in ``directory``."""
    (directory / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    (directory / "status").touch()
    values = {
        "Dir::State::status": str(directory / "status"),
        "Dir::Cache::archives": str(directory / "archives"),
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Debug::NoLocking": "1",
        "APT::Install-Recommends": "0",
        "Dpkg::Use-Pty": "0",
    }
    return ["-q", "-y", *(f"--option={name}={value}" for name, value in values.items())]


def download(names: Sequence[str], directory: Path, runner: Runner) -> list[Path]:
    """Download packages and all that they need, as for an empty machine.

    Raises:
        PrerequisiteError: the machine's package sources do not have them.
    """
    command = ["apt-get", *_apt_options(directory), "--download-only", "install", *names]
    try:
        runner.run(command, log=log_path("training"), env=apt_environment())
    except CommandError as error:
        raise PrerequisiteError(
            f"apt could not download {', '.join(names)} for the training image:\n{error.tail}",
            remedy="the machine's package sources must carry them (Debian's main, Ubuntu's "
            "universe); see /etc/apt",
        ) from error
    return sorted((directory / "archives").glob("*.deb"))


def _package(archive: Path) -> str:
    return archive.name.split("_", 1)[0]


def make_merged_usr(root: Path) -> None:
    """Lay out the links of a merged /usr before packages unpack through them."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")


def unpack(
    archives: Sequence[Path], root: Path, runner: Runner, told: Callable[[float], None]
) -> None:
    """Unpack packages, two at a time, without documentation and what only compilers need."""
    todo = list(reversed(archives))
    lock = threading.Lock()
    failures: list[BaseException] = []

    def work() -> None:
        while not failures:
            with lock:
                if not todo:
                    return
                archive = todo.pop()
                told(1 - len(todo) / len(archives))
            try:
                _unpack_one(archive, root, runner)
            except BaseException as error:  # noqa: BLE001 - raised again below
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(_WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _unpack_one(archive: Path, root: Path, runner: Runner) -> None:
    reader = runner.start(["dpkg-deb", "--fsys-tarfile", str(archive)], stderr=None)
    writer = None
    try:
        excludes = [f"--exclude={pattern}" for pattern in _NOT_UNPACKED]
        assert reader.stdout is not None  # noqa: S101 - start() asks for a pipe
        writer = runner.start(
            ["tar", "--extract", "--keep-directory-symlink", "--directory", str(root), *excludes],
            stdin=reader.stdout.fileno(),
        )
        reader.stdout.close()
        text, _ = writer.communicate()
        if reader.wait() != 0 or writer.returncode != 0:
            raise RailheadError(
                f"could not unpack {archive.name}: {text.decode(errors='replace')[-500:]}",
                remedy=f"look at the free space of {root}",
            )
    finally:
        runner.forget(reader)
        if writer is not None:
            runner.forget(writer)


def add_digits(apt: Path, root: Path, runner: Runner) -> None:
    """Take the one file of the digits data set out of Debian's scikit-learn.

    Raises:
        PrerequisiteError: no package carries it.
    """
    target = root / DIGITS
    target.parent.mkdir(parents=True)
    directory = apt / "digits"
    directory.mkdir()
    for name in _DIGITS_PACKAGES:
        command = ["apt-get", *_apt_options(apt), "download", name]
        try:
            runner.run(command, log=log_path("training"), env=apt_environment(), cwd=directory)
        except CommandError:
            continue
        for archive in directory.glob(f"{name}_*.deb"):
            if _extract_member(archive, _DIGITS_FILE, target, runner):
                return
    raise PrerequisiteError(
        f"none of {', '.join(_DIGITS_PACKAGES)} in the machine's package sources has "
        f"{_DIGITS_FILE}",
        remedy="use Debian 12 or newer or Ubuntu 24.04 or newer",
    )


def _extract_member(archive: Path, suffix: str, target: Path, runner: Runner) -> bool:
    process = runner.start(["dpkg-deb", "--fsys-tarfile", str(archive)], stderr=None)
    result = False
    try:
        assert process.stdout is not None  # noqa: S101 - start() asks for a pipe
        with tarfile.open(fileobj=process.stdout, mode="r|") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.name.endswith(suffix) else None
                if content is not None:
                    target.write_bytes(content.read())
                    result = True
    finally:
        runner.forget(process)
    return result


def install(recipe: Recipe, root: Path, work: Path, runner: Runner) -> None:
    """Install Python's packages for the image's Python, and stand-ins for CUDA's libraries.

    Raises:
        PrerequisiteError: the registry that pip is set to does not have them.
    """
    version = _python(root)
    target = root / f"usr/local/lib/python{version}/dist-packages"
    pins = pins_for(recipe.requirements.read_text(), version).splitlines(keepends=True)
    sources = [pin for pin in pins if _named(pin) in _FROM_SOURCE]
    wheels = [pin for pin in pins if pin not in sources]
    builder = [pin for pin in pins if _named(pin) == _BUILDER]
    tags = ("2_34", "2_31", "2_28", "2_27", "2_26", "2_24", "2_17", "2_12", "2_5")
    names = [*(f"manylinux_{tag}" for tag in tags), "manylinux2014", "manylinux2010", "manylinux1"]
    platforms = [f"--platform={name}_{os.uname().machine}" for name in names]
    of_image = (f"--python-version={version}", "--implementation=cp", *platforms)
    binary = ("--only-binary=:all:", *of_image)
    tools = work / "tools"
    _pip(wheels, target, binary, work, runner)
    if sources:
        _pip(builder, tools, binary, work, runner)
        # Neither an index of its own choice nor this machine's packages take part in the making.
        _pip(sources, target, ("--no-build-isolation", *of_image), work, runner, path=tools)
    for name in recipe.unused:
        remove_tree(target / name)
    if (target / "torch/lib").is_dir():
        stand_in(target / "torch/lib")


def _pip(
    pins: Sequence[str],
    target: Path,
    options: Sequence[str],
    work: Path,
    runner: Runner,
    path: Path | None = None,
) -> None:
    """Install pins, lines of a requirements file, into ``target``; ``path`` has what builds them.

    Raises:
        PrerequisiteError: the registry that pip is set to does not have them.
    """
    wanted = work / "requirements.txt"
    wanted.write_text("".join(pins))
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps"),
        *("--no-compile", "--no-cache-dir", "--require-hashes", *options),
        *("--target", str(target), "--requirement", str(wanted)),
    ]
    environment = None if path is None else {**os.environ, "PYTHONPATH": str(path)}
    try:
        runner.run(command, log=log_path("training"), env=environment)
    except CommandError as error:
        raise PrerequisiteError(
            f"pip could not install a training image's packages:\n{error.tail}",
            remedy=f"the registry that pip is set to must carry the pins below {_PINS}; "
            "see `pip config list`",
        ) from error


def _named(pin: str) -> str:
    return pin.partition("==")[0]


def pins_for(text: str, version: str) -> str:
    """Return the pins that hold for a Python such as ``3.11`` on this kind of machine.

    pip would go by the Python that it runs in.
    """
    there = {
        "python_version": version,
        "python_full_version": f"{version}.0",
        "sys_platform": "linux",
        "platform_machine": os.uname().machine,
    }
    chosen = []
    for pin in text.replace("\\\n", " ").splitlines():
        named, _, hashes = pin.partition(" --hash=")
        if named.strip() and not named.startswith("#"):
            marker = Requirement(named).marker
            if marker is None or marker.evaluate(there):
                chosen.append(f"{named.partition(';')[0].strip()} --hash={hashes}")
    return "\n".join(chosen) + "\n"


def _python(root: Path) -> str:
    """Return the version of the tree's ``python3``, such as ``3.11``."""
    return (root / "usr/bin/python3").readlink().name.removeprefix("python")


def configure(recipe: Recipe, root: Path, runner: Runner) -> None:
    """Do what the packages' maintainer scripts would have done, as far as a container needs it."""
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/bash\n"
        f"{USER}:x:{UID}:{UID}:{USER}:{HOME}:/bin/bash\n"
        "sshd:x:101:65534:sshd:/run/sshd:/usr/sbin/nologin\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    )
    (root / "etc/group").write_text(f"root:x:0:\n{USER}:x:{UID}:\nnogroup:x:65534:\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    shell = root / "usr/bin/sh"
    if not shell.exists():
        shell.symlink_to("dash")
    for library in ("blas", "lapack"):
        # Alternatives in Debian; the reference implementation is the one that is always there.
        for chosen in root.glob(f"usr/lib/*/{library}/lib{library}.so.3"):
            link = chosen.parent.parent / chosen.name
            if not link.exists():
                link.symlink_to(f"{library}/{chosen.name}")
    python = root / "usr/bin/python"
    if not python.is_symlink():
        python.symlink_to("python3")
    # Debian's scripts or pip's entry points would be these; arguments go through as they are.
    for name, module in recipe.programs.items():
        program = root / "usr/bin" / name
        program.write_text(f'#!/bin/sh\nexec python3 -m {module} "$@"\n')
        program.chmod(0o755)
    for name in ("mpirun", "mpiexec"):
        # Alternatives in Debian, too.
        link = root / "usr/bin" / name
        if not link.is_symlink() and not link.exists():
            link.symlink_to("mpirun.openmpi")
    for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        # A container's Python is the user's own.
        marker.unlink()
    for directory in ("etc/ssh", "run/sshd"):
        (root / directory).mkdir(parents=True, exist_ok=True)
    (root / "etc/ssh/ssh_config").write_text(_SSH_CONFIG)
    home = root / HOME.removeprefix("/")
    (home / ".ssh").mkdir(parents=True, exist_ok=True)
    (home / ".sshd_config").write_text(_SSHD_CONFIG)
    for path in (home, home / ".ssh", home / ".sshd_config"):
        os.chown(path, UID, UID)
    _in_root(root, ["/sbin/ldconfig"], runner)


def prove(recipe: Recipe, root: Path, runner: Runner) -> None:
    """Run the recipe's proofs inside ``root``.

    It also leaves the byte code of every module that such a run imports, so that pods need not
    compile them again; files first get the layer's time stamp, which byte code must match.
    """
    set_times(root)
    devices = {"null": (1, 3), "zero": (1, 5), "urandom": (1, 9)}
    for name, (major, minor) in devices.items():
        os.mknod(root / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    try:
        for command in recipe.proofs():
            _in_root(root, ["timeout", "--kill-after=5", str(_PROOF_S), *command], runner)
    finally:
        for name in devices:
            (root / "dev" / name).unlink()
        for rest in (root / "tmp").iterdir():
            remove_tree(rest)


#: Longest that one proof may take; all of them take half a minute on a quiet machine.
_PROOF_S = 180


def _torchrun(*program: str) -> tuple[str, ...]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return (
        *("torchrun", "--nnodes=1", "--nproc_per_node=2"),
        *("--master_addr=127.0.0.1", f"--master_port={port}", "--no_python", *program),
    )


def _training_proofs() -> tuple[tuple[str, ...], ...]:
    return (
        _torchrun("python3", "-c", _PROOF),
        (
            *("python3", "-c"),
            "import jax, orbax.checkpoint, accelerate, torch.distributed.fsdp as f, "
            "torch.distributed.checkpoint; assert int(jax.numpy.ones(3).sum()) == 3; f.fully_shard",
        ),
        (
            "python3",
            "-c",
            "import deepspeed.comm, megatron.core, ray.train.torch",
        ),
        ("ray", "--version"),
        (
            *("mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "python3", "-c"),
            "from mpi4py import MPI; assert MPI.COMM_WORLD.allreduce(1) == 2",
        ),
        ("python3", "-m", "pip", "--version"),
        ("ssh", "-V"),
    )


_PROOF = """\
import csv, gzip
import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
with gzip.open("/usr/share/railhead/digits.csv.gz", "rt") as source:
    rows = torch.tensor([[float(x) for x in row] for row in csv.reader(source)])
assert rows.shape == (1797, 65), rows.shape
data = TensorDataset(rows[:, :64] / 16, rows[:, 64].long())
model = DistributedDataParallel(torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sampler = DistributedSampler(data)
first = last = None
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=128, sampler=sampler):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        first = loss.item() if first is None else first
        last = loss.item()
assert last < first, (first, last)
total = torch.ones(1)
dist.all_reduce(total)
assert total.item() == 2, total
"""


def _frameworks_proofs() -> tuple[tuple[str, ...], ...]:
    return (
        (
            *("python3", "-c"),
            "import tensorflow as tf; assert float(tf.reduce_sum(tf.ones(3))) == 3; "
            "tf.keras.Sequential, tf.distribute.MultiWorkerMirroredStrategy",
        ),
        (
            *("python3", "-c"),
            "import paddle, paddle.distributed.launch.main; "
            "assert float(paddle.ones([3]).sum()) == 3; paddle.nn.Linear(2, 2)",
        ),
        ("python3", "-m", "pip", "--version"),
    )


#: The image of every lab.
TRAINING = Recipe(
    name="training",
    reference=TORCH_CPU.reference,
    named_for=("torch",),
    unused=("torch/include", "torch/bin/protoc", "torch/test", "torch/share", "ray/jars"),
    programs={
        "torchrun": "torch.distributed.run",
        "accelerate": "accelerate.commands.accelerate_cli",
        "ray": "ray.scripts.scripts",
        "pip": "pip",
    },
    proofs=_training_proofs,
)

#: Frameworks that the first has no room for, in an image that is made when it is asked for.
FRAMEWORKS = Recipe(
    name="frameworks",
    reference="railhead.local/frameworks-cpu:lab",
    named_for=("tensorflow-cpu", "paddlepaddle"),
    unused=("tensorflow/include", "paddle/include"),
    programs={"pip": "pip"},
    proofs=_frameworks_proofs,
)

#: What `railhead lab build --only` takes.
ON_REQUEST = {FRAMEWORKS.name: FRAMEWORKS}


def _in_root(root: Path, command: Sequence[str], runner: Runner) -> str:
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/tmp",  # noqa: S108 - inside the image's own tree
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
    }
    # Some of them look at themselves in /proc.
    apart = ["unshare", "--mount", "--pid", "--fork", f"--mount-proc={root}/proc"]
    inside = [*apart, "chroot", str(root), *command]
    return runner.run(inside, log=log_path("training"), env=environment)


def set_times(root: Path) -> None:
    """Give every file below ``root`` the one time stamp of the layers."""
    for directory, names, files in os.walk(root):
        for name in (*names, *files):
            os.utime(Path(directory) / name, (EPOCH, EPOCH), follow_symlinks=False)


def pack(root: Path, target: Path) -> Blob:
    """Pack a tree as a layer: sorted, numeric owners, one time stamp."""
    command = [
        *("tar", "--create", "--format=posix", "--sort=name", "--numeric-owner"),
        *(f"--mtime=@{EPOCH}", "--pax-option=delete=atime,delete=ctime"),
        *("--directory", str(root), "."),
    ]
    with target.open("wb") as raw:
        hashing = HashingFile(raw)
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None  # noqa: S101 - asked for above
            shutil.copyfileobj(process.stdout, hashing, 1 << 20)
        if process.returncode != 0:
            raise RailheadError(
                f"tar ended with status {process.returncode} while packing {root}",
                remedy=f"look at the free space of {target.parent}",
            )
    return Blob(path=target, sha256=hashing.sha256, size=hashing.size)
