"""The clouds' answers to the data sources that components read; an unknown one fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from railhead.lab.recorders.shapes import ACCOUNT, REGION

ZONES = {
    "subnet-0a1b2c3d4e5f60711": "us-west-2a",
    "subnet-0a1b2c3d4e5f60712": "us-west-2b",
}

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
    # The capacity block of stacks/Pulumi.aws-p5en-block.yaml.
    "aws:ec2/getCapacityBlockReservation:getCapacityBlockReservation": lambda arguments: {
        "id": arguments["id"],
        "availabilityZone": "us-west-2a",
        "instanceCount": 4,
        "instanceType": "p5en.48xlarge",
        "reservationType": "capacity-block",
        "startDate": "2026-12-07T11:30:00Z",
        "endDate": "2026-12-21T11:30:00Z",
        "state": "scheduled",
    },
    "aws:eks/getAddonVersion:getAddonVersion": lambda arguments: {
        **arguments,
        "id": arguments["addonName"],
        "version": f"v{arguments['kubernetesVersion']}.0-eksbuild.1",
    },
    # An account in which nothing runs yet.
    "aws:eks/getClusters:getClusters": lambda _: {"id": REGION, "names": []},
    # Its subnets.
    "aws:ec2/getSubnet:getSubnet": lambda arguments: {
        "id": arguments["id"],
        "availabilityZone": ZONES.get(arguments["id"], "us-west-2a"),
        "vpcId": "vpc-0a1b2c3d4e5f60718",
    },
    "aws:index/getRegion:getRegion": lambda _: {
        "name": REGION,
        "region": REGION,
        "id": REGION,
        "endpoint": f"ec2.{REGION}.amazonaws.com",
        "description": "US East (N. Virginia)",
    },
}


def answer(token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a data source; raise KeyError, with its name, if it is not listed."""
    if token not in ANSWERS:
        raise KeyError(f"{token} has no answer in railhead/lab/recorders/answers.py")
    return ANSWERS[token](arguments)
