"""Teams in a stack's file: who they are, what of the pools is theirs, and what comes first.

A team has namespaces, groups of people, and one cluster queue of its own name. Its shares of the
pools are promised to it; what it does not use others of the stack's teams may borrow until it wants
it back.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from railhead.base.fields import Group, Model, Name, Quantity, matching, problem

ResourceName = Annotated[
    str,
    matching(
        r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        "a resource, such as 'nvidia.com/gpu'",
        longest=316,
    ),
]
Nodes = Annotated[int, Field(strict=True, ge=0)]


class PriorityConfig(Model):
    """A WorkloadPriorityClass: of what waits the highest ``value`` comes first.

    A job names one; it changes nothing of how its pods are treated once they run, except that jobs
    of a lower value make room where the queue's preemption says so.

    ``description`` is for people.
    """

    name: Name
    # int32 in WorkloadPriorityClass (kueue.x-k8s.io/v1beta2).
    value: Annotated[int, Field(strict=True, ge=-(2**31), le=2**31 - 1)]
    description: str = Field(default="", max_length=2048)


#: A job without a priority has the value 0 (kueue, pkg/util/priority: constants.DefaultPriority).
PRIORITIES = (
    PriorityConfig(
        name="production", value=1000, description="has a date to meet: makes others wait"
    ),
    PriorityConfig(
        name="research", value=0, description="everyday work, and jobs that say nothing"
    ),
    PriorityConfig(name="spare", value=-1000, description="only what nobody else wants"),
)


class ShareConfig(Model):
    """A team's share of a pool.

    ``nodes`` is promised: so many nodes' worth of everything that the pool's nodes have;
    ``quota`` overrides the amount of single resources, such as half a node's GPUs. ``borrow`` is
    how many nodes' worth it may borrow of what others leave unused, None for no limit. ``lend`` is
    how many of its idle nodes others may borrow, None for all; the rest stays idle for the team.
    """

    pool: Name
    nodes: Nodes
    quota: dict[ResourceName, Quantity] = Field(default_factory=dict)
    borrow: Nodes | None = None
    lend: Nodes | None = None

    @model_validator(mode="after")
    def _lends_what_it_has(self) -> ShareConfig:
        if self.lend is not None and self.lend > self.nodes:
            raise problem(f"lend: {self.lend} is more than the {self.nodes} nodes of the share")
        return self


class PreemptionConfig(Model):
    """The jobs that are stopped whole, and requeued, for one that waits.

    Args:
        within: of the same team: ``never``, those of a ``lower`` priority, or
            ``lower-or-newer-equal``, also those of the same priority that came later.
        reclaim: of teams that borrow, when this one wants its own share back: ``any``, those of a
            ``lower`` priority than the one that waits, or ``never``. ``any`` is what makes a share
            a promise.
        borrow: of other teams while this one borrows itself: ``never``, or those of a ``lower``
            priority. Not with fair sharing, which decides that by who has how much.
    """

    within: Literal["never", "lower", "lower-or-newer-equal"] = "lower"
    reclaim: Literal["never", "lower", "any"] = "any"
    borrow: Literal["never", "lower"] = "never"

    @model_validator(mode="after")
    def _borrows_by_reclaiming(self) -> PreemptionConfig:
        if self.reclaim == "never" and self.borrow != "never":
            # kueue, pkg/webhooks/clusterqueue_webhook.go, validatePreemption.
            raise problem("borrow: 'lower' needs reclaim: 'lower' or 'any'")
        return self


class TeamConfig(Model):
    """People who share namespaces, a queue in each of them, and parts of the pools.

    Args:
        name: of the team, of its cluster queue, and of the LocalQueue in each of its namespaces.
        namespaces: where its jobs run; of no other team.
        leads: groups that may submit, and may end and reprioritise any job of the team.
        researchers: groups that submit and inspect jobs.
        viewers: groups that may only look.
        shares: of pools; jobs of the team run on no other pool.
        weight: of unused nodes that several teams want, one of weight 2 gets twice as much as one
            of weight 1; one of weight 0 gets what no other wants.
        preemption: who is stopped for whom.
        order: ``best-effort`` lets a job start past one that does not fit yet, so that nothing
            stands idle and large gangs may wait long; ``strict`` starts none of a team's jobs
            before the first.
        priority: of jobs that name none.
    """

    name: Name
    namespaces: tuple[Name, ...] = Field(min_length=1)
    leads: tuple[Group, ...] = ()
    researchers: tuple[Group, ...] = Field(min_length=1)
    viewers: tuple[Group, ...] = ()
    shares: tuple[ShareConfig, ...] = Field(min_length=1)
    weight: Annotated[int, Field(strict=True, ge=0, le=1000)] = 1
    preemption: PreemptionConfig = PreemptionConfig()
    order: Literal["best-effort", "strict"] = "best-effort"
    priority: Name = "research"

    @property
    def pools(self) -> tuple[str, ...]:
        """Names of the pools that it has a share of, in its order."""
        return tuple(share.pool for share in self.shares)
