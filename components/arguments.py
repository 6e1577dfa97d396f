"""The arguments of a cluster's parts, from the stack's cluster.

The parts themselves take nothing of a stack but what they use, so that any program can make one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from railhead.catalog.versions import COMBINATIONS, KUBE_STATE_METRICS, Combination
from railhead.components.controllers.charts import Chart, ControllerArgs, Resources
from railhead.components.fabric.fleet import tolerations
from railhead.components.fabric.objects import FabricArgs, objects_of
from railhead.components.guards.node_gate import GatedPool, NodeGateArgs
from railhead.components.namespaces.network_policies import Traffic
from railhead.components.queueing.installed import QueueingArgs
from railhead.components.runtimes import TrainingRuntime
from railhead.components.watching.watching import WatchedArgs
from railhead.model.cluster import Cluster, Pool
from railhead.platform.registry import platform_of
from railhead.resolve.gate import GATE_IMAGE, expectation, gated
from railhead.resolve.made import kinds
from railhead.resolve.runtimes import ResolvedRuntime
from railhead.resolve.schedulers import scheduler_of
from railhead.resolve.watching import Watching, controllers


def combination(cluster: Cluster) -> Combination:
    """Return the versions of a stack, with images as its mirrors have them."""
    return COMBINATIONS[cluster.versions].through(cluster.registry_mirrors)


def resources(cluster: Cluster) -> Resources | None:
    """Return what each controller requests; None where the stack leaves the charts' own."""
    given = cluster.controllers
    if given is None:
        return None
    return Resources(cpu=given.cpu, memory=given.memory, memory_limit=given.memory_limit)


def queueing(cluster: Cluster) -> QueueingArgs:
    """Return the arguments of the stack's scheduler."""
    return QueueingArgs(
        controller=scheduler_of(cluster).controller(combination(cluster)),
        resources=resources(cluster),
        pod_groups=cluster.pod_groups,
    )


def jobset(cluster: Cluster) -> ControllerArgs:
    """Return the arguments of JobSet."""
    row = combination(cluster).jobset
    return ControllerArgs(
        chart=Chart.of(row), image=row.image, tag=row.tag, resources=resources(cluster)
    )


def trainer(cluster: Cluster, after: Sequence[pulumi.Resource]) -> ControllerArgs:
    """Return the arguments of Trainer."""
    row = combination(cluster).trainer
    return ControllerArgs(
        chart=Chart.of(row),
        image=row.image,
        tag=row.tag,
        resources=resources(cluster),
        after=after,
    )


def fabric(cluster: Cluster, after: Sequence[pulumi.Resource] = ()) -> FabricArgs:
    """Return the arguments of the fabric."""
    addons = combination(cluster).addons
    nearest = {name: platform_of(cluster).image(cluster, row.image) for name, row in addons.items()}
    return FabricArgs(
        fabric=cluster.fabric,
        pools=cluster.pools,
        addons=addons,
        jobs_label=scheduler_of(cluster).pods,
        gpu_operator=cluster.gpu_operator,
        images={
            name: cluster.mirrored(image)
            for name, image in nearest.items()
            if image != addons[name].image
        },
        registry_mirrors=cluster.registry_mirrors,
        monitor_labels=cluster.watching.labels,
        paths=platform_of(cluster).node_paths(cluster),
        after=after,
    )


def gate(cluster: Cluster, after: Sequence[pulumi.Resource] = ()) -> NodeGateArgs:
    """Return the arguments of the node gate, without pools where there is nothing to prove."""
    return NodeGateArgs(
        pools=[
            GatedPool(
                name=pool.name,
                node_selector=pool.node_selector,
                expectation=expectation(cluster, pool),
            )
            for pool in (cluster.pools if gated(cluster) else ())
        ],
        image=_python(cluster),
        period_seconds=cluster.gate.period_seconds,
        tolerations=tolerations(_lasting(cluster)),
        wait_for_nodes=platform_of(cluster).waits_for_nodes,
        after=after,
    )


def _lasting(cluster: Cluster) -> list[Pool]:
    """Return the pools whose nodes do not come, and are not paid for, for one gang alone."""
    queued = platform_of(cluster).queued_pools(cluster)
    return [pool for pool in cluster.pools if pool.name not in queued]


def networks(cluster: Cluster) -> Mapping[str, Mapping[str, Any]]:
    """Return the rails' networks that each training namespace has."""
    return objects_of(cluster.fabric).attachments(
        cluster.fabric, rails_apart=platform_of(cluster).rails_apart
    )


def traffic(cluster: Cluster, namespace: str) -> Traffic | None:
    """Return the connections that a training namespace allows; None where it is left open."""
    site, platform = cluster.network_policy, platform_of(cluster)
    if not site.enabled:
        return None
    return Traffic(
        jobs_label=scheduler_of(cluster).pods,
        dns=[*platform.name_servers, *site.dns],
        egress=[*platform.egress(cluster, namespace), *site.egress],
        ingress_namespaces=site.ingress_namespaces,
    )


def runtimes(resolved: Sequence[ResolvedRuntime]) -> list[TrainingRuntime]:
    """Return the runtimes as objects of the cluster."""
    return [
        TrainingRuntime(name=r.name, spec=r.spec, labels=r.labels, stays=r.stays) for r in resolved
    ]


def watched(
    cluster: Cluster, watching: Watching, after: Sequence[pulumi.Resource] = ()
) -> WatchedArgs:
    """Return the arguments of the alerts, dashboards and exporters."""
    row = combination(cluster).trainer
    accepted = watching.acceptance
    return WatchedArgs(
        config=cluster.watching,
        watching=watching,
        kinds=kinds(cluster),
        controllers=controllers(cluster),
        trainer=row.name,
        trainer_namespace=row.namespace,
        network_policies=cluster.network_policy.enabled,
        exporter_image=_python(cluster),
        objects_image=cluster.mirrored(KUBE_STATE_METRICS.reference),
        acceptance_image=None if accepted is None else cluster.mirrored(accepted.config.image),
        tolerations=tolerations(_lasting(cluster)),
        after=after,
    )


def _python(cluster: Cluster) -> str:
    """Return the image of the stack's own programs."""
    return cluster.mirrored(cluster.gate.image or GATE_IMAGE)
