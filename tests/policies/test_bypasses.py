"""Ways around a rule: each is refused, and what is meant beside it is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.policies.planning import UNKNOWN, judge

Body = dict[str, Any]
RBAC = "rbac.authorization.k8s.io/v1"
GKE = "gcp:container/cluster:Cluster"
MEMBER = "gcp:projects/iAMMember:IAMMember"
HARDENED_GKE: Body = {
    "privateClusterConfig": {"enablePrivateNodes": True},
    "removeDefaultNodePool": True,
    "workloadIdentityConfig": {"workloadPool": "p.svc.id.goog"},
}


def of(version: str, kind: str, name: str = "it", **body: Any) -> Body:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **body}


def document(**statement: Any) -> Body:
    return {"policy": json.dumps({"Statement": [{"Effect": "Allow", **statement}]})}


def role(*rules: Body, **more: Any) -> Body:
    return of(RBAC, "ClusterRole", rules=list(rules), **more)


@pytest.mark.parametrize(
    ("statement", "refused"),
    [
        ({"Action": "iam:*", "Resource": "*"}, True),
        ({"Action": ["s3:Get*", "iam:Pass*"], "Resource": ["*"]}, True),
        ({"NotAction": ["s3:*"], "Resource": "*"}, True),
        ({"Action": "*:*", "Resource": "*"}, True),
        ({"Action": "*", "NotResource": "arn:aws:s3:::b"}, True),
        ({"Action": "iam:PassRole", "Resource": "arn:aws:iam::1:role/nodes"}, False),
        ({"Action": "iam:Get*", "Resource": "*"}, False),
        ({"Action": "iam:PassRole", "Resource": "*", "Condition": {"a": {"b": "c"}}}, False),
    ],
)
def test_policy_that_allows_escalation_is_refused(statement: Body, refused: bool) -> None:
    types = {0: "aws:iam/policy:Policy"}
    assert bool(judge("nobody-has-everything", document(**statement), types=types)) == refused


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (role({"nonResourceURLs": ["*"], "verbs": ["get"]}), True),
        (role({"apiGroups": [RBAC], "resources": ["roles"], "verbs": ["bind"]}), True),
        (role({"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}), True),
        (role({"apiGroups": [""], "resources": ["*/*"], "verbs": ["get"]}), True),
        (role(aggregationRule={"clusterRoleSelectors": [{}]}), True),
        (role(aggregationRule=UNKNOWN), True),
        (role(aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}), False),
        (role({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}), False),
        (role({"apiGroups": [""], "resources": ["pods/*"], "verbs": ["get"]}), False),
    ],
)
def test_cluster_role_that_allows_escalation_is_refused(body: Body, refused: bool) -> None:
    assert bool(judge("nobody-has-everything", body)) == refused


@pytest.mark.parametrize("kind", ["RoleBinding", "ClusterRoleBinding"])
@pytest.mark.parametrize(
    ("subject", "reference"),
    [
        ("system:authenticated", {"kind": "Role", "name": "mine"}),
        ("system:serviceaccounts", {"kind": "Role", "name": "mine"}),
        ("me", {"kind": UNKNOWN, "name": "cluster-admin"}),
    ],
)
def test_a_binding_of_everybody_or_to_everything(kind: str, subject: str, reference: Body) -> None:
    body = of(RBAC, kind, roleRef=reference, subjects=[{"kind": "Group", "name": subject}])
    assert judge("nobody-has-everything", body)
    # The contract is for everybody to read.
    body["metadata"]["namespace"] = "railhead-system"
    assert bool(judge("nobody-has-everything", body)) == (subject == "me")


@pytest.mark.parametrize(
    "granted",
    ["roles/resourcemanager.projectIamAdmin", "roles/iam.serviceAccountTokenCreator"],
)
def test_google_role_that_allows_escalation_is_refused(granted: str) -> None:
    assert judge("nobody-has-everything", {"role": granted}, types={0: MEMBER})


BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
CLOSED: Body = {
    "bucket": "a",
    **dict.fromkeys(("blockPublicAcls", "ignorePublicAcls"), True),
    **dict.fromkeys(("blockPublicPolicy", "restrictPublicBuckets"), True),
}


@pytest.mark.parametrize(
    ("token", "body", "said"),
    [
        ("aws:ec2/launchTemplate:LaunchTemplate", {}, "blockDeviceMappings"),
        ("aws:eks/nodeGroup:NodeGroup", {"diskSize": 100}, "launchTemplate is missing"),
        ("aws:eks/cluster:Cluster", {"encryptionConfig": UNKNOWN}, "not known before"),
        (GKE, HARDENED_GKE | {"removeDefaultNodePool": False}, "removeDefaultNodePool"),
        (GKE, HARDENED_GKE | {"nodePools": [{"name": "more"}]}, "nodePools"),
        (GKE, HARDENED_GKE | {"enableLegacyAbac": True}, "enableLegacyAbac"),
        (GKE, HARDENED_GKE | {"workloadIdentityConfig": None}, "workloadIdentityConfig"),
        (
            GKE,
            HARDENED_GKE | {"masterAuth": {"clientCertificateConfig": UNKNOWN}},
            "clientCertificateConfig",
        ),
        ("gcp:storage/bucket:Bucket", {"forceDestroy": True}, "forceDestroy"),
        (BLOCK, CLOSED | {"blockPublicPolicy": False}, "opens what is in it to everybody"),
        (BLOCK, {"blockPublicAcls": True}, "restrictPublicBuckets"),
        (
            "aws:kms/key:Key",
            document(Principal={"AWS": ["*"]}, Action="kms:*", Resource="*"),
            "everybody",
        ),
    ],
)
def test_missing_or_weak_hardening_is_refused(token: str, body: Body, said: str) -> None:
    assert any(said in message for message in judge("cloud-is-hardened", body, types={0: token}))


def test_bucket_that_nothing_can_open_is_left_alone() -> None:
    assert not judge("cloud-is-hardened", CLOSED, types={0: BLOCK})


def test_a_hardened_cluster_of_google_s_is_left_alone() -> None:
    assert not judge("cloud-is-hardened", HARDENED_GKE, types={0: GKE})


def test_google_public_addresses_must_be_excluded() -> None:
    networks = {"cidrBlocks": [{"cidrBlock": "203.0.113.0/24"}]}
    body = {"masterAuthorizedNetworksConfig": networks}
    assert not judge("cloud-is-closed", body, types={0: GKE})
    networks["gcpPublicCidrsAccessEnabled"] = True  # type: ignore[assignment]
    assert judge("cloud-is-closed", body, types={0: GKE})


@pytest.mark.parametrize(
    "token",
    [
        "aws-native:ec2:SecurityGroup",
        "command:local:Command",
        "aws:ebs/volume:Volume",
        "gcp:compute/networkFirewallPolicyRule:NetworkFirewallPolicyRule",
        "gcp:serviceaccount/key:Key",
    ],
)
def test_a_type_that_no_rule_knows_is_no_pass(token: str) -> None:
    (message,) = judge("plan-is-seen", {"a": 1}, types={0: token})
    assert "no rule of this pack looks at" in message


@pytest.mark.parametrize("token", ["pulumi:providers:aws", "railhead:index:Guards"])
def test_harmless_types_need_no_rule(token: str) -> None:
    assert not judge("plan-is-seen", {}, types={0: token})


POLICY = of(
    "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicy",
    "guard",
    spec={
        "matchConstraints": {"resourceRules": [{"resources": ["jobs"]}]},
        "validations": [{"expression": "object.spec.a"}],
    },
)
BOUND = of(
    "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicyBinding",
    "guard",
    spec={"policyName": "guard", "validationActions": ["Deny"]},
)
WHERE = of("v1", "Namespace", "team")
WHERE["metadata"]["labels"] = {"railhead.dev/training": "true"}
QUEUE = of("kueue.x-k8s.io/v1beta2", "LocalQueue", "q", spec={"clusterQueue": "training"})
QUEUE["metadata"]["namespace"] = "team"
NEVER = [{"name": "never", "expression": "false"}]


def changed(body: Body, **spec: Any) -> Body:
    return body | {"spec": body["spec"] | spec}


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ((POLICY, BOUND, WHERE, QUEUE), None),
        ((POLICY, WHERE, QUEUE), "no binding names it"),
        ((BOUND, WHERE, QUEUE), "no policy of spec.policyName"),
        ((WHERE, QUEUE), "no guard refuses"),
        ((POLICY, BOUND, of("v1", "Namespace", "team"), QUEUE), "has a queue and no label"),
        ((POLICY, changed(BOUND, policyName="x")), "no binding names it"),
        ((POLICY, changed(BOUND, matchResources={"namespaceSelector": {}})), "looks at less"),
        ((changed(POLICY, matchConditions=NEVER), BOUND), "never asked"),
        ((changed(POLICY, matchConditions=[UNKNOWN]), BOUND), "never asked"),
        ((changed(POLICY, validations=[]), BOUND), "spec.validations"),
        ((changed(POLICY, matchConstraints=UNKNOWN), BOUND), "spec.matchConstraints"),
    ],
)
def test_guard_that_checks_nothing_is_refused(plan: tuple[Body, ...], said: str | None) -> None:
    result = judge("guards-refuse", *plan)
    assert any(said in message for message in result) if said else not result


def queue(kind: str, quota: Any, **spec: Any) -> Body:
    row = {"name": "nvidia.com/gpu", "nominalQuota": quota}
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "f", "resources": [row]}]}
    return of("kueue.x-k8s.io/v1beta2", kind, spec={"resourceGroups": [group], **spec})


def runtime(gpus: Any) -> Body:
    node = {"name": "node", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    return of(
        "trainer.kubeflow.org/v1alpha1",
        "ClusterTrainingRuntime",
        spec={"mlPolicy": {"numNodes": 2}, "template": {"spec": {"containers": [node]}}},
    )


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ((runtime(8), queue("ClusterQueue", "1", cohortName="all")), "its whole cohort"),
        (
            (
                runtime(8),
                queue("ClusterQueue", "8", cohortName="all"),
                queue("Cohort", "8"),
            ),
            None,
        ),
        ((runtime(UNKNOWN), queue("ClusterQueue", "16")), "how much of 'nvidia.com/gpu'"),
        (
            (runtime(8), of("scheduling.volcano.sh/v1beta1", "Queue", spec=UNKNOWN)),
            "spec is not known",
        ),
        (
            (
                runtime(8),
                of(
                    "scheduling.volcano.sh/v1beta1",
                    "Queue",
                    spec={"capability": {"nvidia.com/gpu": UNKNOWN}},
                ),
            ),
            "spec.capability is not known",
        ),
    ],
)
def test_a_quota_that_holds_no_gang(plan: tuple[Body, ...], said: str | None) -> None:
    result = judge("quotas-hold-a-gang", *plan)
    assert any(said in message for message in result) if said else not result


@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        (({"pool": "a"}, {"pool": "b"}), False),
        (({"pool": "a", "x": "1"}, {"pool": "b", "x": "1"}), False),
        (({"pool": "a"}, {"team": "nlp"}), True),
        (({"pool": "a"}, {}), True),
    ],
)
def test_pools_that_a_node_can_be_of_at_once(labels: tuple[Body, Body], refused: bool) -> None:
    flavors = [
        of("kueue.x-k8s.io/v1beta2", "ResourceFlavor", str(index), spec={"nodeLabels": label})
        for index, label in enumerate(labels)
    ]
    assert bool(judge("pools-are-apart", *flavors)) == refused


def test_variables_from_elsewhere_are_no_pass() -> None:
    body = runtime(8)
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    (message,) = judge("jobs-stay-on-the-fabric", body)
    assert "envFrom[0] brings variables that no rule can see" in message


@pytest.mark.parametrize(
    "damage",
    [
        {"securityContext": {"procMount": "Unmasked"}},
        {"securityContext": {"seccompProfile": {"type": "Unconfined"}}},
        {"securityContext": {"appArmorProfile": {"type": UNKNOWN}}},
        {"ports": [{"containerPort": 22, "hostPort": 22}]},
    ],
)
def test_less_than_the_baseline(damage: Body) -> None:
    body = runtime(8)
    body["spec"]["template"]["spec"]["containers"][0] |= damage
    assert len(judge("no-reach-into-nodes", body)) == 1


@pytest.mark.parametrize("key", ["hostPath", "local"])
def test_a_volume_is_no_way_into_a_node(key: str) -> None:
    assert judge("no-reach-into-nodes", of("v1", "PersistentVolume", spec={key: {"path": "/"}}))


@pytest.mark.parametrize(
    ("chart", "told"),
    [
        ("oci://registry.k8s.io/kueue/charts/kueue", True),
        ("/charts/kueue-0.16.2", True),
        (UNKNOWN, True),
        ("kueue-viz", False),
    ],
)
def test_kueue_by_another_name_waits_as_well(chart: str, told: bool) -> None:
    body = {"metadata": {"name": "q"}, "name": "queueing", "chart": chart, "values": {}}
    types = {0: "kubernetes:helm.sh/v3:Release"}
    assert bool(judge("gangs-start-or-give-back", body, types=types)) == told
