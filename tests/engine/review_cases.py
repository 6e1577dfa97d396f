"""Pull requests for `railhead review`: edits of stacks and of code, bad ones and good ones."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One edit of a file: ``old`` becomes ``new`` everywhere; without ``old`` it is appended."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Case:
    """A pull request. ``verdict`` are those that are right, ``says`` is in the comment."""

    name: str
    stack: str
    edits: tuple[Edit, ...]
    verdict: str
    says: str = ""


AWS, BLOCK, GKE, ROCE = "aws-p5-prod", "aws-p5en-block", "gcp-a3-ultra", "onprem-roce-shared"
BAD, WARNED, GOOD = "refused", "ask", "clean"
_HEAD = "import json\nimport pulumi\nimport pulumi_aws as aws\nimport pulumi_kubernetes as k8s\n"


def stack(name: str, verdict: str, says: str, *pairs: tuple[str, str], of: str = AWS) -> Case:
    file = f"stacks/Pulumi.{of}.yaml"
    return Case(name, of, tuple(Edit(file, old, new) for old, new in pairs), verdict, says)


def code(
    name: str, verdict: str, says: str, file: str, *pairs: tuple[str, str], of: str = AWS
) -> Case:
    return Case(name, of, tuple(Edit(file, old, new) for old, new in pairs), verdict, says)


def added(name: str, verdict: str, says: str, text: str, of: str = AWS) -> Case:
    """Return a case in which the site's own program makes one more thing."""
    edit = Edit("__main__.py", "", f"\n\n{_HEAD}\n{text}\n")
    return Case(name, of, (edit,), verdict, says)


def _manifest(version: str, kind: str, name: str, body: str) -> str:
    return (
        f"k8s.apiextensions.CustomResource({name!r}, api_version={version!r}, kind={kind!r}, "
        f"metadata={{'name': {name!r}, 'namespace': 'tools'}}, {body})"
    )


_GROUPS = "components/aws/security_groups.py"
_POLICIES = "components/namespaces/network_policies.py"
_NODES = "components/aws/node_pools.py"
_WHOLE = "components/training_cluster.py"
_EKS = "components/aws/eks_cluster.py"
_KUEUE = "components/controllers/kueue.py"
_FILES = "components/aws/file_systems.py"
_ACCESS = "railhead/platform/aws/rights.py"
_POOL = "      - name: h100\n        instance_type: p5.48xlarge\n        nodes: 16\n"
_RESTART = "    ready_timeout_seconds: 1800\n"

STACKS = (
    stack(
        "claim renamed",
        BAD,
        "30000Gi",
        ("      - name: checkpoints\n", "      - name: weights\n"),
        ("        checkpoint: checkpoints\n", "        checkpoint: weights\n"),
    ),
    stack("claim shrunk", BAD, "checkpoint training/checkpoints", ("30000Gi", "20000Gi")),
    stack("network moved", BAD, "network", ("10.20.0.0/16", "10.30.0.0/16")),
    stack(
        "pool renamed",
        BAD,
        "pool h100",
        ("name: h100\n", "name: gpu\n"),
        ("pool: h100\n", "pool: gpu\n"),
        ("          - h100\n", "          - gpu\n"),
    ),
    stack(
        "namespace renamed",
        BAD,
        "namespace training",
        ("      - training\n", "      - train\n"),
        ("namespace: training\n", "namespace: train\n"),
    ),
    stack("file system smaller", BAD, "capacity", ("38400", "19200"), ("30000Gi", "15000Gi")),
    stack(
        "zone of the file system",
        BAD,
        "EFA does not leave a zone",
        ("us-east-2a\n          cap", "us-east-2b\n          cap"),
    ),
    stack("no protection", WARNED + BAD, "protection", ("protection: true", "protection: false")),
    stack("fewer nodes", WARNED, "pool h100", ("nodes: 16", "nodes: 8")),
    stack("not a field", BAD, "shred_memory", ("shared_memory: 256Gi", "shred_memory: 256Gi")),
    stack(
        "little shared memory",
        WARNED,
        "shared memory",
        ("shared_memory: 256Gi", "shared_memory: 1Gi"),
    ),
    stack(
        "public API server",
        WARNED + BAD,
        "public",
        (
            "kind: private\n        from_cidrs:\n          - 10.0.0.0/16\n",
            "kind: public\n        from_cidrs:\n          - 203.0.113.0/24\n",
        ),
    ),
    stack("backups shorter", BAD, "backup", ("backup_days: 7", "backup_days: 1")),
    stack(
        "moving image",
        BAD,
        "another image tomorrow",
        ("2.8.0-gpu-py312-cu129-ubuntu22.04-ec2-v1.0", "latest"),
    ),
    stack(
        "queue renamed",
        BAD,
        "queue",
        ("      - name: training\n        namespace", "      - name: all\n        namespace"),
    ),
    stack(
        "team loses its nodes",
        WARNED + BAD,
        "research",
        ("nodes: 4\n            borrow: 8", "nodes: 2\n            borrow: 8"),
        of=ROCE,
    ),
    stack("frames too small", WARNED + BAD, "4096", ("mtu: 9000", "mtu: 1500"), of=ROCE),
    stack(
        "tier of GKE's file system", BAD, "lustre", ("throughput: 500", "throughput: 250"), of=GKE
    ),
    stack("better image", WARNED, "in place of", ("2.8.0-gpu-py312", "2.9.0-gpu-py312")),
    stack("more memory", WARNED, "its pods change", ("memory: 1800Gi", "memory: 1850Gi")),
    stack("another tag", GOOD, "", ("cost-center: training", "cost-center: research")),
    stack("comment", GOOD, "", ("# What is small and shared", "# Small, and shared")),
    stack("larger file system", GOOD, "", ("38400", "57600"), ("iops: 12000", "iops: 24000")),
    stack(
        "one more researcher",
        GOOD,
        "",
        (
            "role/ml-researchers\n",
            "role/ml-researchers\n        - arn:aws:iam::123456789012:role/ml-guests\n",
        ),
    ),
    stack(
        "one more pool",
        WARNED + GOOD,
        "GPU hours",
        (
            _POOL,
            "      - name: spare\n        instance_type: p5.48xlarge\n        nodes: 2\n"
            "        availability_zone: us-east-2a\n        node_selector:\n"
            "          railhead.dev/pool: spare\n        tolerations:\n"
            "          - key: nvidia.com/gpu\n            operator: Exists\n"
            "        purchase:\n          kind: reservation\n          id: cr-0a1b2c3d4e5f60719\n"
            "          availability_zone: us-east-2a\n" + _POOL,
        ),
        ("          - h100\n", "          - h100\n          - spare\n"),
    ),
    stack(
        "longer patience", GOOD, "", ("ready_timeout_seconds: 1800", "ready_timeout_seconds: 2400")
    ),
    stack(
        "one more claim",
        GOOD,
        "",
        (
            "      - name: shared\n        namespace",
            "      - name: results\n        namespace: training\n        storage_class: shared\n"
            "        size: 1Ti\n        mount_path: /results\n"
            "      - name: shared\n        namespace",
        ),
    ),
    stack(
        "a way to a licence server",
        GOOD,
        "",
        (
            "          ports:\n            - 443\n",
            "          ports:\n            - 443\n"
            "        - cidr: 10.0.7.5/32\n          ports:\n            - 27000\n",
        ),
    ),
    stack(
        "a loss that the file allows",
        WARNED,
        "the file allows it",
        ("      - name: checkpoints\n", "      - name: weights\n"),
        ("        checkpoint: checkpoints\n", "        checkpoint: weights\n"),
        (
            _RESTART,
            _RESTART
            + "    removals:\n"
            + "      - {kind: checkpoint, name: training/checkpoints, loses: [data]}\n",
        ),
    ),
)

CODE = (
    code(
        "kubeconfig in plain text",
        BAD,
        "output kubeconfig** is no secret any more",
        "railhead/program.py",
        ("pulumi.Output.secret(built.kubeconfig)", "pulumi.Output.unsecret(built.kubeconfig)"),
    ),
    code(
        "kubeconfig is no output",
        BAD + WARNED,
        "output kubeconfig** is no output any more",
        "railhead/program.py",
        ("    if built.kubeconfig is not None:\n", "    if built.kubeconfig is None:\n"),
    ),
    code(
        "ended jobs' pods go after hours",
        WARNED,
        "keeps an ended job's pods and logs for 7 hours, not for 168 hours",
        "railhead/resolve/restarts.py",
        ("finished_days * 86400", "finished_days * 3600"),
        of=ROCE,
    ),
    code(
        "seconds of a day by their name",
        GOOD,
        "nothing is lost",
        "railhead/resolve/restarts.py",
        ("finished_days * 86400", "finished_days * _DAY"),
        ("_UNREACHABLE = (", "_DAY = 24 * 60 * 60\n_UNREACHABLE = ("),
    ),
    added(
        "kubeconfig by another name, in plain text",
        BAD + WARNED,
        "takes the mark off a secret",
        "from railhead.contract import KUBECONFIG_OUTPUT\n"
        "made = pulumi.runtime.stack.get_root_resource()\n"
        'pulumi.export("ci", pulumi.Output.unsecret(made.outputs[KUBECONFIG_OUTPUT]))',
    ),
    code(
        "EFA egress gone",
        BAD,
        "SecurityGroupEgressRule",
        _GROUPS,
        (
            """            vpc.SecurityGroupEgressRule(
                f"{name}-out",
                security_group_id=self.group.id,
                referenced_security_group_id=self.group.id,
                ip_protocol="-1",
                description="EFA to the group",
                opts=inside,
            ),
""",
            "",
        ),
    ),
    code(
        "eight of 32 interfaces",
        BAD,
        "fewer EFA interfaces",
        "railhead/platform/aws/template.py",
        ("(*machine.host_nics, *machine.nics)", "(*machine.host_nics, *machine.nics[:8])"),
    ),
    code(
        "image without a driver",
        BAD,
        "AL2023",
        _NODES,
        ("catalogue.NVIDIA_AMI[", "catalogue.STANDARD_AMI["),
    ),
    code(
        "storage open to 10/8",
        BAD,
        "10.0.0.0/8",
        _GROUPS,
        (
            "                        referenced_security_group_id=group,\n"
            '                        ip_protocol="tcp",\n'
            "                        from_port=first,\n"
            "                        to_port=last,\n"
            '                        description=f"{args.what} from',
            '                        cidr_ipv4="10.0.0.0/8",\n'
            '                        ip_protocol="tcp",\n'
            "                        from_port=first,\n"
            "                        to_port=last,\n"
            '                        description=f"{args.what} from',
        ),
    ),
    code(
        "no network policy",
        BAD,
        "NetworkPolicy",
        _POLICIES,
        ('"railhead-default-deny"', '"railhead-deny-nothing"'),
    ),
    code(
        "pods of every namespace",
        BAD,
        "for anyone",
        _POLICIES,
        ('"ingress": [{"from": jobs}],', '"ingress": [{}],'),
    ),
    code(
        "a guard gone",
        BAD,
        "ValidatingAdmissionPolicy",
        "railhead/resolve/guards.py",
        ('        "railhead-device-pod": device_pod_policy(cluster, runtimes),\n', ""),
    ),
    code(
        "jobs without a queue",
        BAD,
        "past every quota",
        _KUEUE,
        ('"manageJobsWithoutQueueName": True', '"manageJobsWithoutQueueName": False'),
    ),
    code(
        "claims not retained",
        BAD,
        "retain",
        "components/namespaces/checkpoints.py",
        ("retain_on_delete=True", "retain_on_delete=False"),
    ),
    code(
        "nodes unprotected",
        BAD,
        "protect",
        _NODES,
        ("protect=args.deletion_protection", "protect=False"),
    ),
    code("all of S3", BAD, "s3:*", _ACCESS, ('_READ = ("s3:GetObject",)', '_READ = ("s3:*",)')),
    code("no audit log", BAD, "logs", _EKS, ("list(LOG_TYPES)", "list(LOG_TYPES)[:1]")),
    code(
        "no last backup",
        BAD,
        "last backup",
        _FILES,
        ("skip_final_backup=not wanted.final_backup", "skip_final_backup=True"),
    ),
    code(
        "order lost",
        WARNED,
        "no longer waits",
        _FILES,
        (
            "depends_on=[*callbacks, *[rule for group in groups for rule in group.ready]]",
            "depends_on=[]",
        ),
    ),
    code("autoscaling undone", BAD, "ignore", _NODES, ("ignore_changes=left_alone,", "")),
    code(
        "renamed in the program",
        BAD,
        "NodeGroup",
        _NODES,
        (
            'f"{name}-nodes",\n            cluster_name=args.cluster_name,\n'
            "            node_group_name=group,",
            'f"{name}-group",\n            cluster_name=args.cluster_name,\n'
            "            node_group_name=group,",
        ),
    ),
    code(
        "namespaces unlabelled",
        BAD,
        "railhead.dev/training",
        "components/namespaces/training_namespace.py",
        ('TRAINING_LABEL: "true",', ""),
    ),
    code(
        "an exemption",
        BAD,
        "changes who judges",
        "policies/exempt.py",
        (
            "\n\n@dataclass(frozen=True, kw_only=True)\nclass Path:",
            "\n\nANYTHING = True\n\n\n@dataclass(frozen=True, kw_only=True)\nclass Path:",
        ),
    ),
    added(
        "a privileged DaemonSet",
        BAD,
        "privileged",
        """meta = {"name": "tuner", "namespace": "kube-system"}
k8s.apps.v1.DaemonSet("tuner", metadata=meta, spec={
    "selector": {"matchLabels": {"app": "tuner"}},
    "template": {"metadata": {"labels": {"app": "tuner"}}, "spec": {"containers": [
        {"name": "tuner", "image": "registry.example.com/tuner:1.2",
         "securityContext": {"privileged": True}}]}}})""",
    ),
    added(
        "a token in plain text",
        BAD,
        "plain text",
        """k8s.core.v1.Secret("hub", metadata={"name": "hub", "namespace": "training"},
    string_data={"HF_TOKEN": "abc123def456"})""",
    ),
    added(
        "secrets for everyone there",
        BAD,
        "secrets",
        """k8s.rbac.v1.ClusterRole("reader", metadata={"name": "reader"}, rules=[
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}])""",
    ),
    added(
        "a public load balancer",
        BAD,
        "outside of the cluster",
        """k8s.core.v1.Service("board", metadata={"name": "board", "namespace": "training"}, spec={
    "type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": "board"}})""",
    ),
    added(
        "a chart without a version",
        BAD,
        "no version",
        """k8s.helm.v3.Release("mlflow", name="mlflow", chart="mlflow", namespace="tools",
    repository_opts={"repo": "https://charts.example.com"})""",
    ),
    added(
        "everyone an administrator",
        BAD,
        "administrator",
        """aws.eks.AccessPolicyAssociation("all", cluster_name="p5-prod",
    principal_arn="arn:aws:iam::123456789012:role/ml-researchers",
    policy_arn="arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
    access_scope={"type": "cluster"})""",
    ),
    added(
        "all of S3 for a role",
        BAD,
        "AmazonS3FullAccess",
        """aws.iam.RolePolicyAttachment("s3", role="p5-prod-nodes",
    policy_arn="arn:aws:iam::aws:policy/AmazonS3FullAccess")""",
    ),
    added(
        "an alarm",
        GOOD,
        "",
        """aws.cloudwatch.MetricAlarm(
    "busy", name="busy", comparison_operator="GreaterThanThreshold", evaluation_periods=2,
    metric_name="CPUUtilization", namespace="AWS/EC2", period=300, statistic="Average",
    threshold=90)""",
    ),
    added(
        "a bucket for logs",
        GOOD,
        "",
        """aws.s3.BucketPublicAccessBlock("logs", bucket="acme-logs", block_public_acls=True,
    block_public_policy=True, ignore_public_acls=True, restrict_public_buckets=True)""",
    ),
    added(
        "a settings map",
        GOOD,
        "",
        """k8s.core.v1.ConfigMap("motd", metadata={"name": "motd", "namespace": "training"},
    data={"motd": "maintenance on Friday"})""",
    ),
    code(
        "a docstring",
        GOOD,
        "",
        _KUEUE,
        ('"""Kueue\'s own configuration file', '"""Return Kueue\'s own configuration file'),
    ),
    code(
        "a comment in a guard",
        GOOD,
        "",
        "railhead/resolve/guards.py",
        (
            "# An existing cluster may have other uses of GPUs.",
            "# Others may use an existing cluster's GPUs.",
        ),
    ),
    code("faster admission", WARNED + GOOD, "", _KUEUE, ('"Job.batch": 5', '"Job.batch": 10')),
    code(
        "faster admission in the lab",
        WARNED,
        "another speed",
        _KUEUE,
        ('"Job.batch": 5', '"Job.batch": 10'),
        of="lab",
    ),
    code(
        "a longer limit",
        GOOD,
        "",
        _FILES,
        ('else "2h", update="6h", delete="12h"', 'else "3h", update="6h", delete="12h"'),
    ),
    code(
        "a description",
        GOOD,
        "",
        _GROUPS,
        (
            "EFA: everything within the group, in and out",
            "EFA: everything within the group, in and out",
        ),
    ),
)

# Written before they were tried, and kept as they were.
SECOND = (
    stack(
        "no network policy at all",
        BAD,
        "NetworkPolicy",
        ("network_policy:\n", "network_policy:\n      enabled: false\n"),
    ),
    stack(
        "any port to anywhere",
        WARNED + BAD,
        "0.0.0.0/0",
        ("          ports:\n            - 443\n", ""),
    ),
    stack(
        "API server for the world",
        BAD,
        "0.0.0.0/0",
        ("        - 203.0.113.0/24\n", "        - 0.0.0.0/0\n"),
        of=BLOCK,
    ),
    stack("one way out", WARNED + BAD, "NatGateway", ("nat: per-zone", "nat: single")),
    stack(
        "no backups of EFS",
        BAD,
        "BackupPolicy",
        ("          backups: true", "          backups: false"),
    ),
    stack(
        "jobs write the whole bucket", WARNED + BAD, "s3:", ("              prefix: p5-prod/\n", "")
    ),
    stack(
        "other buckets",
        WARNED + BAD,
        "no longer allows",
        ("- name: acme-datasets", "- name: acme-other"),
    ),
    stack(
        "no way from the offices",
        WARNED + BAD,
        "transit",
        (
            "        transit_gateway:\n          id: tgw-0a1b2c3d4e5f60718\n          cidrs:\n"
            "            - 10.0.0.0/16\n",
            "",
        ),
    ),
    stack(
        "another account",
        BAD,
        "account",
        ('account: "123456789012"', 'account: "210987654321"'),
        ("arn:aws:iam::123456789012", "arn:aws:iam::210987654321"),
    ),
    stack("older Kubernetes", BAD, "ubernetes", ('kubernetes: "1.35"', 'kubernetes: "1.34"')),
    stack("fewer controllers' nodes", WARNED + GOOD, "", ("nodes: 3\n", "nodes: 2\n")),
    stack(
        "short time to save", WARNED, "last checkpoint", ("grace_seconds: 120", "grace_seconds: 30")
    ),
    stack(
        "group of researchers changed",
        WARNED + BAD,
        "ml-researchers",
        ("researchers: ml-researchers", "researchers: everyone"),
    ),
    stack(
        "no automatic end of lost pods",
        WARNED + BAD,
        "",
        ("      end_lost_pods: true\n", "      end_lost_pods: false\n"),
        of=ROCE,
    ),
    stack("rail renamed", BAD, "rail-0", ("name: rail-0\n", "name: rail-a\n"), of=ROCE),
    stack(
        "NFS server moved",
        BAD,
        "nfs",
        ("server: nfs.example.com", "server: nfs2.example.com"),
        of=ROCE,
    ),
    stack(
        "one more viewer",
        GOOD,
        "",
        ("viewers: [engineering]", "viewers: [engineering, sales]"),
        of=ROCE,
    ),
    stack(
        "longer maintenance ban",
        WARNED + GOOD,
        "",
        ("2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"),
        of=GKE,
    ),
    stack("more system nodes on GKE", GOOD, "", ("max_nodes: 6", "max_nodes: 8"), of=GKE),
    stack(
        "another network that is there",
        BAD,
        "network",
        ("vpc-0a1b2c3d4e5f60718", "vpc-0fffffffffffff718"),
        of=BLOCK,
    ),
    code(
        "gangs keep their quota",
        BAD,
        "waitForPodsReady",
        "railhead/resolve/queues.py",
        ('"waitForPodsReady": {', '"unused": {'),
    ),
    code(
        "researchers delete all jobs",
        WARNED + BAD,
        "deletecollection",
        "railhead/resolve/access.py",
        (
            'resources=("trainjobs",),\n            verbs=("create", "patch", "delete")',
            'resources=("trainjobs",),\n            '
            'verbs=("create", "patch", "delete", "deletecollection")',
        ),
    ),
    code(
        "researchers read secrets",
        BAD,
        "read every token",
        "railhead/resolve/access.py",
        (
            'resources=("secrets",),\n            verbs=("create",),\n            personas=LEADING',
            'resources=("secrets",),\n            verbs=READ,\n            personas=SUBMITTING',
        ),
    ),
    code(
        "load balancers allowed",
        BAD,
        "services.loadbalancers",
        "railhead/resolve/fences.py",
        ('"services.loadbalancers": "0"', '"services.loadbalancers": "20"'),
    ),
    code(
        "nodes manage the registry",
        WARNED + BAD,
        "AmazonEC2ContainerRegistryFullAccess",
        "components/aws/infrastructure.py",
        ("AmazonEC2ContainerRegistryPullOnly", "AmazonEC2ContainerRegistryFullAccess"),
    ),
    code(
        "key gone in a week",
        WARNED,
        "sooner",
        _EKS,
        ("deletion_window_in_days=30", "deletion_window_in_days=7"),
    ),
    code(
        "old way in",
        WARNED + BAD,
        "authenticat",
        _EKS,
        ('"authentication_mode": "API"', '"authentication_mode": "API_AND_CONFIG_MAP"'),
    ),
    code(
        "no repair on GKE",
        BAD,
        "repair",
        "components/gcp/gpu_pool.py",
        ('{"auto_repair": flex is None', '{"auto_repair": False'),
        of=GKE,
    ),
    code(
        "firewall for all of 10/8",
        BAD,
        "10.0.0.0/8",
        "components/gcp/primary_network.py",
        ("source_ranges=[args.network.nodes, args.network.pods]", 'source_ranges=["10.0.0.0/8"]'),
        of=GKE,
    ),
    code(
        "a clearer message",
        GOOD,
        "",
        "components/aws/reservation.py",
        (
            "correct the pool's purchase in the stack's file",
            "correct the purchase of the pool in the stack's file",
        ),
    ),
)
_DELETES = """                "Action": ["elasticfilesystem:DeleteAccessPoint"],
                "Resource": points,
"""
_WHEN = '                "Condition": {"StringEquals": {f"aws:ResourceTag/{mark}": "true"}},\n'
_NIGHTLY = """name: nightly
on:
  schedule:
    - cron: "15 1 * * *"
jobs:
  up:
    runs-on: ubuntu-24.04
    steps:
      - run: %s
"""
_NODE_GROUP = (
    "aws.eks.NodeGroup('more', cluster_name='p5-prod', node_role_arn='arn:aws:iam::1:role/a', "
    "subnet_ids=['subnet-1'], instance_types=['%s'], scaling_config={'min_size': 2, "
    "'desired_size': 2, 'max_size': 2})"
)

#: What no rule about a type sees: machines beside the pools, commands, facts, unseen code.
THIRD = (
    added("machines beside the pools", BAD, "(16 GPUs) beside the", _NODE_GROUP % "p5.48xlarge"),
    code(
        "a plugin that tolerates nothing",
        BAD,
        "its pods no longer run on nodes with that taint",
        "components/fabric/modes/efa.py",
        ('        "tolerations": [dict(item) for item in args.tolerations],\n', ""),
    ),
    code(
        "access points of everyone",
        BAD,
        'without the condition that it had for "Action": ["elasticfilesystem:DeleteAccessPoint"]',
        _FILES,
        (_DELETES + _WHEN, _DELETES),
    ),
    code(
        "access points of fewer",
        GOOD,
        "holds under more conditions",
        _FILES,
        (
            _DELETES + _WHEN,
            _DELETES + _WHEN.replace('"true"}', '"true", "aws:PrincipalTag/a": "b"}'),
        ),
    ),
    code(
        "slower NICs in a machine's row",
        WARNED,
        "a fabric at a part of its rate passes",
        "railhead/machines/rows/metal.yaml",
        (
            "rate_gbps: 400, interface: hca, hca: mlx5_0}",
            "rate_gbps: 200, interface: hca, hca: mlx5_0}",
        ),
        of=ROCE,
    ),
    code(
        "fewer NICs in a machine's row",
        BAD,
        "railhead/twin/truth has 32",
        "railhead/machines/rows/aws.yaml",
        ("      - {card: 31, device: 0, rate_gbps: 100, interface: efa-only}\n", ""),
    ),
    code(
        "an hour for running jobs",
        WARNED,
        "*Rolling: no node is touched while a training pod is on it",
        "components/fabric/network_operator.py",
        ('"timeoutSeconds": 0', '"timeoutSeconds": 3600'),
        of=ROCE,
    ),
    code(
        "protection off each night",
        BAD,
        "by itself (15 1 * * *): takes the protection off",
        ".github/workflows/nightly.yml",
        ("", _NIGHTLY % "pulumi state unprotect --all --yes"),
    ),
    code(
        "a longer build",
        GOOD,
        "",
        ".github/workflows/release.yml",
        ("timeout-minutes: 30", "timeout-minutes: 45"),
    ),
    code("first owners", GOOD, "", ".github/CODEOWNERS", ("", "* @acme/ml-platform\n")),
    code(
        "a parent is lost",
        BAD,
        "is replaced (38400 GiB), because of securityGroupIds",
        _FILES,
        (
            """                what="Lustre",
                ports=LUSTRE_PORTS,
                nodes=args.nodes,
            ),
            opts=pulumi.ResourceOptions(parent=self),
""",
            """                what="Lustre",
                ports=LUSTRE_PORTS,
                nodes=args.nodes,
            ),
""",
        ),
    ),
    code(
        "a provider is lost",
        BAD,
        "is made by the default provider, not p5-prod-kubernetes",
        _WHOLE,
        (
            "arguments.jobset(cluster), opts=below)",
            "arguments.jobset(cluster), opts=pulumi.ResourceOptions(parent=self))",
        ),
    ),
    code(
        "aliases are lost",
        WARNED,
        "has fewer aliases than before",
        _EKS,
        ("parent=self, aliases=[pulumi.Alias(name=name)], **more", "parent=self, **more"),
    ),
    code(
        "an hour for an update",
        WARNED,
        "has 60 minutes for its update, not 1020 minutes",
        _NODES,
        ('update=f"{1 + nodes}h"', 'update="1h"'),
    ),
    code(
        "more hours for an update",
        GOOD,
        "",
        _NODES,
        ('update=f"{1 + nodes}h"', 'update=f"{2 + nodes}h"'),
    ),
    code(
        "a component renamed with an alias",
        GOOD,
        "",
        "components/aws/infrastructure.py",
        (
            """            f"{name}-efa",
            EfaSecurityGroupArgs(vpc_id=self.nets.vpc_id, cluster=args.name),
            opts=self._below,
""",
            """            f"{name}-fabric",
            EfaSecurityGroupArgs(vpc_id=self.nets.vpc_id, cluster=args.name),
            opts=pulumi.ResourceOptions.merge(
                self._below, pulumi.ResourceOptions(aliases=[pulumi.Alias(name=f"{name}-efa")])
            ),
""",
        ),
    ),
    code(
        "a plain kubeconfig",
        BAD,
        "is no secret any more in kubeconfig",
        _EKS,
        ("self.kubeconfig = pulumi.Output.secret(", "self.kubeconfig = pulumi.Output.from_input("),
    ),
)
CASES = (*STACKS, *CODE, *SECOND, *THIRD)
