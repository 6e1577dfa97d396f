"""A stack on AWS: each mistake is named before anything is registered."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from railhead.base.errors import InputError
from railhead.config import load, parse
from railhead.machines import MACHINES
from railhead.model.cluster import Pool
from railhead.platform.aws import facts as aws
from railhead.platform.aws.checks import doubts, lustre_efa_types, reserved_label
from railhead.platform.aws.model import (
    AwsCluster,
    AwsPlatform,
    AwsPool,
    CapacityBlock,
    ElasticFileSystem,
    ExistingNetwork,
    LustreFileSystem,
    NewNetwork,
    PublicEndpoint,
    Reservation,
    SystemPool,
)
from tests.shipped import stack

STACKS = Path(__file__).resolve().parents[3] / "stacks"
Edit = Callable[[dict[str, Any]], None]


def mistakes(name: str, edit: Edit) -> list[str]:
    raw = stack(name)
    edit(raw)
    with pytest.raises(InputError) as caught:
        parse(raw, where="x")
    return caught.value.problem.splitlines()


def put(*path: Any, value: Any) -> Edit:
    def edit(raw: Any) -> None:
        for part in path[:-1]:
            raw = raw[part]
        raw[path[-1]] = value

    return edit


def moved(here: str, there: str) -> Edit:
    def edit(raw: Any) -> None:
        raw.update(json.loads(json.dumps(raw).replace(here, there)))

    return edit


@pytest.mark.parametrize("name", ["aws-p5-prod", "aws-p5en-block"])
def test_the_stacks_that_are_shipped_are_right(name: str) -> None:
    cluster = load(STACKS / f"Pulumi.{name}.yaml")
    assert isinstance(cluster, AwsCluster)
    assert f"aws-{cluster.name}" == name


def test_kind_decides_the_sort_of_capacity() -> None:
    reserved, block = (parse(stack(n), where="x") for n in ("aws-p5-prod", "aws-p5en-block"))
    assert isinstance(reserved, AwsCluster)
    assert isinstance(block, AwsCluster)
    assert isinstance(reserved.pools[0].purchase, Reservation)
    assert isinstance(block.pools[0].purchase, CapacityBlock)
    assert (reserved.pools[0].first_nodes, block.pools[0].first_nodes) == (16, 0)


PROD, BLOCK = "aws-p5-prod", "aws-p5en-block"
REBOOT = {
    "condition": "AcceleratedHardwareReady",
    "reason": "NvidiaXID64Error",
    "action": "Reboot",
    "wait_minutes": 15,
}
POOL = ("pools", 0)
PLATFORM = "platform"
HUB = {"registry": "docker.io", "prefix": "p5/hub"}
HUB_SECRET = "arn:aws:secretsmanager:{}:secret:ecr-pullthroughcache/hub-1a2b3c"

MISTAKES: tuple[tuple[str, Edit, str], ...] = (
    # Zones
    (
        PROD,
        put(*POOL, "purchase", "availability_zone", value="us-east-2b"),
        "pools[0].availability_zone: 'us-east-2a' is not where 'cr-0a1b2c3d4e5f60718' has its "
        "capacity, which is 'us-east-2b'",
    ),
    (
        PROD,
        put(*POOL, "availability_zone", value="us-west-2a"),
        "pools[0].availability_zone: 'us-west-2a' is not a zone of region 'us-east-2'",
    ),
    (
        BLOCK,
        put(*POOL, "availability_zone", value="us-west-2c"),
        "pools[0].availability_zone: 'us-west-2c' has no subnet; platform.network has: us-west-2a, "
        "us-west-2b",
    ),
    (
        PROD,
        put(PLATFORM, "network", "availability_zones", value=["us-east-2a", "us-east-2a"]),
        "platform.network.availability_zones[1]: 'us-east-2a' is there twice",
    ),
    (
        PROD,
        put(PLATFORM, "storage", 0, "availability_zone", value="us-east-2b"),
        "platform.storage[0].availability_zone: EFA does not leave a zone, and the pools that "
        "mount over it are in: us-east-2a",
    ),
    (
        BLOCK,
        put(
            PLATFORM,
            "network",
            "private_subnets",
            value={
                "us-west-2a": "subnet-0a1b2c3d4e5f60711",
                "us-west-2-lax-1a": "subnet-0a1b2c3d4e5f60712",
            },
        ),
        "platform.network.private_subnets: EKS' control plane needs two zones that are not Local "
        "Zones",
    ),
    (
        PROD,
        put(PLATFORM, "network", "availability_zones", value=["us-east-2a", "us-east-2-x-1a"]),
        "platform.network.availability_zones[1]: 'us-east-2-x-1a' is not an availability zone, "
        "such as 'us-east-2a'",
    ),
    # Capacity
    (
        BLOCK,
        lambda raw: raw["pools"][0]["purchase"].pop("ends"),
        "pools[0].purchase.ends: is missing",
    ),
    (
        BLOCK,
        put(*POOL, "purchase", "ends", value="2026-12-07T11:30:00Z"),
        "pools[0].purchase.ends: is not after starts",
    ),
    (
        BLOCK,
        put(*POOL, "purchase", "ends", value="2027-12-07T11:30:00Z"),
        "pools[0].purchase.ends: is more than 182 days after starts, the longest block there is",
    ),
    (
        BLOCK,
        put(*POOL, "purchase", "starts", value="2026-12-07T11:30:00"),
        "pools[0].purchase.starts: '2026-12-07T11:30:00': input should have timezone info",
    ),
    (
        BLOCK,
        put(*POOL, "placement_group", value={"kind": "new"}),
        "pools[0].placement_group: a capacity block is placed by EC2, and a group of ours finds no "
        "capacity in it; remove it",
    ),
    (
        BLOCK,
        put(*POOL, "nodes", value=65),
        "pools[0].nodes: 65 is more than the 64 of a block",
    ),
    (
        PROD,
        put(*POOL, "purchase", value={"kind": "reserved", "id": "cr-0a1b2c3d4e5f60718"}),
        "pools[0].purchase.kind: 'reserved' is not known; did you mean 'reservation'?",
    ),
    (
        PROD,
        put(*POOL, "purchase", "id", value="cr-xyz"),
        "pools[0].purchase.id: 'cr-xyz' is not a reservation's id, such as 'cr-0a1b2c3d4e5f60718'",
    ),
    (
        PROD,
        put(*POOL, "instance_type", value="p6e-gb200.36xlarge"),
        "pools[0].purchase.kind: 'p6e-gb200.36xlarge' comes by 'capacity-block' only",
    ),
    (
        BLOCK,
        lambda raw: raw["pools"][0].update(instance_type="p6e-gb200.36xlarge", nodes=27),
        "pools[0].nodes: 27 is more than an UltraServer, which is 9 or 18 of "
        "'p6e-gb200.36xlarge', and a block of its own: write a pool for each",
    ),
    (
        PROD,
        lambda raw: raw["pools"][0].update(
            purchase={
                "kind": "reservation-group",
                "arn": "arn:aws:resource-groups:us-east-2:123456789012:group/p5",
                "availability_zone": "us-east-2b",
            },
        ),
        "pools[0].availability_zone: 'us-east-2a' is not where "
        "'arn:aws:resource-groups:us-east-2:123456789012:group/p5' has its capacity, which is "
        "'us-east-2b'",
    ),
    (
        PROD,
        put(*POOL, "purchase", value={"kind": "reservation-group", "arn": "p5"}),
        "pools[0].purchase.arn: 'p5' is not the ARN of a resource group, such as "
        "'arn:aws:resource-groups:us-east-2:123456789012:group/p5'",
    ),
    (
        PROD,
        lambda raw: raw["pools"][0].update(
            purchase={"kind": "spot"}, placement_group={"kind": "existing", "name": "x"}
        ),
        "pools[0].placement_group.kind: a pool of kind 'spot' makes its own group: 'new'; "
        "'existing' is a reservation's",
    ),
    (
        PROD,
        lambda raw: raw["pools"][0].update(
            purchase={"kind": "on-demand"}, placement_group={"kind": "existing", "name": "x"}
        ),
        "pools[0].placement_group.kind: a pool of kind 'on-demand' makes its own group: 'new'; "
        "'existing' is a reservation's",
    ),
    (
        PROD,
        put(*POOL, "placement_group", value={"kind": "new"}),
        "pools[0].placement_group.kind: 'new' asks for reserved machines in one cluster, where EC2 "
        "may find too few of them: remove placement_group, or name the one that the reservation "
        "was made in: 'existing'",
    ),
    (
        PROD,
        put(*POOL, "instance_type", value="p5.48xlrage"),
        "pools[0].instance_type: 'p5.48xlrage' is not in the catalogue; did you mean "
        "'p5.48xlarge'?; a machine of your own is a row of machines.yaml beside the stacks",
    ),
    # Sizes
    (PROD, put(*POOL, "min_nodes", value=17), "pools[0].min_nodes: 17 is more than nodes, 16"),
    (
        PROD,
        lambda raw: raw["pools"][0].update(initial_nodes=8, min_nodes=16),
        "pools[0].min_nodes: 16 is more than the 8 that the group starts with",
    ),
    (
        BLOCK,
        put(*POOL, "min_nodes", value=1),
        "pools[0].min_nodes: 1 is more than the 0 that the group starts with",
    ),
    (
        PROD,
        put(*POOL, "name", value="system"),
        "pools[0].name: 'system' is the pool of the controllers",
    ),
    (
        PROD,
        put(PLATFORM, "system_pool", "nodes", value=7),
        "platform.system_pool.nodes: 7 is more than max_nodes, 6",
    ),
    (
        PROD,
        put(*POOL, "hugepages_2mib", value=1024),
        "pools[0].hugepages_2mib: 1024 are 2048 MiB, and a pod with all of a node's NICs asks for "
        "5120: it would never start",
    ),
    # What jobs may do
    (
        PROD,
        put(PLATFORM, "s3_access", 0, "namespace", value="trainin"),
        "platform.s3_access[0].namespace: 'trainin' is not one of namespaces; did you mean "
        "'training'?",
    ),
    (
        PROD,
        lambda raw: raw["platform"]["s3_access"].append(raw["platform"]["s3_access"][0]),
        "platform.s3_access[1].namespace: 'training' is at platform.s3_access[0] already; put its "
        "buckets there",
    ),
    (
        PROD,
        lambda raw: raw.pop("network_policy"),
        "network_policy.egress: lets no job out to S3, whose addresses are Amazon's public ones; "
        "write `- {cidr: 0.0.0.0/0, ports: [443]}`, or Amazon's published ranges of the region",
    ),
    (
        PROD,
        put(PLATFORM, "s3_access", 0, "buckets", 1, "prefix", value="p5-prod"),
        "platform.s3_access[0].buckets[1].prefix: 'p5-prod' is not a prefix that ends in '/'",
    ),
    (
        PROD,
        put(PLATFORM, "s3_access", 0, "buckets", 0, "name", value="*"),
        "platform.s3_access[0].buckets[0].name: '*' is not a bucket's name, such as "
        "'acme-datasets'",
    ),
    # Images through ECR
    (
        PROD,
        put(PLATFORM, "image_caches", value=[{"registry": "quay.io", "prefix": "p5/quay"}]),
        "platform.image_caches[0].registry: nothing is pulled through it: registry_mirrors must "
        "have 'quay.io: 123456789012.dkr.ecr.us-east-2.amazonaws.com/p5/quay'",
    ),
    (
        PROD,
        put(PLATFORM, "image_caches", value=[{"registry": "docker.io", "prefix": "p5/hub"}]),
        "platform.image_caches[0].secret_arn: is missing: ECR asks 'docker.io' for credentials",
    ),
    *(
        (
            PROD,
            put(PLATFORM, "image_caches", value=[{**HUB, "secret_arn": HUB_SECRET.format(home)}]),
            "platform.image_caches[0].secret_arn: is not of the rule's own account and region: "
            "arn:aws:secretsmanager:us-east-2:123456789012:…",
        )
        for home in ("us-east-1:123456789012", "us-east-2:210987654321")
    ),
    (
        PROD,
        lambda raw: raw["platform"].update(
            region="us-gov-west-1", image_caches=[{"registry": "quay.io", "prefix": "quay"}]
        ),
        "platform.image_caches: ECR pulls through no registry in us-gov-west-1; remove it",
    ),
    (
        PROD,
        put(PLATFORM, "image_caches", value=[{"registry": "quay.io", "prefix": "P5"}]),
        "platform.image_caches[0].prefix: 'P5' is not a prefix of repositories: 2 to 30 of a-z and "
        "0-9, parted by one of . _ - /",
    ),
    # What is in EKS' image
    (
        PROD,
        lambda raw: raw.pop("gpu_operator"),
        "gpu_operator: is missing: EKS' images have driver and toolkit, and nothing that tells "
        "Kubernetes of the GPUs; write `gpu_operator: {driver: host, toolkit: host}`",
    ),
    (
        PROD,
        put("gpu_operator", "driver", value="operator"),
        "gpu_operator.driver: 'operator' is a second one beside that of EKS' image; write 'host'",
    ),
    (
        PROD,
        lambda raw: raw["gpu_operator"].pop("toolkit"),
        "gpu_operator.toolkit: 'operator' is a second one beside that of EKS' image; write 'host'",
    ),
    (
        PROD,
        put("gpu_operator", "gdrcopy", value=True),
        "gpu_operator.gdrcopy: the operator brings gdrdrv with its own driver only; where the "
        "nodes' image loads it, as EKS' do since August 2026, pods get it without this: remove it",
    ),
    # Labels and taints
    (
        PROD,
        put(*POOL, "tolerations", value=[]),
        "pools[0].taints[0]: no toleration of the pool bears 'nvidia.com/gpu' NoSchedule; its jobs "
        "would never start: add it to tolerations",
    ),
    (
        PROD,
        put(*POOL, "labels", value={"node.kubernetes.io/instance-type": "p5"}),
        "pools[0].labels.node.kubernetes.io/instance-type: nodes get it by themselves, or not at "
        "all; remove it",
    ),
    (
        PROD,
        put(*POOL, "labels", value={"railhead.dev/pool": "other"}),
        "pools[0].labels.railhead.dev/pool: 'other' is not the 'h100' of node_selector",
    ),
    (
        PROD,
        put(*POOL, "node_selector", value={"acme.com/h100": ""}),
        "pools[0].node_selector.acme.com/h100: is empty, and EKS gives nodes no label without a "
        "value: write 'true'",
    ),
    (
        PROD,
        put(*POOL, "labels", value={f"gpus.{'research.' * 6}acme.com/team": "vision"}),
        f"pools[0].labels.gpus.{'research.' * 6}acme.com/team: has 72 characters, and EKS takes "
        "63, the prefix among them",
    ),
    # Network and access
    (
        PROD,
        put(PLATFORM, "network", "cidr", value="10.20.0.0/24"),
        "platform.network.cidr: '10.20.0.0/24' is not an IPv4 block from /16 to /22",
    ),
    (
        PROD,
        put(PLATFORM, "network", "cidr", value="10.20.0.0/20"),
        "platform.network.cidr: the subnet of us-east-2a, an eighth of 10.20.0.0/20, has addresses "
        "for 15 nodes, and 16 of the pools and 6 of the system pool may be there: take a wider "
        "block, up to /16, or a network of your own",
    ),
    (
        PROD,
        lambda raw: raw["pools"][0].update(nodes=243, purchase={"kind": "on-demand"}),
        "platform.network.cidr: the subnet of us-east-2a, an eighth of 10.20.0.0/16, has addresses "
        "for 248 nodes, and 243 of the pools and 6 of the system pool may be there: take a wider "
        "block, up to /16, or a network of your own",
    ),
    (
        PROD,
        put(PLATFORM, "network", "transit_gateway", "cidrs", value=["10.0.0.0/8"]),
        "platform.network.transit_gateway.cidrs[0]: '10.0.0.0/8' overlaps the VPC's own "
        "'10.20.0.0/16'; it could not be reached",
    ),
    (
        BLOCK,
        put(PLATFORM, "endpoint", "from_cidrs", 0, value="100.96.0.0/12"),
        "platform.endpoint.from_cidrs[0]: '100.96.0.0/12' has private or other reserved addresses, "
        "which EKS refuses to let in to a public one: name the public addresses that callers "
        "have, or `kind: private`",
    ),
    (
        PROD,
        put(PLATFORM, "endpoint", "kind", value="public"),
        "platform.endpoint.from_cidrs[0]: '10.0.0.0/16' has private or other reserved addresses, "
        "which EKS refuses to let in to a public one: name the public addresses that callers "
        "have, or `kind: private`",
    ),
    (
        BLOCK,
        put(PLATFORM, "endpoint", "from_cidrs", value=["0.0.0.0/0"]),
        "platform.endpoint.from_cidrs[0]: '0.0.0.0/0' is the whole internet; name the networks "
        "that may reach the API server",
    ),
    (
        BLOCK,
        put(PLATFORM, "researchers", value=["arn:aws:iam::123456789012:role/platform-engineers"]),
        "platform.researchers[0]: 'arn:aws:iam::123456789012:role/platform-engineers' is "
        "platform.administrators[0] already; EKS takes it once",
    ),
    (
        PROD,
        put("researchers", value="system:masters"),
        "researchers: 'system:masters' is Kubernetes' own, and everybody or an administrator is "
        "in it; name a group of your own",
    ),
    (
        PROD,
        put("researchers", value="eks:researchers"),
        "researchers: 'eks:researchers': EKS gives nobody a group that starts 'eks:'",
    ),
    (
        PROD,
        put(
            PLATFORM,
            "members",
            value={"ml-researchers": ["arn:aws-cn:iam::123456789012:role/people"]},
        ),
        "platform.members.ml-researchers[0]: 'arn:aws-cn:iam::123456789012:role/people' is of "
        "partition 'aws-cn', and the region of 'aws'",
    ),
    (
        PROD,
        put(
            PLATFORM,
            "researchers",
            value=["arn:aws:iam::123456789012:role/AWSReservedSSO_ml_0a1b2c3d4e5f6071"],
        ),
        "platform.researchers[0]: 'arn:aws:iam::123456789012:role/AWSReservedSSO_ml_"
        "0a1b2c3d4e5f6071' is a role of IAM Identity Center without its path, and EKS takes no ARN "
        "without: write the one that `aws iam get-role` tells, "
        "'...:role/aws-reserved/sso.amazonaws.com/...'",
    ),
    (
        PROD,
        put(PLATFORM, "administrators", value=["platform-engineers"]),
        "platform.administrators[0]: 'platform-engineers' is not the ARN of an IAM role or user, "
        "such as 'arn:aws:iam::123456789012:role/platform'",
    ),
    (
        PROD,
        put(PLATFORM, "account", value="12345678901"),
        "platform.account: '12345678901' is not an account's id, twelve digits in quotes",
    ),
    # Versions
    (
        PROD,
        put(PLATFORM, "kubernetes", value="1.30"),
        "platform.kubernetes: '1.30' is not served by versions 'proven': 1.33 to 1.35",
    ),
    (
        PROD,
        put(PLATFORM, "addon_versions", value={"core-dns": "v1.13.2-eksbuild.31"}),
        "platform.addon_versions.core-dns: 'core-dns' is not an add-on here; did you mean "
        "'coredns'?",
    ),
    (
        PROD,
        put(PLATFORM, "addon_versions", value={"coredns": "1.13"}),
        "platform.addon_versions.coredns: '1.13' is not an add-on's version, or 'default'",
    ),
    (
        PROD,
        put(PLATFORM, "log_retention_days", value=91),
        f"platform.log_retention_days: 91 is not allowed; allowed: "
        f"{', '.join(map(str, aws.LOG_RETENTION_DAYS))}",
    ),
    (
        PROD,
        put(PLATFORM, "tags", value={"aws:x": "y"}),
        "platform.tags.aws:x: keys that start 'aws:' are Amazon's own",
    ),
    (
        PROD,
        put(PLATFORM, "tags", value={"Team": "a", "team": "b"}),
        "platform.tags.team: is the key 'Team' to IAM, which heeds no case: leave one of them out",
    ),
    (
        PROD,
        put(PLATFORM, "tags", value={"Railhead.dev/Cluster": "b"}),
        "platform.tags.Railhead.dev/Cluster: is the key 'railhead.dev/cluster' of the stack's own "
        "to IAM, which heeds no case: leave one of them out",
    ),
    # Storage
    (
        PROD,
        put(PLATFORM, "storage", 0, "capacity_gib", value=9600),
        "platform.storage[0].capacity_gib: 9600 is not a multiple of 19200, the step of an "
        "EFA-enabled file system at 250 MB/s for each TiB",
    ),
    (
        PROD,
        lambda raw: raw["platform"]["storage"][0].update(efa=False, capacity_gib=3600),
        "platform.storage[0].capacity_gib: 3600 is neither 1200 nor a multiple of 2400",
    ),
    (
        PROD,
        put(PLATFORM, "storage", 0, "throughput", value=300),
        "platform.storage[0].throughput: 300 is not allowed; allowed: 125, 250, 500, 1000",
    ),
    (
        PROD,
        put(PLATFORM, "storage", 0, "metadata", "iops", value=5000),
        "platform.storage[0].metadata.iops: 5000 is not allowed; allowed: 1500, 3000, 6000, 12000, "
        "or a multiple of 12000 up to 192000",
    ),
    (
        PROD,
        lambda raw: raw["checkpoints"][1].update(claim="x" * 47),
        f"checkpoints[1].name: '{'x' * 47}' in 'training' would have a directory on EFS of 101 "
        "characters, and EFS' driver takes 100: shorten one of the two names",
    ),
    (
        PROD,
        put(PLATFORM, "s3_access", 0, "buckets", value=[{"name": f"b{n:062}"} for n in range(38)]),
        "platform.s3_access[0].buckets: 38 of them make a policy of 10412 characters, and IAM "
        "takes 10240 of a role: name fewer buckets, or part them among namespaces",
    ),
    (
        PROD,
        put(*POOL, "instance_type", value="p4d.24xlarge"),
        "platform.storage[0].efa: no pool's instance type mounts Lustre over EFA; those that do: "
        f"{', '.join(lustre_efa_types())}",
    ),
    (
        PROD,
        put(PLATFORM, "endpoint", "from_cidrs", 0, value="fd00:1::/32"),
        "platform.endpoint.from_cidrs[0]: 'fd00:1::/32' is no IPv4 block, and cluster and VPC have "
        "no other addresses",
    ),
    (
        PROD,
        put(PLATFORM, "network", "transit_gateway", "cidrs", 0, value="fd00:1::/32"),
        "platform.network.transit_gateway.cidrs[0]: 'fd00:1::/32' is no IPv4 block, and cluster "
        "and VPC have no other addresses",
    ),
    (
        PROD,
        lambda raw: raw["pools"][0].update(repair=False, repair_at_once=1),
        "pools[0].repair_at_once: has no effect with `repair: false`; remove one of the two",
    ),
    (
        PROD,
        put(*POOL, "repair_overrides", value=[REBOOT, {**REBOOT, "action": "Replace"}]),
        "pools[0].repair_overrides[1]: AcceleratedHardwareReady NvidiaXID64Error has its repair at "
        "pools[0].repair_overrides[0] already",
    ),
    (
        PROD,
        lambda raw: raw["topology"].insert(3, "topology.k8s.aws/network-node-layer-x"),
        "topology[3]: 'topology.k8s.aws/network-node-layer-x': nodes of 'p5.48xlarge' (pool "
        "'h100') have no such label, of the network layers the 3 wider ones; no job would be "
        "placed on them: remove it",
    ),
    (
        PROD,
        lambda raw: raw["topology"].insert(3, "topology.k8s.aws/network-node-layer-4"),
        "topology[3]: 'topology.k8s.aws/network-node-layer-4': nodes of 'p5.48xlarge' (pool "
        "'h100') have no such label, of the network layers the 3 wider ones; no job would be "
        "placed on them: remove it",
    ),
    (
        PROD,
        put(*POOL, "instance_type", value="p5.4xlarge"),
        "topology[0]: 'topology.k8s.aws/network-node-layer-1': nodes of 'p5.4xlarge' (pool "
        "'h100') have no such label, of the network layers none; no job would be placed on them: "
        "remove it",
    ),
    (
        BLOCK,
        moved("us-west-2", "ca-west-1"),
        "topology[0]: 'topology.k8s.aws/network-node-layer-1': EC2 tells of no network layers in "
        "'ca-west-1'; remove it",
    ),
    (
        PROD,
        lambda raw: raw["pools"][0].update(nodes=129, purchase={"kind": "on-demand"}),
        "platform.storage[0].efa: 1032 EFA devices of 129 nodes would connect, and FSx takes 1024: "
        "write `lustre_efa_devices: 7` in the pools",
    ),
    (
        PROD,
        lambda raw: raw["pools"][0].update(nodes=1025, purchase={"kind": "on-demand"}),
        "platform.storage[0].efa: 8200 EFA devices of 1025 nodes would connect, and FSx takes "
        "1024: split the pools over file systems, or write `efa: false`",
    ),
    (
        PROD,
        put(PLATFORM, "storage", 1, "name", value="lustre"),
        "platform.storage[1].name: 'lustre' is taken by platform.storage[0]",
    ),
    (
        PROD,
        put("checkpoints", 0, "storage_class", value="lustr"),
        "checkpoints[0].storage_class: 'lustr' is no name of platform.storage; did you mean "
        "'lustre'?",
    ),
    (
        PROD,
        put("checkpoints", 0, "size", value="40Ti"),
        "checkpoints[0].size: '40Ti' is more than the 38400 GiB of the file system",
    ),
    (
        PROD,
        put(PLATFORM, "storage", 0, "kind", value="luster"),
        "platform.storage[0].kind: 'luster' is not known; did you mean 'lustre'?",
    ),
    (
        PROD,
        moved("us-east-2", "us-iso-east-1"),
        "platform.region: 'us-iso-east-1' is of an isolated partition, whose ARNs, registries and "
        "endpoints have names that are not known here",
    ),
    (
        PROD,
        put("name", value="sg-prod"),
        "name: 'sg-prod' starts with 'sg-', and so would names of security groups, which EC2 "
        "refuses",
    ),
    (
        PROD,
        put("fabric", "kind", value="roce"),
        "pools[0].instance_type: 'p5.48xlarge' cannot do fabric 'roce'; it can: efa, ethernet",
    ),
)


@pytest.mark.parametrize(
    ("name", "edit", "problem"), MISTAKES, ids=[problem[:60] for _, _, problem in MISTAKES]
)
def test_a_mistake_is_named(name: str, edit: Edit, problem: str) -> None:
    assert f"x: {problem}" in mistakes(name, edit)


def test_all_mistakes_come_at_once() -> None:
    def edit(raw: dict[str, Any]) -> None:
        raw["platform"]["region"] = "us-esat-2a"
        raw["platform"]["account"] = "1"
        raw["platform"]["log_retention_days"] = 2
        raw["pools"][0]["min_nodes"] = 17
        raw["pools"][0]["instnace_type"] = raw["pools"][0].pop("instance_type")

    text = mistakes(PROD, edit)
    for problem in (
        "platform.region",
        "platform.account",
        "platform.log_retention_days",
        "pools[0].min_nodes",
        "pools[0].instnace_type: is not a field; did you mean 'instance_type'?",
        "pools[0].instance_type: is missing",
    ):
        assert any(line.startswith(f"x: {problem}") for line in text), (problem, text)


def test_the_page_tells_every_field() -> None:
    text = (STACKS.parent / "docs" / "aws.md").read_text()
    documented = set(re.findall(r"`([a-z0-9_]+)`", text))
    fields = set(AwsPlatform.model_fields) | set(AwsPool.model_fields) - set(Pool.model_fields)
    for model in (
        CapacityBlock,
        ElasticFileSystem,
        ExistingNetwork,
        LustreFileSystem,
        NewNetwork,
        PublicEndpoint,
        Reservation,
        SystemPool,
    ):
        fields |= set(model.model_fields)
    assert fields - {"kind", "name"} <= documented


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [1], {"a": 1}])
@pytest.mark.parametrize(
    "path",
    [
        (PLATFORM,),
        (PLATFORM, "network"),
        (PLATFORM, "endpoint"),
        (PLATFORM, "storage"),
        (PLATFORM, "tags"),
        (PLATFORM, "addon_versions"),
        (PLATFORM, "kubernetes"),
        ("pools",),
        (*POOL, "purchase"),
        (*POOL, "placement_group"),
        (*POOL, "taints"),
        (*POOL, "labels"),
        (*POOL, "nodes"),
        ("checkpoints", 0, "size"),
    ],
    ids=str,
)
def test_nonsense_is_a_mistake_and_never_a_traceback(path: tuple[Any, ...], value: Any) -> None:
    raw = copy.deepcopy(stack(PROD))
    put(*path, value=value)(raw)
    problem = "x: "
    try:
        parse(raw, where="x")
    except InputError as error:
        problem = error.problem
    assert problem.startswith("x: ")


NOW = datetime(2026, 11, 25, tzinfo=UTC)


def doubted(edit: Edit, now: datetime = NOW) -> list[str]:
    raw = copy.deepcopy(stack(PROD))
    edit(raw)
    cluster = parse(raw, where="x")
    assert isinstance(cluster, AwsCluster)
    return [f"{path}: {text}" for path, text in doubts(cluster, now)]


def test_p6_is_packed_by_its_closest_layer() -> None:
    """EC2 user guide, topology prerequisites: B200 and B300 have a fourth, below the third."""
    machine = put(*POOL, "instance_type", value="p6-b200.48xlarge")
    (doubt,) = doubted(machine)
    assert "'topology.k8s.aws/network-node-layer-4' is the closest layer" in doubt

    def four(raw: Any) -> None:
        machine(raw)
        raw["topology"].insert(3, "topology.k8s.aws/network-node-layer-4")

    assert doubted(four) == []
    assert doubted(lambda _: None) == []


@pytest.mark.parametrize(
    ("nodes", "doubts"),
    [
        (151, []),
        (152, ["pools: nodes in us-east-2a have 5016 network interfaces, and a zone gives"]),
        (451, ["pools[0].nodes: 451: a node group has 450 at most, unless", "pools: "]),
    ],
)
def test_what_an_account_has_at_first_is_doubted(nodes: int, doubts: list[str]) -> None:
    """EKS: 450 nodes a group; VPC: 5000 interfaces a zone, of which a P5 node has 33."""

    def many(raw: Any) -> None:
        raw["pools"][0] |= {"nodes": nodes, "root_volume_gib": 100}
        raw["platform"]["storage"][0]["efa"] = False
        subnets = {f"us-east-2{zone}": f"subnet-0a1b2c3d4e5f6071{zone}" for zone in "abc"}
        raw["platform"]["network"] = {
            "kind": "existing",
            "vpc_id": "vpc-0a1b2c3d4e5f60718",
            "private_subnets": subnets,
        }

    texts = doubted(many)
    assert all(text.startswith(start) for text, start in zip(texts, doubts, strict=True))


def test_two_zones_have_the_interfaces_of_both() -> None:
    """VPC user guide, amazon-vpc-limits: the quota is enforced in each Availability Zone."""

    def two(raw: Any) -> None:
        burst = {**raw["pools"][0], "name": "burst", "node_selector": {"railhead.dev/pool": "b"}}
        burst |= {"availability_zone": "us-east-2b", "purchase": {"kind": "on-demand"}}
        raw["pools"].append(burst)
        for row in raw["pools"]:
            row |= {"nodes": 100, "root_volume_gib": 100}
        raw["queues"][0]["pools"].append("burst")

    assert doubted(two) == []


def test_people_of_another_account_are_doubted() -> None:
    def others(raw: Any) -> None:
        other = "arn:aws:iam::999999999999:role/"
        raw["platform"]["researchers"] = [f"{other}a"]
        raw["platform"]["members"] = {"ml-researchers": [f"{other}b"]}

    assert doubted(others) == [
        f"platform.{path}[0]: is of account 999999999999, not of 123456789012"
        for path in ("researchers", "members.ml-researchers")
    ]


@pytest.mark.parametrize(("nodes", "doubts"), [(101, 0), (102, 1)])
def test_more_volumes_than_an_account_has_are_doubted(nodes: int, doubts: int) -> None:
    """Service Quotas: 50 TiB of gp3, of which the controllers' six nodes may take 600 GiB."""

    def many(raw: Any) -> None:
        raw["pools"][0] |= {"nodes": nodes, "root_volume_gib": 500}
        raw["platform"]["storage"][0]["efa"] = False

    texts = doubted(many)
    assert len(texts) == doubts
    assert all("root volumes of all nodes have 51600 GiB, and" in text for text in texts)


@pytest.mark.parametrize(("pools", "doubts"), [(29, 0), (30, 1)])
def test_more_groups_than_a_cluster_has_are_doubted(pools: int, doubts: int) -> None:
    def many(raw: Any) -> None:
        row = {**raw["pools"][0], "nodes": 2, "purchase": {"kind": "on-demand"}}
        for number in range(1, pools):
            name = f"p{number}"
            raw["pools"].append({**row, "name": name, "node_selector": {"railhead.dev/pool": name}})
            raw["queues"][0]["pools"].append(name)

    texts = doubted(many)
    assert len(texts) == doubts
    assert all("30 pools and that of the controllers are more node groups" in t for t in texts)


def test_more_than_quotas_of_storage_and_rules_is_doubted() -> None:
    (doubt,) = doubted(
        lambda raw: raw["platform"]["storage"][0].update(
            capacity_gib=115200, metadata={"kind": "automatic"}
        )
    )
    assert "platform.storage: file systems of Lustre have 115200 GiB together" in doubt
    networks = [f"10.0.{n}.0/24" for n in range(58)]
    (doubt,) = doubted(put(PLATFORM, "endpoint", "from_cidrs", value=networks))
    assert "from_cidrs: 58 networks and 3 rules more are in the cluster's security" in doubt
    assert doubted(put(PLATFORM, "endpoint", "from_cidrs", value=networks[1:])) == []


@pytest.mark.parametrize(
    ("kind", "seconds", "says"),
    [
        ("on-demand", 120, ""),
        ("on-demand", 121, "121: where EC2 ends a node that nobody drained, EKS' image gives pods"),
        ("spot", 119, ""),
        ("spot", 120, "120: EC2 takes a spot machine two minutes after it says so"),
    ],
)
def test_less_time_to_save_than_asked_is_doubted(kind: str, seconds: int, says: str) -> None:
    """amazon-eks-ami: shutdownGracePeriod is 150 seconds, 30 of which are critical pods'."""

    def edit(raw: Any) -> None:
        raw["pools"][0]["purchase"] = {"kind": kind}
        for runtime in raw["runtimes"]:
            runtime["grace_seconds"] = seconds

    texts = doubted(edit)
    assert [says in text and "grace_seconds" in text for text in texts] == [True, True] * bool(says)


def test_lustre_is_doubted_where_fsx_lists_none() -> None:
    """FSx user guide, using-fsx-lustre: Deployment type availability."""
    plain = {"efa": False, "throughput": 250}
    for region, changes, says in (
        ("us-west-2", {}, None),
        ("eu-west-3", plain, "storage[0].availability_zone: FSx' guide lists no file system of"),
        ("ca-west-1", plain, None),
        ("ca-west-1", {"efa": True}, "storage[0]: FSx' guide lists for 'ca-west-1' no EFA and at"),
        ("ca-west-1", {**plain, "throughput": 500}, "most 250 MB/s for each TiB"),
    ):

        def edit(raw: Any, region: str = region, changes: dict[str, Any] = changes) -> None:
            moved("us-east-2", region)(raw)
            raw["platform"]["storage"][0].update(
                capacity_gib=38400, metadata={"kind": "automatic"}, **changes
            )
            raw["topology"] = ["kubernetes.io/hostname"]

        texts = [text for text in doubted(edit) if "FSx" in text]
        assert (len(texts) == 1 and says in texts[0]) if says else not texts, (region, texts)


def test_fewer_metadata_iops_than_a_size_brings_are_doubted() -> None:
    """Growth alone is known to be refused (terraform-provider-aws #44432): edits' guard does."""
    (doubt,) = doubted(put(PLATFORM, "storage", 0, "capacity_gib", value=57600))
    assert "storage[0].metadata.iops: 12000 is less than the 24000 that 57600 GiB bring" in doubt
    for metadata in ({"kind": "automatic"}, {"kind": "provisioned", "iops": 24000}):

        def grown(raw: Any, metadata: dict[str, Any] = metadata) -> None:
            raw["platform"]["storage"][0].update(capacity_gib=57600, metadata=metadata)

        assert doubted(grown) == []


def ultraserver(nodes: int) -> dict[str, Any]:
    raw = copy.deepcopy(stack(BLOCK))
    raw["pools"][0].update(instance_type="p6e-gb200.36xlarge", nodes=nodes)
    for runtime in raw["runtimes"]:
        runtime.update(cpu="100", memory="600Gi")
    return raw


@pytest.mark.parametrize(("nodes", "left"), [(7, 2), (9, 0), (10, 8), (17, 1), (18, 0)])
def test_part_of_an_ultraserver_is_doubted(nodes: int, left: int) -> None:
    """EC2 starts fewer machines of a block than it has; 17 is a block with a bad host."""
    cluster = parse(ultraserver(nodes), where="x")
    assert isinstance(cluster, AwsCluster)
    texts = [text for path, text in doubts(cluster, NOW) if path == "pools[0].nodes"]
    assert [f": {left} stay out of the pool" in text for text in texts] == [True] * bool(left)


def test_second_host_engine_of_dcgm_is_doubted() -> None:
    """NVIDIA/DCGM #108: one on a node; the agent's chart has none on arm64 (v1.6.7)."""
    exporter = put("gpu_operator", "dcgm_exporter", value=True)
    (doubt,) = doubted(exporter)
    assert doubt.startswith("gpu_operator.dcgm_exporter: true, so that a node has a second host")
    raw = ultraserver(9)
    exporter(raw)
    cluster = parse(raw, where="x")
    assert isinstance(cluster, AwsCluster)
    assert [text for path, text in doubts(cluster, NOW) if path.startswith("gpu_operator")] == []


def test_lustre_may_be_in_a_local_zone_that_has_it() -> None:
    """FSx user guide, using-fsx-lustre: Atlanta, Dallas and Phoenix have it without EFA."""
    for zone, offered in (("us-east-1-dfw-2a", True), ("us-east-1-bos-1a", False)):

        def edit(raw: Any, zone: str = zone) -> None:
            moved("us-east-2", "us-east-1")(raw)
            raw["platform"]["network"] = {
                "kind": "existing",
                "vpc_id": "vpc-0a1b2c3d4e5f60718",
                "private_subnets": {
                    place: f"subnet-0a1b2c3d4e5f6071{n}"
                    for n, place in enumerate(("us-east-1a", "us-east-1b", zone))
                },
            }
            raw["pools"][0]["availability_zone"] = zone
            raw["pools"][0]["purchase"]["availability_zone"] = zone
            raw["platform"]["storage"][0].update(availability_zone=zone, efa=False)

        texts = doubted(edit)
        assert ("lists no file system" in str(texts)) is not offered, texts


def test_network_that_services_may_hide_is_doubted() -> None:
    """EKS API reference, KubernetesNetworkConfigRequest: 10.100.0.0/16 or 172.20.0.0/16."""
    cidrs = (PLATFORM, "network", "transit_gateway", "cidrs")
    (doubt,) = doubted(put(*cidrs, value=["10.0.0.0/16", "172.16.0.0/12"]))
    assert "cidrs[1]: '172.16.0.0/12' overlaps '172.20.0.0/16'" in doubt
    assert doubted(put(*cidrs, value=["10.0.0.0/16", "10.101.0.0/16"])) == []


def test_private_server_that_nobody_reaches_is_doubted() -> None:
    """EKS' own security group lets in nodes alone, also from the VPC (cluster-endpoint)."""
    endpoint = (PLATFORM, "endpoint", "from_cidrs")
    (doubt,) = doubted(put(*endpoint, value=[]))
    assert doubt.startswith("platform.endpoint.from_cidrs: is empty: only nodes reach the API")
    (doubt,) = doubted(put(PLATFORM, "network", "transit_gateway", value=None))
    assert doubt.startswith("platform.endpoint.kind: 'private', in a new VPC without transit_gat")
    (doubt,) = doubted(put(*endpoint, value=["10.20.0.0/16", "10.0.7.0/24", "10.30.0.0/16"]))
    assert "from_cidrs[2]: '10.30.0.0/16' is not behind platform.network.transit_gateway" in doubt
    assert doubted(put(PLATFORM, "endpoint", value=stack(BLOCK)[PLATFORM]["endpoint"])) == []


def test_efs_of_a_pool_in_a_local_zone_is_doubted() -> None:
    """EFS user guide, mounting-fs-mount-cmd-dns-name: found in a zone with a mount target alone."""

    def local(raw: Any) -> None:
        private_subnets = {
            zone: f"subnet-0a1b2c3d4e5f6071{n}"
            for n, zone in enumerate(("us-east-2a", "us-east-2b", "us-east-2-xyz-1a"))
        }
        raw["platform"]["network"] = {
            "kind": "existing",
            "vpc_id": "vpc-0a1b2c3d4e5f60718",
            "private_subnets": private_subnets,
        }
        raw["platform"]["storage"][0]["efa"] = False
        raw["pools"][0]["availability_zone"] = "us-east-2-xyz-1a"
        raw["pools"][0]["purchase"]["availability_zone"] = "us-east-2-xyz-1a"

    (doubt,) = doubted(local)
    assert doubt.startswith("platform.storage[1]: EFS has no mount target in a Local Zone, as 'us-")


def test_a_minor_is_doubted_before_its_support_ends() -> None:
    soon, after = datetime(2027, 2, 1, tzinfo=UTC), datetime(2027, 6, 1, tzinfo=UTC)
    for now in (soon, after):
        (doubt,) = doubted(lambda _: None, now)
        assert "platform.kubernetes: standard support of '1.35' ends on 2027-03-27" in doubt
        assert "`support: extended`" in doubt
    (doubt,) = doubted(put(PLATFORM, "support", value="extended"), after)
    assert "EKS charges more" in doubt


@pytest.mark.parametrize(
    ("release", "reboots"),
    [("1.35.4-20260930", True), ("1.35.4-20261003", True), ("1.35.4-20261012", False)],
)
def test_image_whose_nodes_reboot_is_doubted(release: str, reboots: bool) -> None:
    """amazon-eks-ami, release v20261012: it fixes a panic of the two before (its issue 2845)."""
    texts = doubted(put(*POOL, "ami_release", value=release))
    assert len(texts) == reboots
    assert all(text.startswith(f"pools[0].ami_release: {release!r}: its") for text in texts)


def test_lustre_takes_as_many_devices_as_aws_binds() -> None:
    """aws-parallelcluster-cookbook, pcluster-diag: EFA_EXPECTED_BOUND_DEVICES."""
    for name, devices in {
        "p5.48xlarge": 8,
        "p5en.48xlarge": 8,
        "p6-b200.48xlarge": 8,
        "p6-b300.48xlarge": 16,
        "p6e-gb200.36xlarge": 4,
    }.items():
        pool = AwsPool.model_validate(
            {
                **stack(PROD)["pools"][0],
                "instance_type": name,
            }
        )
        assert pool.lustre_devices == devices <= len(MACHINES[name].nics), name


def test_lustre_over_tcp_is_a_choice() -> None:
    raw = stack(PROD)
    raw["pools"][0]["lustre_efa_devices"] = 0
    cluster = parse(raw, where="x")
    assert isinstance(cluster, AwsCluster)
    assert not cluster.lustre_over_efa(cluster.pools[0])


def test_lustre_over_efa_is_for_what_has_efa_and_is_new_enough() -> None:
    can = lustre_efa_types()
    assert {"p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"} <= set(can)
    assert not {"p4d.24xlarge", "p4de.24xlarge", "a3-ultragpu-8g"} & set(can)


@pytest.mark.parametrize(
    ("key", "reserved"),
    [
        ("kubernetes.io/hostname", True),
        ("node.kubernetes.io/instance-type", True),
        ("topology.k8s.aws/zone-id", True),
        ("eks.amazonaws.com/nodegroup", True),
        ("railhead.dev/pool", False),
        ("notkubernetes.io/x", False),
        ("pool", False),
    ],
)
def test_labels_that_are_not_ours_to_set(key: str, reserved: bool) -> None:
    assert reserved_label(key) is reserved


@pytest.mark.parametrize(
    ("zone", "local"),
    [
        ("us-east-1-dfw-2a", True),
        ("ap-southeast-2-per-1a", True),
        ("us-east-1a", False),
        ("us-gov-west-1a", False),
        ("us-iso-east-1a", False),
    ],
)
def test_local_zones(zone: str, local: bool) -> None:
    assert aws.is_local_zone(zone) is local


def test_zones_of_other_partitions_have_their_arns() -> None:
    assert [aws.partition(r) for r in ("us-east-2", "cn-north-1", "us-gov-west-1")] == [
        "aws",
        "aws-cn",
        "aws-us-gov",
    ]
