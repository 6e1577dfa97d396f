"""Volcano's own programs, and images of them that a lab takes, built when they are asked for.

They are the release that stacks install. Its API module is no part of its own, and no Go module
proxy serves one newer than v1.14.0. Between that and the release's lies one name (pkg/apis of both
compared), which is added here.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from railhead.base.paths import cache_root
from railhead.catalog.versions import LAB_VOLCANO
from railhead.lab.artifacts import charts, golang, packages, training
from railhead.lab.artifacts.commands import Runner, log_path
from railhead.lab.artifacts.files import digest, publish, remove_tree, scratch
from railhead.lab.artifacts.golang import BUILD_ROOT, Program, bin_dir, lock_key
from railhead.lab.artifacts.images import Image, LayerWriter, stream_archive
from railhead.lab.artifacts.on_request import build_once
from railhead.lab.artifacts.steps import Lane, Step, Tell

if TYPE_CHECKING:
    from rich.console import Console

SOURCES = BUILD_ROOT / "volcano"
#: What `railhead lab build --only` calls it.
NAME = "volcano"
CONTROLLER = LAB_VOLCANO.addon(NAME)
_MODULE, _API = "volcano.sh/volcano", "volcano.sh/apis"
_WEBHOOKS = "vc-webhook-manager"
#: Each program's image, as its chart names it.
_IMAGES = {
    "vc-controller-manager": f"{CONTROLLER.image}:{CONTROLLER.tag}",
    "vc-scheduler": CONTROLLER.operands["scheduler"].reference,
    _WEBHOOKS: CONTROLLER.operands["webhooks"].reference,
}
PROGRAMS = tuple(
    Program(name=name, package=f"{_MODULE}/cmd/{name.removeprefix('vc-')}") for name in _IMAGES
)
#: v1.15.1, staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/labels.go.
_ADDED = """package v1beta1

const QueueAllocationGateKey = GroupName + "/queue-allocation-gate"
"""
#: Counts up when what an archive is made of changes in a way that no other key shows.
_RECIPE = "1"
#: What the script of the webhooks' image, which makes their certificate, calls beside kubectl.
_SEEDS = ("bash", "coreutils", "openssl")
_SCRIPT = "installer/dockerfile/webhook-manager/gen-admission-secret.sh"


def programs() -> Path:
    """Return the directory of the programs, which may not be built yet."""
    return bin_dir(f"volcano-{digest(lock_key(SOURCES, PROGRAMS), _ADDED)}")


def archives() -> tuple[Path, ...]:
    """Return the path of each program's archive, which may not be built yet."""
    key = digest(_RECIPE, programs().name, *_SEEDS, repr(CONTROLLER))
    directory = cache_root() / "images" / f"{NAME}-{key}"
    return tuple(directory / f"{program.name}.tar" for program in PROGRAMS)


def ready() -> bool:
    """Return whether all of it is built."""
    chart = charts.chart_dir(CONTROLLER) / "Chart.yaml"
    return all(path.is_file() for path in (*archives(), chart))


def ensure(console: Console) -> tuple[Path, ...]:
    """Build what is missing, with a display on ``console``; returns the archives.

    Raises:
        PrerequisiteError: there is no Go, or the machine's packages cannot be had.
        CommandError: a build failed; carries its last words and its log.
    """
    build_once(ready, _steps, console)
    return archives()


def _steps() -> tuple[Step, ...]:
    packages.require_apt()
    return (
        packages.lists_step(),
        Step(
            name=NAME,
            title=f"Volcano {CONTROLLER.version}",
            expected_s=240,
            lane=Lane.COMPILE,
            needs=("packages",),
            action=build,
        ),
    )


def build(runner: Runner, tell: Tell) -> None:
    """Build the programs, unpack their chart and pack their images."""
    with scratch(NAME) as work:
        for part in ("bin", "layers", "archives"):
            (work / part).mkdir()
        if not programs().is_dir():
            flags = f"{golang.link_flags()} -X {_MODULE}/pkg/version.Version={CONTROLLER.tag}"
            sources = _sources(work / "sources", runner)
            golang.build(sources, PROGRAMS, work / "bin", NAME, runner, tell, flags=flags)
            publish(work / "bin", programs())
        charts.unpack_chart(CONTROLLER, lambda name: golang.module_dir(name, SOURCES))
        for archive in archives():
            name = archive.stem
            image = _webhooks(name, work, runner) if name == _WEBHOOKS else _image(name, work)
            with (work / "archives" / archive.name).open("wb") as file:
                stream_archive(image, file.write)
        target = archives()[0].parent
        for old in target.parent.glob(f"{NAME}-*"):
            remove_tree(old)
        publish(work / "archives", target)


def _sources(root: Path, runner: Runner) -> Path:
    """Return the lock, beside an API module that has what the release added."""
    golang.fetch_sources(SOURCES, [PROGRAMS], runner)
    shutil.copytree(SOURCES, root)
    charts.copy_writable(golang.module_dir(_API, SOURCES), root / "apis")
    (root / "apis/pkg/apis/scheduling/v1beta1/railhead.go").write_text(_ADDED)
    runner.run(
        [str(golang.find_go()[0]), "mod", "edit", f"-replace={_API}=./apis"],
        log=log_path(NAME),
        env=golang.go_environment(),
        cwd=root,
    )
    return root


def _image(name: str, work: Path) -> Image:
    layer = LayerWriter()
    layer.directory("tmp", mode=0o1777)
    layer.file(name, programs() / name, mode=0o755)
    blob = layer.write(work / "layers" / f"{name}.tar")
    return Image(reference=_IMAGES[name], layer=blob, entrypoint=(f"/{name}",))


def _webhooks(name: str, work: Path, runner: Runner) -> Image:
    """Return an image with the program and with what a hook of the chart runs in it."""
    root = work / "root"
    training.make_merged_usr(root)
    result = training.download(_SEEDS, work / "apt", runner)
    training.unpack(result, root, runner, lambda _fraction: None)
    (root / "usr/bin/sh").unlink(missing_ok=True)
    (root / "usr/bin/sh").symlink_to("bash")
    (root / "tmp").mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    script = golang.module_dir(_MODULE, SOURCES) / _SCRIPT
    kubectl = golang.core_dir() / "kubectl"
    for file, place in ((programs() / name, root), (script, root), (kubectl, root / "usr/bin")):
        shutil.copyfile(file, place / file.name)
        (place / file.name).chmod(0o755)
    blob = training.pack(root, work / "layers" / f"{name}.tar")
    return Image(reference=_IMAGES[name], layer=blob, entrypoint=(f"/{name}",))
