"""A first stack on AWS: everything from the VPC up, in an account that has nothing yet."""

from __future__ import annotations

from typing import Any

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

_IMAGE = (
    "public.ecr.aws/deep-learning-containers/pytorch-training:"
    "2.8.0-gpu-py312-cu129-ubuntu22.04-ec2-v1.0"
)


def _section(answers: Answers) -> Section:
    region, zone = answers["region"], answers["zone"]
    letters = dict.fromkeys((zone.removeprefix(region), "a", "b", "c"))
    purchase: dict[str, Any] = {"kind": "on-demand"}
    if answers["reservation"]:
        purchase = {
            "kind": "reservation",
            "id": answers["reservation"],
            "availability_zone": zone,
        }
    return {
        "name": answers["name"],
        "versions": "proven",
        "platform": {
            "kind": "aws",
            "region": region,
            "account": answers["account"],
            "kubernetes": "1.35",
            "deletion_protection": True,
            "network": {
                "kind": "new",
                "cidr": "10.20.0.0/16",
                "availability_zones": [f"{region}{letter}" for letter in list(letters)[:3]],
                "nat": "per-zone",
            },
            "endpoint": {"kind": "public", "from_cidrs": [answers["office"]]},
            "administrators": [answers["administrator"]],
            "researchers": [answers["researchers"]],
            "storage": [
                {
                    "kind": "lustre",
                    "name": "lustre",
                    "availability_zone": zone,
                    "capacity_gib": 4800,
                    "throughput": 250,
                    "backup_days": 7,
                }
            ],
        },
        "namespaces": ["training"],
        "researchers": "ml-researchers",
        "network_policy": {"egress": [{"cidr": "0.0.0.0/0", "ports": [443]}]},
        "topology": [
            "topology.k8s.aws/network-node-layer-1",
            "topology.k8s.aws/network-node-layer-2",
            "topology.k8s.aws/network-node-layer-3",
            "kubernetes.io/hostname",
        ],
        "pools": [
            {
                "name": "gpu",
                "instance_type": machine(answers, "aws"),
                "nodes": count(answers),
                "availability_zone": zone,
                "node_selector": {"railhead.dev/pool": "gpu"},
                "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                "purchase": purchase,
                "root_volume_gib": 500,
            }
        ],
        "gpu_operator": {"driver": "host", "toolkit": "host"},
        "fabric": {"kind": "efa", "mode": "efa"},
        **training("gpu", answers, _IMAGE, "lustre", "4800Gi"),
        "ready_timeout_seconds": 1800,
    }


STARTERS = (
    Starter(
        name="aws",
        kind="aws",
        extra="aws",
        programs=("aws",),
        questions=(
            asked("region", "AWS region", "us-east-2"),
            asked("zone", "its zone with the GPU nodes", lambda given: f"{given['region']}a"),
            asked("account", "id of the AWS account", "123456789012"),
            asked(
                "administrator",
                "IAM role that runs `pulumi up`",
                lambda given: f"arn:aws:iam::{given['account']}:role/platform-engineers",
            ),
            asked(
                "researchers",
                "IAM role of researchers",
                lambda given: f"arn:aws:iam::{given['account']}:role/ml-researchers",
            ),
            asked("office", "network from which people reach the API server", "203.0.113.0/24"),
            asked("machine", "instance type of the GPU nodes", "p5.48xlarge"),
            asked("nodes", "how many of them", "2"),
            asked("reservation", "id of a capacity reservation; empty for on-demand", ""),
        ),
        section=_section,
        notes=(
            "Everything from the VPC up is made. Before `pulumi up`: docs/aws.md, Prerequisites.",
            "It holds no secret. Who runs it needs AWS credentials of the administrator and the",
            "AWS CLI; the kubeconfig that comes out asks that for a token.",
        ),
        comments={
            **COMMENTS,
            "platform": "Credentials of another account are refused.",
            "network_policy": "Jobs reach each other, name servers and, by HTTPS, everything else.",
            "gpu_operator": "EKS' accelerated image has driver and container toolkit.",
        },
    ),
)
