"""Order of creation and deletion on AWS, read from AWS's documentation.

Each assertion is about one step and what that step needs while it runs; beside it is the document
that says so. The engine deletes in the reverse of the order in which it makes.
"""

from __future__ import annotations

import pytest

from tests.components.order import assert_first
from tests.components.recording import STACKS, Recording, Registered, recorded

# Whole stacks of a cloud are recorded here.
pytestmark = pytest.mark.slow

AWS = [name for name in STACKS if name.startswith("aws-")]

POOL = "aws:eks/nodeGroup:NodeGroup"
CLUSTER = "aws:eks/cluster:Cluster"
ADDON = "aws:eks/addon:Addon"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
TARGET = "aws:efs/mountTarget:MountTarget"
NAT = "aws:ec2/natGateway:NatGateway"
ROUTE = "aws:ec2/route:Route"
ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
TABLE = "aws:ec2/routeTable:RouteTable"
ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
TRANSIT = "aws:ec2transitgateway/vpcAttachment:VpcAttachment"
GROUP = "aws:ec2/securityGroup:SecurityGroup"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
ATTACHED = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
OWN_POLICY = "aws:iam/rolePolicy:RolePolicy"
ROLE = "aws:iam/role:Role"
DOOR = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"


def rules(recording: Recording, group: str) -> list[Registered]:
    """Return the rules of a security group, by its id."""
    return [
        rule
        for token in (INGRESS, EGRESS)
        for rule in recording.of_type(token)
        if rule.inputs["securityGroupId"] == group
    ]


def rights(recording: Recording, role: Registered) -> list[Registered]:
    """Return the policies of a role, attached and inline."""
    return [
        policy
        for token in (ATTACHED, OWN_POLICY)
        for policy in recording.of_type(token)
        if policy.inputs["role"] == role.inputs["name"]
    ]


def routes(recording: Recording, table: str) -> list[Registered]:
    """Return the routes of a table, by its id, and the subnets that it holds for."""
    return [
        item
        for token in (ROUTE, ASSOCIATION)
        for item in recording.of_type(token)
        if item.inputs["routeTableId"] == table
    ]


@pytest.fixture(scope="module", params=AWS)
def stack(request: pytest.FixtureRequest) -> Recording:
    return recorded(request.param)


class TestNetwork:
    def test_a_nat_gateway_has_its_way_out(self, stack: Recording) -> None:
        """VPC user guide, NAT gateways: the public subnet's table routes to the internet gateway.

        Without the route, nodes that still run (or an operator's last hook that still pulls) lose
        theirs while it is deleted.
        """
        for nat in stack.of_type(NAT):
            (mine,) = [
                a
                for a in stack.of_type(ASSOCIATION)
                if a.inputs["subnetId"] == nat.inputs["subnetId"]
            ]
            assert_first(stack, routes(stack, mine.inputs["routeTableId"]), nat)

    def test_a_node_has_its_way_out(self, stack: Recording) -> None:
        """EKS user guide, nodes: they call EKS, EC2 and ECR before they are ready, and S3 for
        image layers; by NAT, by interface endpoints, and by S3's gateway endpoint.
        """
        private = [t for t in stack.of_type(TABLE) if "private" in t.name]
        for pool in stack.of_type(POOL):
            for table in private:
                assert_first(stack, routes(stack, f"{table.name}-id"), pool)
            if stack.of_type(ENDPOINT):
                assert_first(stack, stack.of_type(ENDPOINT), pool)

    def test_a_route_to_a_transit_gateway_has_its_attachment(self, stack: Recording) -> None:
        """EC2 API reference, CreateRoute: the VPC must be attached to the gateway."""
        for route in stack.of_type(ROUTE):
            if "transitGatewayId" in route.inputs:
                assert_first(stack, stack.of_type(TRANSIT), route)


class TestControlPlane:
    def test_it_has_its_rights_its_key_and_its_log(self, stack: Recording) -> None:
        """EKS user guide, cluster IAM role: without the policy EKS cannot take back the interfaces
        and groups that it made when the cluster is deleted. CreateCluster: the key must be there.
        The log group is EKS's own, for ever, unless it was there before.
        """
        (cluster,) = stack.of_type(CLUSTER)
        (role,) = [r for r in stack.of_type(ROLE) if r.name.endswith("-eks-role-role")]
        assert_first(stack, rights(stack, role), cluster)
        assert_first(stack, stack.of_type("aws:kms/key:Key"), cluster)
        assert_first(stack, stack.of_type("aws:cloudwatch/logGroup:LogGroup"), cluster)

    def test_api_server_stays_reachable_until_the_end(self, stack: Recording) -> None:
        """EKS user guide, cluster endpoint: a private API server is reached through its security
        group, by routes, with the right of an access entry. Whatever is deleted inside needs them.
        """
        (cluster,) = stack.of_type(CLUSTER)
        way: list[Registered] = [*stack.of_type(DOOR)]
        way += [r for r in stack.of_type(ROUTE) if "transitGatewayId" in r.inputs]
        if not cluster.inputs["vpcConfig"]["endpointPublicAccess"]:
            reach = [r for r in stack.of_type(INGRESS) if "-reach-" in r.name]
            assert reach, "a private API server lets in nobody but nodes"
            way += reach
        inside = [r for r in stack.resources.values() if r.type.startswith("kubernetes:")]
        assert len(inside) > 20
        for resource in inside:
            assert_first(stack, way, resource)

    def test_researchers_get_in_until_their_jobs_are_gone(self, stack: Recording) -> None:
        """A running job ends `destroy` in its first turn (docs/editing.md); they are to end it."""
        entries = stack.of_type("aws:eks/accessEntry:AccessEntry")
        (claim, *_) = stack.kind("PersistentVolumeClaim")
        assert_first(stack, entries, claim)


class TestNodes:
    def test_nodes_may_join_and_pull_until_they_are_gone(self, stack: Recording) -> None:
        """EKS user guide, node IAM role: the policies are there before nodes launch, and while EKS
        drains and deletes them.
        """
        (role,) = [r for r in stack.of_type(ROLE) if r.name.endswith("-nodes-role")]
        for pool in stack.of_type(POOL):
            assert_first(stack, rights(stack, role), pool)

    def test_their_pods_have_addresses_and_rights(self, stack: Recording) -> None:
        """EKS user guide, VPC CNI and pod identity: a node is ready when its CNI is, whose rights
        come by the agent. The CNI that goes before its nodes leaves interfaces behind, which hold
        subnets and groups (amazon-vpc-cni-k8s, issue 608).
        """
        early = [
            a
            for a in stack.of_type(ADDON)
            if a.inputs["addonName"] in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
        ]
        assert len(early) == 3
        for pool in stack.of_type(POOL):
            assert_first(stack, early, pool)

    def test_their_ranks_reach_each_other_from_the_first_packet(self, stack: Recording) -> None:
        """EC2 user guide, EFA: a group that allows all traffic to and from itself."""
        (group,) = [g for g in stack.of_type(GROUP) if g.name.endswith("-efa-group")]
        fabric = rules(stack, f"{group.name}-id")
        assert len(fabric) == 2
        for pool in stack.of_type(POOL):
            if "NVIDIA" in pool.inputs["amiType"]:
                assert_first(stack, fabric, pool)


class TestAddons:
    def test_drivers_keep_their_rights_until_they_are_deleted(self, stack: Recording) -> None:
        """EKS user guide, pod identity: credentials are of the role as it is when they are asked
        for. A driver that loses its rights first cannot let go of what it made.
        """
        judged = 0
        for addon in stack.of_type(ADDON):
            for association in addon.inputs.get("podIdentityAssociations") or []:
                (role,) = [
                    r
                    for r in stack.of_type(ROLE)
                    if association["roleArn"].endswith(str(r.inputs["name"]))
                    or r.name in association["roleArn"]
                ]
                assert_first(stack, rights(stack, role), addon)
                judged += 1
        assert judged >= 2

    def test_what_needs_a_node_has_one(self, stack: Recording) -> None:
        """EKS user guide, add-ons: a Deployment's add-on is degraded until a node takes it."""
        (system,) = [p for p in stack.of_type(POOL) if p.name.endswith("-system-nodes")]
        late = [a for a in stack.of_type(ADDON) if "-late-" in a.name]
        assert {"coredns", "eks-node-monitoring-agent"} <= {a.inputs["addonName"] for a in late}
        for addon in late:
            assert_first(stack, [system], addon)

    def test_all_run_while_anything_inside_is_made_or_deleted(self, stack: Recording) -> None:
        """Kubernetes: a namespace closes when its pods have unmounted, which is the drivers' work
        on nodes that are there, and webhooks are called by name, which is DNS'.
        """
        (namespace,) = [
            r for r in stack.kind("Namespace") if r.inputs["metadata"]["name"] == "training"
        ]
        assert_first(stack, [*stack.of_type(ADDON), *stack.of_type(POOL)], namespace)


class TestJobs:
    def test_they_have_their_rights_from_the_first_pod_to_the_last(self) -> None:
        """EKS user guide, pod identity: a pod gets the credentials of its account when it starts,
        by the agent of its node, and none that come later.
        """
        recording = recorded("aws-p5-prod")
        (association,) = recording.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation")
        (role,) = [r for r in recording.of_type(ROLE) if "-jobs-training-" in r.name]
        (agent,) = [
            a for a in recording.of_type(ADDON) if a.inputs["addonName"] == "eks-pod-identity-agent"
        ]
        assert_first(recording, [*rights(recording, role), agent], association)
        assert_first(recording, [association], recording.one("Namespace", "training"))


class TestFileSystems:
    def test_fsx_finds_the_rules_of_its_groups(self, stack: Recording) -> None:
        """FSx user guide, cannot-create-fs: creation fails where the groups do not let Lustre's
        ports through, and for EFA everything within the group (aws-parallelcluster 1198, 6181).
        """
        for system in stack.of_type(LUSTRE):
            groups = system.inputs["securityGroupIds"]
            assert len(groups) == (2 if system.inputs["efaEnabled"] else 1)
            for group in groups:
                assert_first(stack, rules(stack, group), system)

    def test_efs_lets_its_clients_through(self, stack: Recording) -> None:
        """EFS user guide, mount targets: TCP 2049 from the clients' group."""
        for target in stack.of_type(TARGET):
            for group in target.inputs["securityGroups"]:
                assert_first(stack, rules(stack, group), target)

    def test_mounts_follow_the_file_system_and_its_rules(self, stack: Recording) -> None:
        """A pod that cannot unmount holds its namespace: file systems, their mount targets and
        the rules of their groups go after the volumes, and these after the namespaces.
        """
        needed: list[Registered] = [*stack.of_type(LUSTRE), *stack.of_type(TARGET)]
        for system in stack.of_type(LUSTRE):
            needed += [r for g in system.inputs["securityGroupIds"] for r in rules(stack, g)]
        for target in stack.of_type(TARGET):
            needed += [r for g in target.inputs["securityGroups"] for r in rules(stack, g)]
        (namespace,) = [
            r for r in stack.kind("Namespace") if r.inputs["metadata"]["name"] == "training"
        ]
        assert_first(stack, needed, namespace)
