"""The protocol of a check: a plan, a run that brings evidence, and a verdict on that.

A check is one module of :mod:`railhead.accept.checks` with a ``CHECK``. Its run may be interrupted
and done again; its evidence is kept as JSON, so that it can be judged again, and tested,
without a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from pydantic import BaseModel

from railhead.accept.model import Result, Verdict

if TYPE_CHECKING:
    from railhead.accept.site import Facts, Testbed


@dataclass(frozen=True, kw_only=True)
class CheckPlan:
    """The plan of a check.

    Args:
        steps: in words, in order.
        nodes: the most that it uses at once.
        seconds: about how long, without waiting in the queue.
        node_hours: about what its jobs use.
        missing: why it cannot run here; empty when it can. It is then not proven.
    """

    steps: tuple[str, ...]
    nodes: int
    seconds: float
    node_hours: float
    missing: str = ""


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A verdict on one part of what a check looks at, and what to do about it."""

    verdict: Verdict
    text: str
    remedy: str = ""


E = TypeVar("E", bound=BaseModel)


class Check(Protocol, Generic[E]):
    """One promise.

    Attributes:
        name: as people and machines call it, such as ``gangs``.
        promise: one sentence.
        order: checks run by it; what is cheap and what others stand on comes first.
        evidence: the pydantic model of what :meth:`run` brings.
    """

    name: str
    promise: str
    order: int
    evidence: type[E]

    def plan(self, facts: Facts) -> CheckPlan:
        """Return what would run, from the contract and the nodes alone."""
        ...

    def run(self, site: Testbed) -> E:
        """Run jobs and bring what they said. Anything that it raises makes it not proven."""
        ...

    def judge(self, evidence: E, facts: Facts) -> Result:
        """Return the verdict on evidence; pure. Evidence that lacks something is never a pass."""
        ...
