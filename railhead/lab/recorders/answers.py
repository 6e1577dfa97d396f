"""The clouds' answers to the data sources that components read; an unknown one fails.

What an account alone knows, such as the zone of a subnet, is taken from the stack that is planned
(:func:`learn`): a plan holds no fact against the file, and asks an account for none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from railhead.lab.recorders.shapes import ACCOUNT, EXISTING, REGION

#: Names a file with the stack's section, for the recorders of a plan.
SECTION = "RAILHEAD_PLANNED_SECTION"
#: Subnet of the stack's own VPC -> its zone.
ZONES: dict[str, str] = {}
#: The same subnets -> their VPC.
VPCS: dict[str, str] = {}
#: Capacity block -> what EC2 says about it.
BLOCKS: dict[str, Mapping[str, Any]] = {}

ANSWERS: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "aws:index/getCallerIdentity:getCallerIdentity": lambda _: {
        "accountId": ACCOUNT,
        "arn": f"arn:aws:iam::{ACCOUNT}:user/engineer",
        "id": ACCOUNT,
        "userId": "AIDAEXAMPLE",
    },
    "aws:index/getPartition:getPartition": lambda _: {
        "partition": "aws",
        "dnsSuffix": "amazonaws.com",
        "reverseDnsPrefix": "com.amazonaws",
        "id": "aws",
    },
    # The engine's own: a stack that made nothing yet.
    "pulumi:pulumi:readStackOutputs": lambda arguments: {
        "name": arguments["name"],
        "outputs": {},
        "secretOutputNames": [],
    },
    "aws:ec2/getCapacityBlockReservation:getCapacityBlockReservation": lambda arguments: {
        "id": arguments["id"],
        **BLOCKS[arguments["id"]],
    },
    "aws:eks/getAddonVersion:getAddonVersion": lambda arguments: {
        **arguments,
        "id": arguments["addonName"],
        # No version: EKS names one on the day of the update.
        "version": f"{'newest' if arguments.get('mostRecent') else 'default'}"
        f"-for-{arguments['kubernetesVersion']}",
    },
    # An account in which nothing runs yet.
    "aws:eks/getClusters:getClusters": lambda _: {"id": REGION, "names": []},
    # Its subnets.
    "aws:ec2/getSubnet:getSubnet": lambda arguments: {
        "id": arguments["id"],
        "availabilityZone": ZONES[arguments["id"]],
        "vpcId": VPCS[arguments["id"]],
    },
    "aws:index/getRegion:getRegion": lambda _: {
        "name": REGION,
        "region": REGION,
        "id": REGION,
        "endpoint": f"ec2.{REGION}.amazonaws.com",
        "description": "US East (N. Virginia)",
    },
}


def learn(section: Mapping[str, Any]) -> None:
    """Have everything that a stack takes to exist in its account exist there.

    Args:
        section: the value of ``railhead:cluster``, which is correct.
    """
    network, region = section["platform"].get("network") or {}, section["platform"].get("region")
    if isinstance(network, Mapping):
        for zone, subnet in (network.get("private_subnets") or {}).items():
            ZONES[subnet], VPCS[subnet] = zone, network["vpc_id"]
    for pool in section.get("pools") or ():
        purchase = pool.get("purchase") or {}
        there = {
            "availabilityZone": purchase.get("availability_zone"),
            "instanceCount": pool["nodes"],
            "instanceType": pool["instance_type"],
            "instancePlatform": "Linux/UNIX",
            "tenancy": "default",
        }
        if purchase.get("kind") == "reservation":
            EXISTING["aws:ec2/capacityReservation:CapacityReservation", purchase["id"]] = {
                **there,
                "arn": f"arn:aws:ec2:{region}:{ACCOUNT}:capacity-reservation/{purchase['id']}",
                "endDateType": "unlimited",
                "instanceMatchCriteria": "targeted",
                "ownerId": ACCOUNT,
                **_placed(pool, region),
            }
        elif purchase.get("kind") == "capacity-block":
            BLOCKS[purchase["id"]] = {
                **there,
                "reservationType": "capacity-block",
                "startDate": purchase["starts"],
                "endDate": purchase["ends"],
                "state": "scheduled",
            }


def _placed(pool: Mapping[str, Any], region: Any) -> dict[str, str]:
    """Return the placement group of a reservation that was made in the pool's."""
    group = pool.get("placement_group") or {}
    if not isinstance(group, Mapping) or group.get("kind") != "existing":
        return {}
    return {"placementGroupArn": f"arn:aws:ec2:{region}:{ACCOUNT}:placement-group/{group['name']}"}


def learn_from_environment() -> None:
    """Learn the section of the file that :data:`SECTION` names, if one does."""
    if path := os.environ.get(SECTION):
        learn(json.loads(Path(path).read_text(encoding="utf-8")))


def answer(token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a data source; raise KeyError, with its name, if it is not listed."""
    if token not in ANSWERS:
        raise KeyError(f"{token} has no answer in railhead/lab/recorders/answers.py")
    return ANSWERS[token](arguments)
