"""Finds objects that users added beside the stack's, of the kinds that the stack itself makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railhead.base.differences import short
from railhead.base.names import TRAINER_API, TRAINING_LABEL
from railhead.base.selectors import matches
from railhead.drift.objects import GUARDS, Api, Discovery, Drift, Object, Severity, subject

# Kinds of which people, jobs and controllers rightly make their own: one more changes nothing of
# what the stack made.
_ANYBODY_S = frozenset(
    {
        "APIService",
        "ClusterRole",
        "ConfigMap",
        "CronJob",
        "DaemonSet",
        "Deployment",
        "Job",
        "Namespace",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Pod",
        "Role",
        "Secret",
        "Service",
        "ServiceAccount",
        "StorageClass",
    }
)
# What does the same as a kind that the stack makes.
_LIKE = {
    "ClusterTrainingRuntime": ((TRAINER_API, "TrainingRuntime"),),
    # One stops the drain of the nodes that its pods are on.
    "Namespace": (("policy/v1", "PodDisruptionBudget"),),
    "ResourceQuota": (("v1", "LimitRange"),),
    "RoleBinding": (("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),),
    "ValidatingAdmissionPolicy": (
        ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicy"),
        ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicy"),
    ),
    "ValidatingAdmissionPolicyBinding": (
        ("admissionregistration.k8s.io/v1", "MutatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicyBinding"),
    ),
}
# Every cluster has them: kubernetes, pkg/apis/scheduling (system-); gke-networking-api,
# apis/network/v1/well_known.go, IsDefaultNetwork; and on GKE, without a label, every namespace
# (NVIDIA, gpu-operator/google-gke.rst).
_EVERYWHERE = frozenset(
    {
        ("PriorityClass", "system-cluster-critical"),
        ("PriorityClass", "system-node-critical"),
        ("ResourceQuota", "gke-resource-quotas"),
        *(
            (kind, name)
            for kind in ("Network", "GKENetworkParamSet")
            for name in ("default", "pod-network")
        ),
    }
)
# By these labels what makes and keeps an object says so.
_KEPT_BY = (
    "addonmanager.kubernetes.io/mode",
    "app.kubernetes.io/managed-by",
    "kubernetes.io/bootstrapping",
)
_ROLE_BINDINGS = frozenset({"RoleBinding", "ClusterRoleBinding"})
_POLICIES = frozenset({"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"})
_POLICY_BINDINGS = frozenset(f"{kind}Binding" for kind in _POLICIES)
_EVERYBODY = frozenset(
    {"system:authenticated", "system:serviceaccounts", "system:unauthenticated", "system:anonymous"}
)


def by_hand(ours: Sequence[Object], api: Api, discovery: Discovery) -> Iterator[Drift]:
    """Yield objects of the stack's kinds that neither the stack nor a controller made.

    Only objects in the stack's namespaces, or that act on them, count.
    """
    known = {_at(our) for our in ours}
    added: list[Object] = []
    for version, kind in _kinds(ours):
        path = discovery.path(version, kind)
        for item in api.list(path) if path else []:
            body = {**item, "kind": kind}
            if _at(body) not in known and not _kept(body):
                # Another version's list has it, too.
                known.add(_at(body))
                added.append(body)
    reach = _Reach(ours, added)
    for body in filter(reach.of, added):
        yield Drift(
            severity=Severity.ADDED,
            subject=subject(body),
            live=short((body.get("roleRef") or {}).get("name") or "there"),
            remedy="no update removes it: delete it, or take it into the stack",
        )


def _at(body: Mapping[str, Any]) -> tuple[str, str | None, str]:
    metadata = body["metadata"]
    return body["kind"], metadata.get("namespace"), metadata.get("name", "")


def _kinds(ours: Sequence[Object]) -> list[tuple[str, str]]:
    """Return (apiVersion, kind) of all that is looked through."""
    own = {(str(our["apiVersion"]), str(our["kind"])) for our in ours}
    like = {row for _, kind in own for row in _LIKE.get(kind, ())}
    return sorted(row for row in own | like if row[1] not in _ANYBODY_S)


def _kept(body: Mapping[str, Any]) -> bool:
    """Return whether a controller, a chart or the cluster itself made it and keeps it."""
    metadata = body["metadata"]
    labels = metadata.get("labels") or {}
    return (
        bool(metadata.get("ownerReferences"))
        or any(label in labels for label in _KEPT_BY)
        or (body["kind"], metadata["name"]) in _EVERYWHERE
    )


class _Reach:
    """Objects that act on the namespaces, the people and the jobs of a stack."""

    def __init__(self, ours: Sequence[Object], added: Sequence[Object]) -> None:
        self._namespaces = {
            str(our["metadata"]["name"]): our["metadata"].get("labels") or {}
            for our in ours
            if our["kind"] == "Namespace"
        }
        self._guards = {o["metadata"]["name"] for o in ours if o["kind"] in GUARDS}
        self._people = {
            str(row.get("name"))
            for our in ours
            for row in (our.get("subjects") or () if our["kind"] in _ROLE_BINDINGS else ())
            if row.get("kind") == "Group"
        }
        self._bound = {
            row["spec"].get("policyName")
            for row in added
            if row["kind"] in _POLICY_BINDINGS and self._binds(row)
        }

    def of(self, body: Object) -> bool:
        """Return whether an added object is one of these."""
        namespace = body["metadata"].get("namespace")
        if namespace is not None and namespace in self._namespaces:
            return True
        if body["kind"] in _ROLE_BINDINGS:
            everybody = _EVERYBODY if namespace is None else frozenset()
            return any(self._ours(item, everybody) for item in body.get("subjects") or ())
        if body["kind"] in _POLICY_BINDINGS:
            return self._binds(body)
        if body["kind"] in _POLICIES:
            return body["metadata"]["name"] in self._bound and self._looks(
                body["spec"].get("matchConstraints")
            )
        return namespace is None

    def _binds(self, binding: Object) -> bool:
        spec = binding["spec"]
        return spec.get("policyName") in self._guards or self._looks(spec.get("matchResources"))

    def _looks(self, at: Mapping[str, Any] | None) -> bool:
        selector = (at or {}).get("namespaceSelector") or {}
        return any(
            matches(selector, {"kubernetes.io/metadata.name": name, **labels})
            for name, labels in self._namespaces.items()
        )

    def _ours(self, who: Mapping[str, Any], everybody: frozenset[str]) -> bool:
        name = str(who.get("name"))
        if who.get("kind") == "ServiceAccount":
            return self._training(who.get("namespace"))
        accounts = "system:serviceaccounts:"
        return name in self._people | everybody or (
            name.startswith(accounts) and self._training(name.removeprefix(accounts))
        )

    def _training(self, namespace: Any) -> bool:
        return (self._namespaces.get(namespace) or {}).get(TRAINING_LABEL) == "true"
