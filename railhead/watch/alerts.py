"""The alerts; their rules are in ``alerts.yaml``, and docs/watching.md is made of them too.

Expressions hold for every stack; what a stack decides stands in them as ``$name``
(:class:`AlertValues`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from railhead.base.data import load


@dataclass(frozen=True, kw_only=True)
class AlertValues:
    """The values of a stack in expressions.

    Args:
        namespaces: a regular expression of the training namespaces.
        controllers: the same of the Deployments without which no job runs.
        controller_count: how many those are.
        devices: the same of the fabric's RDMA devices, as the kernel names them.
        rail_bytes: bytes a second that each of them must be trained to; 0 where it is not known.
        off_fabric_bytes: what a pod may send through the pod network, bytes a second.
        checkpoint_seconds: how old the newest checkpoint of a running job may be.
        acceptance_seconds: what a run of the acceptance that comes again and again may take.
    """

    namespaces: str
    controllers: str
    controller_count: int
    devices: str
    rail_bytes: int
    off_fabric_bytes: int
    checkpoint_seconds: int
    acceptance_seconds: int

    def fill(self, expression: str) -> str:
        """Return an expression with this stack's own in it."""
        return Template(expression).substitute(vars(self))


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Labels(_Row):
    """The labels of an alert.

    Args:
        severity: ``critical`` for what stops training and does not mend itself, ``warning`` for
            what needs a hand this day, ``info`` for what heals or what its owner should know.
    """

    severity: Literal["critical", "warning", "info"]


class Annotations(_Row):
    """The texts of an alert.

    Args:
        summary: one line; ``{{ $labels.x }}`` is a label of the series.
        description: what to do, with commands.
        runbook: its section of docs/watching.md; relative, for any server of the repository.
    """

    summary: str
    description: str
    runbook: str


class Alert(_Row):
    """A rule of ``alerts.yaml``.

    Args:
        group: what it is about; rules of a group are evaluated together.
        name: CamelCase, as Prometheus shows it.
        expr: PromQL; it fires for each series that it gives.
        wait: how long it must hold before it fires.
        labels: what routes it.
        annotations: what its reader sees.
        fabric: whether it is about jobs that have a network beside the pods'.
        named: whether it would be wrong of devices that are not the fabric's: only where the
            catalogue names those.
        acceptance: whether it is about an acceptance that comes again and again.
    """

    group: str
    name: str = Field(alias="alert")
    expr: str
    wait: str = Field(alias="for")
    labels: Labels
    annotations: Annotations
    fabric: bool = False
    named: bool = False
    acceptance: bool = False

    def rule(self, site: AlertValues) -> dict[str, Any]:
        """Return it as an element of a rule group's ``rules``."""
        return {
            "alert": self.name,
            "expr": site.fill(self.expr),
            "for": self.wait,
            "labels": self.labels.model_dump(),
            "annotations": self.annotations.model_dump(),
        }


#: The CronJob of an acceptance that comes again and again.
ACCEPTANCE = "railhead-acceptance"

#: An admitted gang that has not ended, which holds quota.
RUNNING = (
    'railhead_workload_condition{type="Admitted"} == 1'
    " unless on (namespace, workload)"
    ' railhead_workload_condition{type="Finished"} == 1'
)


def _read(file: Path) -> tuple[Alert, ...]:
    raw = load(file)
    return tuple(
        Alert.model_validate({"group": group["name"].removeprefix("railhead-"), **rule})
        for group in raw["groups"]
        for rule in group["rules"]
    )


ALERTS = _read(Path(__file__).with_suffix(".yaml"))
