"""The knowledge base: every clue, fact, observation and cause, by family."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from railhead.diagnose.knowledge import (
    cluster,
    containers,
    framework,
    gpu,
    plugins,
    rdma,
    sockets,
)
from railhead.diagnose.model import Cause, Clue, Observation

# What the reader of logs looks for already: its signs, under the names that rules use.
SHARED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "bootstrap-using": ("nccl.bootstrap", "nccl.bootstrap-old"),
        "init-complete": ("nccl.init-complete", "nccl.rings", "nccl.trees", "tests.average"),
        "channel-line": (
            "nccl.channel-net",
            "nccl.channel-p2p",
            "nccl.channel-shm",
            "nccl.channel-shm-old",
        ),
        "nccl-version": ("nccl.version",),
        "nccltests-rank": ("tests.rank",),
    }
)

_FAMILIES = (containers, sockets, rdma, plugins, gpu, framework, cluster)

CLUES: Mapping[str, Clue] = MappingProxyType(
    {clue.id: clue for family in _FAMILIES for clue in family.CLUES}
)
OBSERVATIONS: Mapping[str, Observation] = MappingProxyType(
    {one.id: one for family in _FAMILIES for one in family.OBSERVATIONS}
)
CAUSES: Mapping[str, Cause] = MappingProxyType(
    {cause.id: cause for family in _FAMILIES for cause in family.CAUSES}
)
