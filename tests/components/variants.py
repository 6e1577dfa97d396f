"""Shipped stacks with what none of them says, so that all that the components can make is made."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from railhead.platform.aws.facts import ecr
from tests.components.made import made
from tests.components.recording import recorded, run_stack, stack_cluster

#: Name -> the shipped stack that it changes.
VARIANTS = {"aws": "aws-p5-prod", "gcp": "gcp-a3-mega", "existing": "onprem-roce-shared"}


def variant(name: str) -> dict[str, Any]:
    """The `railhead:cluster` of a variant."""
    cluster = stack_cluster(VARIANTS[name])
    cluster["watching"] = {"kind": "files", "acceptance": {"image": "registry.example.com/r:1"}}
    platform, pool = cluster["platform"], cluster["pools"][0]
    {"aws": _aws, "gcp": _gcp, "existing": _existing}[name](cluster, platform, pool)
    return cluster


def made_otherwise(name: str) -> str:
    """What a variant makes and its stack does not, or otherwise."""
    stack = VARIANTS[name]
    with tempfile.TemporaryDirectory() as folder:
        found = run_stack(stack, Path(folder), cluster=variant(name))
    return made(found, beside=recorded(stack))


def _aws(cluster: dict[str, Any], platform: dict[str, Any], pool: dict[str, Any]) -> None:
    platform |= {
        "oidc": {
            "issuer": "https://login.example.com",
            "client_id": "kubernetes",
            "groups_prefix": "oidc:",
            "username_prefix": "oidc:",
            "required_claims": {"team": "training"},
        },
        "image_caches": [{"registry": "quay.io", "prefix": "quay"}],
        "addon_versions": {"coredns": "v1.14.6-eksbuild.4"},
        "tags": {"cost-center": "research"},
    }
    cluster["researchers"] = "oidc:researchers"
    cluster["registry_mirrors"] = {"quay.io": f"{ecr(platform['account'], 'us-east-2')}/quay"}
    platform["network"]["transit_gateway"] = {
        "id": "tgw-0b1b2c3d4e5f60718",
        "cidrs": ["10.1.0.0/16"],
    }
    pool |= {"labels": {"acme.com/team": "vision"}, "hugepages_2mib": 4096}


def _gcp(cluster: dict[str, Any], platform: dict[str, Any], pool: dict[str, Any]) -> None:
    platform["project_number"] = "123456789012"
    platform["network"]["google_services"] = "10.8.0.0/20"
    platform["endpoint"] = {"kind": "private", "authorized_networks": ["10.0.0.0/20"]}
    platform["storage"] += [
        {"kind": "bucket", "name": "datasets", "bucket": "acme-datasets", "cache_gib": 2000},
        {"kind": "lustre", "name": "lustre", "capacity_gib": 18000, "throughput": 1000},
    ]
    pool |= {
        "labels": {"acme.com/team": "vision"},
        "taints": [{"key": "acme.com/held", "value": "yes", "effect": "NoSchedule"}],
        "tolerations": [*pool["tolerations"], {"key": "acme.com/held", "operator": "Exists"}],
        "image_streaming": True,
        "host_maintenance": "periodic",
    }
    cluster["checkpoints"].append(
        {
            "name": "datasets",
            "namespace": "training",
            "storage_class": "datasets",
            "size": "1Ti",
            "mount_path": "/datasets",
        }
    )


def _existing(cluster: dict[str, Any], platform: dict[str, Any], pool: dict[str, Any]) -> None:
    del platform, pool
    cluster |= {
        "default_queue": True,
        "pod_groups": True,
        "controllers": {"cpu": "100m", "memory": "128Mi", "memory_limit": "1Gi"},
        "registry_mirrors": {"nvcr.io": "mirror.example.com/nvidia"},
    }
