"""Puts the node gate, queues and one mode of the fabric into a cluster that is there already.

Kueue and Multus run in it. Nothing is read of a stack of Railhead's: each part takes what it needs.
"""

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.catalog.versions import COMBINATIONS
from railhead.components.fabric.fabric import Fabric
from railhead.components.fabric.objects import FabricArgs
from railhead.components.guards.node_gate import GatedPool, NodeGate, NodeGateArgs
from railhead.components.queueing.queues import Queues, QueuesArgs
from railhead.fabric.modes.rdma_shared import RdmaSharedFabric
from railhead.fabric.railed import NetworkOperatorConfig, Rail
from railhead.gate.expectation import Expectation, Interface
from railhead.gate.state import LABEL, READY
from railhead.model.cluster import Pool
from railhead.resolve.queues import ClusterQueue, Flavor

NODES = {"example.com/pool": "h100"}
cluster = kubernetes.Provider(
    "cluster",
    kubeconfig=pulumi.Config().require("kubeconfig"),
    cluster_identifier="parts",
)
here = pulumi.ResourceOptions(providers=[cluster])

# Two rails over RoCE, whose HCAs all pods of a node share.
fabric = Fabric(
    "fabric",
    FabricArgs(
        fabric=RdmaSharedFabric(
            kind="roce",
            mode="rdma-shared",
            network_operator=NetworkOperatorConfig(),
            rails=(
                Rail(name="rail-0", master="ens1", subnet="10.10.0.0/24"),
                Rail(name="rail-1", master="ens2", subnet="10.10.1.0/24"),
            ),
        ),
        pools=[Pool(name="h100", instance_type="dgx-h100", nodes=4, node_selector=NODES)],
        addons=COMBINATIONS["proven"].addons,
        jobs_label="jobset.sigs.k8s.io/jobset-name",
    ),
    opts=here,
)

# A node is used once both ports are up at their full rate, and no longer than they are.
gate = NodeGate(
    "gate",
    NodeGateArgs(
        pools=[
            GatedPool(
                name="h100",
                node_selector=NODES,
                expectation=Expectation(
                    fabric="roce",
                    verbs=True,
                    link_layer="Ethernet",
                    rate_gbps=400,
                    interfaces=(Interface(name="ens1"), Interface(name="ens2")),
                ),
            )
        ],
        after=fabric.ready,
    ),
    opts=here,
)

Queues(
    "queues",
    QueuesArgs(
        topology="hosts",
        levels={"levels": [{"nodeLabel": "kubernetes.io/hostname"}]},
        flavors=[
            Flavor(
                pool="h100",
                name="h100",
                spec={"nodeLabels": {**NODES, LABEL: READY}, "topologyName": "hosts"},
            )
        ],
        cluster_queues=[
            ClusterQueue(
                name="training",
                pools=("h100",),
                spec={
                    "namespaceSelector": {},
                    "resourceGroups": [
                        {
                            "coveredResources": ["nvidia.com/gpu"],
                            "flavors": [
                                {
                                    "name": "h100",
                                    "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 32}],
                                }
                            ],
                        }
                    ],
                },
            )
        ],
        after=[gate],
    ),
    opts=here,
)
