"""The interface of a kind of job, and the pods that all kinds share."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from railhead.base.errors import InputError, PrerequisiteError
from railhead.base.names import JOB_LABEL
from railhead.framework import FRAMEWORKS
from railhead.framework.base import NODE_RANK, NODES, Framework
from railhead.kube.client import Cluster
from railhead.launch.patches import avoiding
from railhead.launch.plan import Plan
from railhead.launch.render import (
    MANAGED_BY,
    check_one_role,
    from_secret,
    job_labels,
    literal,
    volumes_of,
)

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Api(ABC):
    """A kind of job.

    Args:
        name: what ``--api`` says.
        api_version: group and version.
        kind: of the object.
        plural: as the API server's paths have it.
        index: the label of a pod that holds its number, from 0; None where its controller says it
            in variables instead.
        container: what its controller calls the container that trains; None leaves the runtime's.
        own: whether it runs only the frameworks that name it.
        restarts: whether its controller recreates a whole gang, as often as the job says.
        elastic: whether a run can go on with fewer pods than it began with.
        several_roles: whether its pods may have several roles.
        since: what installs it, for clusters that lack it.
        source: where its controller was read.
    """

    name: str
    api_version: str
    kind: str
    plural: str
    index: str | None
    container: str | None = None
    own: bool = False
    restarts: bool = False
    elastic: bool = False
    several_roles: bool = False
    since: str
    source: str
    clash: Mapping[str, str] = field(default_factory=dict)

    @abstractmethod
    def hosts(self, plan: Plan) -> tuple[str, ...]:
        """Return the DNS name of each of the job's pods, by its number."""

    @abstractmethod
    def spec(self, plan: Plan, template: Object) -> Object:
        """Return the spec of the job, whose pods are as ``template``."""

    def others(self, plan: Plan) -> list[Object]:
        """Return the objects that the pods need and the controller does not create.

        Such as the service that gives the pods their names.
        """
        del plan
        return []

    def framework(self, plan: Plan) -> Framework:
        """Return the plan's framework.

        Raises:
            InputError: this kind of job does not run it.
        """
        row = plan.framework
        if row is not None and (self.name in row.kinds or (not self.own and not _ssh(row))):
            return row
        runs = [f.name for f in FRAMEWORKS.values() if self.name in f.kinds]
        others = "" if self.own else ", and whatever needs no ssh between pods"
        raise InputError(
            f"--api: {self.name} does not run framework {row.name if row else 'unknown'!r}; it "
            f"runs {', '.join(runs) or 'any'}{others}",
            remedy="leave --api out, or name another kind of job",
        )

    def template(self, plan: Plan) -> Object:
        """Return the pods: the runtime's, with what the job asks for."""
        framework = self.framework(plan)
        pod = copy.deepcopy(plan.template)
        metadata = pod.setdefault("metadata", {})
        metadata["labels"] = {**metadata.get("labels", {}), **MANAGED_BY, JOB_LABEL: plan.name}
        (container,) = (c for c in pod["spec"]["containers"] if c["name"] == plan.container)
        container["name"] = self.container or plan.container
        container["command"] = [literal(plan.words[0])]
        if len(plan.words) > 1:
            container["args"] = [literal(word) for word in plan.words[1:]]
        container["resources"] = copy.deepcopy(plan.resources)
        container["env"] = self.environment(plan, framework, container.get("env") or [])
        if plan.image is not None:
            container["image"] = plan.image
        volumes, mounts = volumes_of(plan)
        container["volumeMounts"] = [*container.get("volumeMounts", []), *mounts]
        named = {volume["name"]: volume for volume in (*pod["spec"].get("volumes", []), *volumes)}
        pod["spec"]["volumes"] = list(named.values())
        if plan.avoid:
            pod["spec"]["affinity"] = avoiding(plan.avoid)
        metadata["labels"] |= plan.pod_labels
        if plan.annotations is not None:
            metadata["annotations"] = dict(plan.annotations)
        return pod

    def environment(
        self, plan: Plan, framework: Framework, own: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the container's variables: the runtime's, the job's, and what both lack."""
        wiring = framework.wiring(plan.gang(self.hosts(plan)))
        if NODES in framework.rendezvous:
            wiring |= {NODES: str(plan.nodes)}
        set_there = {*framework.controller.get(self.name, ()), *wiring, NODE_RANK}
        kept = [e for e in own if e["name"] not in {*set_there, *plan.env}]
        number: list[dict[str, Any]] = []
        if self.index is not None:
            path = f"metadata.labels['{self.index}']"
            number = [{"name": NODE_RANK, "valueFrom": {"fieldRef": {"fieldPath": path}}}]
        ours = {
            name: value
            for name, value in wiring.items()
            if name not in framework.controller.get(self.name, ())
        }
        return [
            *number,
            *kept,
            *({"name": name, "value": literal(value)} for name, value in plan.env.items()),
            *(from_secret(name, source) for name, source in plan.secrets.items()),
            *({"name": name, "value": value} for name, value in ours.items()),
        ]

    def metadata(self, plan: Plan) -> Object:
        """Return the metadata of the job and of the objects that come with it."""
        return {"name": plan.name, "namespace": plan.namespace, "labels": job_labels(plan)}

    def objects(self, plan: Plan) -> list[Object]:
        """Return the job and what comes with it, in the order of creation.

        Raises:
            InputError: this kind of job does not run the plan's framework, or has no restarts, no
                other roles or no other size.
        """
        if not self.several_roles:
            check_one_role(plan)
        if plan.min_nodes is not None and not self.elastic:
            raise InputError(
                f"min_nodes: {plan.min_nodes} is not allowed with --api {self.name}, whose gangs "
                "have one size",
                remedy="leave it out, or name a kind of job whose runs may go on with fewer nodes: "
                "pytorchjob",
            )
        if plan.restarts and not self.restarts and plan.min_nodes is None:
            raise InputError(
                f"restarts: {plan.restarts} is not allowed with --api {self.name}: its controller "
                "recreates single pods, not the gang, whose processes could not find each other "
                "again; allowed: 0",
                remedy="leave it out, or name a kind of job that recreates gangs "
                "(docs/launching.md)",
            )
        spec = self.spec(plan, self.template(plan))
        job = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": self.metadata(plan),
            "spec": spec,
        }
        return [*self.others(plan), job]

    def require(self, cluster: Cluster) -> None:
        """See that the cluster serves this kind of job in this version.

        Raises:
            PrerequisiteError: it does not; says so where it has another version of that name.
        """
        for version, whose in self.clash.items():
            group = self.api_version.partition("/")[0]
            if not _serves(cluster, self.api_version, self.plural) and _serves(
                cluster, f"{group}/{version}", self.plural
            ):
                raise PrerequisiteError(
                    f"this cluster's {self.plural}.{group} is {whose}'s {version}: it and "
                    f"{self.since}'s {self.api_version} are two definitions of one name, and a "
                    "cluster has one",
                    remedy=f"have {self.since}'s definition installed in its place and {whose} "
                    f"started without that kind, or launch without --api {self.name}",
                )
        if not _serves(cluster, self.api_version, self.plural):
            raise PrerequisiteError(
                f"this cluster does not serve {self.kind} of {self.api_version}",
                remedy=f"have {self.since} installed, or launch without --api {self.name}",
            )


def _ssh(framework: Framework) -> bool:
    """Return whether its processes of other pods are started from the first."""
    return framework.fewest_nodes > 1


def _serves(cluster: Cluster, api_version: str, plural: str) -> bool:
    result = cluster.find(f"/apis/{api_version}") or {}
    return any(row.get("name") == plural for row in result.get("resources") or ())


def headless(plan: Plan, selector: Mapping[str, str]) -> Object:
    """Return the service by which pods of one job find each other before they are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": plan.name,
            "namespace": plan.namespace,
            "labels": {**MANAGED_BY, JOB_LABEL: plan.name},
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": dict(selector),
        },
    }
