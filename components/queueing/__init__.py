"""Queues, and the nodes that come for them: a scheduler each, by the name that a stack gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pulumi

from railhead.components.queueing import kueue, volcano
from railhead.components.queueing.installed import Queueing, QueueingArgs

#: Each takes what :mod:`railhead.resolve.schedulers` makes of a stack under the same name.
INSTALL: Mapping[str, Callable[[str, QueueingArgs, Any, pulumi.ResourceOptions], Queueing]] = (
    MappingProxyType({"kueue": kueue.install, "volcano": volcano.install})
)
