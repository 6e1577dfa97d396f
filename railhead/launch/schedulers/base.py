"""The interface of the schedulers that admit jobs: all that differs between them at launch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from railhead.base.finding import Finding
from railhead.base.quantity import parse
from railhead.launch.asked import Asked
from railhead.launch.plan import Plan

Object = dict[str, Any]


class Scheduler(ABC):
    """A scheduler that admits jobs.

    ``name`` is as in a contract, ``local`` tells whether its queues have a namespace.
    """

    name: str
    local: bool

    @abstractmethod
    def labels(self, plan: Plan) -> Object:
        """Return all that it reads of a job's labels, of whatever kind it is."""

    @abstractmethod
    def queued(self, plan: Plan, spec: Object) -> Object:
        """Return a TrainJob's spec with the queue in it, where that is the place for it."""

    @abstractmethod
    def path(self, plan: Plan) -> str:
        """Return the path of the queue that the job names."""

    @abstractmethod
    def check(self, asked: Asked) -> list[Finding]:
        """Return whether the queue is there, is open, and could ever hold the job."""


def needs(parts: Sequence[Plan]) -> dict[str, Decimal]:
    """Return what all pods of these roles request together, by resource."""
    results: dict[str, Decimal] = {}
    for part in parts:
        for resource, each in (part.resources.get("requests") or {}).items():
            results[resource] = results.get(resource, Decimal(0)) + parse(each) * part.nodes
    return dict(sorted(results.items()))


def room(parts: Sequence[Plan], queue: str, short: list[str], most: str) -> Finding:
    """Return whether a queue can ever hold roles; ``short`` is what of them the queue cannot."""
    if not short:
        return Finding(name="quota", passed=True, text=f"{queue} can hold the job")
    nodes = sum(part.nodes for part in parts)
    return Finding(
        name="quota",
        passed=False,
        text=f"{nodes} nodes need {', '.join(short)} that {queue} {most}; the job would wait for "
        "ever",
        remedy="ask for fewer nodes or GPUs, or name another queue",
    )
