"""What the cluster tells its users, built from the configuration and written into the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.queueing.queues import cluster_queues
from components.runtimes import claims_of, environment, framework_of, gpus_of, shares, wiring_of
from railhead import contract
from railhead.catalog.machines import MACHINES
from railhead.catalog.versions import COMBINATIONS
from railhead.fabric.kinds import FABRICS
from railhead.model.cluster import Cluster, Pool, RuntimeConfig
from railhead.resolve.wiring import Wiring, quantities, wiring

# A job may ask NCCL to talk more; what it talks over is the cluster's to say.
_FREE = frozenset({"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"})


@dataclass(frozen=True, kw_only=True)
class ContractArgs:
    """Arguments of :class:`PublishedContract`."""

    contract: contract.ClusterContract
    after: Sequence[pulumi.Resource] = ()


def build(cluster: Cluster, flavors: Mapping[str, str]) -> contract.ClusterContract:
    """The contract of a cluster; ``flavors`` is pool name -> ResourceFlavor name."""
    combination = COMBINATIONS[cluster.versions]
    wired = wiring(cluster)
    fabric = FABRICS[cluster.fabric.kind]
    pools_of = cluster_queues(cluster)
    return contract.ClusterContract(
        cluster=cluster.name,
        platform=cluster.platform.kind,
        fabric=contract.Fabric(
            kind=cluster.fabric.kind,
            mode=cluster.fabric.mode,
            device_resources=dict(wired.devices),
            networks=_networks(cluster, wired),
            environment=dict(wired.environment),
            line_rate_gbps=wired.line_rate_gbps,
            nics_per_node=wired.nics_per_node,
            rdma=fabric.rdma,
            reasons=_reasons(cluster, wired.environment),
            not_set=dict(fabric.not_set),
            annotations=dict(wired.annotations),
            claim=wired.claim,
            capabilities=wired.capabilities,
            hugepages_mib=wired.hugepages_mib,
            host_network=wired.host_network,
            userspace=fabric.userspace,
            proofs=fabric.proofs,
        ),
        node_pools=tuple(_node_pool(cluster, pool) for pool in cluster.pools),
        queues=tuple(
            contract.Queue(
                name=queue.name,
                namespace=queue.namespace,
                cluster_queue=queue.cluster_queue,
                flavors=tuple(flavors[pool] for pool in pools_of[queue.cluster_queue]),
                pools=pools_of[queue.cluster_queue],
            )
            for queue in cluster.queues
        ),
        runtimes=tuple(_runtime(cluster, runtime) for runtime in cluster.runtimes),
        checkpoints=tuple(
            contract.Checkpoint(
                claim=checkpoint.name,
                namespace=checkpoint.namespace,
                mount_path=checkpoint.mount_path,
                size=checkpoint.size,
                storage_class=checkpoint.storage_class,
            )
            for checkpoint in cluster.checkpoints
        ),
        namespaces=cluster.namespaces,
        topology_levels=cluster.topology,
        versions={
            "combination": combination.name,
            "jobset": combination.jobset.version,
            "kueue": combination.kueue.version,
            "trainer": combination.trainer.version,
        },
        researchers=cluster.researchers,
    )


def _runtime(cluster: Cluster, runtime: RuntimeConfig) -> contract.Runtime:
    claims, framework = claims_of(cluster, runtime), framework_of(runtime)
    return contract.Runtime(
        name=runtime.name,
        framework=runtime.framework,
        image=runtime.image,
        container=framework.container,
        gpus_per_node=gpus_of(cluster, runtime),
        environment=environment(cluster, runtime),
        reserved=_reserved(cluster, runtime) | framework.reserved,
        process_prefix=framework.process_prefix,
        pool=runtime.pool,
        shares=tuple(
            contract.Share(gpus=gpus, requests=requests)
            for gpus, requests in shares(cluster, runtime).items()
        ),
        checkpoint=contract.Mount(claim=claims[0].name, path=claims[0].mount_path)
        if claims
        else None,
    )


def _reserved(cluster: Cluster, runtime: RuntimeConfig) -> dict[str, str]:
    """The fabric's variables: a job that sets one takes itself off its network."""
    pinned = (n for n in wiring_of(cluster, runtime).environment if n not in _FREE)
    return dict.fromkeys(pinned, "the cluster's fabric")


def _networks(cluster: Cluster, wired: Wiring) -> tuple[contract.Network, ...]:
    """The networks of every training namespace, or of the one that operators make them in."""
    return tuple(
        contract.Network(
            name=rail.network, namespace=namespace, rail=rail.rail, interface=rail.interface
        )
        for namespace in (
            (cluster.fabric.networks_namespace,)
            if cluster.fabric.networks_namespace is not None
            else cluster.namespaces
        )
        for rail in wired.rails
    )


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
    )


def _reasons(cluster: Cluster, environment: Mapping[str, str]) -> dict[str, str]:
    """Why each variable is set: the catalogue's words, or that the stack says so."""
    machine = cluster.pools[0].instance_type
    known = {v.name: v.reason for v in FABRICS[cluster.fabric.kind].environment_on(machine)}
    own = "set by the stack's own `fabric`"
    return {
        name: own if name in cluster.fabric.environment else known.get(name, own)
        for name in environment
    }


class PublishedContract(pulumi.ComponentResource):
    """The contract's ConfigMap, which every authenticated user may read, and nothing beside it."""

    def __init__(
        self, name: str, args: ContractArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:Contract", name, None, opts)
        namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={"name": contract.NAMESPACE, "labels": {"railhead.dev/managed": "true"}},
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        inside = pulumi.ResourceOptions(parent=self, depends_on=[namespace], deleted_with=namespace)
        kubernetes.core.v1.ConfigMap(
            f"{name}-config-map",
            metadata={"name": contract.CONFIG_MAP, "namespace": contract.NAMESPACE},
            data={contract.KEY: args.contract.to_json()},
            opts=inside,
        )
        reader: kubernetes.meta.v1.ObjectMetaArgsDict = {
            "name": "railhead-contract-reader",
            "namespace": contract.NAMESPACE,
        }
        role = kubernetes.rbac.v1.Role(
            f"{name}-reader",
            metadata=reader,
            rules=[
                {
                    "api_groups": [""],
                    "resources": ["configmaps"],
                    "resource_names": [contract.CONFIG_MAP],
                    "verbs": ["get"],
                }
            ],
            opts=inside,
        )
        kubernetes.rbac.v1.RoleBinding(
            f"{name}-reader-binding",
            metadata=reader,
            role_ref={
                "api_group": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": "railhead-contract-reader",
            },
            subjects=[
                {
                    "api_group": "rbac.authorization.k8s.io",
                    "kind": "Group",
                    "name": "system:authenticated",
                }
            ],
            opts=pulumi.ResourceOptions(parent=self, depends_on=[role], deleted_with=namespace),
        )
        self.register_outputs({"config_map": f"{contract.NAMESPACE}/{contract.CONFIG_MAP}"})
