"""The text of launch templates: all that a new version of Railhead may word differently.

A node group replaces its nodes for a new version of its template (EKS user guide,
managed-node-update-behavior), so :func:`digest` of it goes into what the stack made, where the
next edit, or the next Railhead, is compared with it. Ids and tags are not in it: ids are other
fields' of the stack, and the template keeps the tags that it was made with.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from railhead.machines import MACHINES, Machine
from railhead.platform.aws.facts import (
    COHERENT_MEMORY,
    KEFALND,
    LUSTRE_MANY_CPUS,
    NITRO_V6,
    TCP_IDLE_SECONDS,
)
from railhead.platform.aws.model import AwsPool, ReservationGroup, SystemPool
from railhead.platform.aws.user_data import NodeSetup, user_data

#: The root device of EKS' Amazon Linux images.
ROOT_DEVICE = "/dev/xvda"
#: The security groups of an interface: the cluster's, and the fabric's.
CLUSTER, FABRIC = "cluster", "fabric"


def interfaces(machine: Machine) -> list[dict[str, Any]]:
    """Return the interfaces of a node, as its row of the catalogue lays them out.

    ``security_groups`` are :data:`CLUSTER` and :data:`FABRIC`. They go on the interfaces, as a
    template that has interfaces takes none of its own, and no subnet, which is the node group's.
    The cluster's group is on the one that has an address, which pods' connections pass: on Nitro v6
    those that are silent for minutes are kept here as on other machines.
    """
    tracking: dict[str, Any] = {}
    if machine.name in NITRO_V6:
        tracking["connection_tracking_specification"] = {
            "tcp_established_timeout": TCP_IDLE_SECONDS
        }
    return [
        {
            "network_card_index": nic.card,
            "device_index": nic.device,
            "interface_type": nic.interface,
            "security_groups": [FABRIC] if nic.interface == "efa-only" else [CLUSTER, FABRIC],
            "delete_on_termination": "true",
            **({} if nic.interface == "efa-only" else tracking),
        }
        for nic in (*machine.host_nics, *machine.nics)
    ]


def root_volume(gib: int) -> dict[str, Any]:
    """Return the root volume, encrypted, of ``gib`` GiB."""
    return {
        "device_name": ROOT_DEVICE,
        "ebs": {
            "volume_size": gib,
            "volume_type": "gp3",
            "encrypted": "true",
            "delete_on_termination": "true",
        },
    }


def metadata_options() -> dict[str, Any]:
    """Session tokens only, which do not reach into a pod: its rights come by pod identity."""
    return {
        "http_endpoint": "enabled",
        "http_tokens": "required",
        "http_put_response_hop_limit": 1,
        "instance_metadata_tags": "disabled",
    }


def capacity_preference(pool: AwsPool) -> str | None:
    """Return what keeps a pool on a group of reservations to them; None for any other pool.

    Without it EC2 starts on demand what the group has no machine for (EC2 user guide,
    cr-groups-launch), where in a reservation that is named it starts none.
    """
    return "capacity-reservations-only" if isinstance(pool.purchase, ReservationGroup) else None


def node_setup(pool: AwsPool, lustre_efa_devices: int) -> NodeSetup:
    """Return the setup of a pool's nodes before they join."""
    machine = MACHINES[pool.instance_type]
    return NodeSetup(
        raid=pool.local_storage == "raid0",
        gpus_by_request=True,
        hugepages_2mib=pool.hugepages_2mib,
        # Whatever has EFA registers memory with it.
        lock_memory="efa" in machine.fabrics,
        nic_to_gpu=pool.instance_type in COHERENT_MEMORY,
        lustre_threads=(machine.vcpus or 0) > LUSTRE_MANY_CPUS,
        lustre_efa=lustre_efa_devices,
        kefalnd=KEFALND.get(pool.instance_type, "") if lustre_efa_devices else "",
    )


def digest(pool: AwsPool | SystemPool, lustre_efa_devices: int = 0) -> str:
    """Return 12 hexadecimal digits that change when the text of the pool's template does."""
    text: dict[str, Any] = {
        "root volume": root_volume(pool.root_volume_gib),
        "metadata options": metadata_options(),
    }
    if isinstance(pool, AwsPool):
        if preference := capacity_preference(pool):
            text["capacity"] = preference
        text["interfaces"] = interfaces(MACHINES[pool.instance_type])
        text["user data"] = user_data(node_setup(pool, lustre_efa_devices))
    return hashlib.sha256(json.dumps(text, sort_keys=True).encode()).hexdigest()[:12]
