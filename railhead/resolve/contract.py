"""Builds the contract: all that launching and checking need to know of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from railhead import contract
from railhead.base.errors import InputError
from railhead.catalog.switches import SWITCHES
from railhead.catalog.versions import COMBINATIONS
from railhead.config.served import addons
from railhead.fabric.kinds import FABRICS
from railhead.framework.base import Framework
from railhead.machines import MACHINES
from railhead.model.borrowing import borrowing
from railhead.model.capacity import quantities
from railhead.model.cluster import Cluster, Pool
from railhead.platform.registry import platform_of
from railhead.resolve.namespaces import common_environment
from railhead.resolve.runtimes import ResolvedRuntime, pool_gpus
from railhead.resolve.schedulers import scheduler_of
from railhead.resolve.schedulers.base import Queued
from railhead.resolve.wiring import PROFILE_DIRECTORY, chosen, wiring

# A job may ask NCCL to talk more; what it talks over is the cluster's to say.
_FREE = frozenset({"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"})


def build(
    cluster: Cluster, runtimes: Sequence[ResolvedRuntime], queues: Queued
) -> contract.ClusterContract:
    """Return the contract of a cluster.

    Raises:
        InputError: it would not fit into its ConfigMap.
    """
    combination, scheduler = COMBINATIONS[cluster.versions], scheduler_of(cluster)
    named = "priority" not in scheduler.unsaid
    made = contract.ClusterContract(
        cluster=cluster.name,
        platform=cluster.platform.kind,
        standing=platform_of(cluster).standing,
        stand_in=platform_of(cluster).stand_in,
        fabric=_fabric(cluster),
        node_pools=tuple(_node_pool(cluster, pool) for pool in cluster.pools),
        queues=tuple(
            contract.Queue(
                name=scheduler.queue(queue),
                namespace=queue.namespace,
                cluster_queue=queue.cluster_queue,
                flavors=tuple(queues.flavor(pool) for pool in queue.pools),
                pools=queue.pools,
                team=team.name if (team := cluster.team_of(queue.namespace)) else None,
                priority=team.priority if team and named else None,
            )
            for queue in cluster.local_queues
        ),
        runtimes=tuple(_runtime(cluster, runtime) for runtime in runtimes),
        checkpoints=tuple(
            contract.Checkpoint(
                claim=checkpoint.claim_name,
                namespace=checkpoint.namespace,
                mount_path=checkpoint.mount_path,
                size=checkpoint.size,
                storage_class=checkpoint.storage_class,
                annotations=dict(platform_of(cluster).mount_annotations(cluster, checkpoint)),
                file_system=platform_of(cluster).file_system(cluster, checkpoint),
            )
            for checkpoint in cluster.checkpoints
        ),
        datasets=tuple(
            contract.Dataset(
                name=dataset.name,
                claim=dataset.claim_name,
                namespace=dataset.namespace,
                mount_path=dataset.mount_path,
                volume=dataset.volume,
            )
            for dataset in cluster.datasets
        ),
        namespaces=cluster.training_namespaces,
        topology_levels=cluster.topology,
        placement_field=combination.placement_field,
        scheduler=scheduler.name,
        unsaid=dict(scheduler.unsaid),
        versions={
            "combination": combination.name,
            "jobset": combination.jobset.version,
            scheduler.name: scheduler.controller(combination).version,
            "trainer": combination.trainer.version,
        },
        researchers=cluster.researchers,
        teams=tuple(
            contract.Team(
                name=team.name,
                namespaces=team.namespaces,
                leads=team.leads,
                researchers=team.researchers,
                viewers=team.viewers,
                shares={share.pool: share.nodes for share in team.shares},
                borrows=borrowing(cluster, team),
            )
            for team in cluster.teams
        ),
        priorities={
            row.name: row.value
            for row in sorted(cluster.priorities, key=lambda row: (-row.value, row.name))
            if named
        },
        made=_made(cluster),
    )
    if (size := len(made.dense().encode())) > contract.LARGEST:
        raise InputError(
            f"the contract of {len(cluster.pools)} pools, {len(made.runtimes)} runtimes and "
            f"{len(made.queues)} queues has {size} bytes; its ConfigMap holds {contract.LARGEST}",
            remedy="fewer runtimes (one serves every number of GPUs, and a job names its own "
            "image), or a stack for a part of the pools",
        )
    return made


def _made(cluster: Cluster) -> contract.Made:
    """Return what the platform created, and what the fabric's operator takes nodes down for."""
    platform = platform_of(cluster)
    made = asdict(platform.made(cluster))
    most_gpus = max(MACHINES[pool.instance_type].gpus for pool in cluster.pools)
    by_fabric = cluster.fabric.taken_down_for(most_gpus)
    for pool in cluster.pools:
        nodes = made["pools"].setdefault(pool.name, {})
        nodes["fixed"] = {**nodes.get("fixed", {}), **by_fabric}
    installed = dict.fromkeys((*addons(cluster), *platform.addons(cluster)))
    own = {"addons": tuple(installed), "finished_days": cluster.finished_days}
    return contract.Made.model_validate(made | own)


def _fabric(cluster: Cluster) -> contract.Fabric:
    row, wired, common = FABRICS[cluster.fabric.kind], wiring(cluster), common_environment(cluster)
    namespace = cluster.fabric.networks_namespace
    return contract.Fabric(
        kind=cluster.fabric.kind,
        mode=cluster.fabric.mode,
        # Of every training namespace, or of the one that an operator makes them in.
        networks=tuple(
            contract.Network(
                name=rail.network, namespace=where, rail=rail.rail, interface=rail.interface
            )
            for where in (cluster.training_namespaces if namespace is None else (namespace,))
            for rail in wired.rails
        ),
        environment=common,
        line_rate_gbps=wired.line_rate_gbps,
        nics_per_node=wired.nics_per_node,
        rdma=row.rdma,
        counted=row.counted,
        reasons=_reasons(cluster, common),
        not_set=dict(row.not_set),
        switches=_switches(cluster),
        capabilities=wired.capabilities,
        host_network=wired.host_network,
        userspace=row.userspace,
        proofs=row.proofs,
        gpudirect=row.gpudirect,
    )


def _switches(cluster: Cluster) -> dict[str, contract.Switch]:
    allowed = chosen(cluster)
    return {
        name: contract.Switch(reason=switch.reason, allowed=allowed.get(name, ()))
        for name, switch in SWITCHES.items()
    }


def _reasons(cluster: Cluster, environment: Mapping[str, str]) -> dict[str, str]:
    """Return why each variable is set: the catalogue's words, or that the stack says so."""
    machine = cluster.pools[0].instance_type
    known = {v.name: v.reason for v in FABRICS[cluster.fabric.kind].environment_on(machine)}
    own = "set by the stack's own `fabric`"
    return {
        name: own if name in cluster.fabric.environment else known.get(name, own)
        for name in environment
    }


def _runtime(cluster: Cluster, runtime: ResolvedRuntime) -> contract.Runtime:
    config, framework = runtime.config, runtime.framework
    charged = COMBINATIONS[cluster.versions].gang_charge == "template"
    pinned = (name for name in runtime.wired.environment if name not in _FREE)
    return contract.Runtime(
        name=runtime.name,
        framework=framework.name,
        image=cluster.mirrored(config.image),
        container=framework.container,
        replicated_job=framework.replicated_job,
        gpus_per_node=runtime.gpus,
        processes_per_node=runtime.processes,
        shares=tuple(
            contract.Share(gpus=gpus, requests=dict(requests))
            for gpus, requests in runtime.shares.items()
        ),
        max_nodes=runtime.pool.nodes,
        only_nodes=config.nodes if charged else None,
        pool=runtime.pool.name,
        checkpoint=next(
            (
                contract.Mount(claim=claim.claim_name, path=claim.mount_path)
                for claim in runtime.claims
            ),
            None,
        ),
        topology_level=None if _queued(cluster, runtime.pool) else runtime.level,
        reserved=dict.fromkeys(pinned, "the cluster's fabric") | framework.reserved,
        launcher=framework.launcher,
        launches=framework.launches,
        alone=framework.alone,
        process_prefix=framework.process_prefix,
        told=_told(cluster, framework),
        restarts=config.restarts.most(pool_gpus(runtime.pool)),
        never_on=config.restarts.never_on,
        programs=PROFILE_DIRECTORY,
        pod=dict(runtime.pod),
    )


def _told(cluster: Cluster, framework: Framework) -> tuple[str, ...]:
    """Return the variables to set; none if Trainer's policy for the framework sets them."""
    policy = framework.ml_policy(COMBINATIONS[cluster.versions], 1)
    return () if policy else framework.set_by_job


def _node_pool(cluster: Cluster, pool: Pool) -> contract.NodePool:
    machine = MACHINES[pool.instance_type]
    return contract.NodePool(
        name=pool.name,
        instance_type=pool.instance_type,
        nodes=pool.nodes,
        gpus_per_node=machine.gpus,
        capacity=quantities(cluster, pool),
        node_selector=dict(pool.node_selector),
        tolerations=tuple(contract.Toleration(**t.model_dump()) for t in pool.tolerations),
        gpu_resource=machine.gpu_resource,
        accelerator=machine.accelerator,
        architecture=machine.architecture,
        nics=len(machine.nics),
        line_rate_gbps=machine.line_rate_gbps,
        hcas=cluster.fabric.nccl_hcas(machine) or machine.hcas,
        nvlink_domain=machine.nvlink_domain,
        queued=_queued(cluster, pool),
    )


def _queued(cluster: Cluster, pool: Pool) -> bool:
    return pool.name in platform_of(cluster).queued_pools(cluster)
