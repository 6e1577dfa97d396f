"""Removals: what a stack's file allows to be lost, object by object."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from railhead.base.fields import Model, matching, problem

Kind = Literal["checkpoint", "namespace", "queue", "pool", "storage", "cluster"]
Loss = Literal["data", "jobs", "quota"]
# What is in a namespace is named with it.
WITHIN = frozenset({"checkpoint", "queue"})

_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"


class RemovalConfig(Model):
    """One object that the next update may take away, and what is lost with it.

    Without an entry `pulumi preview` and `pulumi up` stop at the edit and print the entry that
    would allow it. One entry is for one object and one edit: while the file still has the object
    the entry is a mistake, and once it is gone the entry should go too.

    Args:
        kind: what it is.
        name: a claim or a queue as ``namespace/name``; a namespace, a pool, a file system (by its
            storage class) or the cluster by its name alone.
        loses: ``data`` of checkpoints and file systems, ``jobs`` that run or wait, ``quota`` for
            new ones; all that the edit loses, no less.
    """

    kind: Kind
    name: Annotated[
        str,
        matching(rf"^{_NAME}(/{_NAME})?$", "a name, such as 'training/checkpoints'", longest=127),
    ]
    loses: tuple[Loss, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _named_whole(self) -> RemovalConfig:
        if (self.kind in WITHIN) != ("/" in self.name):
            form = "namespace/name" if self.kind in WITHIN else "its name alone"
            raise problem(f"name: {self.name!r}: a {self.kind} is named by {form}")
        return self
