"""Every field of a stack on AWS reaches the plan: none is read and then dropped."""

from __future__ import annotations

import copy
import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from railhead.lab.recorders import shapes
from railhead.lab.recorders.answers import ANSWERS
from railhead.model.cluster import Pool
from railhead.platform.aws.facts import ecr
from railhead.platform.aws.model import (
    AwsPlatform,
    AwsPool,
    Bucket,
    ElasticFileSystem,
    LustreFileSystem,
    NewNetwork,
    S3Access,
    SystemPool,
    TransitGateway,
)
from tests.components.recording import stack_cluster
from tests.components.test_aws import PROD, RESERVATION, below, reservations

pytestmark = pytest.mark.slow

PLATFORM, POOL = ("platform",), ("pools", 0)
NETWORK, SYSTEM = (*PLATFORM, "network"), (*PLATFORM, "system_pool")
LUSTRE, EFS = (*PLATFORM, "storage", 0), (*PLATFORM, "storage", 1)
ACCESS = (*PLATFORM, "s3_access", 0)
TRANSIT = (*NETWORK, "transit_gateway")
# What each model is called in a stack's file, and another value for each of its fields.
FIELDS: tuple[tuple[Any, tuple[Any, ...], dict[str, Any]], ...] = (
    (
        AwsPlatform,
        PLATFORM,
        {
            "region": None,
            "account": "210987654321",
            "kubernetes": "1.34",
            "support": "extended",
            "network": None,
            "endpoint": {"kind": "public", "from_cidrs": ["203.0.113.0/24"]},
            "administrators": ["arn:aws:iam::123456789012:role/others"],
            "researchers": [],
            "members": {"ml-researchers": ["arn:aws:iam::123456789012:role/others"]},
            "system_pool": None,
            "storage": None,
            "s3_access": [{"namespace": "training", "buckets": [{"name": "acme-others"}]}],
            "image_caches": None,
            "oidc": {
                "issuer": "https://login.example.com",
                "client_id": "kubernetes",
                "groups_prefix": "oidc:",
            },
            "addon_versions": {"coredns": "v1.14.6-eksbuild.4"},
            "log_retention_days": 365,
            "deletion_protection": False,
            "tags": {"cost-center": "research"},
        },
    ),
    (
        NewNetwork,
        NETWORK,
        {
            "cidr": "10.30.0.0/16",
            "availability_zones": ["us-east-2a", "us-east-2b"],
            "nat": "single",
            "interface_endpoints": False,
            "transit_gateway": None,
        },
    ),
    (TransitGateway, TRANSIT, {"id": "tgw-0b1b2c3d4e5f60718", "cidrs": ["10.1.0.0/16"]}),
    (
        SystemPool,
        SYSTEM,
        {
            "instance_type": "m7i.4xlarge",
            "architecture": None,
            "nodes": 5,
            "max_nodes": 9,
            "root_volume_gib": 150,
        },
    ),
    (
        LustreFileSystem,
        LUSTRE,
        {
            "name": None,
            "availability_zone": None,
            "capacity_gib": None,
            "throughput": 500,
            "metadata": {"kind": "automatic"},
            "efa": False,
            "compression": False,
            "backup_days": 14,
            "final_backup": False,
            "backup": "backup-0a1b2c3d4e5f60718",
        },
    ),
    (S3Access, ACCESS, {"namespace": None, "buckets": None}),
    (
        Bucket,
        (*ACCESS, "buckets", 1),
        {
            "name": "acme-others",
            "prefix": "others/",
            "write": False,
            "kms_key": "arn:aws:kms:us-east-2:123456789012:key/1234abcd-12ab-34cd",
        },
    ),
    (ElasticFileSystem, EFS, {"name": None, "throughput": "bursting", "backups": False}),
    (
        AwsPool,
        POOL,
        {
            "availability_zone": None,
            "purchase": {"kind": "on-demand"},
            "placement_group": None,
            "initial_nodes": 16,
            "min_nodes": 8,
            "labels": {"acme.com/team": "vision"},
            "taints": [],
            "root_volume_gib": 900,
            "local_storage": "none",
            "hugepages_2mib": 4096,
            "lustre_efa_devices": 4,
            "repair": False,
            "repair_at_once": 1,
            "repair_overrides": [
                {
                    "condition": "AcceleratedHardwareReady",
                    "reason": "NvidiaXID64Error",
                    "action": "Reboot",
                    "wait_minutes": 15,
                }
            ],
            "ami_release": "1.35.3-20261015",
            "update_nodes": 4,
        },
    ),
)
# Those whose value is another model's, or whose change is several at once, as a whole.
WHOLE: dict[str, Any] = {
    "placement_group": lambda raw: raw["pools"][0].update(
        placement_group={"kind": "existing", "name": "theirs"}
    ),
    "instance_type": lambda raw: raw["pools"][0].update(instance_type="p5e.48xlarge"),
    "architecture": lambda raw: raw["platform"]["system_pool"].update(
        architecture="arm64", instance_type="m7g.2xlarge"
    ),
    "nodes": lambda raw: raw["pools"][0].update(nodes=12, min_nodes=0),
    "initial_nodes": lambda raw: raw["pools"][0].update(initial_nodes=4, min_nodes=0),
    "availability_zone": lambda raw: (
        raw["pools"][0].update(availability_zone="us-east-2b", purchase={"kind": "on-demand"}),
        raw["platform"]["storage"][0].update(availability_zone="us-east-2b"),
    ),
    "purchase": lambda raw: raw["pools"][0].update(purchase={"kind": "on-demand"}),
    # The next size brings more metadata IOPS than the stack provisions.
    "capacity_gib": lambda raw: raw["platform"]["storage"][0].update(
        capacity_gib=57600, metadata={"kind": "provisioned", "iops": 24000}
    ),
    # Nothing is pulled through what no mirror names.
    "image_caches": lambda raw: (
        raw["platform"].update(image_caches=[{"registry": "quay.io", "prefix": "quay"}]),
        raw.update(
            registry_mirrors={"quay.io": f"{ecr(raw['platform']['account'], 'us-east-2')}/quay"}
        ),
    ),
    "region": lambda raw: raw.update(
        _text(raw, "us-east-2", "us-west-2"),
    ),
}
OWN = {"kind"}


def _text(raw: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    changed: dict[str, Any] = json.loads(json.dumps(raw).replace(old, new))
    return changed


def plan(raw: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        zone, kind = raw["pools"][0]["availability_zone"], raw["pools"][0]["instance_type"]
        there = {
            **shapes.EXISTING[RESERVATION],
            "availabilityZone": zone,
            "instanceType": kind,
        }
        patch.setitem(reservations(), RESERVATION, there)
        # Versions that the catalogue does not have for another minor are asked of EKS.
        patch.setitem(
            ANSWERS, "aws:eks/getAddonVersion:getAddonVersion", lambda a: {**a, "version": "asked"}
        )
        recording = below(raw, Path(folder))
    return {
        r.urn: (dict(r.inputs), r.protect)
        for r in recording.resources.values()
        if r.type.startswith(("aws:", "kubernetes:", "pulumi:providers"))
    }


@functools.cache
def base() -> dict[str, Any]:
    return plan(stack_cluster(PROD))


CASES = [
    (path, field, value)
    for _, path, values in FIELDS
    for field, value in values.items()
    if value is not None
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("path", "field", "value"), CASES, ids=[f"{p[-1]}.{f}" for p, f, _ in CASES]
)
def test_a_field_changes_the_plan(path: tuple[Any, ...], field: str, value: Any) -> None:
    raw = copy.deepcopy(stack_cluster(PROD))
    if field in WHOLE and path == POOL:
        WHOLE[field](raw)
    else:
        holder: Any = raw
        for part in path:
            holder = holder.setdefault(part, {}) if isinstance(holder, dict) else holder[part]
        assert holder.get(field) != value, "it is another value"
        holder[field] = value
    assert plan(raw) != base()


@pytest.mark.parametrize("field", sorted(WHOLE))
def test_a_whole_change_changes_the_plan(field: str) -> None:
    raw = copy.deepcopy(stack_cluster(PROD))
    WHOLE[field](raw)
    assert plan(raw) != base()


@pytest.mark.parametrize(
    ("model", "values"), [(m, v) for m, _, v in FIELDS], ids=[m.__name__ for m, _, _ in FIELDS]
)
def test_no_field_is_left_out_here(model: Any, values: dict[str, Any]) -> None:
    """A field that is added must be added above, and so be shown to do something."""
    inherited = set(Pool.model_fields) if model is AwsPool else set()
    assert set(model.model_fields) - inherited - OWN == set(values)
