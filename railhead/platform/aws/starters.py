"""A first stack on AWS: everything from the VPC up, in an account that has nothing yet."""

from __future__ import annotations

from railhead.base.errors import InputError
from railhead.platform.aws.facts import (
    CAPACITY_BLOCK_ONLY,
    NETWORK_LAYER,
    NETWORK_LAYER_REGIONS,
    NETWORK_LAYERS,
)
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


def _machine(answers: Answers) -> str:
    """Return the machine of the answers.

    Raises:
        InputError: it is sold in a way that needs more than the answers say.
    """
    name = machine(answers, "aws")
    if name in CAPACITY_BLOCK_ONLY:
        raise InputError(
            f"machine: {name!r} comes in capacity blocks alone, in a Local Zone of a network that "
            "is there already",
            remedy="write the stack's file after stacks/Pulumi.aws-p5en-block.yaml (docs/aws.md)",
        )
    return name


def _zones(answers: Answers) -> str:
    """Return three zones, the GPU nodes' first. Accounts differ: Tokyo's `b` is few accounts'."""
    region = answers["region"]
    letters = dict.fromkeys((answers["zone"].removeprefix(region), "a", "b", "c"))
    return ",".join(f"{region}{letter}" for letter in list(letters)[:3])


def _topology(region: str, kind: str) -> list[str]:
    """Return the labels that EC2 gives nodes of a type in a region, and their own name."""
    layers = NETWORK_LAYERS.get(kind, 0) if region in NETWORK_LAYER_REGIONS else 0
    return [*(f"{NETWORK_LAYER}{n + 1}" for n in range(layers)), "kubernetes.io/hostname"]


def _capacity(answers: Answers) -> Section:
    """Return a pool's capacity. On demand its machines are together only if a group says so."""
    if not answers["reservation"]:
        return {"purchase": {"kind": "on-demand"}, "placement_group": {"kind": "new"}}
    return {
        "purchase": {
            "kind": "reservation",
            "id": answers["reservation"],
            "availability_zone": answers["zone"],
        }
    }


def _section(answers: Answers) -> Section:
    region, zone, kind = answers["region"], answers["zone"], _machine(answers)
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
                "availability_zones": answers["zones"].split(","),
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
        "topology": _topology(region, kind),
        "pools": [
            {
                "name": "gpu",
                "instance_type": kind,
                "nodes": count(answers),
                "availability_zone": zone,
                "node_selector": {"railhead.dev/pool": "gpu"},
                "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                **_capacity(answers),
                "root_volume_gib": 500,
            }
        ],
        "gpu_operator": {"driver": "host", "toolkit": "host", "dcgm_exporter": False},
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
            asked("zones", "the network's zones that the account has, at least two", _zones),
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
