"""Requests of the AWS provider, checked against the cloud's own API models.

Pulumi's inputs of a resource become the parameters of the calls that create it; botocore's service
models then judge them: required fields and types by botocore itself, enumerations, patterns and
limits, which botocore sends unjudged, here. An input that no call takes is an error: none is lost
on the way.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import botocore.loaders
import botocore.model
import botocore.validate

Inputs = Mapping[str, Any]
Json = dict[str, Any]

_ID = "0123456789abcdef0"
# What the cloud calls things, for patterns that a made-up id would not match.
IDS: Mapping[str, str] = {
    "aws:ec2/vpc:Vpc": f"vpc-{_ID}",
    "aws:ec2/subnet:Subnet": f"subnet-{_ID}",
    "aws:ec2/securityGroup:SecurityGroup": f"sg-{_ID}",
    "aws:ec2/routeTable:RouteTable": f"rtb-{_ID}",
    "aws:ec2/internetGateway:InternetGateway": f"igw-{_ID}",
    "aws:ec2/natGateway:NatGateway": f"nat-{_ID}",
    "aws:ec2/eip:Eip": f"eipalloc-{_ID}",
    "aws:ec2/launchTemplate:LaunchTemplate": f"lt-{_ID}",
    "aws:efs/fileSystem:FileSystem": f"fs-{_ID}",
    "aws:fsx/lustreFileSystem:LustreFileSystem": f"fs-{_ID}",
}


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call: its parameters as the API names and types them."""

    service: str
    operation: str
    parameters: Json


class LostError(AssertionError):
    """An input that no call takes, or that the API has no field for."""


@dataclass
class Taken:
    """The inputs of one resource, each of which must be taken."""

    inputs: Inputs
    left: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        # An input that is null or an empty list is one that was not given.
        self.left = {k for k, v in self.inputs.items() if v is not None and v != []}

    def take(self, key: str) -> Any:
        """Return the value of an input, or None."""
        self.left.discard(key)
        return self.inputs.get(key)

    def under(self, **names: str) -> Json:
        """API name -> value, for those inputs that were given."""
        results = {api: self.take(key) for key, api in names.items()}
        return {api: value for api, value in results.items() if value is not None}

    def own(self, *keys: str) -> None:
        """Inputs that are the provider's own business and reach no call."""
        for key in keys:
            self.left.discard(key)


# --- One function a type --------------------------------------------------------------------------


def _tags(t: Taken, kind: str) -> Json:
    tags = t.take("tags")
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": tags}]} if tags else {}


def _launch_template(t: Taken) -> Iterator[tuple[str, str, Json]]:
    t.own("updateDefaultVersion")
    data = t.under(
        blockDeviceMappings="BlockDeviceMappings",
        capacityReservationSpecification="CapacityReservationSpecification",
        imageId="ImageId",
        instanceMarketOptions="InstanceMarketOptions",
        instanceType="InstanceType",
        metadataOptions="MetadataOptions",
        networkInterfaces="NetworkInterfaces",
        placement="Placement",
        tagSpecifications="TagSpecifications",
        userData="UserData",
        vpcSecurityGroupIds="SecurityGroupIds",
    )
    name = t.under(name="LaunchTemplateName")
    yield "ec2", "CreateLaunchTemplate", {**name, "LaunchTemplateData": data}


def _placement_group(t: Taken) -> Iterator[tuple[str, str, Json]]:
    yield (
        "ec2",
        "CreatePlacementGroup",
        {**t.under(name="GroupName", strategy="Strategy"), **_tags(t, "placement-group")},
    )


def _cluster(t: Taken) -> Iterator[tuple[str, str, Json]]:
    types = t.take("enabledClusterLogTypes")
    yield (
        "eks",
        "CreateCluster",
        {
            **t.under(
                accessConfig="accessConfig",
                bootstrapSelfManagedAddons="bootstrapSelfManagedAddons",
                deletionProtection="deletionProtection",
                encryptionConfig="encryptionConfig",
                name="name",
                roleArn="roleArn",
                tags="tags",
                upgradePolicy="upgradePolicy",
                version="version",
                vpcConfig="resourcesVpcConfig",
            ),
            "logging": {"clusterLogging": [{"types": types, "enabled": True}]},
        },
    )


def _node_group(t: Taken) -> Iterator[tuple[str, str, Json]]:
    yield (
        "eks",
        "CreateNodegroup",
        t.under(
            amiType="amiType",
            capacityType="capacityType",
            clusterName="clusterName",
            diskSize="diskSize",
            instanceTypes="instanceTypes",
            labels="labels",
            launchTemplate="launchTemplate",
            nodeGroupName="nodegroupName",
            nodeRepairConfig="nodeRepairConfig",
            nodeRoleArn="nodeRole",
            releaseVersion="releaseVersion",
            scalingConfig="scalingConfig",
            subnetIds="subnets",
            tags="tags",
            taints="taints",
            updateConfig="updateConfig",
            version="version",
        ),
    )


def _group_tag(t: Taken) -> Iterator[tuple[str, str, Json]]:
    tag = {
        "ResourceType": "auto-scaling-group",
        "ResourceId": t.take("autoscalingGroupName"),
        **(t.take("tag") or {}),
    }
    yield "autoscaling", "CreateOrUpdateTags", {"Tags": [tag]}


def _addon(t: Taken) -> Iterator[tuple[str, str, Json]]:
    named = t.under(addonName="addonName", clusterName="clusterName")
    update = t.take("resolveConflictsOnUpdate")
    yield (
        "eks",
        "CreateAddon",
        {
            **named,
            **t.under(
                addonVersion="addonVersion",
                configurationValues="configurationValues",
                podIdentityAssociations="podIdentityAssociations",
                resolveConflictsOnCreate="resolveConflicts",
                tags="tags",
            ),
        },
    )
    yield "eks", "UpdateAddon", {**named, "resolveConflicts": update}


def _access_entry(t: Taken) -> Iterator[tuple[str, str, Json]]:
    yield (
        "eks",
        "CreateAccessEntry",
        t.under(
            clusterName="clusterName",
            kubernetesGroups="kubernetesGroups",
            principalArn="principalArn",
            tags="tags",
            type="type",
        ),
    )


def _pod_identity(t: Taken) -> Iterator[tuple[str, str, Json]]:
    yield (
        "eks",
        "CreatePodIdentityAssociation",
        t.under(
            clusterName="clusterName",
            namespace="namespace",
            roleArn="roleArn",
            serviceAccount="serviceAccount",
            tags="tags",
        ),
    )


def _access_policy(t: Taken) -> Iterator[tuple[str, str, Json]]:
    yield (
        "eks",
        "AssociateAccessPolicy",
        t.under(
            accessScope="accessScope",
            clusterName="clusterName",
            policyArn="policyArn",
            principalArn="principalArn",
        ),
    )


def _lustre(t: Taken) -> Iterator[tuple[str, str, Json]]:
    # What is said when it is deleted.
    t.own("skipFinalBackup")
    if backup := t.take("backupId"):
        # The provider says no size of it, and FSx takes the backup's (lustre_file_system.go).
        t.own("storageCapacity")
        call, of = "CreateFileSystemFromBackup", {"BackupId": backup}
    else:
        call = "CreateFileSystem"
        of = {"FileSystemType": "LUSTRE", **t.under(storageCapacity="StorageCapacity")}
    yield (
        "fsx",
        call,
        {
            **of,
            **t.under(
                fileSystemTypeVersion="FileSystemTypeVersion",
                securityGroupIds="SecurityGroupIds",
                storageType="StorageType",
                subnetIds="SubnetIds",
                tags="Tags",
            ),
            "LustreConfiguration": t.under(
                automaticBackupRetentionDays="AutomaticBackupRetentionDays",
                copyTagsToBackups="CopyTagsToBackups",
                dataCompressionType="DataCompressionType",
                deploymentType="DeploymentType",
                efaEnabled="EfaEnabled",
                metadataConfiguration="MetadataConfiguration",
                perUnitStorageThroughput="PerUnitStorageThroughput",
            ),
        },
    )


def _elastic(t: Taken) -> Iterator[tuple[str, str, Json]]:
    policies = t.take("lifecyclePolicies")
    yield (
        "efs",
        "CreateFileSystem",
        t.under(
            creationToken="CreationToken",
            encrypted="Encrypted",
            performanceMode="PerformanceMode",
            tags="Tags",
            throughputMode="ThroughputMode",
        ),
    )
    yield (
        "efs",
        "PutLifecycleConfiguration",
        {"FileSystemId": IDS["aws:efs/fileSystem:FileSystem"], "LifecyclePolicies": policies},
    )


def _mount_target(t: Taken) -> Iterator[tuple[str, str, Json]]:
    named = t.under(
        fileSystemId="FileSystemId", securityGroups="SecurityGroups", subnetId="SubnetId"
    )
    yield "efs", "CreateMountTarget", named


def _backups(t: Taken) -> Iterator[tuple[str, str, Json]]:
    named = t.under(backupPolicy="BackupPolicy", fileSystemId="FileSystemId")
    yield "efs", "PutBackupPolicy", named


def _role(t: Taken) -> Iterator[tuple[str, str, Json]]:
    named = t.under(
        assumeRolePolicy="AssumeRolePolicyDocument",
        description="Description",
        name="RoleName",
        tags="Tags",
    )
    yield "iam", "CreateRole", named


def _attachment(t: Taken) -> Iterator[tuple[str, str, Json]]:
    yield "iam", "AttachRolePolicy", t.under(policyArn="PolicyArn", role="RoleName")


def _role_policy(t: Taken) -> Iterator[tuple[str, str, Json]]:
    named = t.under(name="PolicyName", policy="PolicyDocument", role="RoleName")
    yield "iam", "PutRolePolicy", named


def _cache_rule(t: Taken) -> Iterator[tuple[str, str, Json]]:
    yield (
        "ecr",
        "CreatePullThroughCacheRule",
        t.under(
            credentialArn="credentialArn",
            ecrRepositoryPrefix="ecrRepositoryPrefix",
            upstreamRegistryUrl="upstreamRegistryUrl",
        ),
    )


def _key(t: Taken) -> Iterator[tuple[str, str, Json]]:
    # Calls of their own, one for turning it on and one for taking it away.
    t.own("enableKeyRotation", "deletionWindowInDays")
    yield "kms", "CreateKey", t.under(description="Description")


def _alias(t: Taken) -> Iterator[tuple[str, str, Json]]:
    yield "kms", "CreateAlias", t.under(name="AliasName", targetKeyId="TargetKeyId")


def _log_group(t: Taken) -> Iterator[tuple[str, str, Json]]:
    name = t.take("name")
    yield "logs", "CreateLogGroup", {"logGroupName": name}
    kept = t.under(retentionInDays="retentionInDays")
    yield "logs", "PutRetentionPolicy", {"logGroupName": name, **kept}


def _vpc(t: Taken) -> Iterator[tuple[str, str, Json]]:
    switches = t.under(enableDnsHostnames="EnableDnsHostnames", enableDnsSupport="EnableDnsSupport")
    yield "ec2", "CreateVpc", {**t.under(cidrBlock="CidrBlock"), **_tags(t, "vpc")}
    for name, value in switches.items():
        attribute = {"VpcId": IDS["aws:ec2/vpc:Vpc"], name: {"Value": value}}
        yield "ec2", "ModifyVpcAttribute", attribute


def _subnet(t: Taken) -> Iterator[tuple[str, str, Json]]:
    t.own("mapPublicIpOnLaunch")
    named = t.under(availabilityZone="AvailabilityZone", cidrBlock="CidrBlock", vpcId="VpcId")
    yield "ec2", "CreateSubnet", {**named, **_tags(t, "subnet")}


def _internet_gateway(t: Taken) -> Iterator[tuple[str, str, Json]]:
    yield "ec2", "CreateInternetGateway", _tags(t, "internet-gateway")
    attach = t.under(vpcId="VpcId")
    identity = IDS["aws:ec2/internetGateway:InternetGateway"]
    yield "ec2", "AttachInternetGateway", {**attach, "InternetGatewayId": identity}


def _eip(t: Taken) -> Iterator[tuple[str, str, Json]]:
    yield "ec2", "AllocateAddress", {**t.under(domain="Domain"), **_tags(t, "elastic-ip")}


def _nat(t: Taken) -> Iterator[tuple[str, str, Json]]:
    named = t.under(allocationId="AllocationId", subnetId="SubnetId")
    yield "ec2", "CreateNatGateway", {**named, **_tags(t, "natgateway")}


def _route_table(t: Taken) -> Iterator[tuple[str, str, Json]]:
    yield "ec2", "CreateRouteTable", {**t.under(vpcId="VpcId"), **_tags(t, "route-table")}


def _route(t: Taken) -> Iterator[tuple[str, str, Json]]:
    named = t.under(
        destinationCidrBlock="DestinationCidrBlock",
        gatewayId="GatewayId",
        natGatewayId="NatGatewayId",
        routeTableId="RouteTableId",
        transitGatewayId="TransitGatewayId",
    )
    yield "ec2", "CreateRoute", named


def _association(t: Taken) -> Iterator[tuple[str, str, Json]]:
    named = t.under(routeTableId="RouteTableId", subnetId="SubnetId")
    yield "ec2", "AssociateRouteTable", named


def _endpoint(t: Taken) -> Iterator[tuple[str, str, Json]]:
    named = t.under(
        privateDnsEnabled="PrivateDnsEnabled",
        routeTableIds="RouteTableIds",
        securityGroupIds="SecurityGroupIds",
        serviceName="ServiceName",
        subnetIds="SubnetIds",
        vpcEndpointType="VpcEndpointType",
        vpcId="VpcId",
    )
    yield "ec2", "CreateVpcEndpoint", {**named, **_tags(t, "vpc-endpoint")}


def _transit(t: Taken) -> Iterator[tuple[str, str, Json]]:
    named = t.under(subnetIds="SubnetIds", transitGatewayId="TransitGatewayId", vpcId="VpcId")
    tags = _tags(t, "transit-gateway-attachment")
    yield "ec2", "CreateTransitGatewayVpcAttachment", {**named, **tags}


def _default_group(t: Taken) -> Iterator[tuple[str, str, Json]]:
    # It is there already; its rules are taken away, and it is tagged.
    t.own("vpcId")
    identity = IDS["aws:ec2/securityGroup:SecurityGroup"]
    yield "ec2", "CreateTags", {"Resources": [identity], "Tags": t.take("tags")}


def _security_group(t: Taken) -> Iterator[tuple[str, str, Json]]:
    rules = t.take("ingress") or []
    # The provider names it after the resource.
    yield (
        "ec2",
        "CreateSecurityGroup",
        {
            "GroupName": t.take("name") or "named-by-the-engine",
            **t.under(description="Description", vpcId="VpcId"),
            **_tags(t, "security-group"),
        },
    )
    for rule in rules:
        permission = {
            "IpProtocol": rule["protocol"],
            "FromPort": rule["fromPort"],
            "ToPort": rule["toPort"],
            "IpRanges": [{"CidrIp": block} for block in rule["cidrBlocks"]],
        }
        identity = IDS["aws:ec2/securityGroup:SecurityGroup"]
        yield (
            "ec2",
            "AuthorizeSecurityGroupIngress",
            {"GroupId": identity, "IpPermissions": [permission]},
        )


def _rule(direction: str) -> Callable[[Taken], Iterator[tuple[str, str, Json]]]:
    def rule(t: Taken) -> Iterator[tuple[str, str, Json]]:
        described = {"Description": t.take("description")}
        permission = t.under(ipProtocol="IpProtocol", fromPort="FromPort", toPort="ToPort")
        if block := t.take("cidrIpv4"):
            permission["IpRanges"] = [{"CidrIp": block, **described}]
        if group := t.take("referencedSecurityGroupId"):
            permission["UserIdGroupPairs"] = [{"GroupId": group, **described}]
        named = t.under(securityGroupId="GroupId")
        yield (
            "ec2",
            f"AuthorizeSecurityGroup{direction}",
            {**named, "IpPermissions": [permission]},
        )

    return rule


def _read(t: Taken) -> Iterator[tuple[str, str, Json]]:
    """Yield no call: a resource that is only read asks for nothing."""
    yield from ()


TYPES: Mapping[str, Callable[[Taken], Iterator[tuple[str, str, Json]]]] = {
    "aws:autoscaling/tag:Tag": _group_tag,
    "aws:cloudwatch/logGroup:LogGroup": _log_group,
    "aws:ec2/capacityReservation:CapacityReservation": _read,
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": _default_group,
    "aws:ec2/eip:Eip": _eip,
    "aws:ec2/internetGateway:InternetGateway": _internet_gateway,
    "aws:ec2/launchTemplate:LaunchTemplate": _launch_template,
    "aws:ec2/natGateway:NatGateway": _nat,
    "aws:ec2/placementGroup:PlacementGroup": _placement_group,
    "aws:ec2/route:Route": _route,
    "aws:ec2/routeTable:RouteTable": _route_table,
    "aws:ec2/routeTableAssociation:RouteTableAssociation": _association,
    "aws:ec2/securityGroup:SecurityGroup": _security_group,
    "aws:ec2/subnet:Subnet": _subnet,
    "aws:ec2/vpc:Vpc": _vpc,
    "aws:ec2/vpcEndpoint:VpcEndpoint": _endpoint,
    "aws:ec2transitgateway/vpcAttachment:VpcAttachment": _transit,
    "aws:efs/backupPolicy:BackupPolicy": _backups,
    "aws:efs/fileSystem:FileSystem": _elastic,
    "aws:efs/mountTarget:MountTarget": _mount_target,
    "aws:eks/accessEntry:AccessEntry": _access_entry,
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": _access_policy,
    "aws:eks/addon:Addon": _addon,
    "aws:eks/cluster:Cluster": _cluster,
    "aws:eks/nodeGroup:NodeGroup": _node_group,
    "aws:ecr/pullThroughCacheRule:PullThroughCacheRule": _cache_rule,
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": _pod_identity,
    "aws:fsx/lustreFileSystem:LustreFileSystem": _lustre,
    "aws:iam/role:Role": _role,
    "aws:iam/rolePolicy:RolePolicy": _role_policy,
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": _attachment,
    "aws:kms/alias:Alias": _alias,
    "aws:kms/key:Key": _key,
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": _rule("Egress"),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": _rule("Ingress"),
}


# --- Names and types as the API has them ----------------------------------------------------------

# Fields whose name is not Pulumi's with another capital.
_RENAMED = {
    ("LaunchTemplateInstanceNetworkInterfaceSpecificationRequest", "securityGroups"): "Groups",
}


@functools.cache
def model(service: str) -> botocore.model.ServiceModel:
    """Return a service's published API model."""
    loaded = botocore.loaders.Loader().load_service_model(service, "service-2")
    return botocore.model.ServiceModel(loaded, service)


def _member(shape: Any, key: str) -> str:
    wanted = _RENAMED.get((shape.name, key), key).lower()
    for member in shape.members:
        if member.lower() == wanted:
            return str(member)
    raise LostError(f"{shape.name} has no field for {key!r}; it has: {', '.join(shape.members)}")


def shaped(shape: Any, value: Any) -> Any:
    """Return a value with the API's names and types; mocks turn numbers into floats."""
    if value is None:
        return None
    if shape.type_name == "structure":
        return {
            (name := _member(shape, key)): shaped(shape.members[name], inner)
            for key, inner in value.items()
            if inner is not None
        }
    if shape.type_name == "list":
        if isinstance(value, Mapping) and "Key" in getattr(shape.member, "members", {}):
            value = [{"Key": k, "Value": v} for k, v in value.items()]
        elements = value if isinstance(value, list) else [value]
        return [shaped(shape.member, inner) for inner in elements]
    if shape.type_name == "map":
        return {key: shaped(shape.value, inner) for key, inner in value.items()}
    if shape.type_name in ("integer", "long") and isinstance(value, float) and value == int(value):
        return int(value)
    if shape.type_name == "boolean" and value in ("true", "false"):
        return value == "true"
    return value


def _identified(value: Any, ids: Mapping[str, str]) -> Any:
    """Return the value with made-up ids replaced by such as the cloud gives."""
    if isinstance(value, Mapping):
        return {k: _identified(v, ids) for k, v in value.items()}
    if isinstance(value, list):
        return [_identified(v, ids) for v in value]
    return ids.get(value, value) if isinstance(value, str) else value


def calls(token: str, inputs: Inputs, ids: Mapping[str, str] | None = None) -> list[Call]:
    """Return the calls that create a resource of the type; ``ids`` replaces made-up ids.

    Raises:
        LostError: an input that none of them takes.
    """
    taken = Taken(_identified(inputs, ids or {}))
    made = [
        Call(
            service=service,
            operation=operation,
            parameters=shaped(model(service).operation_model(operation).input_shape, parameters),
        )
        for service, operation, parameters in TYPES[token](taken)
    ]
    if taken.left and TYPES[token] is not _read:
        raise LostError(f"{token}: no call takes {', '.join(sorted(taken.left))}")
    return made


# --- Judging --------------------------------------------------------------------------------------

# Enumerations that the model gives in words only.
DOCUMENTED = (
    ("LaunchTemplateInstanceNetworkInterfaceSpecificationRequest", "InterfaceType"),
    ("CreateAccessEntryRequest", "type"),
)


def documented(service: str, shape: str, member: str) -> tuple[str, ...]:
    """Return the values that a field's documentation lists after 'Valid values'."""
    result = model(service).shape_for(shape).members[member].documentation
    _, _, after = result.partition("Valid values")
    return tuple(dict.fromkeys(re.findall(r"<code>([\w-]+)</code>", after.split("</p>")[0])))


def problems(call: Call) -> list[str]:
    """Return what the API model finds wrong with a call; empty for a valid one."""
    shape = model(call.service).operation_model(call.operation).input_shape
    report = botocore.validate.ParamValidator().validate(call.parameters, shape)
    results = [report.generate_report()] if report.has_errors() else []
    results += _walk(call.service, shape, call.parameters, call.operation)
    return results


def _walk(service: str, shape: Any, value: Any, path: str) -> Iterator[str]:
    if shape.type_name == "structure" and isinstance(value, Mapping):
        for key, inner in value.items():
            if (shape.name, key) in DOCUMENTED:
                allowed = documented(service, shape.name, key)
                if inner not in allowed:
                    yield f"{path}.{key}: {inner!r} is not one of {allowed}"
            if key in shape.members:
                yield from _walk(service, shape.members[key], inner, f"{path}.{key}")
    elif shape.type_name == "list" and isinstance(value, list):
        yield from _size(shape, len(value), path)
        for index, inner in enumerate(value):
            yield from _walk(service, shape.member, inner, f"{path}[{index}]")
    elif shape.type_name == "map" and isinstance(value, Mapping):
        yield from _size(shape, len(value), path)
        for key, inner in value.items():
            yield from _walk(service, shape.key, key, f"{path}.{key} (key)")
            yield from _walk(service, shape.value, inner, f"{path}.{key}")
    elif isinstance(value, str):
        yield from _text(shape, value, path)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from _size(shape, value, path)


def _text(shape: Any, value: str, path: str) -> Iterator[str]:
    yield from _size(shape, len(value), path)
    if getattr(shape, "enum", None) and value not in shape.enum:
        yield f"{path}: {value!r} is not one of {shape.enum}"
    pattern = shape.metadata.get("pattern")
    if pattern and not re.fullmatch(_python(pattern), value):
        yield f"{path}: {value!r} does not match {pattern}"


def _python(pattern: str) -> str:
    """Return a Java pattern for Python: without Unicode class names and surrogates."""
    pattern = pattern.replace(r"\uD800\uDC00-\uDBFF\uDFFF", r"\U00010000-\U0010FFFF")
    return re.sub(r"\\p\{\w+\}", r"\\w", re.sub(r"\\p\{Z\w?\}", r"\\s", pattern))


def _size(shape: Any, size: int, path: str) -> Iterator[str]:
    least, most = shape.metadata.get("min"), shape.metadata.get("max")
    if least is not None and size < least:
        yield f"{path}: {size} is less than {least}"
    if most is not None and size > most:
        yield f"{path}: {size} is more than {most}"


def policy_problems(text: str) -> list[str]:
    """Return formal errors of a policy document: the API accepts any text of the length."""
    document = json.loads(text)
    results = [] if document.get("Version") == "2012-10-17" else ["Version"]
    for statement in document["Statement"]:
        if statement["Effect"] not in ("Allow", "Deny"):
            results.append(f"Effect {statement['Effect']!r}")
        if not all(re.fullmatch(r"[a-z0-9-]+:[A-Za-z]+", a) for a in statement["Action"]):
            results.append(f"Action {statement['Action']!r}")
    return results
