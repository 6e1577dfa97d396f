"""Queueing of jobs, in a stack's file: who admits gangs, requeues, and fair shares."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from railhead.base.fields import Model, problem

Seconds = Annotated[int, Field(strict=True, ge=1, le=86400)]


class KueueConfig(Model):
    """Kueue admits gangs before they have pods; what it does is said by the rest of the stack.

    Args:
        end_lost_pods: whether pods of the runtimes that hang on a node that does not answer are
            ended by force, so that their gang starts again elsewhere without a hand. The risk: a
            node that is cut off from the API server and still runs may go on writing to a claim
            beside the gang that took its place; docs/teams.md says which checkpoints bear that.
            Without it such a gang waits until its node is back, deleted or tainted out-of-service.
    """

    scheduler: Literal["kueue"] = "kueue"
    end_lost_pods: Annotated[bool, Field(strict=True)] = False

    @property
    def addons(self) -> tuple[str, ...]:
        """Names of the catalogue's add-ons that it is."""
        return ()


class VolcanoConfig(Model):
    """Volcano binds the pods of a gang together, or none of them.

    What of teams, queues and jobs it cannot say is refused (:mod:`railhead.config.volcano`).
    """

    scheduler: Literal["volcano"]

    @property
    def addons(self) -> tuple[str, ...]:
        """Names of the catalogue's add-ons that it is."""
        return ("volcano",)


#: Told apart by ``scheduler``.
QueueingConfig = Annotated[KueueConfig | VolcanoConfig, Field(discriminator="scheduler")]


class RequeueConfig(Model):
    """The treatment of an admitted gang whose pods are not all ready in time.

    It is evicted whole, and its quota is free for others. It waits ``backoff_seconds``, twice as
    long after each further time, at most ``backoff_max_seconds``, and then tries again.

    Args:
        recovery_seconds: how long a gang that once ran may lack a pod, such as while it is started
            again on other nodes; longer than that takes, or a restart loses its place. None takes
            ``ready_timeout_seconds``; 0 never evicts one that ran.
        backoff_seconds: a minute lets an image arrive or a node be repaired.
        backoff_max_seconds: half an hour, so that a repaired cluster is soon in use again.
        limit: how often a job is requeued before it is deactivated, until a person looks: a pod
            that admission refuses, or a missing image, does not heal by itself. All times in a
            job's life count. None tries for ever.
    """

    recovery_seconds: Annotated[int, Field(strict=True, ge=0, le=86400)] | None = None
    backoff_seconds: Seconds = 60
    backoff_max_seconds: Seconds = 1800
    limit: Annotated[int, Field(strict=True, ge=0, le=1000)] | None = 5

    @model_validator(mode="after")
    def _grows(self) -> RequeueConfig:
        if self.backoff_max_seconds < self.backoff_seconds:
            raise problem(
                f"backoff_max_seconds: {self.backoff_max_seconds} is less than backoff_seconds: "
                f"{self.backoff_seconds}"
            )
        return self


class FairConfig(Model):
    """The fair division of what is unused, among teams and within one.

    Args:
        sharing: what is borrowed is divided by the teams' weights, and a team that has more than
            its part gives it back to one that has less, by preemption.
        half_life_hours: within a team, the namespace that used less lately goes first; use counts
            half after this long. None orders by priority and age alone.
    """

    sharing: bool = True
    half_life_hours: Annotated[int, Field(strict=True, ge=1, le=8760)] | None = None
