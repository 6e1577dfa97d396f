"""Who may do what in training namespaces, in a stack's file."""

from __future__ import annotations

from typing import Literal

from railhead.base.fields import Model
from railhead.model.teams import Group

#: Who may: everybody who submits, those who lead, or nobody but the cluster's administrators.
Who = Literal["researchers", "leads", "nobody"]


class AccessConfig(Model):
    """What people may do besides what their jobs need; see docs/access.md for all of it.

    ``leads`` and ``viewers`` are groups for the stack's own ``namespaces``, beside ``researchers``;
    a team of ``teams`` has groups of its own. ``exec`` is who may run commands in the pods of jobs
    and forward ports to them: RBAC cannot tell one's own pods from a colleague's, so it is all of a
    namespace.
    """

    leads: tuple[Group, ...] = ()
    viewers: tuple[Group, ...] = ()
    exec: Who = "researchers"
