"""What differs between the schedulers that admit jobs, for whoever launches one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from railhead.base.finding import Finding
from railhead.launch.asked import Asked
from railhead.launch.plan import Plan

Object = dict[str, Any]


class Scheduler(ABC):
    """Who admits jobs; ``name`` as a contract has it, ``local`` whether queues have a namespace."""

    name: str
    local: bool

    @abstractmethod
    def labels(self, plan: Plan) -> Object:
        """All that it reads of a job's labels, of whatever kind it is."""

    @abstractmethod
    def queued(self, plan: Plan, spec: Object) -> Object:
        """A TrainJob's spec with the queue in it, where that is the place for it."""

    @abstractmethod
    def path(self, plan: Plan) -> str:
        """Of the queue that the job names."""

    @abstractmethod
    def check(self, asked: Asked) -> list[Finding]:
        """Whether the queue is there, is open, and could ever hold the job."""
