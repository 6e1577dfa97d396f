"""Judgements of `railhead review` on one resource that differs, without an engine."""

from __future__ import annotations

import io
import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pulumi.runtime.proto.resource_pb2 import ResourceInvokeRequest
from pulumi.runtime.rpc import UNKNOWN

from railhead.lab import stack_plans
from railhead.lab.engine.provider import properties
from railhead.lab.planning import Plan
from railhead.lab.recorders import answers, offline
from railhead.review.added import ADDED as BY_ADDED
from railhead.review.compare import Manner, Planned, compare, resources
from railhead.review.judge import judged
from railhead.review.objects import BY_KIND
from railhead.review.settings import settings

REPO = Path(__file__).resolve().parents[3]
RBAC = "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole"
NETWORK = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
GUARD = "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy"
QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue"
RELEASE = "kubernetes:helm.sh/v3:Release"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
EKS = "aws:eks/cluster:Cluster"
FSX = "aws:fsx/lustreFileSystem:LustreFileSystem"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
NAT = "gcp:compute/routerNat:RouterNat"
POLICY = "aws:iam/rolePolicy:RolePolicy"
BUCKET = "aws:s3/bucket:Bucket"
GCS = "gcp:storage/bucket:Bucket"
FILESTORE = "gcp:filestore/instance:Instance"
STORAGE = "kubernetes:storage.k8s.io/v1:StorageClass"
GROUP = "aws:eks/nodeGroup:NodeGroup"
K8S = "pulumi:providers:kubernetes"
AWS = "pulumi:providers:aws"
LIFECYCLE = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"


def planned(type_: str, inputs: dict[str, Any], name: str = "it", **options: Any) -> Planned:
    options.setdefault("urn", f"urn::{type_}::{name}")
    return Planned(type=type_, name=name, inputs=inputs, **options)


def said(
    before: list[Planned], after: list[Planned], *, code: bool = True, named: Any = ()
) -> list[str]:
    """Return `level loss: what` of each judgement on what differs."""
    old, new = ({p.urn: p for p in of} for of in (before, after))
    return [
        f"{result.level} {result.loss}: {result.what}"
        for change in compare(old, new)
        for _, result in judged(change, new, code=code, named=named, added=new.keys() - old.keys())
    ]


def _rules(*rows: tuple[str, str]) -> dict[str, Any]:
    return {
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": [r], "verbs": [v]} for r, v in rows],
    }


def _pod(**container: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "main", "image": "r.example.com/a:1.0", **container}]}
    return {"metadata": {"name": "it"}, "spec": {"template": {"spec": pod}}}


def _allow(action: str, resource: str, **more: Any) -> dict[str, Any]:
    row = {"Effect": "Allow", "Action": [action], "Resource": resource, **more}
    return {"policy": {"Statement": [row]}}


def _egress(*values: str) -> dict[str, Any]:
    chosen = [{"key": "app", "operator": "In", "values": list(values)}]
    to = [{"podSelector": {"matchExpressions": chosen}}, {"ipBlock": {"cidr": "10.0.0.1/32"}}]
    return {"spec": {"egress": [{"to": to, "ports": [{"protocol": "UDP", "port": 53}]}]}}


def _kueue(text: str) -> dict[str, Any]:
    values = {"managerConfig": {"controllerManagerConfigYaml": f"kind: Configuration\n{text}\n"}}
    return {"chart": "oci://registry.example.com/kueue", "version": "0.16.2", "values": values}


CHANGES = [
    (RBAC, _rules(("pods", "get")), _rules(("pods", "get"), ("secrets", "list")), "refuse rights"),
    (RBAC, _rules(("pods", "get")), _rules(("nodes/proxy", "get")), "past admission"),
    (RBAC, _rules(("pods", "get")), _rules(("pods", "get"), ("jobs", "get")), "note rights"),
    (RBAC, _rules(("pods", "get"), ("jobs", "get")), _rules(("pods", "get")), "ask access"),
    (
        NETWORK,
        {"spec": {"policyTypes": ["Ingress", "Egress"]}},
        {"spec": {"policyTypes": ["Ingress"]}},
        "no longer holds for Egress",
    ),
    (NETWORK, {"spec": {}}, {"spec": {"ingress": [{}]}}, "refuse network: opens ingress"),
    (
        NETWORK,
        {"spec": {}},
        {"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.7.5/32"}}]}]}},
        "note network: opens egress on every port for 10.0.7.5/32",
    ),
    (
        GUARD,
        {"spec": {"validations": [{"expression": "a"}, {"expression": "b"}]}},
        {"spec": {"validations": [{"expression": "a"}]}},
        "checks 1 things fewer: b",
    ),
    (
        GUARD,
        {"spec": {"validations": [{"expression": "a"}]}},
        {"spec": {"validations": [{"expression": "(a) || true"}]}},
        "that everything passes",
    ),
    (QUEUE, {"spec": {}}, {"spec": {"stopPolicy": "Hold"}}, "refuse quota: admits no job"),
    (
        RELEASE,
        _kueue("manageJobsWithoutQueueName: true"),
        _kueue("manageJobsWithoutQueueName: false"),
        "run past every quota",
    ),
    (
        RELEASE,
        _kueue("integrations: {frameworks: [batch/job, ray.io/rayjob]}"),
        _kueue("integrations: {frameworks: [batch/job]}"),
        "jobs of a kind run past every quota",
    ),
    (RELEASE, {"chart": "a", "version": "1"}, {"chart": "a"}, "has no version"),
    (DEPLOYMENT, _pod(), _pod(image="r.example.com/a:main"), "whose tag moves"),
    (DEPLOYMENT, _pod(), _pod(image="r.example.com/a:1.1"), "note jobs: runs"),
    (DEPLOYMENT, _pod(), _pod(image="other.example.com/a:1.0"), "another registry"),
    (DEPLOYMENT, _pod(), _pod(env=[{"name": "CUDA_LAUNCH_BLOCKING", "value": "1"}]), "ask network"),
    (DEPLOYMENT, _pod(), _pod(env=[{"name": "HF_TOKEN", "value": "hf_x"}]), "in plain text"),
    (
        DEPLOYMENT,
        _pod(resources={"limits": {"nvidia.com/gpu": "8"}}),
        _pod(resources={"limits": {"nvidia.com/gpu": "4"}}),
        "asks for 4 nvidia.com/gpu, not 8",
    ),
    (
        DEPLOYMENT,
        _pod(resources={"limits": {"memory": "8Gi"}}),
        _pod(resources={"limits": {"memory": "4Gi"}}),
        "ask jobs: may take 4Gi memory, not 8Gi",
    ),
    (EKS, {"deletionProtection": True}, {"deletionProtection": False}, "refuse data"),
    (
        EKS,
        {"enabledClusterLogTypes": ["api", "audit"]},
        {"enabledClusterLogTypes": ["api"]},
        "stops logs: audit",
    ),
    (FSX, {"storageCapacity": 4800}, {"storageCapacity": 2400}, "refuse data: shrinks"),
    (FSX, {"storageCapacity": 2400}, {"storageCapacity": 4800}, "note capacity: grows"),
    (FSX, {"deploymentType": "PERSISTENT_2"}, {"deploymentType": "SCRATCH_2"}, "is replaced"),
    (
        "kubernetes:core/v1:ServiceAccountPatch",
        {"automountServiceAccountToken": False},
        {},
        "refuse rights: gives pods a token",
    ),
    (
        RELEASE,
        {"values": {"rules": "day: 2026-13-45\n"}},
        {"values": {"rules": "day: 2026-13-46\n"}},
        "ask jobs: value rules: day: 2026-13-45",
    ),
    *(
        (RELEASE, {"values": {key: was}}, {"values": {key: now}}, f"refuse jobs: value {sentence}")
        for key, was, now, sentence in (
            (
                "tolerations",
                [{"key": "a"}],
                None,
                "tolerations: {'key': 'a'} -> its default: its pods",
            ),
            ("nodeSelector", {"a": "b"}, None, "nodeSelector.a: b -> its default: its pods run"),
            ("replicaCount", 2, 1, "replicaCount: 2 -> 1: one lost node"),
            (
                "resources",
                {"limits": {"memory": "2Gi"}},
                {"limits": {"memory": "1Gi"}},
                "resources",
            ),
            ("priorityClassName", "system-node-critical", None, "priorityClassName: system-node-c"),
        )
    ),
    (RELEASE, {"values": {"replicaCount": 1}}, {"values": {"replicaCount": 2}}, "ask jobs: value"),
    (RELEASE, {"version": "1", "timeout": 600}, {"version": "1", "timeout": 900}, "note jobs: may"),
    (
        STORAGE,
        {"parameters": {"subDir": "${pvc.metadata.namespace}/${pvc.metadata.name}"}},
        {"parameters": {"subDir": "${pvc.metadata.name}"}},
        "refuse data: gives claims of one name in two namespaces the same directory",
    ),
    (
        GCS,
        {},
        {"softDeletePolicy": {"retentionDurationSeconds": 3600}},
        "refuse data: keeps deleted objects for less",
    ),
    (
        FILESTORE,
        {"fileShares": {"capacityGb": 2560}},
        {"fileShares": {"capacityGb": 1024}},
        "refuse data: shrinks",
    ),
    (
        NETWORK,
        _egress("a", "b"),
        _egress("a"),
        "refuses egress that it allowed, on UDP 53",
    ),
    (
        NETWORK,
        {"spec": {"ingress": [{"from": [{"podSelector": {}}]}]}},
        {"spec": {"ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 29500}]}]}},
        "refuses ingress that it allowed, on every port: what is left is TCP 29500",
    ),
    (BUCKET, {}, {"forceDestroy": True}, "refuse data: is deleted with what is in it"),
    (
        "aws:s3/bucketVersioning:BucketVersioning",
        {"versioningConfiguration": {"status": "Enabled"}},
        {"versioningConfiguration": {"status": "Suspended"}},
        "refuse data: keeps no older versions",
    ),
    (
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock",
        {"blockPublicPolicy": True},
        {"blockPublicPolicy": False},
        "refuse rights: may be made public",
    ),
    (INGRESS, {"cidrIpv4": "10.20.0.0/16"}, {"cidrIpv4": "10.0.0.0/8"}, "16,777,216 addresses"),
    (
        INGRESS.replace("Ingress", "Egress").replace("ingress", "egress"),
        {"referencedSecurityGroupId": "sg-1"},
        {"cidrIpv4": "0.0.0.0/0"},
        "members of the group are no longer named, and EFA's traffic passes by no network's rule",
    ),
    (NAT, {"minPortsPerVm": 1024}, {"minPortsPerVm": 2048}, "note network: gives each node more"),
    (NAT, {"maxPortsPerVm": 1024}, {"maxPortsPerVm": 512}, "ask network: gives each node fewer"),
    (NAT, {"natIps": ["a"]}, {"natIps": ["b"]}, "ask network: leads elsewhere"),
    (INGRESS, {"cidrIpv4": "10.20.0.0/16"}, {"prefixListId": "pl-1"}, "the list was not read"),
    (POLICY, _allow("s3:GetObject", "arn:a"), _allow("s3:*", "arn:a"), "refuse rights"),
    (
        POLICY,
        _allow("s3:GetObject", "arn:a", Condition={"a": "b"}),
        _allow("s3:GetObject", "arn:a"),
        "the condition of s3:GetObject on arn:a changes",
    ),
    (
        POLICY,
        _allow("s3:GetObject", "arn:a", Condition={"StringEquals": {"a": "b"}}),
        _allow("s3:GetObject", "arn:a", Condition={"StringEquals": {"a": "b", "c": ["d"]}}),
        "ask access: allows s3:GetObject on arn:a under more conditions only: a StringEquals b; c",
    ),
    (
        POLICY,
        _allow("s3:GetObject", "arn:a", Condition={"StringNotEquals": {"a": ["b", "c"]}}),
        _allow("s3:GetObject", "arn:a", Condition={"StringNotEquals": {"a": ["b"]}}),
        "the condition of s3:GetObject on arn:a changes",
    ),
    (
        POLICY,
        _allow("s3:GetObject", "arn:a", Condition={"StringEquals": {"a": "b"}}),
        _allow("s3:GetObject", "arn:a", Condition={"StringEquals": {"a": ["b", "c"]}}),
        "the condition of s3:GetObject on arn:a changes",
    ),
    (
        GUARD,
        {"spec": {"failurePolicy": "Fail", "validations": [{"message": "keeps claims"}]}},
        {"spec": {"failurePolicy": "Ignore", "validations": [{"message": "keeps claims"}]}},
        "Fail -> Ignore: what it cannot evaluate passes",
    ),
    (
        GROUP,
        {"nodeRepairConfig": {"enabled": True, "nodeRepairConfigOverrides": [{"a": 1}]}},
        {"nodeRepairConfig": {"enabled": True, "nodeRepairConfigOverrides": []}},
        "ask jobs: repairs nodes by EKS' own rule where it had another",
    ),
    (
        GROUP,
        {"updateConfig": {"updateStrategy": "MINIMAL"}},
        {"updateConfig": {"updateStrategy": "DEFAULT"}},
        "ask jobs: starts a new node before an old one goes: reserved capacity",
    ),
    (
        GROUP,
        {"updateConfig": {"updateStrategy": "DEFAULT"}},
        {"updateConfig": {"updateStrategy": "MINIMAL"}},
        "ask jobs: ends an old node before a new one starts",
    ),
    (
        "aws:eks/addon:Addon",
        {"addonVersion": "v1.19.0-eksbuild.1"},
        {"addonVersion": "newest-for-1.34"},
        "ask jobs: gets whichever version EKS names on the day of an `up`",
    ),
    (
        "aws:eks/addon:Addon",
        {"addonVersion": "newest-for-1.34"},
        {"addonVersion": "v1.19.0-eksbuild.1"},
        "ask jobs: gets another version",
    ),
    (
        "gcp:filestore/instance:Instance",
        {"deletionProtectionRules": [{"a": 1}]},
        {"deletionProtectionRules": []},
        "ask data: deletionProtectionRules",
    ),
    (K8S, {"clusterIdentifier": "a"}, {}, "refuse data: tells its cluster by address and certif"),
    (K8S, {"clusterIdentifier": "a"}, {"clusterIdentifier": "b"}, "refuse data: speaks of another"),
    (K8S, {}, {"deleteUnreachable": "true"}, "refuse data: forgets every object"),
    (K8S, {}, {"skipUpdateUnreachable": "true"}, "ask file: ends without an error"),
    (K8S, {}, {"upsertExistingObjects": "true"}, "ask data: takes over what is there already"),
    (K8S, {"enableConfigMapMutable": "true"}, {}, "ask jobs: deletes and recreates a ConfigMap"),
    (K8S, {"enablePatchForce": "true"}, {}, "ask file: no longer takes back"),
    (AWS, {"allowedAccountIds": ["1"]}, {}, "refuse file: takes credentials of other accounts"),
    (
        AWS,
        {"allowedAccountIds": ["1"]},
        {"allowedAccountIds": ["1", "2"]},
        "refuse file: takes credentials of other accounts",
    ),
    (AWS, {"forbiddenAccountIds": ["1"]}, {}, "refuse file: takes credentials of 1"),
    (AWS, {"region": "a"}, {"region": "b"}, "refuse file: looks in b for what is in a"),
]


def test_provider_that_is_told_more_of_its_cluster_loses_nothing() -> None:
    for type_, now in ((K8S, {"clusterIdentifier": "a"}), (AWS, {"allowedAccountIds": ["1"]})):
        texts = said([planned(type_, {})], [planned(type_, now)])
        assert not any(text.startswith("refuse") for text in texts), texts


@pytest.mark.parametrize(
    ("type_", "before", "after"),
    [
        (NETWORK, _egress("a"), _egress("a", "b")),
        (GCS, {}, {"softDeletePolicy": {"retentionDurationSeconds": 2592000}}),
        (FILESTORE, {"fileShares": {"capacityGb": 1024}}, {"fileShares": {"capacityGb": 2560}}),
    ],
)
def test_more_than_before_is_no_loss(type_: str, before: Any, after: Any) -> None:
    texts = said([planned(type_, before)], [planned(type_, after)])
    assert all(text.startswith("note") for text in texts), texts


def test_nodes_that_end_sooner_are_told() -> None:
    def cluster(seconds: int) -> dict[str, Any]:
        return {"pools": [{"name": "a", "capacity": {"max_run_seconds": seconds}}]}

    ((_, row),) = settings(cluster(604800), cluster(3600))
    assert row.what == "nodes end after 3600 s, not 604800 s, with the jobs on them"
    assert not list(settings(cluster(3600), cluster(604800)))


@pytest.mark.parametrize(("type_", "before", "after", "sentence"), CHANGES)
def test_change_is_told(type_: str, before: Any, after: Any, sentence: str) -> None:
    texts = said([planned(type_, before)], [planned(type_, after)])
    assert any(sentence in text for text in texts), texts


def test_ports_of_an_exporter_that_the_file_asks_for_are_noted() -> None:
    rule = {"ingress": [{"ports": [{"port": 8080}]}]}
    (text,) = said([], [planned(NETWORK, {"spec": rule})], code=False)
    assert text == "note network: opens ingress on TCP 8080 for anyone"
    (text,) = said([], [planned(NETWORK, {"spec": rule})])
    assert text.startswith("refuse network: opens ingress on TCP 8080")
    known = {"ingress": [{"ports": [{"port": 443}]}]}
    texts = said(
        [planned(NETWORK, {"spec": known})], [planned(NETWORK, {"spec": rule})], code=False
    )
    assert "ask network: opens ingress on TCP 8080 for anyone" in texts


def test_guard_is_told_by_what_it_refuses() -> None:
    specs = [
        {"failurePolicy": policy, "validations": [{"expression": "a", "message": "keeps claims"}]}
        for policy in ("Fail", "Ignore")
    ]
    old, new = ({GUARD: planned(GUARD, {"spec": spec})} for spec in specs)
    (change,) = compare(old, new)
    ((_, result),) = judged(change, new, code=True, named=())
    assert result.who == "nobody, until what it refuses is done (keeps claims)"


def _dashboard(*queries: str, **more: Any) -> dict[str, Any]:
    panels = [{"title": query, "targets": [{"expr": query}]} for query in queries]
    return {"data": {"it.json": json.dumps({"panels": panels, **more}, indent=1) + "\n"}}


def test_dashboard_that_has_more_loses_nothing() -> None:
    for before, after, level in (
        (_dashboard("a"), _dashboard("a", "b"), "note"),
        (_dashboard("a", "b"), _dashboard("a"), "ask"),
        (_dashboard("a"), _dashboard("b"), "ask"),
        ({"data": {"a.yaml": "a: 1\n"}}, {"data": {"a.yaml": "a: 1\nb: 2\n"}}, "ask"),
    ):
        texts = said([planned(MAP, before)], [planned(MAP, after)])
        assert [text.partition(" ")[0] for text in texts] == [level], after


def _runner(command: str) -> dict[str, Any]:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "mlflow"}}
    mount = [{"name": "data", "mountPath": "/data"}]
    container = {"command": ["sh", "-c", command], "volumeMounts": mount}
    pod = {"volumes": [claim], "containers": [container]}
    return {"metadata": {"name": "mlflow"}, "spec": {"template": {"spec": pod}}}


def test_claim_that_comes_with_its_pods_has_no_checkpoints() -> None:
    claim = "kubernetes:core/v1:PersistentVolumeClaim"
    server = planned(DEPLOYMENT, _runner("mlflow server"))
    own = planned(claim, {"metadata": {"name": "mlflow", "namespace": "mlflow"}})
    assert any("mounts claim mlflow" in text for text in said([], [server]))
    assert not any("mounts claim mlflow" in text for text in said([], [server, own]))


def test_command_of_added_pods_is_told() -> None:
    texts = said([], [planned(DEPLOYMENT, _runner("kubectl delete pvc --all"))])
    assert any(text.startswith("refuse data: runs `sh -c kubectl delete pvc") for text in texts)
    texts = said([], [planned(DEPLOYMENT, _runner("kubectl delete pod `a` --namespace t"))])
    text = "ask jobs: runs `sh -c kubectl delete pod 'a' --namespace t`: "
    assert any(result.startswith(text) for result in texts)
    texts = said([], [planned(DEPLOYMENT, _runner("kubectl get pvc"))])
    assert not any("runs `" in text for text in texts)


def test_paid_nodes_that_a_pool_leaves_are_reported() -> None:
    def cluster(nodes: int, **bought: Any) -> dict[str, Any]:
        return {"pools": [{"name": "a", "nodes": nodes, **bought}]}

    for bought, now, sentence in (
        ({"purchase": {"kind": "reservation"}}, 12, "4 of the 16 nodes of its reservation are"),
        ({"capacity": {"kind": "capacity-block"}}, 15, "1 of the 16 nodes of its capacity-block"),
        ({"capacity": {"kind": "on-demand"}}, 12, ""),
        ({"purchase": {"kind": "reservation"}}, 17, ""),
        ({}, 12, ""),
    ):
        rows = settings(cluster(16, **bought), cluster(now, **bought))
        texts = [row.what for _, row in rows if row.loss == "capacity"]
        assert len(texts) == bool(sentence), (bought, texts)
        assert all(text.startswith(sentence) for text in texts)


NODES = "aws:eks/nodeGroup:NodeGroup"
GKE_NODES = "gcp:container/nodePool:NodePool"


def test_machines_beside_the_pools_are_told_with_their_gpus() -> None:
    for type_, inputs, sentence in (
        (
            NODES,
            {"instanceTypes": ["p5.48xlarge"], "scalingConfig": {"desiredSize": 2}},
            "refuse capacity: starts 2 machines p5.48xlarge (16 GPUs) beside the stack's pools",
        ),
        (
            GKE_NODES,
            {"nodeCount": 3, "nodeConfig": {"machineType": "e2-standard-4"}},
            "ask capacity: starts 3 machines e2-standard-4 beside",
        ),
        ("aws:ec2/instance:Instance", {"instanceType": "p5.48xlarge"}, "1 machines p5.48xlarge (8"),
    ):
        texts = said([], [planned(type_, inputs)])
        assert any(sentence in text for text in texts), texts
        assert not any(sentence in text for text in said([], [planned(type_, inputs)], code=False))


def test_lost_variable_of_the_network_is_told_by_what_it_does() -> None:
    before, after = _pod(env=[{"name": "NCCL_NET", "value": "a"}]), _pod()
    text, *_ = said([planned(DEPLOYMENT, before)], [planned(DEPLOYMENT, after)])
    assert text.startswith("refuse network: loses variables NCCL_NET: jobs may go over TCP, and")


def test_field_that_replaces_is_told_once() -> None:
    old, new = ({"deploymentType": kind} for kind in ("PERSISTENT_2", "SCRATCH_2"))
    (text,) = said([planned(FSX, old)], [planned(FSX, new)])
    assert "is replaced, because of deploymentType" in text


FUNCTIONS = "kubernetes:sriovnetwork.openshift.io/v1:SriovNetworkNodePolicy"
SRIOV = "kubernetes:sriovnetwork.openshift.io/v1:SriovOperatorConfig"


@pytest.mark.parametrize("type_", [GUARD, NETWORK, FSX, INGRESS, RELEASE, FUNCTIONS, SRIOV])
def test_deletion_is_refused(type_: str) -> None:
    (text,) = said([planned(type_, {"metadata": {"name": "it"}})], [])
    assert text.startswith("refuse ")
    assert "is deleted" in text


def test_what_the_guard_of_edits_names_is_told_once() -> None:
    claim = planned(
        "kubernetes:core/v1:PersistentVolumeClaim",
        {"metadata": {"name": "old", "namespace": "training"}},
    )
    assert said([claim], [])
    assert said([claim], [], named=[("checkpoint", "training/old")]) == []


def test_same_object_under_another_name_is_replaced() -> None:
    """The engine creates the new one over the old one, and then deletes what it created."""
    inputs = {"metadata": {"name": "it", "namespace": "training"}}
    claim = "kubernetes:core/v1:PersistentVolumeClaim"
    (text,) = said([planned(claim, inputs, "a")], [planned(claim, inputs, "b")])
    assert text.startswith("refuse data: has another name in the program")


def test_owner_of_jobs_that_goes_is_refused() -> None:
    owner = {"metadata": {"name": "railhead-jobs", "namespace": "training"}}
    (text,) = said([planned(MAP, owner)], [])
    assert text.startswith("refuse jobs: is deleted: ended jobs that it owns are deleted")


def test_alias_is_the_same_resource() -> None:
    old = planned(FSX, {"storageCapacity": 4800}, "a")
    new = planned(FSX, {"storageCapacity": 4800}, "b", aliases=frozenset({old.urn}))
    assert said([old], [new]) == []


def test_reference_to_an_aliased_resource_is_the_same_one() -> None:
    group = planned(INGRESS, {}, "old")
    new = planned(INGRESS, {}, "new", aliases=frozenset({group.urn}))
    both = [
        planned(FSX, {"a": "x"}, refers={"a": (of.urn,)}, waits_for=frozenset({of.urn}))
        for of in (group, new)
    ]
    assert said([group, both[0]], [new, both[1]]) == []


def _quota(amount: str, **more: Any) -> dict[str, Any]:
    row = {"name": "nvidia.com/gpu", "nominalQuota": amount, **more}
    groups = [{"flavors": [{"name": "h100", "resources": [row]}]}]
    return {"metadata": {"name": "it"}, "spec": {"resourceGroups": groups}}


def test_part_that_no_rule_reads_is_named_and_not_its_whole_list() -> None:
    (text,) = said([planned(DEPLOYMENT, _pod())], [planned(DEPLOYMENT, _pod(stdin=True))])
    assert text == "ask jobs: spec.template.spec.containers[main].stdin: (nothing) -> True"


def test_part_beside_a_found_one_is_named_too() -> None:
    """A harmless change of an object does not hide another of the same object."""
    flavor = "kubernetes:kueue.x-k8s.io/v1beta2:ResourceFlavor"
    alerts = "kubernetes:monitoring.coreos.com/v1:PrometheusRule"
    rows = [{"alert": "Xid", "for": "1m"}, {"alert": "Full", "for": "5m"}]
    rarer = [rows[0], {"alert": "Full", "for": "9h"}]
    for type_, before, after, sentence in (
        (
            DEPLOYMENT,
            _pod(env=[{"name": "OUT", "value": "/a"}]),
            _pod(image="r.example.com/a:1.1", env=[{"name": "OUT", "value": "/b"}]),
            "containers[main].env[OUT].value: /a -> /b",
        ),
        (
            QUEUE,
            _quota("8", borrowingLimit=8),
            _quota("8", borrowingLimit=0),
            "resources[nvidia.com/gpu].borrowingLimit: 8 -> 0",
        ),
        (
            "kubernetes:core/v1:Service",
            {"spec": {"type": "ClusterIP", "selector": {"a": "b"}}},
            {"spec": {"type": "NodePort", "selector": {"a": "c"}}},
            "spec.selector.a: b -> c",
        ),
        (RELEASE, {"version": "1"}, {"version": "2", "skipCrds": True}, "skipCrds"),
        (RBAC, {"rules": [], "aggregationRule": {"a": 1}}, {"rules": []}, "aggregationRule"),
        (
            EKS,
            {"version": "1.34", "outpostConfig": {"a": 1}},
            {"version": "1.35", "outpostConfig": {"a": 2}},
            "outpostConfig.a: 1 -> 2",
        ),
        (
            alerts,
            {"spec": {"groups": [{"name": "gpu", "rules": rows}]}},
            {"spec": {"groups": [{"name": "gpu", "rules": rarer}]}},
            "ask guards: spec.groups[gpu].rules[Full].for: 5m -> 9h",
        ),
        (
            alerts,
            {"spec": {"groups": [{"name": "gpu", "rules": rows}]}},
            {"spec": {"groups": [{"name": "gpu", "rules": rows[:1]}]}},
            "refuse guards: no longer has alert Full",
        ),
        (flavor, {"spec": {"nodeLabels": {"pool": "a"}}}, {"spec": {}}, "refuse jobs: admits jobs"),
    ):
        texts = said([planned(type_, before)], [planned(type_, after)])
        assert any(sentence in text for text in texts), (sentence, texts)


def test_watchers_that_fall_silent_are_told() -> None:
    alarm, budget = "aws:cloudwatch/metricAlarm:MetricAlarm", "aws:budgets/budget:Budget"
    notices = [{"threshold": 80}, {"threshold": 100}]
    for type_, before, after, sentence in (
        (
            alarm,
            {"alarmActions": ["arn:a"]},
            {"alarmActions": []},
            "refuse guards: no longer tells",
        ),
        (alarm, {}, {"actionsEnabled": False}, "refuse guards: tells nobody"),
        (
            "gcp:container/cluster:Cluster",
            {"monitoringConfig": {"enableComponents": ["DCGM", "SYSTEM_COMPONENTS"]}},
            {"monitoringConfig": {"enableComponents": ["SYSTEM_COMPONENTS"]}},
            "ask guards: no longer measures DCGM: what watches it",
        ),
        (
            "gcp:container/cluster:Cluster",
            {"monitoringConfig": {"managedPrometheus": {"enabled": True}}},
            {"monitoringConfig": {"managedPrometheus": {"enabled": False}}},
            "ask guards: has no Prometheus of Google any more",
        ),
        (alarm, {"threshold": 85}, {"threshold": 99}, "ask guards: fires otherwise"),
        (budget, {"limitAmount": "4"}, {"limitAmount": "40"}, "ask capacity: warns of more"),
        (budget, {"notifications": notices}, {"notifications": notices[:1]}, "warns fewer times"),
    ):
        texts = said([planned(type_, before)], [planned(type_, after)])
        assert any(sentence in text for text in texts), (sentence, texts)


def test_marks_of_watchers_are_noted() -> None:
    for type_, field in (
        ("aws:cloudwatch/metricAlarm:MetricAlarm", "tags"),
        ("gcp:monitoring/alertPolicy:AlertPolicy", "userLabels"),
        ("aws:sns/topicSubscription:TopicSubscription", "tags"),
    ):
        old, new = ({field: {"team": name}} for name in ("a", "b"))
        (text,) = said([planned(type_, old)], [planned(type_, new)])
        assert text.startswith("note"), text


def test_rights_that_others_get_are_told() -> None:
    deny = {"Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "arn:a"}
    allow = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:a", "Principal": "arn:b"}
    for type_, before, after, sentence in (
        (POLICY, {"policy": {"Statement": [deny]}}, {"policy": {"Statement": []}}, "no longer den"),
        (
            "aws:s3/bucketPolicy:BucketPolicy",
            {"policy": {"Statement": [allow]}},
            {"policy": {"Statement": [{**allow, "Principal": "arn:c"}]}},
            "or who has it",
        ),
        (
            "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember",
            {"role": "roles/viewer", "member": "user:a"},
            {"role": "roles/viewer", "member": "user:b"},
            "ask rights: gives user:b roles/viewer",
        ),
        (
            "gcp:projects/iAMBinding:IAMBinding",
            {"role": "roles/viewer", "members": ["user:a"]},
            {"role": "roles/viewer", "members": ["user:a", "user:b"]},
            "ask rights: gives user:b roles/viewer",
        ),
    ):
        texts = said([planned(type_, before)], [planned(type_, after)])
        assert any(sentence in text for text in texts), (sentence, texts)


def test_settings_that_lose_something_are_told() -> None:
    def claim(**rule: Any) -> dict[str, Any]:
        names = [{"name": "a", "namespace": n, "retention": None} for n in ("x", "y")]
        return {"checkpoints": [names[0], {**names[1], "retention": rule or None}]}

    def pool(**more: Any) -> dict[str, Any]:
        return {"pools": [{"name": "p", **more}]}

    def team(**more: Any) -> dict[str, Any]:
        return {"teams": [{"name": "vision", **more}]}

    def runs(image: str) -> dict[str, Any]:
        return {"runtimes": [{"name": "torch", "image": image}]}

    def logs(how: str) -> dict[str, Any]:
        return {"runtimes": [{"name": "torch", "logs": how}]}

    bought = {"kind": "capacity-block", "id": "cr-1"}
    for before, after, sentence in (
        (claim(), claim(days=2, keep=1, delete=True), "ask data: deletes checkpoints every night"),
        (claim(), claim(days=2, keep=1, delete=False), ""),
        (claim(days=9, delete=True), claim(days=2, delete=True), "ask data: deletes more"),
        (claim(days=9, delete=True), claim(), ""),
        (logs("kept"), logs("pods"), "ask jobs: the output of jobs goes with their pods"),
        (logs("pods"), logs("bare"), ""),
        ({"requeue": {"limit": 1}}, {"requeue": {"limit": None}}, ""),
        ({"requeue": {"limit": None}}, {"requeue": {"limit": 1}}, "ask jobs: a gang that did not"),
        (
            pool(schedulable={"cpu": 8}),
            pool(schedulable={"cpu": 9}),
            "ask quota: jobs are promised",
        ),
        (pool(purchase=bought), pool(purchase={"kind": "on-demand"}), "refuse capacity: the capac"),
        (pool(capacity={"kind": "on-demand"}), pool(capacity={"kind": "spot"}), "ask jobs: machin"),
        ({"gate": {"lossless": None}}, {"gate": {"lossless": False}}, "ask guards: nodes need not"),
        ({"gate": {"image": "a"}}, {"gate": {"image": None}}, ""),
        ({"gate": {"image": "a"}}, {"gate": None}, "ask guards: nodes need not"),
        ({"requeue": None}, {"requeue": {"limit": 5}}, "ask jobs: a gang that did not"),
        (pool(purchase=bought), pool(purchase=None), "refuse capacity: the capacity-block"),
        (pool(purchase=bought), pool(purchase={**bought, "id": "cr-2"}), "ask capacity: cr-1"),
        (pool(purchase=bought), {"pools": []}, ""),
        (
            pool(purchase=bought),
            pool(purchase={"kind": "spot"}),
            "is paid for; machines are spot: the cloud takes them back at any time",
        ),
        (
            {"platform": {"network": {"nat": "per-zone"}}},
            {"platform": {"network": {"nat": "single"}}},
            "ask network: all zones go out by one gateway",
        ),
        (
            {"platform": {"system_pool": {"max_nodes": 6}}},
            {"platform": {"system_pool": {"max_nodes": 1}}},
            "ask jobs: controllers have 1 nodes, not 6: while one is lost",
        ),
        (
            {"gpu_operator": {"driver_version": "580.1"}},
            {"gpu_operator": {"driver_version": "580.2"}},
            "ask jobs: the driver is replaced on every node: 580.1 -> 580.2",
        ),
        ({"ready_timeout_seconds": 1800}, {"ready_timeout_seconds": 60}, "ask jobs: a gang of wh"),
        (runs("r.io/efa:1"), runs("docker.io/torch:1"), "ask network: docker.io/torch:1 in place"),
        (runs("r.io:5000/efa:1"), runs("r.io:5000/efa:2@sha256:0a"), ""),
        ({"ready_timeout_seconds": 60}, {"ready_timeout_seconds": 1800}, ""),
        (
            {"requeue": {"recovery_seconds": 900}},
            {"requeue": {"recovery_seconds": 0}},
            "ask quota: a gang that lacks a pod keeps its quota for ever",
        ),
        (
            {"requeue": {"recovery_seconds": None}},
            {"requeue": {"recovery_seconds": 30}},
            "ask jobs: a gang that lacks a pod for 30 s loses its place",
        ),
        (
            team(preemption={"within": "never"}),
            team(preemption={"within": "lower"}),
            "ask quota: r",
        ),
        (
            team(preemption={"within": "lower"}),
            team(preemption={"within": "never"}),
            "ask quota: its urgent jobs wait for its others to end (lower -> never)",
        ),
        (
            team(preemption={"within": "lower"}),
            team(preemption={"within": "lower-or-newer-equal"}),
            "ask quota: its running jobs are stopped for older ones of the same priority",
        ),
        (
            team(order="strict"),
            team(order="best-effort"),
            "ask quota: small jobs start past a large one that does not fit yet",
        ),
        (
            team(order="best-effort"),
            team(order="strict"),
            "ask quota: no job starts before the team's first",
        ),
        (
            {"fabric": {"sriov": {"max_unavailable": 2}}},
            {"fabric": {"sriov": {"max_unavailable": 16}}},
            "ask jobs: 16 nodes at once, not 2, are drained",
        ),
        (
            {"fabric": {"network_operator": {"ofed": {"upgrade": "manual"}}}},
            {"fabric": {"network_operator": {"ofed": {"upgrade": "rolling"}}}},
            "ask jobs: a new version of the NICs' driver is rolled over the nodes by itself",
        ),
        (team(shares=[{"borrow": None}]), team(shares=[{"borrow": 2}]), "ask quota: may borrow 2"),
        (team(shares=[{"borrow": 2}]), team(shares=[{"borrow": None}]), "unused: limit 2 -> "),
        (team(shares=[{"lend": 0}]), team(shares=[{"lend": 4}]), "stopped: limit 0 -> 4"),
        (team(shares=[{"lend": None}]), team(shares=[{"lend": None}]), ""),
        (
            team(preemption={"reclaim": "any"}),
            team(preemption={"reclaim": "never"}),
            "ask quota: i",
        ),
        ({"fabric": {"sriov": {"drain": True}}}, {"fabric": {"sriov": {"drain": False}}}, NICS),
        ({"fabric": {"sriov": {"vfs": 1}}}, {"fabric": {"sriov": {"vfs": 8}}}, "NICs of every nod"),
        ({"fabric": {"lock_memory": True}}, {"fabric": {"lock_memory": False}}, "IPC_LOCK"),
        (
            {"queueing": {"end_lost_pods": True}},
            {"queueing": {"end_lost_pods": False}},
            "pods on a lost node stay until a person",
        ),
        ({"a": {"b": True}}, {"a": {"b": False}}, "ask jobs: is switched off"),
        ({"a": {"b": False}}, {"a": {"b": True}}, ""),
        (team(weight=2), team(weight=0), "ask quota: gets less of what is unused"),
        (team(priority="spare"), team(priority="research"), "no priority are research from now"),
        (
            {"network_policy": {"ingress_namespaces": []}},
            {"network_policy": {"ingress_namespaces": ["tools"]}},
            "ask network: pods of other namespaces reach every port of jobs",
        ),
        ({"access": {"exec": "leads"}}, {"access": {"exec": "researchers"}}, "ask rights: more p"),
        ({"access": {"exec": "leads"}}, {"access": {"exec": "nobody"}}, ""),
        ({"gpu_operator": None}, {"gpu_operator": {"driver": "operator"}}, ""),
        (
            {"watching": {"checkpoint_minutes": 60}},
            {"watching": {"checkpoint_minutes": 600}},
            "ask guards: alerts come later: 60 -> 600",
        ),
    ):
        texts = [f"{r.level} {r.loss}: {r.what}" for _, r in settings(before, after)]
        assert len(texts) == bool(sentence), (after, texts)
        assert all(sentence in text for text in texts), (after, texts)


@pytest.mark.parametrize(
    ("before", "after", "sentences"),
    [
        (["a"], [], ["ask rights: gains patch of configmaps"]),
        (["a"], ["a", "b"], ["ask rights: gains patch of configmaps b"]),
        (["a", "b"], ["a"], ["ask access: loses patch of configmaps b"]),
        ([], ["a"], ["ask access: loses patch of configmaps"]),
        (["a"], ["a"], []),
    ],
)
def test_objects_that_a_role_names_are_compared(
    before: list[str], after: list[str], sentences: list[str]
) -> None:
    sides = [_rules(("configmaps", "patch")) for _ in range(2)]
    for side, names in zip(sides, (before, after), strict=True):
        side["rules"][0] |= {"resourceNames": names} if names else {}
    assert said([planned(RBAC, sides[0])], [planned(RBAC, sides[1])]) == sentences


def test_who_may_take_a_role_is_named() -> None:
    wider, narrower = _trust({"AWS": ["arn:a", "arn:b"]}), _trust({"AWS": "arn:a"})
    for before, after, sentence in (
        (narrower, wider, "refuse rights: may be taken by others than before: AWS arn:b"),
        (wider, narrower, "ask access: may no longer be taken by AWS arn:b"),
    ):
        assert said([planned(ROLE, before)], [planned(ROLE, after)]) == [sentence]


def test_switch_without_a_row_is_told_in_the_words_of_its_field() -> None:
    sections: list[dict[str, Any]] = [
        {"platform": {"kind": "gcp"}, "pools": [{"name": "a", "image_streaming": on}], "other": on}
        for on in (True, False)
    ]
    texts = {path: result.what for path, result in settings(*sections)}
    (path,) = texts.keys() - {"other"}
    assert texts[path].startswith("is switched off: *Whether containers start before their images")
    assert texts["other"] == "is switched off"


def test_conditions_that_a_role_loses_are_named() -> None:
    test = {"aws:RequestTag/kubernetes-namespace": "training", "aws:RequestTag/cluster": "p5"}
    loose, tight = (
        _trust({"Service": "pods.eks.amazonaws.com"}, Condition={"StringEquals": keys})
        for keys in ({"aws:RequestTag/cluster": "p5"}, test)
    )
    (text,) = said([planned(ROLE, tight)], [planned(ROLE, loose)])
    assert text.startswith("refuse rights: may be taken by others")
    assert text.endswith("no longer limited by aws:requesttag/kubernetes-namespace")
    other = _trust({"Service": "pods.eks.amazonaws.com"}, Condition={"StringEquals": {"a": "b"}})
    wider = _trust({"Service": "pods.eks.amazonaws.com"}, Condition={"StringEquals": {"a": "c"}})
    (text,) = said([planned(ROLE, other)], [planned(ROLE, wider)])
    assert text.endswith("no longer limited by a StringEquals b")
    (text,) = said([planned(ROLE, loose)], [planned(ROLE, tight)])
    assert text.startswith("ask access: may be taken by Service pods")


def test_input_that_is_no_secret_any_more_is_refused() -> None:
    provider = "pulumi:providers:kubernetes"
    secret, known = (planned(provider, {"kubeconfig": v}) for v in ("[secret]", "a"))
    text = "refuse rights: is no secret any more in kubeconfig"
    assert any(row.startswith(text) for row in said([secret], [known]))
    assert not any("no secret" in row for row in said([known], [secret]))
    other = planned(provider, {"kubeconfig": "[secret]", "context": "a"})
    assert not any("no secret" in row for row in said([secret], [other]))


def test_command_that_changes_is_told_by_its_words() -> None:
    old, new = (_pod(command=["gate", "--wait", f"--grace={s}"]) for s in (300, 36000))
    (text,) = said([planned(DEPLOYMENT, old)], [planned(DEPLOYMENT, new)])
    assert text == "ask jobs: runs something else: command --grace=300 -> --grace=36000"


def test_rights_that_a_container_loses_are_told() -> None:
    old, new = (
        _pod(securityContext={"capabilities": {"add": names}}) for names in (["IPC_LOCK"], [])
    )
    (text,) = said([planned(DEPLOYMENT, old)], [planned(DEPLOYMENT, new)])
    assert "securityContext.capabilities.add: IPC_LOCK -> (nothing)" in text


def test_annotations_that_controllers_read_are_told() -> None:
    for key, sentence in (
        ("k8s.v1.cni.cncf.io/networks", "ask jobs: spec.template.metadata.annotations.k8s.v1"),
        ("pulumi.com/skipAwait", ""),
        ("note", ""),
    ):
        old, new = (
            {"spec": {"template": {"metadata": {"annotations": a}}}} for a in ({}, {key: "b"})
        )
        texts = said([planned(DEPLOYMENT, old)], [planned(DEPLOYMENT, new)])
        assert [text.startswith(sentence) for text in texts] == [True] * bool(sentence), texts


def test_changes_that_are_ignored_from_now_on_are_told() -> None:
    new = planned(FSX, {}, ignores=frozenset({"storageCapacity"}))
    assert said([planned(FSX, {})], [new]) == [
        "ask file: ignores changes of storageCapacity from now on: no edit reaches the cluster"
    ]


def test_limit_and_taint_that_hold_nothing_back_lose_nothing() -> None:
    old: dict[str, Any]
    new: dict[str, Any]
    taint, every = [{"key": "a"}], [{"operator": "Exists"}]
    for before, after, level in (
        ({"limits": {"cpu": "2", "memory": "1Gi"}}, {"limits": {"memory": "1Gi"}}, "ask"),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "1"}}, "refuse"),
        ({"requests": {"cpu": "2", "memory": "1Gi"}}, {"requests": {"cpu": "2"}}, "refuse"),
    ):
        old, new = ({"values": {"resources": values}} for values in (before, after))
        (text,) = said([planned(RELEASE, old)], [planned(RELEASE, new)])
        assert text.startswith(level), (after, text)
    for tolerated, level in ((every, "ask"), ([{"key": "b"}], "refuse")):
        old, new = ({"values": {"tolerations": values}} for values in (taint, tolerated))
        (text,) = said([planned(RELEASE, old)], [planned(RELEASE, new)])
        assert text.startswith(level), (tolerated, text)
    pods = [
        {"spec": {"template": {"spec": {"containers": [{"name": "a"}], "tolerations": of}}}}
        for of in (taint, every)
    ]
    (text,) = said([planned(DEPLOYMENT, pods[0])], [planned(DEPLOYMENT, pods[1])])
    assert text == "ask jobs: tolerates every taint: it runs on every node"
    free, held = (_pod(resources={"limits": {"cpu": n} if n else {}}) for n in ("", "2"))
    texts = said([planned(DEPLOYMENT, held)], [planned(DEPLOYMENT, free)])
    assert "ask jobs: may take any cpu, not 2" in texts


def test_variable_that_sounds_like_a_token_is_none() -> None:
    for name, value, plain in (
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("MAX_TOKENS", "4096", False),
        ("DB_PASSWORD_FILE", "/run/password", False),
        ("DB_PASSWORD_2", "x", True),
        ("AWS_SECRET_ACCESS_KEY", "x", True),
        ("URL", "https://me:word@r.example.com", True),
    ):
        new = _pod(env=[{"name": name, "value": value}])
        texts = said([planned(DEPLOYMENT, _pod())], [planned(DEPLOYMENT, new)])
        assert any("in plain text" in text for text in texts) is plain, (name, texts)


def test_switches_of_charts_are_refused_where_they_loosen() -> None:
    for path, was, now, level in (
        ("webhook.failurePolicy", "Fail", "Ignore", "refuse"),
        ("webhook.failurePolicy", "Ignore", "Fail", "ask"),
        ("server.tls", True, False, "refuse"),
        ("server.tls", False, True, "ask"),
        ("driver.upgradePolicy.autoUpgrade", False, True, "refuse jobs: value driver.upgradePolic"),
        ("server.insecure", False, True, "refuse"),
        ("server.insecure", True, False, "ask"),
        ("server.hostNetwork", None, True, "refuse"),
        ("service.type", "ClusterIP", "LoadBalancer", "refuse network"),
        ("service.type", "LoadBalancer", "ClusterIP", "ask jobs"),
        ("auth.anonymous.enabled", None, "true", "refuse rights"),
        ("auth.anonymous.hide_version", None, True, "ask jobs"),
    ):
        old, new = ({"version": "1", "values": {path: value}} for value in (was, now))
        (text,) = said([planned(RELEASE, old)], [planned(RELEASE, new)])
        assert text.startswith(level), (path, was, now, text)


def test_lost_options_are_told() -> None:
    before = planned(FSX, {}, protect=True, retain=True, ignores=frozenset({"tags"}))
    texts = said([before], [planned(FSX, {})])
    assert [t.split(":")[0] for t in texts] == ["refuse data", "refuse data", "refuse jobs"]


def test_lost_protection_names_what_would_go_with_the_resource() -> None:
    pool = "gcp:container/nodePool:NodePool"
    (text,) = said([planned(pool, {}, protect=True)], [planned(pool, {})])
    assert "then its nodes and the jobs on them end" in text


def test_alias_that_goes_is_told() -> None:
    known = planned(FSX, {}, "b", aliases=frozenset({f"urn::{FSX}::a"}))
    gone = planned(FSX, {}, "b")
    (text,) = said([known], [gone])
    assert text.startswith("ask data: has fewer aliases than before")
    assert "all that is in it is deleted" in text
    assert said([gone], [known]) == []
    assert said([known], [gone], code=False) == []
    # It has the old name again.
    back = replace(gone, urn=f"urn::{FSX}::a", aliases=frozenset({gone.urn}))
    assert said([known], [back]) == []


def test_side_of_the_engine_is_compared_by_what_it_prints() -> None:
    by_sdk = planned(FSX, {"a": 1}, aliases=frozenset({"urn::old"}), manner=Manner())
    cluster = planned(K8S, {"context": "a"}, manner=Manner())
    by_engine = [planned(FSX, {"a": 1}), planned(K8S, {"context": "a", "version": "4.34.2"})]
    assert said([by_sdk, cluster], by_engine) == []
    assert said(by_engine, [by_sdk, cluster]) == []
    new = replace(by_sdk, urn=f"urn::{FSX}::b", aliases=frozenset({by_engine[0].urn}))
    assert said(by_engine, [new, cluster]) == []


def test_alias_by_another_type_goes_on_under_a_new_name() -> None:
    top, old, new = "urn:pulumi:p::p::", "kubernetes:a/v1beta1:A", "kubernetes:a/v1:A"
    was = planned(new, {}, "a", urn=f"{top}{new}::a", aliases=frozenset({f"{top}{old}::a"}))
    names = frozenset({was.urn, f"{top}{old}::b"})
    assert said([was], [planned(new, {}, "b", urn=f"{top}{new}::b", aliases=names)]) == []
    names = frozenset({was.urn})
    (text,) = said([was], [planned(new, {}, "b", urn=f"{top}{new}::b", aliases=names)])
    assert "has fewer aliases than before" in text


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            Manner(provider="urn::pulumi:providers:aws::p5"),
            Manner(),
            "refuse data: is made by the default provider, not p5",
        ),
        (Manner(secret=frozenset({"dnsName"})), Manner(), "refuse rights: has its outputs dnsName"),
        (Manner(goes_first=True), Manner(), "ask jobs: is replaced by one that is made before"),
        (Manner(), Manner(goes_first=True), "ask data: goes before its successor is made"),
        (
            Manner(replaced_for=frozenset({"throughput"})),
            Manner(),
            "ask jobs: is not replaced any more when throughput changes",
        ),
        (
            Manner(),
            Manner(replaced_for=frozenset({"throughput"})),
            "ask data: is replaced when throughput changes",
        ),
        (
            Manner(limits={"delete": 43200.0}),
            Manner(limits={"delete": 1800.0}),
            "ask jobs: has 30 minutes for its delete, not 720 minutes",
        ),
        (
            Manner(limits={"delete": 43200.0}),
            Manner(),
            "ask jobs: has what its provider gives for its delete, not 720 minutes",
        ),
        (
            Manner(deleted_with="urn::x::space"),
            Manner(),
            "ask jobs: is deleted by itself, not with",
        ),
        (Manner(), Manner(deleted_with="urn::x::space"), "ask jobs: is not deleted by itself but"),
    ],
)
def test_options_that_code_takes_away_are_told(
    before: Manner, after: Manner, sentence: str
) -> None:
    old, new = (planned(FSX, {}, manner=manner) for manner in (before, after))
    (text,) = said([old], [new])
    assert text.startswith(sentence)
    assert said([old], [new], code=False) == []
    # A plan of the engine's does not show them.
    assert said([replace(old, manner=None)], [new]) == []


def test_more_time_and_a_first_provider_lose_nothing() -> None:
    old, new = (planned(FSX, {}, manner=Manner(limits={"delete": s})) for s in (60.0, 120.0))
    assert said([old], [new]) == []
    state = {"urn": "urn::x::it", "type": FSX, "deletedWith": "", "deleteBeforeReplace": True}
    state |= {"replaceOnChanges": ["a"], "additionalSecretOutputs": [], "provider": "urn::p::aws::"}
    state |= {"customTimeouts": {"update": "1h30m", "create": "90s"}}
    (made,) = resources(_plan_of(state), "/").values()
    assert made.manner == Manner(
        provider="urn::p::aws",
        goes_first=True,
        replaced_for=frozenset({"a"}),
        limits={"update": 5400.0, "create": 90.0},
    )
    defaults = state | {"provider": "urn:pulumi:x::y::pulumi:providers:aws::default_7_51_1::id"}
    (other,) = resources(_plan_of(defaults), "/").values()
    assert other.manner is not None
    assert other.manner.provider == ""


def _plan_of(state: dict[str, Any]) -> Plan:
    states = {state["urn"]: state}
    return Plan(stack="it", resources=(), violations=(), judged=False, seconds=0.0, states=states)


def test_names_below_a_parent_that_was_renamed_are_known() -> None:
    """A component's children mostly begin with its name, and the engine follows that."""
    monitor = offline.Monitor("dev", "p", (None, None), io.BytesIO())
    top = "urn:pulumi:dev::p::"
    monitor.states[f"{top}up::new"] = {"aliases": [f"{top}up::old"]}
    spec = SimpleNamespace(noParent=False, parentUrn="", type="", name="new-former")
    request = SimpleNamespace(
        parent=f"{top}up::new",
        type=FSX,
        name="new-files",
        aliases=[SimpleNamespace(urn="", spec=spec)],
    )
    assert monitor._aliases(request) == [
        f"{top}up${FSX}::new-former",
        f"{top}up${FSX}::old-files",
        f"{top}up${FSX}::old-former",
    ]


def test_provider_that_is_configured_alike_is_the_same_one() -> None:
    aws, inputs = "pulumi:providers:aws", {"region": "us-east-2"}
    first = planned(aws, inputs, "a")
    files = [planned(FSX, {}, manner=Manner(provider=f"urn::{aws}::{name}")) for name in "ab"]
    for configured, count in ((inputs, 0), ({"region": "eu-west-1"}, 1)):
        second = planned(aws, configured, "b")
        for others in ([], [first]):
            texts = said([first, files[0]], [*others, second, files[1]])
            assert sum("is made by" in text for text in texts) == count


def test_objects_that_change_their_names_are_told_once_each() -> None:
    claim = "kubernetes:core/v1:PersistentVolumeClaim"
    x, y = ({"metadata": {"name": name, "namespace": "training"}} for name in ("x", "y"))
    before = [planned(claim, x, "a", urn="urn::p::a"), planned(claim, y, "b", urn="urn::p::b")]
    assert len(said(before, [planned(claim, y, "a", urn="urn::q::a")])) == 2


def test_lost_parent_is_told_with_what_goes() -> None:
    old, new = (planned(FSX, {}, urn=urn) for urn in (f"urn::up${FSX}::it", f"urn::{FSX}::it"))
    (text,) = said([old], [new])
    assert text.startswith("refuse data: has another parent in the program")
    assert "all that is in it is deleted" in text
    user = planned(INGRESS, {"a": "x"}, waits_for=frozenset({old.urn}))
    assert len(said([old, user], [new, replace(user, waits_for=frozenset({new.urn}))])) == 1


def test_what_holds_the_id_of_a_replaced_resource_is_replaced() -> None:
    group = "aws:ec2/securityGroup:SecurityGroup"
    refers = {"securityGroupIds": (f"urn::{group}::it",)}
    for known, count in ((UNKNOWN, 2), ("by-name", 1)):
        store = planned(FSX, {"securityGroupIds": [known]}, refers=refers)
        before, after = (planned(group, {"description": text}) for text in ("a", "b"))
        texts = said([before, store], [after, store])
        assert len([text for text in texts if "is replaced" in text]) == count
        assert any("refuse data: is replaced" in text for text in texts) is (count == 2)


def test_expiry_of_a_bucket_that_was_there_is_refused() -> None:
    bucket = planned(BUCKET, {}, "bucket")
    rules = [{"status": "Enabled", "expiration": {"days": 30}}]
    after = planned(LIFECYCLE, {"rules": rules}, refers={"bucket": (bucket.urn,)})
    (text,) = said([bucket], [bucket, after])
    assert text == "refuse data: deletes every object 30 days after it was written"
    assert said([], [bucket, after]) == []
    for rule, expected in (
        (
            {**rules[0], "filter": {"prefix": "tmp/"}},
            "ask data: deletes every object below tmp/ 30 days",
        ),
        (
            {"status": "Enabled", "expiration": {"date": "2027-01-01T00:00:00Z"}},
            "refuse data: deletes every object from 2027-01-01T00:00:00Z on, however new it is",
        ),
        (UNKNOWN, "unjudged judges: could not be judged: not known before the update: rules"),
        (
            {**rules[0], "filter": UNKNOWN},
            "unjudged judges: could not be judged: not known before the update: rules",
        ),
        ({**rules[0], "status": "Disabled"}, None),
        ({"status": "Enabled", "transitions": [{"days": 30}]}, None),
    ):
        texts = said([bucket], [bucket, replace(after, inputs={"rules": [rule]})])
        assert [t.startswith(str(expected)) for t in texts] == [True] * bool(expected), rule


def test_bucket_of_google_is_refused_only_where_more_is_deleted() -> None:
    def rules(kind: str, **condition: Any) -> dict[str, Any]:
        return {"lifecycleRules": [{"action": {"type": kind}, "condition": condition}]}

    colder = rules("SetStorageClass", age=30)
    for before, after, sentence in (
        ({}, colder, ""),
        (colder, rules("Delete", age=30), "refuse data: deletes every object 30 days after it was"),
        (rules("Delete", age=30), rules("Delete", age=90), ""),
        (rules("Delete", age=30), {}, ""),
        ({}, rules("Delete", age=7, matchesPrefixes=["tmp/"]), "ask data: deletes every object be"),
        ({}, rules("Delete", numNewerVersions=3), "ask data: deletes every older version that"),
        ({}, rules("Delete", daysSinceNoncurrentTime=3), "ask data: deletes every older version 3"),
        ({}, rules("Delete", createdBefore="2026-01-01"), "refuse data: deletes every object that"),
        ({}, {"lifecycleRules": UNKNOWN}, "unjudged judges: could not be judged"),
    ):
        old, new = ({"name": "b", **row} for row in (before, after))
        bucket = "gcp:storage/bucket:Bucket"
        texts = said([planned(bucket, old)], [planned(bucket, new)])
        grave = [t for t in texts if "deletes every" in t or not t.startswith("ask data: moves")]
        assert len(grave) == bool(sentence), (after, texts)
        assert all(t.startswith(sentence) for t in grave), (after, texts)
        assert not said([], [planned(bucket, new)])


def test_expiry_that_comes_sooner_is_told() -> None:
    def rules(days: int, versions: int, prefix: str = "") -> dict[str, Any]:
        row = {"expiration": {"days": days}, "filter": {"prefix": prefix}, "status": "Enabled"}
        return {"rules": [{**row, "noncurrentVersionExpiration": {"noncurrentDays": versions}}]}

    both = {"rules": [*rules(30, 30)["rules"], *rules(90, 90)["rules"]]}
    for before, after, sentences in (
        (rules(90, 90), rules(30, 90), ["refuse data: deletes every object 30 days"]),
        (rules(90, 90), rules(90, 7), ["ask data: deletes every older version 7 days"]),
        (rules(30, 30), rules(90, 90), []),
        (rules(30, 30), rules(90, 90, "tmp/"), []),
        (both, {"rules": [*both["rules"], *rules(60, 60)["rules"]]}, []),
        (
            rules(30, 30, "tmp/"),
            rules(30, 30),
            ["refuse data: deletes every object", "ask data: de"],
        ),
    ):
        texts = said([planned(LIFECYCLE, before)], [planned(LIFECYCLE, after)])
        deleting = [text for text in texts if ": deletes" in text]
        assert len(deleting) == len(sentences), (after, texts)
        assert all(t.startswith(s) for t, s in zip(deleting, sentences, strict=True)), texts


def test_unknown_members_of_google_are_named_by_their_account() -> None:
    type_ = "gcp:projects/iAMMember:IAMMember"
    refers = {"member": ("urn::gcp:serviceaccount/account:Account::nodes",)}
    member = planned(type_, {"role": "roles/viewer", "member": f"sa:{UNKNOWN}"}, refers=refers)
    assert said([], [member]) == ["ask rights: gives nodes roles/viewer"]


def test_made_up_ids_are_named_by_their_resource() -> None:
    group = planned("aws:ec2/securityGroup:SecurityGroup", {}, "efa-group")
    before = planned(
        INGRESS,
        {"ipProtocol": "-1", "referencedSecurityGroupId": "0f-3c"},
        refers={"referencedSecurityGroupId": (group.urn,)},
    )
    texts = said([before, group], [planned(INGRESS, {"ipProtocol": "-1"}), group])
    sentence = "refuse network: referencedSecurityGroupId: efa-group -> (nothing)"
    assert any(text.startswith(sentence) for text in texts)


def test_lost_order_is_told_unless_another_way_holds_it() -> None:
    rule, group = planned(INGRESS, {}, "rule"), planned("aws:ec2/vpc:Vpc", {}, "group")
    via = planned("aws:ec2/vpc:Vpc", {}, "group", waits_for=frozenset({rule.urn}))
    before = planned(FSX, {}, waits_for=frozenset({rule.urn, group.urn}))
    after = planned(FSX, {}, waits_for=frozenset({group.urn}))
    (text,) = said([before, rule, group], [after, rule, group])
    assert "no longer waits for" in text
    assert said([before, rule, via], [after, rule, via]) == []


def test_derived_changes_of_a_stack_file_are_no_alarm() -> None:
    """A pool that is added changes the guards' expressions: they follow the file."""
    old = planned(GUARD, {"spec": {"validations": [{"expression": "pool in ['a']"}]}})
    new = planned(GUARD, {"spec": {"validations": [{"expression": "pool in ['a', 'b']"}]}})
    assert said([old], [new], code=False) == []
    assert said([old], [new], code=True)


def test_ignored_change_is_none() -> None:
    """A template keeps its tags, and a pool its size, whatever the program says."""
    template = "aws:ec2/launchTemplate:LaunchTemplate"
    ignores = frozenset({"tags", "scaling.desired"})
    old = planned(template, {"tags": {"a": "b"}, "scaling": {"desired": 1}}, ignores=ignores)
    new = planned(template, {"tags": {"a": "c"}, "scaling": {"desired": 2}}, ignores=ignores)
    assert said([old], [new]) == []
    assert said([replace(old, ignores=frozenset())], [replace(new, ignores=frozenset())])


def test_folder_of_a_stack_is_the_same_beside_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Any] = []

    def run(_script: str, _words: Any, stacks: list[Any], *_: Any) -> str:
        rows.extend(stacks)
        return ""

    monkeypatch.setattr(stack_plans, "_run", run)
    file = REPO / "stacks" / "Pulumi.onprem-ib-sriov.yaml"
    for before in ([], [REPO / "stacks" / "Pulumi.lab.yaml"]):
        stack_plans.stack_plans([*before, file], code=REPO)
    folders = [Path(row["result"]).parent.name for row in rows if row["file"] == str(file)]
    assert folders == ["onprem-ib-sriov", "onprem-ib-sriov"]


def test_folder_of_a_plan_is_no_difference() -> None:
    """Each plan is made in a folder of its own, which charts and kubeconfigs name."""

    def plan(folder: str) -> Plan:
        state = {
            "urn": "urn::chart",
            "type": RELEASE,
            "inputs": {"chart": f"/tmp/{folder}/cache/charts/kueue-0.16.2"},
        }
        return Plan(
            stack="lab",
            resources=(),
            violations=(),
            judged=False,
            seconds=1.0,
            states={"urn::chart": state},
        )

    folders = ("railhead-plan-a1_", "railhead-plan-b2/lab")
    old, new = (resources(plan(folder), "/checkout") for folder in folders)
    assert compare(old, new) == []
    assert old["urn::chart"].inputs["chart"] == "/cache/charts/kueue-0.16.2"


def _hook(**more: Any) -> dict[str, Any]:
    rule = {"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods"]}
    return {"metadata": {"name": "it"}, "webhooks": [{"name": "a", "rules": [rule], **more}]}


def _mounting(command: Any = (), **mount: Any) -> dict[str, Any]:
    mounts = [{"name": "a", "mountPath": "/a", **mount}]
    made = _pod(volumeMounts=mounts, command=list(command))
    claim = {"name": "a", "persistentVolumeClaim": {"claimName": "checkpoints"}}
    made["spec"]["template"]["spec"]["volumes"] = [claim]
    return made


def _chart(type_: str, **service: Any) -> dict[str, Any]:
    values = {"board": {"service": {"type": type_, **service}}}
    return {"chart": "oci://x/board", "version": "1", "values": values}


def _trust(principal: Any, **more: Any) -> dict[str, Any]:
    row = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": principal, **more}
    return {"assumeRolePolicy": {"Statement": [row]}}


def _of_token(subject: str) -> dict[str, Any]:
    return _trust({"Federated": "arn:x"}, Condition={"StringLike": {"x:sub": subject}})


ROLE = "aws:iam/role:Role"
HOOK = "kubernetes:admissionregistration.k8s.io/v1:MutatingWebhookConfiguration"
NICS = "ask jobs: nodes are not drained before their NICs change: all change at once"
PRIORITY = "kubernetes:scheduling.k8s.io/v1:PriorityClass"
MAP = "kubernetes:core/v1:ConfigMap"
RAIL = "kubernetes:k8s.cni.cncf.io/v1:NetworkAttachmentDefinition"
DEVICE = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
ADDED = [
    (HOOK, _hook(), "refuse jobs: is asked about all pods"),
    (HOOK, _hook(failurePolicy="Ignore"), "ask jobs: the webhook sees"),
    (HOOK, _hook(namespaceSelector={"matchLabels": {"a": "b"}}), "ask jobs: the webhook sees"),
    (PRIORITY, {"value": 7, "globalDefault": True}, "refuse quota: is everyone's"),
    (PRIORITY, {"value": 7}, ""),
    (QUEUE, _quota("99"), "refuse quota: gives out 99 nvidia.com/gpu"),
    (DEPLOYMENT, _pod(**DEVICE), "refuse quota: takes 1 nvidia.com/gpu a pod"),
    (DEPLOYMENT, _pod(), ""),
    (DEPLOYMENT, _mounting(), "ask data: mounts claim checkpoints, not read-only"),
    (DEPLOYMENT, _mounting(readOnly=True), ""),
    (
        "kubernetes:apps/v1:DaemonSet",
        _pod(resources={"requests": {"cpu": "4"}}),
        "ask jobs: runs on every node that it tolerates, and takes cpu 4 of it",
    ),
    ("kubernetes:policy/v1:PodDisruptionBudget", {"spec": {}}, "knows what a PodDisruptionBudget"),
    ("kubernetes:core/v1:ServiceAccount", {"metadata": {}}, ""),
    ("kubernetes:core/v1:ResourceQuota", {"spec": {"hard": {"pods": 9}}}, "allows at most 9 pods"),
    (RELEASE, {"chart": "oci://x/descheduler", "version": "1"}, "ask jobs: installs oci://x/desch"),
    (RELEASE, _chart("LoadBalancer"), "refuse network: value board.service.type: LoadBalancer: it"),
    (RELEASE, _chart("NodePort"), "refuse network: value board.service.type: NodePort"),
    (
        RELEASE,
        _chart("LoadBalancer", annotations={"networking.gke.io/load-balancer-type": "Internal"}),
        "ask network: value board.service.type: LoadBalancer",
    ),
    (
        RELEASE,
        _chart("LoadBalancer", loadBalancerSourceRanges=["192.0.2.0/24"]),
        "ask network: value board.service.type: LoadBalancer",
    ),
    (
        RELEASE,
        {"version": "1", "values": {"grafana.ini": {"auth.anonymous": {"enabled": True}}}},
        "refuse rights: value grafana.ini.auth.anonymous.enabled: True: people without an account",
    ),
    (ROLE, _trust({"Service": "ec2.amazonaws.com"}), ""),
    (
        ROLE,
        _trust({"AWS": "arn:aws:iam::9:root"}),
        "ask rights: may be taken by AWS arn:aws:iam::9",
    ),
    (ROLE, _trust({"Federated": "arn:x"}), "refuse rights: may be taken by whatever is of Federa"),
    (
        ROLE,
        _of_token("repo:acme/*"),
        "refuse rights: may be taken by whatever is of Federated arn:x",
    ),
    (ROLE, _of_token("repo:acme/infra:*"), "ask rights: may be taken by Federated arn:x"),
    (ROLE, _of_token("system:serviceaccount:*:ci"), "(system:serviceaccount:*:ci)"),
    (
        "aws:ec2/capacityReservation:CapacityReservation",
        {"instanceType": "p5.48xlarge", "instanceCount": 16},
        "ask capacity: reserves 16 machines p5.48xlarge (128 GPUs): paid for, used or not, until",
    ),
    (
        DEPLOYMENT,
        _mounting(command=["sh", "-c", "find /a -mmin +9 -delete"]),
        "refuse data: deletes files of claim checkpoints: it runs sh -c find /a -mmin +9 -delete",
    ),
    (ROLE, {"assumeRolePolicy": UNKNOWN}, "unjudged judges: could not be judged"),
]


@pytest.mark.parametrize(("type_", "inputs", "expected"), ADDED)
def test_what_code_adds_is_judged(type_: str, inputs: dict[str, Any], expected: str) -> None:
    results = said([], [planned(type_, inputs)])
    assert any(expected in text for text in results) if expected else not results


def test_inner_service_of_an_added_chart_is_no_way_in() -> None:
    (text,) = said([], [planned(RELEASE, _chart("ClusterIP"))])
    assert text.startswith("ask jobs: installs oci://x/board")


def test_what_the_stacks_file_adds_is_not_beside_it() -> None:
    for type_, inputs, _ in ADDED:
        if type_ not in (HOOK, PRIORITY):
            assert not said([], [planned(type_, inputs)], code=False), (type_, inputs)


def test_ports_that_go_open_every_port() -> None:
    rule = {"to": [{"podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}]}
    old = {"spec": {"egress": [{**rule, "ports": [{"port": 53}]}]}}
    results = said([planned(NETWORK, old)], [planned(NETWORK, {"spec": {"egress": [rule]}})])
    assert any("on every port to those that it named ports for" in text for text in results)


def test_rails_are_asked_about_when_the_file_changes_them() -> None:
    old, new = ({"spec": {"config": text}} for text in ("a", "b"))
    assert said([planned(RAIL, old)], [planned(RAIL, new)], code=False)


#: A list, and the same in another order.
ORDERS = ([{"name": "a"}, {"name": "b"}], [{"name": "b"}, {"name": "a"}])


def test_changed_files_that_pods_read_are_asked_about() -> None:
    data: dict[str, Any] = {"prove.py": "a = 1\n", "contract.json": {"fabric": {"mtu": 9000}}}
    old = planned(MAP, {"data": data})
    same = planned(MAP, {"data": {**data, "prove.py": "a = 1  # metres\n"}})
    other = planned(MAP, {"data": {**data, "contract.json": {"fabric": {"mtu": 1}}}})
    assert not said([old], [same])
    assert said([old], [other]) == ["ask jobs: differs: contract.json.fabric.mtu: 9000 -> 1"]
    states = ([planned(MAP, {"data": {"a.json": {"b": rows}}})] for rows in ORDERS)
    assert said(*states) == ["ask jobs: differs: a.json"]


PARTS = ("metadata", "spec", "data", "stringData", "rules", "subjects", "roleRef", "webhooks")


@pytest.mark.parametrize("kind", sorted({*BY_KIND, *BY_ADDED}))
def test_unknown_part_is_no_traceback(kind: str) -> None:
    type_ = f"kubernetes:x/v1:{kind}"
    for part in PARTS:
        old, new = ({part: UNKNOWN, "other": n} for n in (1, 2))
        said([planned(type_, old)], [planned(type_, new)])
        said([], [planned(type_, old)])


@pytest.mark.parametrize("interfaces", [UNKNOWN, [UNKNOWN]])
def test_unknown_interfaces_are_not_counted(interfaces: Any) -> None:
    template = "aws:ec2/launchTemplate:LaunchTemplate"
    known = {"networkInterfaces": [{"interfaceType": "efa"}]}
    after = planned(template, {"networkInterfaces": interfaces})
    (text,) = said([planned(template, known)], [after])
    assert text.startswith("refuse jobs: its nodes are replaced")
    assert "-> (known after the update)" in text


def test_known_value_that_becomes_unknown_is_unjudged() -> None:
    group, firewall = "aws:ec2/securityGroup:SecurityGroup", "gcp:compute/firewall:Firewall"
    rule = [{"cidrBlocks": ["10.0.0.0/16"]}]
    cidrs = {"vpcConfig": {"publicAccessCidrs": ["192.0.2.0/24"]}}
    member = "gcp:projects/iAMMember:IAMMember"
    for type_, before, after, part in (
        (EKS, cidrs, {"vpcConfig": {"publicAccessCidrs": UNKNOWN}}, "vpcConfig.publicAccessCidrs"),
        (EKS, cidrs, {"vpcConfig": {"publicAccessCidrs": [UNKNOWN]}}, "vpcConfig.publicAccess"),
        (group, {"ingress": rule}, {"ingress": UNKNOWN}, "ingress"),
        (group, {"ingress": rule}, {"ingress": [UNKNOWN]}, "ingress"),
        (group, {"ingress": rule}, {"ingress": [{"cidrBlocks": UNKNOWN}]}, "cidrBlocks"),
        (group, {"ingress": rule}, {"ingress": [{"cidrBlocks": [UNKNOWN]}]}, "cidrBlocks"),
        (INGRESS, {"cidrIpv4": "10.0.0.0/16"}, {"cidrIpv4": UNKNOWN}, "cidrIpv4"),
        (firewall, {"sourceRanges": ["10.0.0.0/8"]}, {"sourceRanges": UNKNOWN}, "sourceRanges"),
        (POLICY, _allow("s3:GetObject", "arn:a"), {"policy": UNKNOWN}, "policy"),
        (member, {"member": "a", "role": "roles/viewer"}, {"member": "a", "role": UNKNOWN}, "role"),
    ):
        for code in (True, False):
            texts = said([planned(type_, before)], [planned(type_, after)], code=code)
            expected = f"unjudged judges: could not be judged: not known before the update: {part}"
            assert any(text.startswith(expected) for text in texts), (type_, after, texts)
            assert not said([planned(type_, after)], [planned(type_, after)], code=code)


def test_document_that_the_stack_file_adds_is_the_packs_to_judge() -> None:
    unknown = planned(POLICY, {"policy": UNKNOWN})
    assert not said([], [unknown], code=False)
    assert said([], [unknown], code=True)


def test_rights_of_users_and_groups_are_told() -> None:
    member, users = "aws:iam/userGroupMembership:UserGroupMembership", "aws:iam/group"
    own = {"policyArn": ("urn::aws:iam/policy:Policy::reads",)}
    for type_, inputs, refers, sentence in (
        (member, {"user": "ann", "groups": ["ops"]}, {}, "ask rights: gives ann what ops may"),
        (
            f"{users}Membership:GroupMembership",
            {"group": "ops", "users": ["ann"]},
            {},
            "ask rights: gives ann what ops may",
        ),
        (
            f"{users}PolicyAttachment:GroupPolicyAttachment",
            {"group": "ops", "policyArn": "arn:aws:iam::aws:policy/AdministratorAccess"},
            {},
            "refuse rights: gives ops AdministratorAccess",
        ),
        (
            "aws:iam/userPolicyAttachment:UserPolicyAttachment",
            {"user": "ann", "policyArn": UNKNOWN},
            own,
            "ask rights: gives ann reads",
        ),
    ):
        (text,) = said([], [planned(type_, inputs, refers=refers)])
        assert text.startswith(sentence), (type_, text)


@pytest.mark.parametrize(
    ("type_", "inputs", "part"),
    [
        (NETWORK, {"spec": UNKNOWN}, "spec"),
        (NETWORK, {"spec": {"ingress": UNKNOWN}}, "spec.ingress"),
        (RBAC, {"rules": UNKNOWN}, "rules"),
        (HOOK, {"webhooks": [UNKNOWN]}, "webhooks"),
    ],
)
def test_unknown_part_is_unjudged(type_: str, inputs: dict[str, Any], part: str) -> None:
    text = f"unjudged judges: could not be judged: not known before the update: {part}"
    assert text in said([], [planned(type_, inputs)])


def test_people_who_become_leads_are_asked_about() -> None:
    binding = "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding"

    def of(role: str, *groups: str) -> Planned:
        subjects = [{"kind": "Group", "name": name} for name in groups]
        return planned(binding, {"roleRef": {"name": role}, "subjects": subjects})

    for role, level in (("railhead-leads", "ask"), ("railhead-researchers", "note")):
        (text,) = said([of(role, "a")], [of(role, "a", "b")], code=False)
        assert text.startswith(f"{level} rights: gives {role} to Group b")
    (text,) = said([], [of("railhead-leads", "a")], code=False)
    assert text.startswith("note rights: gives railhead-leads to Group a: they may stop")


def test_machines_that_stop_by_the_clock_are_told() -> None:
    night = {"recurrence": "0 23 * * 1-5", "minSize": 0, "maxSize": 0, "desiredCapacity": 0}
    schedule = "aws:autoscaling/schedule:Schedule"
    (text,) = said([], [planned(schedule, night | {"autoscalingGroupName": UNKNOWN})])
    assert text.startswith("refuse jobs: sets its group to 0 machines by itself (0 23 * * 1-5)")
    (text,) = said([], [planned(schedule, night | {"desiredCapacity": 16})])
    assert text.startswith("ask jobs: sets its group to 16 machines")
    # The provider sends 0 for a number that is absent, and nothing for -1.
    (text,) = said([], [planned(schedule, {"recurrence": "0 23 * * *", "maxSize": 0})])
    assert text.startswith("refuse jobs: sets its group to 0 machines")
    unsaid = {"recurrence": "9 * * * *", "maxSize": -1, "desiredCapacity": -1}
    (text,) = said([], [planned(schedule, unsaid)])
    assert text.startswith("ask jobs: acts by itself")
    assert not said([], [planned("aws:autoscaling/policy:Policy", night)])


def test_daemon_takes_what_its_limits_say() -> None:
    container = {"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"template": {"spec": {"containers": [container]}}}
    texts = said([], [planned("kubernetes:apps/v1:DaemonSet", {"spec": spec})])
    assert any("takes nvidia.com/gpu 1 of it" in text for text in texts)


def test_data_source_that_no_recorder_knows_is_not_known_yet() -> None:
    monitor = offline.Monitor("dev", "p", (properties, answers), io.BytesIO())
    assert monitor.Invoke(ResourceInvokeRequest(tok="aws:eks/getNodeGroup:getNodeGroup")).unknown
    assert not monitor.Invoke(
        ResourceInvokeRequest(tok="aws:index/getPartition:getPartition")
    ).unknown


def test_quota_of_devices_that_no_queue_counts_is_told() -> None:
    def of(**hard: str) -> list[str]:
        return said([], [planned("kubernetes:core/v1:ResourceQuota", {"spec": {"hard": hard}})])

    (text,) = of(**{"requests.nvidia.com/gpu": "16"})
    assert "admits gangs of which pods are then refused" in text
    (text,) = of(**{"pods": "50", "count/jobs.batch": "9"})
    assert text == "ask quota: allows at most 50 pods, 9 count/jobs.batch"


def test_role_of_google_for_everyone_is_refused() -> None:
    kind = "gcp:storage/bucketIAMMember:BucketIAMMember"
    pool = "principalSet://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p"
    for member, level in (
        ("allUsers", "refuse"),
        (f"{pool}/*", "refuse"),
        (f"{pool}/namespace/a", "ask"),
        ("group:a@example.com", "ask"),
    ):
        rights = {"role": "roles/storage.objectViewer", "member": member}
        assert said([], [planned(kind, rights)]) == [
            f"{level} rights: gives {member} roles/storage.objectViewer"
        ]


_ODD: tuple[Any, ...] = (None, "x", 5, True, [], [None], ["x"], [[1]], [{}], {"a": None}, UNKNOWN)
_FORMS: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    (RBAC, ("rules", 0, "verbs"), _rules(("pods", "get"))),
    (QUEUE, ("spec",), {"spec": {"resourceGroups": []}}),
    (NETWORK, ("spec", "ingress", 0), {"spec": {"ingress": [{"from": []}]}}),
    (DEPLOYMENT, ("spec", "template", "spec", "containers", 0), _pod(env=[])),
    (POLICY, ("policy", "Statement"), _allow("a:b", "c")),
    (LIFECYCLE, ("rules",), {"rules": []}),
)


@pytest.mark.parametrize("odd", _ODD, ids=repr)
@pytest.mark.parametrize(("type_", "path", "inputs"), _FORMS, ids=[row[0] for row in _FORMS])
def test_odd_form_of_an_input_is_no_traceback(
    type_: str, path: tuple[Any, ...], inputs: dict[str, Any], odd: object
) -> None:
    other = deepcopy(inputs)
    part: Any = other
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = odd
    was, now = planned(type_, inputs), planned(type_, other)
    for before, after in ((was, now), (now, was)):
        said([before], [after])
        said([], [after])


def test_form_that_no_rule_reads_is_unjudged() -> None:
    rows = said([], [planned(RBAC, {"rules": [None]})])
    assert any(row.startswith("unjudged judges: could not be judged: a field") for row in rows)
