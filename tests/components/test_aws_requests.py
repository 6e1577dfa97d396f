"""Requests of the AWS stacks, checked value by value against AWS's own API models."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from railhead.catalog import fsx
from railhead.platform.aws import facts as catalogue
from tests.components.recording import Recording, Registered, recorded
from tests.providers.aws_requests import (
    DOCUMENTED,
    IDS,
    TYPES,
    Call,
    LostError,
    calls,
    documented,
    model,
    policy_problems,
    problems,
)

# Whole stacks of a cloud are recorded here.
pytestmark = pytest.mark.slow

STACKS = ("aws-p5-prod", "aws-p5en-block")
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
POOL = "aws:eks/nodeGroup:NodeGroup"
CLUSTER = "aws:eks/cluster:Cluster"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
EFS = "aws:efs/fileSystem:FileSystem"
ADDON = "aws:eks/addon:Addon"
ENTRY = "aws:eks/accessEntry:AccessEntry"
ASSOCIATION = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"


@pytest.fixture(scope="module")
def recordings() -> dict[str, Recording]:
    return {stack: recorded(stack) for stack in STACKS}


def made(recording: Recording) -> Iterator[tuple[Registered, Call]]:
    ids = {f"{r.name}-id": IDS[r.type] for r in recording.resources.values() if r.type in IDS}
    for resource in recording.resources.values():
        if resource.type.startswith("aws:"):
            for call in calls(resource.type, resource.inputs, ids):
                yield resource, call


def one(recording: Recording, token: str, end: str = "") -> Registered:
    (results,) = [r for r in recording.of_type(token) if r.name.endswith(end)]
    return results


@pytest.mark.parametrize("stack", STACKS)
def test_every_call_is_one_that_the_api_takes(stack: str, recordings: dict[str, Recording]) -> None:
    judged = 0
    for resource, call in made(recordings[stack]):
        judged += 1
        assert not problems(call), f"{resource.name}: {call.operation}: {problems(call)}"
    assert judged > 40


@pytest.mark.parametrize("stack", STACKS)
def test_every_type_of_the_stack_is_judged(stack: str, recordings: dict[str, Recording]) -> None:
    types = {r.type for r in recordings[stack].resources.values() if r.type.startswith("aws:")}
    assert types <= set(TYPES)
    for token in (TEMPLATE, POOL, CLUSTER, LUSTRE, ADDON, ENTRY, ASSOCIATION):
        assert token in types


def test_production_sends_all_that_matters(recordings: dict[str, Recording]) -> None:
    sent = {call.operation for _, call in made(recordings["aws-p5-prod"])}
    assert sent >= {
        "CreateLaunchTemplate",
        "CreateCluster",
        "CreateNodegroup",
        "CreateAddon",
        "CreateAccessEntry",
        "AssociateAccessPolicy",
        "CreateFileSystem",
        "CreateMountTarget",
        "AuthorizeSecurityGroupEgress",
        "CreateTransitGatewayVpcAttachment",
    }


@pytest.mark.parametrize("stack", STACKS)
def test_policies_are_policies(stack: str, recordings: dict[str, Recording]) -> None:
    for resource in recordings[stack].resources.values():
        for key in ("assumeRolePolicy", "policy"):
            if resource.type.startswith("aws:iam/") and key in resource.inputs:
                assert not policy_problems(resource.inputs[key]), resource.urn


class TestRulesBetweenFields:
    """Rules that the models state in words, and that EKS answers with an error."""

    @pytest.mark.parametrize("stack", STACKS)
    def test_template_and_group_do_not_say_the_same_twice(
        self, stack: str, recordings: dict[str, Recording]
    ) -> None:
        recording = recordings[stack]
        templates = {f"{t.name}-id": t for t in recording.of_type(TEMPLATE)}
        used = []
        for group in recording.of_type(POOL):
            template = templates[group.inputs["launchTemplate"]["id"]]
            used.append(template.urn)
            assert "instanceType" in template.inputs
            assert not {"instanceTypes", "diskSize", "remoteAccess"} & set(group.inputs)
            interfaces = template.inputs.get("networkInterfaces", [])
            assert not any("subnetId" in interface for interface in interfaces)
            if interfaces:
                assert not {"vpcSecurityGroupIds", "securityGroupNames"} & set(template.inputs)
                assert all(interface["securityGroups"] for interface in interfaces)
            block = group.inputs["capacityType"] == "CAPACITY_BLOCK"
            market = template.inputs.get("instanceMarketOptions")
            assert (market == {"marketType": "capacity-block"}) is block
        assert len(used) == len(set(used)) == len(templates), "one template a group"

    def test_reservation_is_the_only_target(self, recordings: dict[str, Recording]) -> None:
        """A reservation takes no preference beside its target (EC2's model)."""
        for stack in STACKS:
            for template in recordings[stack].of_type(TEMPLATE):
                text = template.inputs.get("capacityReservationSpecification")
                assert text is None or set(text) == {"capacityReservationTarget"}

    def test_an_efa_only_interface_asks_for_no_address(
        self, recordings: dict[str, Recording]
    ) -> None:
        for stack in STACKS:
            for template in recordings[stack].of_type(TEMPLATE):
                for interface in template.inputs.get("networkInterfaces", []):
                    if interface["interfaceType"] == "efa-only":
                        assert not [k for k in interface if "ddress" in k or "refix" in k]


class TestCatalogueAgainstTheModels:
    def test_throughput(self) -> None:
        text = model("fsx").shape_for("CreateFileSystemLustreConfiguration")
        documentation = text.members["PerUnitStorageThroughput"].documentation
        listed = re.search(r"PERSISTENT_2</code> SSD storage: ([\d, ]+)", documentation)
        assert listed is not None
        assert tuple(int(v) for v in listed[1].split(",")) == catalogue.LUSTRE_THROUGHPUT
        assert set(catalogue.LUSTRE_EFA_STEP_GIB) == set(catalogue.LUSTRE_THROUGHPUT)

    def test_metadata_iops(self) -> None:
        shape = model("fsx").shape_for("CreateFileSystemLustreMetadataConfiguration")
        documentation = shape.members["Iops"].documentation
        for iops in (*fsx.METADATA_IOPS, fsx.METADATA_MOST):
            assert f"{iops}" in documentation
        limits = shape.members["Iops"].metadata
        assert limits["max"] == fsx.METADATA_MOST
        assert limits["min"] == fsx.METADATA_IOPS[0]

    def test_storage_capacity(self) -> None:
        shape = model("fsx").shape_for("CreateFileSystemRequest")
        documentation = shape.members["StorageCapacity"].documentation
        assert f"{catalogue.LUSTRE_SMALLEST_GIB} GiB" in documentation
        assert f"increments of {catalogue.LUSTRE_STEP_GIB} GiB" in documentation

    def test_log_retention(self) -> None:
        documentation = (
            model("logs")
            .shape_for("PutRetentionPolicyRequest")
            .members["retentionInDays"]
            .documentation
        )
        listed = re.search(r"[Pp]ossible values are:? ([\d, and]+)", documentation)
        assert listed is not None
        days = tuple(int(v) for v in re.findall(r"\d+", listed[1]))
        assert days == catalogue.LOG_RETENTION_DAYS

    def test_images_and_instance_types(self) -> None:
        images = model("eks").shape_for("AMITypes").enum
        for rows in (catalogue.STANDARD_AMI, catalogue.NVIDIA_AMI):
            assert set(rows.values()) <= set(images)
        known = set(model("ec2").shape_for("InstanceType").enum)
        assert known >= catalogue.LUSTRE_WITHOUT_EFA
        assert known >= catalogue.CAPACITY_BLOCK_ONLY

    def test_limits_of_names(self) -> None:
        assert model("iam").shape_for("roleNameType").metadata["max"] == catalogue.ROLE_NAME
        assert model("efs").shape_for("CreationToken").metadata["max"] == catalogue.CREATION_TOKEN
        alias = model("kms").shape_for("AliasNameType").metadata["max"]
        assert alias == len("alias/") + catalogue.KEY_ALIAS

    def test_enumerations_in_words_are_read(self) -> None:
        for shape, member in DOCUMENTED:
            service = "ec2" if shape.startswith("Launch") else "eks"
            assert len(documented(service, shape, member)) >= 3


# A wrong value in each place that decides what is made, and how a wrong one would look.
WRONG: tuple[tuple[str, str, str, tuple[Any, ...], Any], ...] = (
    (
        "aws-p5-prod",
        TEMPLATE,
        "h100-template",
        ("networkInterfaces", 1, "interfaceType"),
        "efa_only",
    ),
    ("aws-p5-prod", TEMPLATE, "h100-template", ("networkInterfaces", 1, "deviceIndex"), "1"),
    ("aws-p5-prod", TEMPLATE, "h100-template", ("instanceType",), "p5.48xlrage"),
    ("aws-p5-prod", TEMPLATE, "h100-template", ("metadataOptions", "httpTokens"), "require"),
    (
        "aws-p5-prod",
        TEMPLATE,
        "h100-template",
        ("blockDeviceMappings", 0, "ebs", "volumeType"),
        "gp4",
    ),
    ("aws-p5-prod", TEMPLATE, "h100-template", ("tagSpecifications", 0, "resourceType"), "node"),
    (
        "aws-p5en-block",
        TEMPLATE,
        "h200-template",
        ("instanceMarketOptions", "marketType"),
        "capacity_block",
    ),
    ("aws-p5en-block", POOL, "h200-nodes", ("capacityType",), "CAPACITY-BLOCK"),
    ("aws-p5-prod", POOL, "h100-nodes", ("amiType",), "AL2023_x86_64_NVDIA"),
    ("aws-p5-prod", POOL, "h100-nodes", ("taints", 0, "effect"), "NoSchedule"),
    ("aws-p5-prod", POOL, "h100-nodes", ("taints", 0, "key"), "k" * 64),
    ("aws-p5-prod", POOL, "h100-nodes", ("updateConfig", "updateStrategy"), "REPLACE"),
    ("aws-p5-prod", POOL, "h100-nodes", ("updateConfig", "maxUnavailable"), 0),
    ("aws-p5-prod", POOL, "h100-nodes", ("scalingConfig", "maxSize"), 0),
    ("aws-p5-prod", POOL, "h100-nodes", ("nodeRoleArn",), None),
    ("aws-p5-prod", CLUSTER, "", ("accessConfig", "authenticationMode"), "api"),
    ("aws-p5-prod", CLUSTER, "", ("enabledClusterLogTypes", 0), "apiserver"),
    ("aws-p5-prod", CLUSTER, "", ("upgradePolicy", "supportType"), "LONG"),
    ("aws-p5-prod", CLUSTER, "", ("name",), "-p5"),
    ("aws-p5-prod", CLUSTER, "", ("name",), "p" * 101),
    ("aws-p5-prod", CLUSTER, "", ("vpcConfig",), None),
    ("aws-p5-prod", LUSTRE, "", ("deploymentType",), "PERSISTENT2"),
    ("aws-p5-prod", LUSTRE, "", ("metadataConfiguration", "mode"), "AUTO"),
    ("aws-p5-prod", LUSTRE, "", ("metadataConfiguration", "iops"), 200000),
    ("aws-p5-prod", LUSTRE, "", ("dataCompressionType",), "ZSTD"),
    ("aws-p5-prod", LUSTRE, "", ("storageType",), "NVME"),
    ("aws-p5-prod", LUSTRE, "", ("fileSystemTypeVersion",), "v2.15"),
    ("aws-p5-prod", LUSTRE, "", ("subnetIds",), None),
    ("aws-p5-prod", LUSTRE, "", ("securityGroupIds", 0), "lustre"),
    ("aws-p5-prod", EFS, "", ("throughputMode",), "Elastic"),
    ("aws-p5-prod", EFS, "", ("lifecyclePolicies", 0, "transitionToIa"), "AFTER_31_DAYS"),
    ("aws-p5-prod", EFS, "", ("creationToken",), "t" * 65),
    ("aws-p5-prod", ADDON, "vpc-cni", ("resolveConflictsOnCreate",), "overwrite"),
    ("aws-p5-prod", ADDON, "vpc-cni", ("addonName",), None),
    ("aws-p5-prod", ENTRY, "platform-engineers", ("type",), "ADMIN"),
    ("aws-p5-prod", ENTRY, "platform-engineers", ("principalArn",), None),
    ("aws-p5-prod", ASSOCIATION, "platform-engineers-policy", ("accessScope", "type"), "all"),
)


@pytest.mark.parametrize(
    ("stack", "token", "end", "path", "value"),
    WRONG,
    ids=[
        f"{token.rpartition(':')[2]}.{path[-1]}={value}"[:60] for _, token, _, path, value in WRONG
    ],
)
def test_a_wrong_value_is_found(
    stack: str,
    token: str,
    end: str,
    path: tuple[Any, ...],
    value: Any,
    recordings: dict[str, Recording],
) -> None:
    recording = recordings[stack]
    ids = {f"{r.name}-id": IDS[r.type] for r in recording.resources.values() if r.type in IDS}
    inputs = copy.deepcopy(dict(one(recording, token, end).inputs))
    assert not [p for c in calls(token, inputs, ids) for p in problems(c)]
    holder: Any = inputs
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value
    assert [p for c in calls(token, inputs, ids) for p in problems(c)]


@pytest.mark.parametrize(
    ("token", "inputs"),
    [
        (POOL, {"clusterName": "c", "instanceFamily": "p5"}),
        (TEMPLATE, {"name": "t", "metadataOptions": {"httpToken": "required"}}),
        (LUSTRE, {"efa": True}),
    ],
)
def test_an_input_that_no_call_takes_is_found(token: str, inputs: dict[str, Any]) -> None:
    with pytest.raises(LostError, match=r"no call takes|has no field"):
        calls(token, inputs)
