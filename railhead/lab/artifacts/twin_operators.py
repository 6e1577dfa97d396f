"""Operators that a twin runs beside its API server, as their projects release them.

`railhead rehearse` builds them when it first needs them; no lab does. What their processes read
beside the API lies next to them: the SR-IOV operator's manifests, and both projects' charts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from railhead.lab.artifacts import charts, golang
from railhead.lab.artifacts.commands import Runner
from railhead.lab.artifacts.files import digest, publish, remove_older, scratch
from railhead.lab.artifacts.golang import BUILD_ROOT, Program, bin_dir, lock_key
from railhead.lab.artifacts.on_request import build_once
from railhead.lab.artifacts.steps import Lane, Step, Tell

if TYPE_CHECKING:
    from rich.console import Console

#: What `railhead lab build --only` calls them.
NAME = "twin-operators"
#: Counts up when what lies beside the programs changes in a way that no other key shows.
_RECIPE = "1"


@dataclass(frozen=True, kw_only=True)
class _Operator:
    """A project's programs and chart.

    Args:
        name: of its chart, and of its lock's directory.
        module: whose sources they are.
        packages: program -> its package, below the module.
        chart: where the chart lies, below the module.
        without: templates that a twin cannot have.
    """

    name: str
    module: str
    packages: Mapping[str, str]
    chart: str
    without: tuple[str, ...] = ()

    @property
    def lock(self) -> Path:
        """The directory of its go.mod."""
        return BUILD_ROOT / self.name

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs to build."""
        return tuple(
            Program(name=name, package=f"{self.module}{below}")
            for name, below in self.packages.items()
        )

    @property
    def version(self) -> str:
        """The module's version in the lock."""
        rows = (line.split() for line in (self.lock / "go.mod").read_text().splitlines())
        return next(row[1] for row in rows if row[:1] == [self.module] and len(row) > 1)


#: Apart: what the SR-IOV operator has of OpenShift does not build with the core's Kubernetes.
OPERATORS = (
    _Operator(
        name="sriov-network-operator",
        module="github.com/k8snetworkplumbingwg/sriov-network-operator",
        packages={"sriov-network-operator": ""},
        chart="deployment/sriov-network-operator-chart",
        # A hook that deletes the operator's configuration in a pod; nothing runs in a twin's.
        without=("pre-delete-webooks.yaml",),
    ),
    _Operator(
        name="node-feature-discovery",
        module="sigs.k8s.io/node-feature-discovery",
        packages={"nfd-master": "/cmd/nfd-master", "nfd-gc": "/cmd/nfd-gc"},
        chart="deployment/helm/node-feature-discovery",
    ),
)
PROGRAMS = tuple(program for operator in OPERATORS for program in operator.programs)


def directory() -> Path:
    """Return the directory of the programs, which may not be built yet."""
    keys = [lock_key(operator.lock, operator.programs) for operator in OPERATORS]
    return bin_dir(f"{NAME}-{digest(_RECIPE, *keys, repr(OPERATORS))}")


def manifests() -> Path:
    """Return the directory in which the SR-IOV operator finds its ``bindata``."""
    return directory() / "sriov"


def chart_dirs() -> dict[str, Path]:
    """Return the directory of each chart by its name."""
    return {operator.name: directory() / "charts" / operator.name for operator in OPERATORS}


def ensure(console: Console) -> tuple[Path, ...]:
    """Build what is missing, with a display on ``console``; return the programs.

    Raises:
        PrerequisiteError: there is no Go or no space, or the cache cannot be written.
        CommandError: a build failed; carries its last words and its log.
    """
    step = Step(
        name=NAME,
        title="the operators that a twin runs",
        expected_s=150,
        lane=Lane.COMPILE,
        action=build,
    )
    build_once(directory().is_dir, lambda: [step], console)
    return tuple(directory() / program.name for program in PROGRAMS)


def build(runner: Runner, tell: Tell) -> None:
    """Build the programs, and put what they read beside them."""
    with scratch(NAME) as work:
        for operator in OPERATORS:
            flags = f"{golang.link_flags()} -X {operator.module}/pkg/version.version="
            flags += operator.version
            golang.build(operator.lock, operator.programs, work, NAME, runner, tell, flags=flags)
            _unpack(operator, work / "charts" / operator.name)
        sriov = OPERATORS[0]
        source = golang.module_dir(sriov.module, sriov.lock) / "bindata"
        charts.copy_writable(source, work / "sriov" / "bindata")
        publish(work, directory())
    remove_older(directory().parent, NAME, {directory()})


def _unpack(operator: _Operator, target: Path) -> None:
    charts.copy_writable(golang.module_dir(operator.module, operator.lock) / operator.chart, target)
    for name in operator.without:
        (target / "templates" / name).unlink()
    file = target / "Chart.yaml"
    # Their repositories have a version that a release replaces.
    body = yaml.safe_load(file.read_text())
    body |= {"name": operator.name, "version": operator.version.removeprefix("v")}
    file.write_text(yaml.safe_dump(body, sort_keys=False))
