"""Types of a cloud's resources that the pack can judge; it reports all others."""

from __future__ import annotations

from railhead.policies.clouds import CLUSTERS, FILE_SYSTEMS

# Types that some rule judges.
_JUDGED = frozenset(
    {
        "aws:ec2/capacityBlockReservation:CapacityBlockReservation",
        "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
        "aws:ec2/launchTemplate:LaunchTemplate",
        "aws:ec2/securityGroup:SecurityGroup",
        "aws:ec2/securityGroupRule:SecurityGroupRule",
        "aws:efs/fileSystemPolicy:FileSystemPolicy",
        "aws:eks/nodeGroup:NodeGroup",
        "aws:iam/policy:Policy",
        "aws:iam/role:Role",
        "aws:iam/rolePolicy:RolePolicy",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        "aws:kms/key:Key",
        "aws:s3/bucketPolicy:BucketPolicy",
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
        "gcp:compute/firewall:Firewall",
        "gcp:container/nodePool:NodePool",
        "gcp:folder/iAMMember:IAMMember",
        "gcp:organizations/iAMMember:IAMMember",
        "gcp:projects/iAMBinding:IAMBinding",
        "gcp:projects/iAMMember:IAMMember",
        "gcp:projects/iAMPolicy:IAMPolicy",
        "gcp:serviceaccount/iAMMember:IAMMember",
        "gcp:storage/bucketIAMBinding:BucketIAMBinding",
        "gcp:storage/bucketIAMMember:BucketIAMMember",
    }
)
# Types of the components that can neither let anyone in nor lose anything, with any inputs:
# addresses, routes, names, marks, and a cluster's users (whose rights are judged).
_HARMLESS = frozenset(
    {
        "aws:autoscaling/tag:Tag",
        "aws:cloudwatch/logGroup:LogGroup",
        "aws:ec2/capacityReservation:CapacityReservation",
        "aws:ec2/eip:Eip",
        "aws:ec2/internetGateway:InternetGateway",
        "aws:ec2/natGateway:NatGateway",
        "aws:ec2/placementGroup:PlacementGroup",
        "aws:ec2/route:Route",
        "aws:ec2/routeTable:RouteTable",
        "aws:ec2/routeTableAssociation:RouteTableAssociation",
        "aws:ec2/subnet:Subnet",
        "aws:ec2/vpc:Vpc",
        "aws:ec2/vpcEndpoint:VpcEndpoint",
        "aws:ec2transitgateway/vpcAttachment:VpcAttachment",
        "aws:ecr/pullThroughCacheRule:PullThroughCacheRule",
        "aws:efs/backupPolicy:BackupPolicy",
        "aws:efs/mountTarget:MountTarget",
        "aws:eks/accessEntry:AccessEntry",
        "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
        "aws:eks/addon:Addon",
        "aws:eks/identityProviderConfig:IdentityProviderConfig",
        "aws:eks/podIdentityAssociation:PodIdentityAssociation",
        "aws:kms/alias:Alias",
        "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
        "gcp:compute/globalAddress:GlobalAddress",
        "gcp:compute/network:Network",
        "gcp:compute/resourcePolicy:ResourcePolicy",
        "gcp:compute/router:Router",
        "gcp:compute/routerNat:RouterNat",
        "gcp:compute/subnetwork:Subnetwork",
        "gcp:dns/managedZone:ManagedZone",
        "gcp:dns/recordSet:RecordSet",
        "gcp:serviceaccount/account:Account",
        "gcp:servicenetworking/connection:Connection",
    }
)
KNOWN = CLUSTERS | FILE_SYSTEMS | _JUDGED | _HARMLESS
