"""First stacks on clusters that are there already: metal, and AKS."""

from __future__ import annotations

from railhead.machines import MACHINES
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
                "instance_type": machine(answers, "existing"),
                "nodes": count(answers),
                "node_selector": {"railhead.dev/pool": "gpu"},
            }
        ],
    }


def _metal(answers: Answers) -> Section:
    common = _common(answers)
    row = MACHINES[answers["machine"]]
    common["pools"][0]["schedulable"] = {
        "cpu": row.schedulable_vcpus,
        "memory_gib": row.schedulable_memory_gib,
    }
    return {
        **common,
        "gpu_operator": {"driver": "operator", "gpudirect": "dma-buf"},
        "fabric": {
            "kind": "roce",
            "mode": "rdma-shared",
            "mtu": 9000,
            "cluster_ranges": ["10.10.0.0/16", "10.20.0.0/16", "10.30.0.0/16"],
            "network_operator": {"ofed": {"upgrade": "manual"}, "nfd": "operator"},
            "hcas": [f"mlx5_{rail}" for rail in range(8)],
            "ipam": {"kind": "nv-ipam", "pool": "block"},
            "rails": [
                {
                    "name": f"rail-{rail}",
                    "master": f"ens{rail + 1}f0np0",
                    "subnet": f"192.168.{4 * rail}.0/22",
                    "range_end": f"192.168.{4 * rail + 3}.191",
                }
                for rail in range(8)
            ],
        },
        **training("gpu", answers, _IMAGE, "nfs", "10Ti"),
    }


def _azure(answers: Answers) -> Section:
    return {
        **_common(answers),
        # AKS labels no racks.
        "topology": ["kubernetes.azure.com/agentpool", "kubernetes.io/hostname"],
        # AKS' own driver for its GPU nodes is left out (`--gpu-driver none`).
        "gpu_operator": {"driver": "operator"},
        "fabric": {
            "kind": "infiniband",
            "mode": "rdma-shared",
            "cluster_ranges": ["10.224.0.0/12", "10.0.0.0/16"],
            "network_operator": {"ofed": {"upgrade": "manual"}, "nfd": "operator"},
            "hcas": [f"mlx5_{rail}" for rail in range(8)],
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

STARTERS = (
    Starter(
        name="metal",
        kind="existing",
        extra="deploy",
        questions=(
            *_SITE,
            asked("machine", "machine, by `railhead catalog list`", "hgx-h200"),
            asked("nodes", "how many of them", "4"),
            *_NFS,
        ),
        section=_metal,
        notes=(
            "HGX machines on RoCE, in a cluster that is there already. Nothing below Kubernetes is",
            "made: nodes carry the labels below, and switches are lossless (docs/fabric.md).",
            "It holds no secret: the kubeconfig is named, its content enters no state.",
        ),
        comments={
            **COMMENTS,
            "pools": f"{COMMENTS['pools']}\n`schedulable`: what pods can request on a node, by "
            "`kubectl describe node`; makers differ.",
            "fabric": "Interfaces and HCAs as `ibdev2netdev` on a node prints them.",
        },
    ),
    Starter(
        name="azure",
        kind="existing",
        extra="deploy",
        questions=(
            *_SITE,
            asked("machine", "VM size of the GPU nodes", "Standard_ND96isr_H100_v5"),
            asked("nodes", "how many of them", "2"),
            *_NFS,
        ),
        section=_azure,
        notes=(
            "ND machines on InfiniBand, in an AKS cluster that is there already. Nothing below",
            "Kubernetes is made; docs/existing-clusters.md says what nodes must bring.",
            "It holds no secret: the kubeconfig is named, its content enters no state.",
        ),
        comments={
            **COMMENTS,
            "fabric": "The stack brings the topology that the hypervisor hides from NCCL.",
        },
    ),
)
