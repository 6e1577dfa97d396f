"""The owner of each namespace's jobs, with which ended jobs are deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base.names import JOBS_OWNER

_DESCRIPTION = "Owns the jobs of `railhead launch`; goes with the stack."


@dataclass(frozen=True, kw_only=True)
class JobOwnersArgs:
    """Arguments of :class:`JobOwners`.

    Args:
        namespaces: name of each training namespace -> what is to go after its jobs, where an edit
            removes the namespace.
        after: all other resources of the stack, so that `destroy` begins with these.
    """

    namespaces: Mapping[str, Sequence[pulumi.Resource]]
    after: Sequence[pulumi.Resource] = ()


class JobOwners(pulumi.ComponentResource):
    """A ConfigMap in each namespace that owns the TrainJobs of `railhead launch`.

    Its deletion deletes ended jobs, and is refused while one has not ended
    (:mod:`railhead.resolve.ending`).
    """

    def __init__(
        self, name: str, args: JobOwnersArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:JobOwners", name, None, opts)
        for namespace, later in args.namespaces.items():
            kubernetes.core.v1.ConfigMap(
                f"{name}-{namespace}",
                # Without data: there is nothing to change below running jobs.
                metadata={
                    "name": JOBS_OWNER,
                    "namespace": namespace,
                    "annotations": {"kubernetes.io/description": _DESCRIPTION},
                },
                opts=pulumi.ResourceOptions(parent=self, depends_on=[*args.after, *later]),
            )
        self.register_outputs({"namespaces": list(args.namespaces)})
