"""First stacks on clusters that are there already: metal, AKS and OKE."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from railhead.base.errors import InputError
from railhead.machines import MACHINES, Machine
from railhead.platform.existing.storage import MOUNT_OPTIONS_3
from railhead.platform.starter import (
    COMMENTS,
    Answers,
    Section,
    Starter,
    asked,
    count,
    machine,
    training,
)

_IMAGE = "nvcr.io/nvidia/pytorch:26.03-py3"


def _row(answers: Answers, provider: str) -> Machine:
    """Return the machine of the answers.

    Raises:
        InputError: it is no machine of a cluster that is there, or another provider's.
    """
    row = MACHINES[machine(answers, "existing")]
    if row.provider != provider:
        own = (name for name, other in MACHINES.items() if other.provider == provider)
        raise InputError(
            f"machine: {row.name!r} is of {row.provider!r}; of {provider!r} are: "
            f"{', '.join(sorted(own))}",
            remedy="give one of these, or another --platform",
        )
    return row


def _hcas(row: Machine) -> dict[str, list[str]]:
    """Return names for RDMA devices that the catalogue has no names for."""
    return {} if row.hcas else {"hcas": [f"mlx5_{rail}" for rail in range(len(row.nics))]}


def _nvlink(row: Machine) -> dict[str, bool]:
    """Return the field that brings NVLink between nodes into pods, on racks that have it."""
    return {"compute_domains": True} if row.spans_nodes else {}


def _common(answers: Answers) -> Section:
    return {
        "name": answers["name"],
        "versions": "jobset-0.11",
        "platform": {
            "kind": "existing",
            "kubeconfig": answers["kubeconfig"],
            "identity": answers["name"],
            "nfs": {
                "directory": answers["name"],
                "classes": [
                    {"name": "nfs", "server": answers["server"], "share": answers["share"]}
                ],
            },
        },
        "namespaces": ["training"],
        "researchers": answers["researchers"],
        "topology": ["topology.example.com/rack", "kubernetes.io/hostname"],
        "pools": [
            {
                "name": "gpu",
                "instance_type": answers["machine"],
                "nodes": count(answers),
                "node_selector": {"railhead.dev/pool": "gpu"},
            }
        ],
    }


def _metal(answers: Answers) -> Section:
    common, row = _common(answers), _row(answers, "metal")
    common["pools"][0]["schedulable"] = {
        "cpu": row.schedulable_vcpus,
        "memory_gib": row.schedulable_memory_gib,
    }
    return {
        **common,
        "gpu_operator": {"driver": "operator", "gpudirect": "dma-buf", **_nvlink(row)},
        "fabric": {
            "kind": "roce",
            "mode": "rdma-shared",
            "mtu": 9000,
            "cluster_ranges": ["10.10.0.0/16", "10.20.0.0/16", "10.30.0.0/16"],
            "network_operator": {"ofed": {"upgrade": "manual"}, "nfd": "operator"},
            **_hcas(row),
            "ipam": {"kind": "nv-ipam", "pool": "block"},
            "rails": [
                {
                    "name": f"rail-{rail}",
                    "master": f"ens{rail + 1}f0np0",
                    "subnet": f"192.168.{4 * rail}.0/22",
                    "range_end": f"192.168.{4 * rail + 3}.191",
                }
                for rail in range(len(row.nics))
            ],
        },
        **training("gpu", answers, _IMAGE, "nfs", "10Ti"),
    }


def _azure(answers: Answers) -> Section:
    row = _row(answers, "azure")
    return {
        **_common(answers),
        # AKS labels no racks.
        "topology": ["kubernetes.azure.com/agentpool", "kubernetes.io/hostname"],
        # AKS' own driver for its GPU nodes is left out (`--gpu-driver none`).
        "gpu_operator": {"driver": "operator", **_nvlink(row)},
        "fabric": {
            "kind": "infiniband",
            "mode": "rdma-shared",
            "cluster_ranges": ["10.224.0.0/12", "10.0.0.0/16"],
            "network_operator": {"ofed": {"upgrade": "manual"}, "nfd": "operator"},
            **_hcas(row),
        },
        **training("gpu", answers, _IMAGE, "nfs", "10Ti"),
    }


def _oke(answers: Answers) -> Section:
    _row(answers, "oci")
    common = _common(answers)
    # GPU nodes have a taint by default (oci-hpc-oke 61d210a, docs/running-ib-write-bw-test.md).
    common["pools"][0]["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    common["platform"]["nfs"]["classes"][0]["mount_options"] = list(MOUNT_OPTIONS_3)
    return {
        **common,
        # As Oracle's labeler puts them on nodes.
        "topology": [
            "oci.oraclecloud.com/rdma.hpc_island_id",
            "oci.oraclecloud.com/rdma.network_block_id",
            "oci.oraclecloud.com/rdma.local_block_id",
            "kubernetes.io/hostname",
        ],
        # Oracle's add-ons bring GPUs and Node Feature Discovery.
        "fabric": {
            "kind": "roce",
            "mode": "rdma-shared",
            "host_network": True,
            "network_operator": {"nfd": "existing"},
        },
        **training("gpu", answers, _IMAGE, "nfs", "10Ti"),
    }


_SITE = (
    asked("kubeconfig", "the cluster's kubeconfig", lambda given: f"~/.kube/{given['name']}"),
    asked("researchers", "group of researchers, by the API server's own login", "ml-researchers"),
)
_NFS = (
    asked("server", "NFS server of the checkpoints", "nfs.example.com"),
    asked("share", "its share", "/export/training"),
)


def _starter(
    *,
    name: str,
    asks: str,
    default: str,
    nodes: str,
    section: Callable[[Answers], Section],
    notes: tuple[str, ...],
    comments: Mapping[str, str],
) -> Starter:
    """Return the first stack of one kind of cluster, which asks for a machine so called."""
    return Starter(
        name=name,
        kind="existing",
        extra="deploy",
        questions=(
            *_SITE,
            asked("machine", asks, default),
            asked("nodes", "how many of them", nodes),
            *_NFS,
        ),
        section=section,
        notes=(
            *notes,
            "It holds no secret: the kubeconfig is named, its content enters no state.",
        ),
        comments={**COMMENTS, **comments},
    )


STARTERS = (
    _starter(
        name="metal",
        asks="machine, by `railhead catalog list`",
        default="hgx-h200",
        nodes="4",
        section=_metal,
        notes=(
            "HGX machines on RoCE, in a cluster that is there already. Nothing below Kubernetes is",
            "made: nodes carry the labels below, and switches are lossless (docs/fabric.md).",
        ),
        comments={
            "pools": f"{COMMENTS['pools']}\n`schedulable`: what pods can request on a node, by "
            "`kubectl describe node`; makers differ.",
            "fabric": "Interfaces and HCAs as `ibdev2netdev` on a node prints them.",
        },
    ),
    _starter(
        name="azure",
        asks="VM size of the GPU nodes",
        default="Standard_ND96isr_H100_v5",
        nodes="2",
        section=_azure,
        notes=(
            "ND machines on InfiniBand, in an AKS cluster that is there already. Nothing below",
            "Kubernetes is made; docs/existing-clusters.md says what nodes must bring.",
        ),
        comments={"fabric": "The stack brings the topology that the hypervisor hides from NCCL."},
    ),
    _starter(
        name="oke",
        asks="shape of the GPU nodes",
        default="BM.GPU.H100.8",
        nodes="2",
        section=_oke,
        notes=(
            "Bare-metal shapes on OKE, by Oracle's Terraform stack without virtual functions: jobs",
            "use the nodes' network. docs/existing-clusters.md says what that stack must have set.",
        ),
        comments={
            "platform": "Oracle's File Storage speaks NFS 3; of another server leave "
            "`mount_options` out.",
            "fabric": "With virtual functions: mode provider-native (docs/fabric.md).",
        },
    ),
)
