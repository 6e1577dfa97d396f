"""Pull requests as teams of GPU platforms make them, written before they were tried.

Half of them lose or open something, half do not. Each set was written without a look at the rules
and kept as it was; what a row says a right comment does.
"""

from __future__ import annotations

from tests.engine.review_cases import (
    BAD,
    BLOCK,
    GKE,
    GOOD,
    ROCE,
    WARNED,
    added,
    code,
    stack,
)

IB = "onprem-ib-sriov"
_LOOK = WARNED + BAD
_FINE = GOOD + WARNED
_POOL_TAINTS = """        taints:
          - key: nvidia.com/gpu
            value: "true"
            effect: NoSchedule
        tolerations:
"""
_IMAGE = (
    "public.ecr.aws/deep-learning-containers/pytorch-training:"
    "2.8.0-gpu-py312-cu129-ubuntu22.04-ec2-v1.0"
)

#: Losses and openings that stacks' files make.
FIRST_BAD_STACKS = (
    stack("GKE takes the rapid channel", _LOOK, "channel", ("regular", "rapid"), of=GKE),
    stack(
        "GKE endpoint for the world",
        _LOOK,
        "0.0.0.0/0",
        (
            "        kind: dns\n",
            "        kind: public\n        authorized_networks:\n          - 0.0.0.0/0\n",
        ),
        of=GKE,
    ),
    stack("GKE bucket renamed", BAD, "bucket", ("a3-ultra-datasets", "a3-datasets"), of=GKE),
    stack(
        "the block of the reservation dropped",
        _LOOK,
        "reservation",
        ("          block: a3-ultra-16-block-0001\n", ""),
        of=GKE,
    ),
    stack("frames for the internet", _LOOK, "frame", ("mtu: 8896", "mtu: 1460"), of=GKE),
    stack("maintenance any day", _LOOK, "maintenance", (";BYDAY=SA,SU", ""), of=GKE),
    stack(
        "the freeze of upgrades ends",
        _LOOK,
        "maint",
        ('        no_upgrades_from: "2026-11-21T00:00:00Z"\n', ""),
        of=GKE,
    ),
    stack(
        "two rails fewer",
        _LOOK,
        "rail",
        (", mlx5_8, mlx5_9]", "]"),
        (
            "        - name: rail-6\n          master: ens7f0np0\n"
            "          subnet: 192.168.24.0/22\n          range_end: 192.168.27.191\n"
            "        - name: rail-7\n          master: ens8f0np0\n"
            "          subnet: 192.168.28.0/22\n          range_end: 192.168.31.191\n",
            "",
        ),
        of=ROCE,
    ),
    stack("more promised than there is", _LOOK, "16", ("nodes: 12 #", "nodes: 14 #"), of=ROCE),
    stack("one system node", _LOOK, "system", ("nodes: 3\n", "nodes: 1\n")),
    stack(
        "spot to save money",
        _LOOK,
        "pot",
        (
            "          kind: reservation\n          id: cr-0a1b2c3d4e5f60718\n"
            "          availability_zone: us-east-2a\n",
            "          kind: spot\n",
        ),
    ),
    stack("another reservation", _LOOK, "cr-", ("5f60718\n          av", "5f60999\n          av")),
    stack("taints gone", _LOOK, "taint", (_POOL_TAINTS, "        tolerations:\n")),
    stack(
        "researchers administer",
        _LOOK,
        "administrator",
        (
            "role/railhead-deploy\n",
            "role/railhead-deploy\n        - arn:aws:iam::123456789012:role/ml-guests\n",
        ),
    ),
    stack(
        "jobs write the datasets",
        _LOOK,
        "acme-datasets",
        (
            "            - name: acme-datasets\n",
            "            - name: acme-datasets\n              write: true\n",
        ),
    ),
    stack(
        "upstream image without EFA",
        _LOOK,
        "image",
        (_IMAGE, "docker.io/pytorch/pytorch:2.8.0-cuda12.9-cudnn9-runtime"),
    ),
    stack(
        "a workaround for a hang",
        _LOOK,
        "NCCL_IB_DISABLE",
        (
            "        grace_seconds: 120\n",
            '        grace_seconds: 120\n        environment:\n          NCCL_IB_DISABLE: "1"\n',
        ),
        of=ROCE,
    ),
    stack("gangs larger than the pool", _LOOK, "16", ("        nodes: 2\n", "        nodes: 32\n")),
    stack(
        "runtime without its checkpoints",
        _LOOK,
        "checkpoint",
        ("        checkpoint: checkpoints\n", ""),
    ),
    stack(
        "placed by host alone",
        _LOOK,
        "opolog",
        (
            "      - network.topology.nvidia.com/spine\n      - network.topology.nvidia.com/leaf\n",
            "",
        ),
        of=IB,
    ),
    stack(
        "half a minute to pull images",
        _LOOK,
        "30",
        ("ready_timeout_seconds: 1800", "ready_timeout_seconds: 30"),
    ),
    stack(
        "two drivers on one node",
        _LOOK,
        "driver",
        ("      driver: host\n", "      driver: operator\n"),
    ),
    stack("cluster renamed", BAD, "", ("name: p5-prod\n", "name: p5-production\n")),
    stack(
        "zones in alphabetical order",
        BAD,
        "zone",
        (
            "          - us-east-2a\n          - us-east-2b\n          - us-east-2c\n",
            "          - us-east-2c\n          - us-east-2b\n          - us-east-2a\n",
        ),
    ),
)

FIRST_BAD_CODE = (
    code(
        "scratch storage is cheaper",
        BAD,
        "PERSISTENT_2",
        "components/aws/file_systems.py",
        ('deployment_type="PERSISTENT_2"', 'deployment_type="SCRATCH_2"'),
    ),
    code(
        "mount targets of one zone",
        _LOOK,
        "MountTarget",
        "components/aws/file_systems.py",
        ("in args.nets.regional.items()", "in list(args.nets.regional.items())[:1]"),
    ),
    code(
        "EFS in the clear",
        BAD,
        "encrypt",
        "components/aws/file_systems.py",
        ("encrypted=True", "encrypted=False"),
    ),
    code(
        "GKE nodes on the internet",
        BAD,
        "rivate",
        "components/gcp/gke_cluster.py",
        ('"enable_private_nodes": True', '"enable_private_nodes": False'),
        of=GKE,
    ),
    code(
        "GKE bucket emptied on delete",
        BAD,
        "deleted with",
        "components/gcp/bucket.py",
        ("force_destroy=False", "force_destroy=True"),
        of=GKE,
    ),
    code(
        "drivers upgrade themselves",
        _LOOK,
        "autoUpgrade",
        "components/controllers/gpu_operator.py",
        ('"autoUpgrade": False', '"autoUpgrade": True'),
        of=ROCE,
    ),
    code(
        "no metrics of GPUs",
        _LOOK,
        "dcgmExporter",
        "components/controllers/gpu_operator.py",
        (
            '"dcgmExporter": {\n            "enabled": config.dcgm_exporter',
            '"dcgmExporter": {\n            "enabled": False',
        ),
        of=ROCE,
    ),
    code(
        "shared GPUs",
        _LOOK,
        "devicePlugin",
        "components/controllers/gpu_operator.py",
        (
            '"devicePlugin": _device_plugin(args)',
            '"devicePlugin": {"enabled": True, "config": {"name": "slices", "default": "any"}}',
        ),
    ),
    code(
        "secure boot off",
        _LOOK,
        "ecure",
        "components/gcp/gpu_pool.py",
        ("enable_secure_boot=True", "enable_secure_boot=False"),
        of=GKE,
    ),
    code(
        "nodes with the metadata of the host",
        _LOOK,
        "etadata",
        "components/gcp/gpu_pool.py",
        ('mode="GKE_METADATA"', 'mode="GCE_METADATA"'),
        of=GKE,
    ),
    code(
        "gates that see nothing",
        _LOOK,
        "gate",
        "components/guards/node_gate.py",
        (
            '"tolerations": [{"operator": "Exists"}],\n        "terminationGrace',
            '"terminationGrace',
        ),
    ),
    code(
        "network policies for DNS anywhere",
        _LOOK,
        "railhead-names",
        "components/namespaces/network_policies.py",
        (
            '                    "ports": [{"protocol": p, "port": 53} for p in ("UDP", "TCP")],\n',
            "",
        ),
    ),
    code(
        "claims of one node",
        BAD,
        "ReadWriteOnce",
        "components/namespaces/checkpoints.py",
        ("            spec=spec,", '            spec={**spec, "accessModes": ["ReadWriteOnce"]},'),
    ),
    code(
        "Kueue forgets the queue's owners",
        _LOOK,
        "kubernetes.io/metadata.name",
        "components/controllers/kueue.py",
        (
            '{"matchLabels": {TRAINING_LABEL: "true"}}',
            '{"matchLabels": {"kubernetes.io/metadata.name": "team-a"}}',
        ),
    ),
    added(
        "a webhook for every pod",
        _LOOK,
        "is asked about all",
        """k8s.admissionregistration.v1.MutatingWebhookConfiguration(
    "injector", metadata={"name": "injector"}, webhooks=[{
        "name": "injector.example.com", "failurePolicy": "Fail", "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "injector", "namespace": "tools"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                   "resources": ["pods"]}]}])""",
    ),
    added(
        "a class for every pod",
        _LOOK,
        "everyone",
        """k8s.scheduling.v1.PriorityClass("batch",
    metadata={"name": "batch"}, value=100000, global_default=True)""",
    ),
    added(
        "a namespace for tools as root",
        _LOOK,
        "privileged",
        """k8s.core.v1.Namespace("debug", metadata={
    "name": "debug", "labels": {"pod-security.kubernetes.io/enforce": "privileged"}})""",
    ),
    added(
        "a notebook for all",
        _LOOK,
        "NodePort",
        """k8s.core.v1.Service("jupyter",
    metadata={"name": "jupyter", "namespace": "training"}, spec={"type": "NodePort",
    "ports": [{"port": 8888}], "selector": {"app": "jupyter"}})""",
    ),
    added(
        "a queue beyond the pools",
        _LOOK,
        "scratch",
        """k8s.apiextensions.CustomResource("scratch",
    api_version="kueue.x-k8s.io/v1beta2", kind="ClusterQueue", metadata={"name": "scratch"},
    spec={"namespaceSelector": {}, "resourceGroups": [{
        "coveredResources": ["cpu", "memory", "nvidia.com/gpu", "vpc.amazonaws.com/efa"],
        "flavors": [{"name": "h100", "resources": [
            {"name": "cpu", "nominalQuota": "9999"}, {"name": "memory", "nominalQuota": "99Ti"},
            {"name": "nvidia.com/gpu", "nominalQuota": "999"},
            {"name": "vpc.amazonaws.com/efa", "nominalQuota": "9999"}]}]}]})""",
    ),
    added("keys for CI", _LOOK, "AccessKey", """aws.iam.AccessKey("ci", user="ci-runner")"""),
    added(
        "a janitor with every right",
        BAD,
        "cluster-admin",
        """k8s.rbac.v1.ClusterRoleBinding("janitor",
    metadata={"name": "janitor"}, role_ref={"apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole", "name": "cluster-admin"},
    subjects=[{"kind": "ServiceAccount", "name": "janitor", "namespace": "tools"}])""",
    ),
    added(
        "SSH from anywhere",
        BAD,
        "0.0.0.0/0",
        """aws.ec2.SecurityGroupRule("ssh", type="ingress",
    from_port=22, to_port=22, protocol="tcp", cidr_blocks=["0.0.0.0/0"],
    security_group_id="sg-0a1b2c3d")""",
    ),
    added(
        "a bucket for everyone",
        BAD,
        "ublic",
        """aws.s3.BucketPolicy("share", bucket="acme-checkpoints",
    policy=json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow",
        "Principal": "*", "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::acme-checkpoints/*"}]}))""",
    ),
    added(
        "pods that debug nodes",
        BAD,
        "hostPath",
        """k8s.apps.v1.DaemonSet("node-shell",
    metadata={"name": "node-shell", "namespace": "tools"}, spec={
    "selector": {"matchLabels": {"app": "sh"}},
    "template": {"metadata": {"labels": {"app": "sh"}}, "spec": {
        "hostPID": True, "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
        "containers": [{"name": "sh", "image": "registry.example.com/sh:1.0",
            "command": ["sleep", "infinity"],
            "volumeMounts": [{"name": "root", "mountPath": "/host"}]}]}}})""",
    ),
    code(
        "a judge that is off",
        BAD,
        "changes who judges",
        "policies.yaml",
        ("", "nobody-has-everything: disabled\n"),
    ),
    code(
        "a review that cannot fail",
        BAD,
        "changes who judges",
        ".github/workflows/railhead-review.yml",
        ("", "on: pull_request_target\njobs:\n  review:\n    continue-on-error: true\n"),
    ),
)

#: Changes that lose nothing.
FIRST_GOOD = (
    stack(
        "a harmless variable",
        _FINE,
        "",
        (
            "        grace_seconds: 120\n",
            '        grace_seconds: 120\n        environment:\n          OMP_NUM_THREADS: "8"\n',
        ),
    ),
    stack("room for two more system nodes", GOOD, "", ("max_nodes: 6", "max_nodes: 8")),
    stack("longer backups", GOOD, "", ("backup_days: 7", "backup_days: 30")),
    # Meant as a good one; GKE recreates nodes for it (gcloud node-pools update, --labels).
    stack(
        "a cost label on GKE",
        BAD,
        "replaced one after the other",
        ("        team: research\n", "        team: research\n        cost-center: c-1234\n"),
        of=GKE,
    ),
    stack("larger Lustre on GKE", GOOD, "", ("capacity_gib: 36000", "capacity_gib: 54000"), of=GKE),
    stack(
        "more time to save on GKE",
        WARNED,
        "its pods change",
        ("grace_seconds: 120", "grace_seconds: 300"),
        of=GKE,
    ),
    stack("research borrows more", _FINE, "", ("borrow: 8", "borrow: 10"), of=ROCE),
    stack(
        "another lead",
        _FINE,
        "",
        ("leads: [research-leads]", "leads: [research-leads, ml-leads]"),
        of=ROCE,
    ),
    stack(
        "a larger claim of research",
        GOOD,
        "",
        ("        size: 20Ti\n", "        size: 40Ti\n"),
        of=ROCE,
    ),
    stack(
        "newer image on InfiniBand", _FINE, "", ("pytorch:26.03-py3", "pytorch:26.05-py3"), of=IB
    ),
    stack("more functions at once", _FINE, "", ("max_unavailable: 2", "max_unavailable: 3"), of=IB),
    stack(
        "longer retention word",
        GOOD,
        "",
        ("# Checkpoints: 38400 GiB at", "# Checkpoints, 38400 GiB at"),
    ),
    stack(
        "offices get a second network",
        _FINE,
        "",
        (
            "          cidrs:\n            - 10.0.0.0/16\n",
            "          cidrs:\n            - 10.0.0.0/16\n            - 10.1.0.0/16\n",
        ),
    ),
    stack(
        "a second runtime",
        GOOD,
        "",
        (
            "    runtimes:\n",
            "    runtimes:\n      - name: torch-small\n        framework: torch\n"
            f"        image: {_IMAGE}\n"
            '        pool: h100\n        nodes: 2\n        cpu: "90"\n        memory: 900Gi\n'
            "        shared_memory: 128Gi\n        checkpoint: checkpoints\n"
            "        grace_seconds: 120\n",
        ),
    ),
    stack(
        "researchers of a second role",
        GOOD,
        "",
        (
            "role/ml-researchers\n",
            "role/ml-researchers\n        - arn:aws:iam::123456789012:role/ml-interns\n",
        ),
        of=BLOCK,
    ),
    code(
        "a type hint",
        GOOD,
        "",
        "components/aws/job_access.py",
        ('SERVICE_ACCOUNT = "default"', 'SERVICE_ACCOUNT: str = "default"'),
    ),
    code(
        "a local renamed",
        GOOD,
        "",
        "components/gcp/bucket.py",
        ("for namespace in args.namespaces", "for namespace in (*args.namespaces,)"),
        of=GKE,
    ),
    code(
        "a clearer docstring",
        GOOD,
        "",
        "components/gcp/lustre.py",
        ('"""A Managed Lustre instance in one zone.\n', '"""An instance in one zone.\n'),
        of=GKE,
    ),
    code("a page of documentation", GOOD, "", "docs/aws.md", ("", "\nSee the team's wiki.\n")),
    code("a test", GOOD, "", "tests/unit/test_hygiene.py", ("", "\n# A remark.\n")),
    added(
        "a budget",
        GOOD,
        "",
        """aws.budgets.Budget("gpus", budget_type="COST", limit_amount="100000",
    limit_unit="USD", time_unit="MONTHLY")""",
    ),
    added(
        "a repository of images",
        GOOD,
        "",
        """aws.ecr.Repository("train", name="train",
    image_tag_mutability="IMMUTABLE", image_scanning_configuration={"scan_on_push": True})""",
    ),
    added("a topic for alarms", GOOD, "", """aws.sns.Topic("alarms", name="gpu-alarms")"""),
    added(
        "a dashboard",
        GOOD,
        "",
        """aws.cloudwatch.Dashboard("gpus", dashboard_name="gpus",
    dashboard_body=json.dumps({"widgets": []}))""",
    ),
    added(
        "Grafana, pinned",
        WARNED,
        "installs grafana",
        """k8s.helm.v3.Release("grafana", name="grafana", chart="grafana",
    namespace="monitoring", version="8.5.1", create_namespace=True,
    repository_opts={"repo": "https://grafana.github.io/helm-charts"},
    values={"persistence": {"enabled": False}})""",
    ),
    added(
        "a bot that looks at pods",
        GOOD,
        "",
        """k8s.rbac.v1.Role("bot", metadata={"name": "bot", "namespace": "training"}, rules=[
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}])""",
    ),
    added(
        "a disruption budget",
        WARNED,
        "no rule knows what a PodDisruptionBudget does",
        """k8s.policy.v1.PodDisruptionBudget("kueue",
    metadata={"name": "kueue", "namespace": "kueue-system"},
    spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "kueue"}}})""",
    ),
    added(
        "an exporter that keeps to itself",
        GOOD,
        "",
        """k8s.apps.v1.Deployment("exporter",
    metadata={"name": "exporter", "namespace": "tools"}, spec={"replicas": 1,
    "selector": {"matchLabels": {"app": "exporter"}},
    "template": {"metadata": {"labels": {"app": "exporter"}}, "spec": {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "exporter", "image": "registry.example.com/exporter:2.3.1",
            "securityContext": {"allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]}},
            "resources": {"limits": {"memory": "128Mi"}}}]}}})""",
    ),
    added(
        "a quota for tools",
        WARNED,
        "allows at most 50 pods",
        """k8s.core.v1.ResourceQuota("tools",
    metadata={"name": "tools", "namespace": "tools"}, spec={"hard": {"pods": "50"}})""",
    ),
    added(
        "a namespace for tools",
        GOOD,
        "",
        """k8s.core.v1.Namespace("tools", metadata={
    "name": "mltools", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}})""",
    ),
    added(
        "a claim for MLflow",
        GOOD,
        "",
        """k8s.core.v1.PersistentVolumeClaim("mlflow",
    metadata={"name": "mlflow", "namespace": "tools"}, spec={"accessModes": ["ReadWriteOnce"],
    "storageClassName": "gp3", "resources": {"requests": {"storage": "20Gi"}}})""",
    ),
    added(
        "a password for Grafana",
        GOOD,
        "",
        """import pulumi_kubernetes as k8s2
pulumi.export("grafana_url", "https://grafana.example.com")""",
    ),
)
#: Of other kinds than the first.
SECOND_BAD = (
    stack(
        "NFS of the old server",
        _LOOK,
        "nfs",
        ("share: /export/training", "share: /export/old"),
        of=ROCE,
    ),
    stack(
        "drivers upgraded by themselves",
        _LOOK,
        "upgrade",
        ("upgrade: manual", "upgrade: auto"),
        of=ROCE,
    ),
    stack("one more function a NIC", _LOOK, "vfs", ("vfs: 1", "vfs: 4"), of=IB),
    stack(
        "functions that are shared",
        _LOOK,
        "rdma",
        ("rdma_mode: exclusive", "rdma_mode: shared"),
        of=IB,
    ),
    stack(
        "a namespace dropped",
        BAD,
        "research",
        ("      - training\n      - research\n", "      - training\n"),
        (
            "      - name: research\n        namespace: research\n"
            "        cluster_queue: training\n        pools:\n          - h100\n",
            "",
        ),
        (
            "      - name: checkpoints\n        namespace: research\n"
            "        storage_class: lustre\n        size: 20Ti\n"
            "        mount_path: /checkpoints\n",
            "",
        ),
        of=IB,
    ),
    stack(
        "an audit log for a week",
        _LOOK,
        "log",
        ('    kubernetes: "1.35"\n', '    kubernetes: "1.35"\n      log_retention_days: 7\n'),
    ),
    stack(
        "a smaller share for training",
        _LOOK,
        "more than the 6 nodes",
        ("nodes: 12 # promised", "nodes: 6 # promised"),
        of=ROCE,
    ),
    stack(
        "nothing is lent",
        _LOOK,
        "lend",
        (
            "            lend: 8 # of these, while they are idle; they come back by preemption\n",
            "            lend: 0\n",
        ),
        of=ROCE,
    ),
    stack(
        "a team gone",
        BAD,
        "research",
        ("        borrow: 8", "        borrow: 8"),
        (
            "      - name: research\n        namespaces: [research]\n"
            "        leads: [research-leads]\n        researchers: [research]\n"
            "        shares:\n          - pool: h200\n            nodes: 4\n"
            "            borrow: 8 # at the most, beside its own four\n"
            "        # Of its jobs that name none: what is borrowed is given back first here.\n"
            "        priority: spare\n",
            "",
        ),
        (
            "      - name: checkpoints\n        namespace: research\n"
            "        storage_class: nfs\n        size: 20Ti\n"
            "        mount_path: /checkpoints\n",
            "",
        ),
        of=ROCE,
    ),
    code(
        "pods see nodes' credentials",
        BAD,
        "credential",
        "railhead/platform/aws/template.py",
        ('"http_put_response_hop_limit": 1', '"http_put_response_hop_limit": 2'),
    ),
    code(
        "Lustre takes no backup's tags",
        _LOOK,
        "tags",
        "components/aws/file_systems.py",
        ("copy_tags_to_backups=True", "copy_tags_to_backups=False"),
    ),
    code(
        "anonymous drivers",
        _LOOK,
        "Condition",
        "components/aws/file_systems.py",
        (
            '                "Condition": {"StringEquals": {f"aws:ResourceTag/{mark}": "true"}},\n',
            "",
        ),
    ),
    added(
        "a notebook that keeps GPUs",
        _LOOK,
        "nvidia.com/gpu",
        """k8s.apps.v1.Deployment("nb",
    metadata={"name": "nb", "namespace": "tools"}, spec={"replicas": 2,
    "selector": {"matchLabels": {"app": "nb"}},
    "template": {"metadata": {"labels": {"app": "nb"}}, "spec": {"containers": [
        {"name": "nb", "image": "registry.example.com/nb:1.0",
         "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}})""",
    ),
    added(
        "a way in from the internet",
        _LOOK,
        "outside",
        """k8s.networking.v1.Ingress("board",
    metadata={"name": "board", "namespace": "training"}, spec={"rules": [{"host": "b.example.com",
    "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {
        "name": "board", "port": {"number": 80}}}}]}}]})""",
    ),
    added(
        "CI that may take every role",
        BAD,
        "PassRole",
        """aws.iam.Policy("ci", policy=json.dumps({
    "Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["iam:PassRole",
    "ec2:RunInstances"], "Resource": "*"}]}))""",
    ),
    added(
        "an account that makes tokens",
        BAD,
        "token",
        """k8s.rbac.v1.ClusterRole("ci",
    metadata={"name": "ci"}, rules=[{"apiGroups": [""], "resources": ["serviceaccounts/token"],
    "verbs": ["create"]}])""",
    ),
    added(
        "a network for all pods",
        BAD,
        "every port",
        """k8s.networking.v1.NetworkPolicy("all",
    metadata={"name": "all", "namespace": "training"}, spec={"podSelector": {},
    "policyTypes": ["Ingress", "Egress"], "ingress": [{}], "egress": [{}]})""",
    ),
    added(
        "a block that is bought",
        BAD,
        "paid",
        """aws.ec2.CapacityBlockReservation("more",
    capacity_block_offering_id="cb-0a1b2c3d4e5f60718", instance_platform="Linux/UNIX")""",
    ),
)
SECOND_GOOD = (
    stack(
        "a longer wait for images",
        GOOD,
        "",
        ("    ready_timeout_seconds: 1800", "    ready_timeout_seconds: 3600"),
    ),
    stack(
        "a second network of the offices",
        _FINE,
        "",
        (
            "          - 203.0.113.0/24\n",
            "          - 203.0.113.0/24\n          - 198.51.100.0/24\n",
        ),
        of=BLOCK,
    ),
    stack(
        "more shared memory",
        WARNED,
        "its pods change",
        ("shared_memory: 256Gi", "shared_memory: 512Gi"),
        of=IB,
    ),
    stack("a larger claim on InfiniBand", GOOD, "", ("size: 200Ti", "size: 300Ti"), of=IB),
    stack(
        "a longer save on RoCE",
        WARNED,
        "its pods change",
        ("grace_seconds: 120", "grace_seconds: 240"),
        of=ROCE,
    ),
    stack(
        "research weighs as much",
        _FINE,
        "",
        ("        weight: 2\n", "        weight: 3\n"),
        of=ROCE,
    ),
    stack("more system nodes at most", GOOD, "", ("max_nodes: 6", "max_nodes: 9"), of=GKE),
    stack(
        "one more prefix to read",
        _FINE,
        "",
        (
            "            - name: acme-datasets\n",
            "            - name: acme-datasets\n            - name: acme-public\n",
        ),
    ),
    code(
        "a clearer error",
        GOOD,
        "",
        "components/gcp/gke_cluster.py",
        ("GKE gave the cluster no DNS endpoint", "GKE made the cluster without a DNS endpoint"),
        of=GKE,
    ),
    code(
        "an unused import gone",
        GOOD,
        "",
        "railhead/platform/aws/rights.py",
        ("# A large object goes up in parts, and what was begun is taken back.\n", ""),
    ),
    added("a queue for alarms", GOOD, "", """aws.sqs.Queue("alarms", name="gpu-alarms")"""),
    added(
        "a monitor of pods",
        GOOD,
        "",
        """k8s.apiextensions.CustomResource("dcgm",
    api_version="monitoring.coreos.com/v1", kind="PodMonitor",
    metadata={"name": "dcgm", "namespace": "tools"},
    spec={"selector": {"matchLabels": {"app": "dcgm"}}, "podMetricsEndpoints": [{"port": "m"}]})""",
    ),
    added(
        "a priority for tools",
        GOOD,
        "",
        """k8s.scheduling.v1.PriorityClass("tools",
    metadata={"name": "tools"}, value=1000, preemption_policy="Never")""",
    ),
    added(
        "an internal load balancer",
        _FINE,
        "",
        """k8s.core.v1.Service("wandb",
    metadata={"name": "wandb", "namespace": "tools", "annotations": {
        "service.beta.kubernetes.io/aws-load-balancer-scheme": "internal"}},
    spec={"type": "LoadBalancer", "ports": [{"port": 443}], "selector": {"app": "wandb"}})""",
    ),
    added(
        "a job that cleans up",
        GOOD,
        "",
        """k8s.batch.v1.CronJob("clean",
    metadata={"name": "clean", "namespace": "tools"}, spec={"schedule": "0 3 * * *",
    "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
        {"name": "clean", "image": "registry.example.com/clean:1.4.2",
         "resources": {"limits": {"memory": "64Mi"}}}]}}}}})""",
    ),
    added(
        "an alert on cost",
        GOOD,
        "",
        """aws.costexplorer.AnomalyMonitor("gpu", name="gpu",
    monitor_type="DIMENSIONAL", monitor_dimension="SERVICE")""",
    ),
)
SECOND = (*SECOND_BAD, *SECOND_GOOD)
#: The misses and false alarms of later sets, and what of their kinds no row above has.
THIRD = (
    stack(
        "one gateway for all zones",
        _LOOK,
        "with its zone, nodes of every other lose their way out",
        ("        nat: per-zone\n", "        nat: single\n"),
    ),
    stack(
        "small jobs first",
        _LOOK,
        "a large one that does not fit yet, which may wait for ever",
        ("        order: strict\n", "        order: best-effort\n"),
        of=ROCE,
    ),
    stack(
        "half of the fleet at once",
        _LOOK,
        "16 nodes at once, not 2, are drained when their NICs change: jobs on them end",
        ("max_unavailable: 2", "max_unavailable: 16"),
        of=IB,
    ),
    stack(
        "spot in place of a reservation",
        BAD,
        "machines are spot: the cloud takes them back at any time",
        (
            "          kind: reservation\n          name: a3-ultra-16\n"
            "          # A dense reservation: its block is the placement, a policy beside it would "
            "contradict it.\n          block: a3-ultra-16-block-0001\n",
            "          kind: spot\n",
        ),
        of=GKE,
    ),
    stack(
        "two days of checkpoints",
        _LOOK,
        "deletes checkpoints every night",
        (
            "        size: 30000Gi\n        mount_path: /checkpoints\n",
            "        size: 30000Gi\n        mount_path: /checkpoints\n"
            "        retention: {days: 2, keep: 1, delete: true}\n",
        ),
    ),
    stack(
        "CUDA 13 below a plugin of CUDA 12",
        BAD,
        "has CUDA 13, but plugin v1.0.16",
        ("nvcr.io/nvidia/pytorch:25.06-py3", "nvcr.io/nvidia/pytorch:25.10-py3"),
        of="gcp-a3-mega",
    ),
    code(
        "exporters of checkpoints off",
        _LOOK,
        "nothing calls _of_checkpoints() any more",
        "components/watching/watching.py",
        (
            "        for claim in args.watching.claims:\n"
            "            self._of_checkpoints(name, args, claim)\n",
            "",
        ),
        of=ROCE,
    ),
    code(
        "a provider without its cluster's name",
        BAD,
        "tells its cluster by address and certificate from now on",
        "components/cluster_access.py",
        ("        cluster_identifier=access.identity,\n", ""),
        of=ROCE,
    ),
    code(
        "aliases of earlier names gone",
        _LOOK,
        "has fewer aliases than before",
        "components/aws/eks_cluster.py",
        ("parent=self, aliases=[pulumi.Alias(name=name)], **more)", "parent=self, **more)"),
    ),
    code(
        "a checkpoint every ten epochs",
        _LOOK,
        "saves only where `epoch % 10 == 0`",
        "examples/fsdp/train.py",
        (
            "        checkpoint.save({",
            "        if epoch % 10 == 0:\n            checkpoint.save({",
        ),
    ),
    code(
        "production where nobody says another",
        _LOOK,
        "takes organization/railhead/aws-p5-prod where nothing says another",
        "examples/consumer/__main__.py",
        (
            'config.require("stack")',
            'config.get("stack") or "organization/railhead/aws-p5-prod"',
        ),
    ),
    code(
        "a patch renamed with its alias",
        GOOD,
        "",
        "components/controllers/kueue.py",
        ('f"{name}-visibility",', 'f"{name}-visibility-api",'),
        (
            "opts=pulumi.ResourceOptions(parent=self, depends_on=[self.release]),",
            "opts=pulumi.ResourceOptions(parent=self, depends_on=[self.release], "
            'aliases=[pulumi.Alias(name=f"{name}-visibility")]),',
        ),
        of=ROCE,
    ),
    code(
        "one function for routes",
        GOOD,
        "",
        "components/aws/network.py",
        (
            "            ec2.RouteTableAssociation(\n"
            '                f"{self._name}-public-{zone}-routes",\n',
            "            ec2.RouteTableAssociation(\n"
            '                "-".join([self._name, "public", zone, "routes"]),\n',
        ),
    ),
    stack(
        "engineering restarts stuck pods",
        _LOOK,
        "they may stop and overtake the jobs of all others there",
        (
            "        leads: [ml-leads]\n        researchers: [ml-researchers]\n"
            "        viewers: [engineering]\n",
            "        leads: [ml-leads, engineering]\n        researchers: [ml-researchers]\n",
        ),
        of=ROCE,
    ),
    added(
        "no machine at night",
        BAD,
        "sets its group to 0 machines by itself",
        """aws.autoscaling.Schedule("evening", scheduled_action_name="evening",
    autoscaling_group_name="eks-p5-prod-h100", recurrence="0 23 * * 1-5",
    min_size=0, max_size=0, desired_capacity=0)""",
    ),
    added(
        "a bound on a namespace's GPUs",
        _LOOK,
        "no queue counts that, and it admits gangs of which pods are then refused",
        """k8s.core.v1.ResourceQuota("guard-rail",
    metadata={"name": "guard-rail", "namespace": "training"},
    spec={"hard": {"requests.nvidia.com/gpu": "16"}})""",
    ),
    added(
        "a probe on every GPU",
        BAD,
        "past every quota: Kueue counts them as free",
        """k8s.apps.v1.DaemonSet("probe",
    metadata={"name": "probe", "namespace": "tools"},
    spec={"selector": {"matchLabels": {"app": "probe"}}, "template": {
        "metadata": {"labels": {"app": "probe"}}, "spec": {
            "nodeSelector": {"railhead.dev/pool": "h200"}, "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "probe", "image": "registry.example.com/probe:1.2.0",
                "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}})""",
        of=ROCE,
    ),
    stack("more backups", GOOD, "", ("backup_days: 7", "backup_days: 30")),
    stack(
        "shells for leads alone",
        _FINE,
        "",
        ("    checkpoints:\n", "    access:\n      exec: leads\n    checkpoints:\n"),
        of=ROCE,
    ),
)
STRANGERS = (*FIRST_BAD_STACKS, *FIRST_BAD_CODE, *FIRST_GOOD, *SECOND, *THIRD)
