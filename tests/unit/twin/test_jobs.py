"""The look at a job's networks: what a node lacks for one of them is found."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from railhead.twin import jobs
from railhead.twin.steps import FailedError
from railhead.twin.world import PLAYER, SRIOV_DAEMON, Body, Look

ADDRESSES = {"type": "nv-ipam", "poolName": "rail-0"}
MACVLAN = {"type": "macvlan", "master": "ib0", "ipam": ADDRESSES}


def look(*roles: str) -> Look:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    pods: list[Body] = [
        {
            "metadata": {"labels": {"app": role} if role == SRIOV_DAEMON else {PLAYER: role}},
            "spec": {"nodeName": "n"},
            "status": ready,
        }
        for role in roles
    ]
    return Look(nodes={}, pods=pods)


@pytest.mark.parametrize(
    ("config", "roles", "lacks"),
    [
        (MACVLAN, ("cni-plugins", "nv-ipam"), ""),
        (MACVLAN, ("nv-ipam",), "plugin macvlan"),
        (MACVLAN, ("cni-plugins",), "plugin nv-ipam"),
        ({"type": "maclvan"}, ("cni-plugins",), "plugin maclvan"),
        (MACVLAN | {"master": "eth9"}, ("cni-plugins", "nv-ipam"), "is on eth9"),
        ({"type": "ib-sriov"}, (SRIOV_DAEMON,), ""),
        ({"type": "ib-sriov"}, ("cni-plugins",), "plugin ib-sriov"),
        ({"plugins": [MACVLAN, {"type": "sbr"}]}, ("cni-plugins", "nv-ipam"), ""),
        ({"plugins": [{"type": "ib-sriov"}, {"type": "rdma"}]}, ("cni-plugins",), "ib-sriov"),
    ],
)
def test_a_network_needs_its_plugins_and_its_nic(
    config: dict[str, Any], roles: tuple[str, ...], lacks: str
) -> None:
    fails = pytest.raises(FailedError, match=lacks) if lacks else contextlib.nullcontext()
    with fails:
        jobs._on_node("rail-0", config, look(*roles), "n", ("ib0", "ib1"))
