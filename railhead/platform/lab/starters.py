"""A first stack on this machine's lab, for which nothing needs to be known."""

from __future__ import annotations

from railhead.platform.starter import (
    COMMENTS,
    Answers,
    Section,
    Starter,
    asked,
    count,
    training,
)

_IMAGE = "railhead.local/torch-cpu:lab"


def _section(answers: Answers) -> Section:
    named = {**answers, "machine": "lab.8gpu"}
    rest = training("gpu", named, _IMAGE, "railhead-shared", "10Gi")
    for runtime in rest["runtimes"]:
        # Nodes share this machine's cores.
        runtime |= {
            "cpu": "200m",
            "memory": "512Mi",
            "shared_memory": "256Mi",
            "grace_seconds": 10,
        }
    return {
        "name": answers["name"],
        "versions": "lab",
        "platform": {"kind": "lab"},
        "namespaces": ["training"],
        "researchers": "railhead:researchers",
        "topology": [
            "topology.railhead.dev/block",
            "topology.railhead.dev/rack",
            "kubernetes.io/hostname",
        ],
        "pools": [
            {
                "name": "gpu",
                "instance_type": "lab.8gpu",
                "nodes": count(answers),
                "node_selector": {"railhead.dev/pool": "gpu"},
            }
        ],
        "fabric": {
            "kind": "roce",
            "mode": "rdma-shared",
            "mtu": 1500,
            "lock_memory": False,
            "rails": [
                {
                    "name": "rail-0",
                    "master": "rail0",
                    "subnet": "192.168.128.0/20",
                    "range_start": "192.168.136.1",
                    "range_end": "192.168.143.254",
                }
            ],
            "ipam": {"kind": "host-local", "data_dir": "/var/lib/railhead/rail-ipam"},
        },
        "gate": {"image": _IMAGE, "period_seconds": 2},
        "default_queue": True,
        **rest,
        "access": {"pod_security": "privileged"},
        "network_policy": {"dns": ["10.210.0.1/32"]},
        "controllers": {"cpu": "20m", "memory": "64Mi", "memory_limit": "512Mi"},
    }


STARTERS = (
    Starter(
        name="lab",
        kind="lab",
        extra="deploy",
        questions=(asked("nodes", "how many nodes the lab has", "2"),),
        section=_section,
        notes=("A whole cluster on this machine: `railhead lab up`, then `pulumi up`.",),
        comments={
            **COMMENTS,
            "gate": "The image of the lab that has a Python.",
            "access": "What RoCE on metal takes, whose pods lock memory.",
            "network_policy": "The lab's name server is no pod: it runs beside the API server.",
            "controllers": "The charts ask for half a core each, too much for a small machine.",
        },
    ),
)
