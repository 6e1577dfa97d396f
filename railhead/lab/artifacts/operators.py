"""Operators of jobs that no stack installs, built on request: no part of a lab.

``python -m railhead.lab.artifacts.operators`` builds them and prints where their images are. Each
has a lock of its own: two ask for libraries of Kubernetes that do not build with each other's, and
KubeRay's starts from the core's.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from railhead.base.paths import cache_root
from railhead.lab.artifacts.commands import Runner
from railhead.lab.artifacts.files import digest, publish, scratch
from railhead.lab.artifacts.golang import BUILD_ROOT, Program, build, lock_key, module_dir
from railhead.lab.artifacts.images import manager_image, stream_archive

#: Counts up when what an archive is made of changes in a way that no lock shows.
_RECIPE = "2"


@dataclass(frozen=True, kw_only=True)
class Operator:
    """An operator as its project publishes it.

    Args:
        name: of its program, and of its lock's directory.
        module: whose sources are built, and have its manifests.
        package: of the program, below the module; empty for the module itself.
        manifests: where they lie, below the module.
        image: what they call its image, with the tag that it gets here.
    """

    name: str
    module: str
    package: str
    manifests: str
    image: str

    @property
    def lock(self) -> Path:
        """The directory of its go.mod."""
        return BUILD_ROOT / self.name

    @property
    def program(self) -> Program:
        """The program to build."""
        return Program(name=self.name, package=f"{self.module}/{self.package}".rstrip("/"))

    def sources(self) -> Path:
        """Return the directory of its manifests, once it was built."""
        return module_dir(self.module, self.lock) / self.manifests

    def archive(self) -> Path:
        """Return its image for `railhead lab load-image`; build it first if it is missing."""
        key = digest(_RECIPE, lock_key(self.lock, [self.program]), self.image)
        made = cache_root() / "images" / f"{self.name}-{key}"
        if not made.is_dir():
            with scratch(self.name) as work:
                self._build(work)
                publish(work / "archive", made)
        return made / "image.tar"

    def binary(self) -> Path:
        """Return the program in that image, for tests that run it beside an API server."""
        return self.archive().parent / "manager"

    def _build(self, work: Path) -> None:
        (work / "archive").mkdir()
        build(self.lock, [self.program], work, self.name, Runner(), lambda *_: None)
        image = manager_image(self.image, work / self.name, work / "layer.tar")
        with (work / "archive" / "image.tar").open("wb") as archive:
            stream_archive(image, archive.write)
        shutil.move(work / self.name, work / "archive" / "manager")


#: By name. Of the training operator v1.9.3 is the newest, of the MPI operator v0.8.0; of KubeRay
#: the one whose kinds the lab's Kueue is built with.
OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        item.name: item
        for item in (
            Operator(
                name="training-operator",
                module="github.com/kubeflow/training-operator",
                package="cmd/training-operator.v1",
                manifests="manifests",
                image="ghcr.io/kubeflow/training-v1/training-operator:lab",
            ),
            Operator(
                name="mpi-operator",
                module="github.com/kubeflow/mpi-operator",
                package="cmd/mpi-operator",
                manifests="deploy/v2beta1",
                image="docker.io/mpioperator/mpi-operator:0.8.0",
            ),
            Operator(
                name="kuberay-operator",
                module="github.com/ray-project/kuberay/ray-operator",
                package="",
                manifests="config/default",
                image="quay.io/kuberay/operator:v1.5.1",
            ),
        )
    }
)


def main() -> None:
    """Build what is missing, and print where it is."""
    for operator in OPERATORS.values():
        print(operator.archive())  # noqa: T201 - what it is run for


if __name__ == "__main__":
    main()
