"""WorkloadPriorityClasses: which of the jobs that wait comes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from railhead.base.names import KUEUE_API


class WorkloadPriorityClass(pulumi.CustomResource):
    """One of Kueue's classes; ``fields`` are its value and its description.

    They stand beside the metadata, and pulumi_kubernetes' CustomResource takes a spec alone.
    """

    def __init__(self, name: str, fields: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        kind = "WorkloadPriorityClass"
        properties = {"apiVersion": KUEUE_API, "kind": kind, **fields}
        super().__init__(f"kubernetes:{KUEUE_API}:{kind}", name, properties, opts)


@dataclass(frozen=True, kw_only=True)
class PrioritiesArgs:
    """Arguments of :class:`Priorities`.

    Args:
        priorities: name -> ``value`` and ``description``; a job of a higher value goes first.
        after: resources that must exist before the classes; Kueue must be there.
    """

    priorities: Mapping[str, Mapping[str, Any]]
    after: Sequence[pulumi.Resource] = ()


class Priorities(pulumi.ComponentResource):
    """Kueue's WorkloadPriorityClasses, which jobs name."""

    def __init__(
        self, name: str, args: PrioritiesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Priorities", name, None, opts)
        for priority, fields in args.priorities.items():
            WorkloadPriorityClass(
                f"{name}-{priority}",
                {"metadata": {"name": priority}, **fields},
                pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
        self.register_outputs({"priorities": list(args.priorities)})
