"""The input of the checks before a launch, and the lookups that several of them share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING
from functools import cached_property
from threading import Lock

from railhead.base.finding import Finding
from railhead.base.quantity import parse
from railhead.contract import ClusterContract
from railhead.kube import client as kube
from railhead.kube import nodes
from railhead.launch.plan import Plan

Object = kube.Object
UP_AGAIN = "run `pulumi up` on the cluster's stack again"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A plan, and the cluster that it is for; the checks ask at the same time.

    ``api`` is the kind of job that it is written as, None for the TrainJob. ``gang`` is the whole
    job where the plan is of one of its roles; ``once`` lets one check at a time list the nodes.
    """

    cluster: kube.Cluster
    plan: Plan
    contract: ClusterContract
    api: str | None = None
    gang: Asked | None = None
    once: Lock = field(default_factory=Lock, repr=False, compare=False)

    @property
    def parts(self) -> tuple[Plan, ...]:
        """The plans of all roles of the gang."""
        return (self.gang or self).plan.parts

    @property
    def together(self) -> tuple[Plan, ...]:
        """The plans of those roles that run in the same pool."""
        return tuple(part for part in self.parts if part.pool.name == self.plan.pool.name)

    @property
    def machines(self) -> int:
        """The machines of the pool that these roles need, at least: small pods share them."""
        capacity = {name: parse(each) for name, each in self.plan.pool.capacity.items()}
        results = [max(part.nodes for part in self.together)]
        for name, most in capacity.items():
            wanted = [
                (part.nodes, parse((part.resources.get("requests") or {}).get(name, 0)))
                for part in self.together
            ]
            results.append(sum(number for number, each in wanted if 2 * each > most))
            if most:
                total = sum(number * each for number, each in wanted)
                results.append(int((total / most).to_integral_value(ROUND_CEILING)))
        return max(results)

    @property
    def each(self) -> tuple[Asked, ...]:
        """One for each role of the gang, the job's own first."""
        return (self, *(replace(self, plan=role, gang=self) for role in self.plan.roles))

    @property
    def live(self) -> list[nodes.Object] | str:
        """Every node that the job does not avoid; what the server said if they are not listed."""
        # From Python 3.12 on a cached property has no lock of its own.
        with self.once:
            return (self.gang or self).listed

    @cached_property
    def listed(self) -> list[nodes.Object] | str:
        """The same, of a whole job and for one check at a time."""
        try:
            live = nodes.live(self.cluster)
            return [node for node in live if node["metadata"]["name"] not in self.plan.avoid]
        except kube.ApiError as error:
            if error.status != 403:
                raise
            return error.message


def existing(
    asked: Asked, name: str, path: str, what: str, *, without: str = "", remedy: str = UP_AGAIN
) -> tuple[Finding, Object | None]:
    """Return whether something is there, and the object; it may be what one may not read.

    Args:
        asked: what the check was asked.
        name: the check's.
        path: the object's.
        what: how it is called.
        without: what happens without it.
        remedy: what to do then; what the stack should have made, by default.
    """
    try:
        result = asked.cluster.find(path)
    except kube.ApiError as error:
        if error.status != 403:
            raise
        return Finding(name=name, passed=None, text=f"{what} may not be read"), None
    if result is None:
        text = f"{what} is not there" + (f"; {without}" if without else "")
        return Finding(name=name, passed=False, text=text, remedy=remedy), None
    return Finding(name=name, passed=True, text=f"{what} is there"), result
