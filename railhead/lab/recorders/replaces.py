"""Inputs that a provider cannot change in place: a change replaces the resource.

Paths are Pulumi's, dotted; a change below a listed path counts. Read in the schemas that the
providers wrap (`ForceNew` in the Terraform providers' sources, named per row).
"""

from __future__ import annotations

from collections.abc import Mapping

from railhead.lab.engine.provider.diffing import FORCE_NEW, split_api_version

REPLACES: Mapping[str, tuple[str, ...]] = {
    # terraform-provider-aws, internal/service/<service>/<resource>.go
    "aws:autoscaling/tag:Tag": ("autoscalingGroupName", "tag.key"),
    "aws:ec2/vpc:Vpc": ("cidrBlock",),
    "aws:ec2/subnet:Subnet": ("vpcId", "availabilityZone", "cidrBlock"),
    "aws:ec2/securityGroup:SecurityGroup": ("vpcId", "name", "description"),
    "aws:ec2/placementGroup:PlacementGroup": ("name", "strategy", "partitionCount", "spreadLevel"),
    "aws:ec2/launchTemplate:LaunchTemplate": ("name", "namePrefix"),
    "aws:ec2/natGateway:NatGateway": ("allocationId", "subnetId"),
    "aws:ec2/routeTable:RouteTable": ("vpcId",),
    "aws:ec2/vpcEndpoint:VpcEndpoint": ("vpcId", "serviceName", "vpcEndpointType"),
    "aws:iam/role:Role": ("name", "path"),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": ("role", "policyArn"),
    "aws:eks/cluster:Cluster": (
        "name",
        "roleArn",
        "encryptionConfig",
        "kubernetesNetworkConfig.ipFamily",
        "kubernetesNetworkConfig.serviceIpv4Cidr",
        "bootstrapSelfManagedAddons",
        "accessConfig.bootstrapClusterCreatorAdminPermissions",
    ),
    "aws:eks/nodeGroup:NodeGroup": (
        "amiType",
        "capacityType",
        "clusterName",
        "diskSize",
        "instanceTypes",
        "nodeGroupName",
        "nodeGroupNamePrefix",
        "nodeRoleArn",
        "subnetIds",
        "launchTemplate.id",
        "launchTemplate.name",
    ),
    "aws:eks/addon:Addon": ("addonName", "clusterName"),
    "aws:eks/accessEntry:AccessEntry": ("clusterName", "principalArn", "type"),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": (
        "clusterName",
        "namespace",
        "serviceAccount",
    ),
    "aws:fsx/lustreFileSystem:LustreFileSystem": (
        "deploymentType",
        "subnetIds",
        "securityGroupIds",
        "storageType",
        "kmsKeyId",
        "efaEnabled",
        "fileSystemTypeVersion",
        "importPath",
        "exportPath",
        "driveCacheType",
    ),
    "aws:efs/fileSystem:FileSystem": (
        "availabilityZoneName",
        "creationToken",
        "encrypted",
        "kmsKeyId",
        "performanceMode",
    ),
    "aws:efs/mountTarget:MountTarget": ("fileSystemId", "subnetId", "ipAddress"),
    # terraform-provider-google-beta, google-beta/services/<service>
    "gcp:compute/network:Network": (
        "name",
        "mtu",
        "networkProfile",
        "autoCreateSubnetworks",
        "description",
    ),
    "gcp:compute/subnetwork:Subnetwork": ("name", "network", "region", "purpose"),
    "gcp:compute/firewall:Firewall": ("name", "network", "direction"),
    "gcp:compute/resourcePolicy:ResourcePolicy": (
        "name",
        "region",
        "groupPlacementPolicy",
        "workloadPolicy",
    ),
    "gcp:compute/router:Router": ("name", "network", "region"),
    "gcp:container/cluster:Cluster": (
        "name",
        "location",
        "network",
        "subnetwork",
        "datapathProvider",
        "enableMultiNetworking",
        "ipAllocationPolicy",
        "privateClusterConfig.enablePrivateNodes",
        "initialNodeCount",
    ),
    "gcp:container/nodePool:NodePool": (
        "name",
        "namePrefix",
        "cluster",
        "location",
        "placementPolicy",
        "queuedProvisioning",
        "networkConfig.additionalNodeNetworkConfigs",
        "networkConfig.additionalPodNetworkConfigs",
        "nodeConfig.machineType",
        "nodeConfig.diskType",
        "nodeConfig.ephemeralStorageLocalSsdConfig",
        "nodeConfig.guestAccelerators",
        "nodeConfig.reservationAffinity",
        "nodeConfig.serviceAccount",
        "nodeConfig.oauthScopes",
        "nodeConfig.spot",
        "nodeConfig.flexStart",
        "nodeConfig.maxRunDuration",
        "nodeConfig.secondaryBootDisks",
        "nodeConfig.hostMaintenancePolicy",
        "nodeConfig.localNvmeSsdBlockConfig",
        "nodeConfig.shieldedInstanceConfig",
    ),
    "gcp:filestore/instance:Instance": ("name", "location", "tier", "networks", "protocol"),
    "gcp:lustre/instance:Instance": (
        "instanceId",
        "location",
        "filesystem",
        "network",
        "perUnitStorageThroughput",
    ),
    "gcp:storage/bucket:Bucket": ("name", "location"),
}
_KUBERNETES = ("apiVersion", "kind", "metadata.name", "metadata.namespace", "name", "namespace")


def replaces(token: str) -> tuple[str, ...]:
    """Return the paths whose change replaces a resource of the type."""
    package, _, rest = token.partition(":")
    if package != "kubernetes":
        return REPLACES.get(token, ())
    version, _, kind = rest.rpartition(":")
    fixed = FORCE_NEW.get(split_api_version(version.removeprefix("core/")), {}).get(kind, ())
    return (*_KUBERNETES, *(path.removeprefix(".") for path in fixed if "*" not in path))
