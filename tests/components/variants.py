"""Shipped stacks with what none of them says, so that all that the components can make is made."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from railhead.platform.aws.facts import ecr
from tests.components import fabrics
from tests.components.made import made
from tests.components.recording import recorded, run_stack, stack_cluster

#: Name -> the shipped stack that it changes.
VARIANTS = {
    "aws": "aws-p5-prod",
    "aws-dra": "aws-p5en-block",
    "gcp": "gcp-a3-mega",
    "gcp-dranet": "gcp-a3-ultra",
    "existing": "onprem-roce-shared",
    "volcano": "onprem-ib-sriov",
    "whole-nics": "onprem-ib-sriov",
    "ipoib": "onprem-ib-sriov",
    "dranet": "onprem-ib-sriov",
}

_WATCHED = {"kind": "files", "acceptance": {"image": "registry.example.com/r:1"}}


def variant(name: str) -> dict[str, Any]:
    """Return the `railhead:cluster` of a variant."""
    cluster = stack_cluster(VARIANTS[name])
    _CHANGES[name](cluster, cluster["platform"], cluster["pools"][0])
    return cluster


def made_otherwise(name: str) -> str:
    """Return what a variant makes that its stack does not make, or makes differently."""
    stack = VARIANTS[name]
    with tempfile.TemporaryDirectory() as folder:
        result = run_stack(stack, Path(folder), cluster=variant(name))
    return made(result, beside=recorded(stack))


def _aws(cluster: dict[str, Any], platform: dict[str, Any], pool: dict[str, Any]) -> None:
    cluster["watching"] = _WATCHED
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
    cluster["watching"] = _WATCHED
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
    cluster["watching"] = _WATCHED
    del platform, pool
    cluster |= {
        "default_queue": True,
        "pod_groups": True,
        "controllers": {"cpu": "100m", "memory": "128Mi", "memory_limit": "1Gi"},
        "registry_mirrors": {"nvcr.io": "mirror.example.com/nvidia"},
    }


def _aws_dra(cluster: dict[str, Any], platform: dict[str, Any], pool: dict[str, Any]) -> None:
    platform["addon_versions"] = {"kube-proxy": "default"}
    platform["members"] = {"ml-leads": ["arn:aws:iam::123456789012:role/ml-leads"]}
    platform["s3_access"] = [
        {
            "namespace": "training",
            "buckets": [
                {
                    "name": "acme-encrypted",
                    "write": True,
                    "kms_key": "arn:aws:kms:us-west-2:123456789012:key/1234abcd-12ab-34cd",
                }
            ],
        }
    ]
    pool |= {
        "purchase": {"kind": "on-demand"},
        "placement_group": {"kind": "new"},
        "local_storage": "none",
    }
    cluster |= {
        "access": {"leads": ["ml-leads"]},
        "network_policy": {"egress": [{"cidr": "0.0.0.0/0", "ports": [443]}]},
    }
    cluster["fabric"]["allocation"] = "dra"


def _gcp_dranet(cluster: dict[str, Any], platform: dict[str, Any], pool: dict[str, Any]) -> None:
    platform |= {
        "kubernetes": "1.35",
        "network": {
            "kind": "existing",
            "project": "acme-shared-vpc",
            "network": "training",
            "subnetwork": "training-nodes",
            "pods_range": "pods",
            "services_range": "services",
            "service_connection": True,
            "storage_names": True,
        },
    }
    del platform["gpu_networks"], platform["maintenance"]
    pool |= {
        "networking": "dranet",
        "capacity": {"kind": "on-demand"},
        "placement": {"kind": "compact", "max_distance": 2},
    }
    cluster["fabric"] = {"kind": "gcp-rdma", "mode": "dranet", "driver": "managed"}


def _volcano(cluster: dict[str, Any], platform: dict[str, Any], pool: dict[str, Any]) -> None:
    cluster["fabric"] = _railed("sriov-roce") | {
        "ipam": {"kind": "nv-ipam", "pool": "prefix"},
        "network_operator": {
            "ofed": {
                "upgrade": "manual",
                "version": "doca3.2.0-25.10-1.2.8.0-2",
                "environment": {"UNLOAD_STORAGE_MODULES": "true"},
            }
        },
    }
    cluster |= {
        "queueing": {"scheduler": "volcano"},
        "controllers": {"cpu": "100m", "memory": "128Mi", "memory_limit": "1Gi"},
        "watching": {"kind": "prometheus-operator", "labels": {"release": "prometheus"}},
        "access": {"image_pull_secrets": [{"name": "registry"}], "viewers": ["auditors"]},
        "network_policy": {"ingress_namespaces": ["monitoring"]},
    }


def _whole_nics(cluster: dict[str, Any], platform: dict[str, Any], pool: dict[str, Any]) -> None:
    cluster["fabric"] = _railed("host-device")
    for index, rail in enumerate(cluster["fabric"]["rails"]):
        rail["gateway"] = f"192.168.{16 * index}.1"
    cluster["gpu_operator"] |= {
        "driver": "operator",
        "driver_version": "580.95.05",
        "gpudirect": "peermem",
    }
    cluster["checkpoints"][0]["retention"] = {"days": 30, "keep": 3, "delete": True}
    cluster["datasets"] = [
        {
            "name": "imagenet",
            "namespace": "training",
            "volume": "imagenet",
            "mount_path": "/data/imagenet",
        }
    ]


def _ipoib(cluster: dict[str, Any], platform: dict[str, Any], pool: dict[str, Any]) -> None:
    cluster["fabric"] = _railed("ipoib", "infiniband")
    cluster["gpu_operator"]["nfd"] = "existing"


def _dranet(cluster: dict[str, Any], platform: dict[str, Any], pool: dict[str, Any]) -> None:
    name = 'device.attributes["dra.net"].ifName'
    selector = f'has({name}) && {name}.startsWith("ibp")'
    cluster["fabric"] = {
        "kind": "infiniband",
        "mode": "dranet",
        "driver": "install",
        "selector": selector,
    }
    cluster["gpu_operator"] |= {"allocation": "dra", "compute_domains": True}
    pool["instance_type"] = "dgx-gb200"
    del pool["schedulable"]
    for runtime in cluster["runtimes"]:
        runtime |= {"cpu": "128", "memory": "700Gi"}


def _railed(mode: str, fabric: str = "roce") -> dict[str, Any]:
    """Return every rail of a machine of eight, as the table of fabrics has them."""
    (case,) = (
        c for c in fabrics.cases() if (c.mode, c.fabric, c.platform) == (mode, fabric, "existing")
    )
    return fabrics.fabric(case)


_CHANGES = {
    "aws": _aws,
    "aws-dra": _aws_dra,
    "gcp": _gcp,
    "gcp-dranet": _gcp_dranet,
    "existing": _existing,
    "volcano": _volcano,
    "whole-nics": _whole_nics,
    "ipoib": _ipoib,
    "dranet": _dranet,
}
