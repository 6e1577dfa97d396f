"""A first stack on Google Cloud: everything from the VPC up, in a project that has nothing yet."""

from __future__ import annotations

from typing import Any

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

# The last of CUDA 12, whose runtime the plugins for TCPX and TCPXO take from the image.
_IMAGE = "nvcr.io/nvidia/pytorch:25.06-py3"


def _section(answers: Answers) -> Section:
    row = MACHINES[machine(answers, "gcp")]
    [fabric] = row.fabrics
    capacity: dict[str, Any] = {"kind": "on-demand"}
    if answers["reservation"]:
        capacity = {"kind": "reservation", "name": answers["reservation"]}
    # Without it these nodes' labels do not say where they are.
    placed = row.gke is not None and not row.gke.labelled and not answers["reservation"]
    return {
        "name": answers["name"],
        "versions": "proven",
        "platform": {
            "kind": "gcp",
            "project": answers["project"],
            "region": answers["region"],
            "zone": answers["zone"],
            "kubernetes": "1.35",
            "release_channel": "regular",
            "availability": "regional",
            "deletion_protection": True,
            "endpoint": {"kind": "dns"},
            "groups": answers["groups"],
            "network": {
                "kind": "new",
                "nodes": "10.0.0.0/20",
                "pods": "10.4.0.0/14",
                "services": "10.0.32.0/20",
                # One for all of a node's interfaces, as in Google's blueprints (cluster-toolkit,
                # examples/gke-a3-highgpu, gke-a3-megagpu: network1).
                **({"mtu": row.gke.mtu} if row.gke is not None else {}),
            },
            "gpu_networks": {"kind": "new", "cidr": "192.168.0.0/16"},
            # Both begin at a Saturday that is over, as Google's own blueprints have it.
            "maintenance": {
                "start": "2026-01-03T02:00:00Z",
                "end": "2026-01-03T10:00:00Z",
                "recurrence": "FREQ=WEEKLY;BYDAY=SA,SU",
                "no_upgrades_from": "2026-01-03T00:00:00Z",
            },
            "system_pool": {"machine_type": "e2-standard-16", "min_nodes": 2, "max_nodes": 6},
            "storage": [
                {
                    "kind": "filestore",
                    "name": "filestore",
                    "tier": "zonal",
                    "capacity_gib": 10240,
                    # Google's blueprints name one beside GPU networks (cluster-toolkit, examples/
                    # machine-learning, a4-highgpu-8g: filestore_ip_range).
                    "addresses": "10.9.0.0/26",
                }
            ],
        },
        "namespaces": ["training"],
        "researchers": answers["researchers"],
        "topology": [
            "cloud.google.com/gce-topology-block",
            "cloud.google.com/gce-topology-subblock",
            "cloud.google.com/gce-topology-host",
            "kubernetes.io/hostname",
        ],
        "pools": [
            {
                "name": "gpu",
                "instance_type": row.name,
                "nodes": count(answers),
                "node_selector": {"railhead.dev/pool": "gpu"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                "capacity": capacity,
                "placement": {"kind": "compact" if placed else "none"},
                "networking": "additional-networks",
                "disk_size_gb": 200,
                "driver": "default",
            }
        ],
        "fabric": {"kind": fabric, "mode": fabric},
        **training("gpu", answers, _IMAGE, "filestore", "10Ti"),
        "ready_timeout_seconds": 1800,
    }


STARTERS = (
    Starter(
        name="gcp",
        kind="gcp",
        extra="gcp",
        programs=("gke-gcloud-auth-plugin",),
        questions=(
            asked("project", "id of the Google Cloud project", "acme-training"),
            asked("region", "region", "europe-west1"),
            asked("zone", "its zone with the GPU nodes", lambda given: f"{given['region']}-b"),
            asked("groups", "Google Group for RBAC", "gke-security-groups@example.com"),
            asked("researchers", "Google Group of researchers", "ml-researchers@example.com"),
            asked("machine", "machine type of the GPU nodes", "a3-ultragpu-8g"),
            asked("nodes", "how many of them", "2"),
            asked("reservation", "name of a reservation; empty for on-demand", ""),
        ),
        section=_section,
        notes=(
            "Everything from the VPC up is made. Before `pulumi up`: docs/gcp.md, Prerequisites.",
            "It holds no secret. Who runs it needs `gcloud auth application-default login` and",
            "gke-gcloud-auth-plugin; the kubeconfig that comes out asks that for a token.",
        ),
        comments={
            **COMMENTS,
            "platform": "The cluster, its GPU pools and file systems are not deleted by accident.\n"
            "Nodes are upgraded on purpose alone: that ends the jobs on them.",
        },
    ),
)
