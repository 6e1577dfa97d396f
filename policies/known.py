"""Types of resources that the pack can judge, and those that no training stands on."""

from __future__ import annotations

from fnmatch import fnmatchcase

from railhead.policies.clouds import CLUSTERS, FILE_SYSTEMS

# Types that some rule judges.
_JUDGED = frozenset(
    {
        "aws:ec2/capacityBlockReservation:CapacityBlockReservation",
        "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
        "aws:ec2/launchTemplate:LaunchTemplate",
        "aws:ec2/securityGroup:SecurityGroup",
        "aws:ec2/securityGroupRule:SecurityGroupRule",
        "aws:ecr/repositoryPolicy:RepositoryPolicy",
        "aws:efs/fileSystemPolicy:FileSystemPolicy",
        "aws:eks/nodeGroup:NodeGroup",
        "aws:iam/accessKey:AccessKey",
        "aws:iam/groupPolicy:GroupPolicy",
        "aws:iam/groupPolicyAttachment:GroupPolicyAttachment",
        "aws:iam/policy:Policy",
        "aws:iam/policyAttachment:PolicyAttachment",
        "aws:iam/role:Role",
        "aws:iam/rolePolicy:RolePolicy",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        "aws:iam/userLoginProfile:UserLoginProfile",
        "aws:iam/userPolicy:UserPolicy",
        "aws:iam/userPolicyAttachment:UserPolicyAttachment",
        "aws:kms/key:Key",
        "aws:s3/bucketAcl:BucketAcl",
        "aws:s3/bucketAclV2:BucketAclV2",
        "aws:s3/bucketObject:BucketObject",
        "aws:s3/bucketObjectv2:BucketObjectv2",
        "aws:s3/bucketPolicy:BucketPolicy",
        "aws:sns/topicPolicy:TopicPolicy",
        "aws:sqs/queuePolicy:QueuePolicy",
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
# addresses, routes, names, marks, and users and groups (whose rights are judged).
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
        "aws:iam/group:Group",
        "aws:iam/groupMembership:GroupMembership",
        "aws:iam/instanceProfile:InstanceProfile",
        "aws:iam/user:User",
        "aws:iam/userGroupMembership:UserGroupMembership",
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
# Types that watch, count or record, and values that are made up: no node, network or right of a
# training cluster is theirs. What they may open (a bucket's policy, a repository's) is not here.
_APART = (
    *("random:*", "tls:index/privateKey:*", "tls:index/selfSignedCert:*", "time:*"),
    *("grafana:*", "datadog:*", "pagerduty:*", "newrelic:*"),
    *("aws:ec2/flowLog:FlowLog", "aws:cloudtrail/*", "aws:guardduty/detector:Detector"),
    *("aws:cloudwatch/*", "aws:budgets/*", "aws:sns/topic:Topic", "aws:costexplorer/*"),
    *("aws:sqs/queue:Queue", "aws:route53/record:Record", "aws:acm/certificate:Certificate"),
    *("aws:ecr/repository:Repository", "aws:ecr/lifecyclePolicy:*"),
    *("aws:s3/bucket:Bucket", "aws:s3/bucketV2:BucketV2", "aws:s3/bucketPublicAccessBlock:*"),
    *("aws:s3/bucketVersioning*", "aws:s3/bucketLifecycle*", "aws:s3/bucketServerSide*"),
    *("aws:s3/bucketOwnershipControls:*", "aws:s3/bucketLogging*"),
    # A website is as public as its bucket's policy, which is judged.
    *("aws:s3/bucketWebsite*", "aws:sns/topicSubscription:*", "aws:dynamodb/table:Table"),
    *("aws:kinesis/stream:Stream", "aws:glue/catalog*", "aws:glue/crawler:Crawler"),
    *("aws:glue/job:Job", "aws:glue/trigger:Trigger", "aws:ecs/cluster:Cluster"),
    "aws:ecs/taskDefinition:TaskDefinition",
    # Whom they name and which role they give is judged.
    *("gcp:*IamMember", "gcp:*IamBinding", "gcp:*IAMMember", "gcp:*IAMBinding"),
    *("gcp:monitoring/*", "gcp:logging/*", "gcp:billing/budget:Budget"),
    "gcp:compute/address:Address",
    *("gcp:artifactregistry/repository:Repository", "gcp:pubsub/topic:Topic"),
    *("gcp:pubsub/subscription:Subscription", "gcp:storage/bucketObject:BucketObject"),
)
# Packages of which every type is a provider's: none of their resources is a component.
_PROVIDERS = frozenset({"aws", "aws-native", "azure-native", "command", "gcp", "kubernetes"})


def apart(resource_type: str, *, component: bool) -> bool:
    """Return whether no training stands on a type: by its name, or as anyone's component.

    A component is nothing by itself: its children are judged one by one.
    """
    if component and resource_type.partition(":")[0] not in _PROVIDERS:
        return True
    return any(fnmatchcase(resource_type, pattern) for pattern in _APART)
