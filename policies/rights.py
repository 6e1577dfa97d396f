"""Rules against total rights: cloud roles that own the account, RBAC rules that allow `*`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railhead.base.rbac import POWERS, TAKES_ALL
from railhead.contract import NAMESPACE
from railhead.policies import documents
from railhead.policies.clouds import CloudResource
from railhead.policies.exempt import named_later
from railhead.policies.plan import UNKNOWN, PlannedObject, at, rows

# Each of these roles can grant itself the rest.
_AWS = frozenset({"AdministratorAccess", "PowerUserAccess"})
_GCP = frozenset(
    {
        "roles/container.admin",
        "roles/editor",
        "roles/iam.roleAdmin",
        "roles/iam.securityAdmin",
        "roles/iam.serviceAccountAdmin",
        "roles/iam.serviceAccountKeyAdmin",
        "roles/iam.serviceAccountTokenCreator",
        "roles/iam.serviceAccountUser",
        "roles/owner",
        "roles/resourcemanager.folderAdmin",
        "roles/resourcemanager.folderIamAdmin",
        "roles/resourcemanager.organizationAdmin",
        "roles/resourcemanager.projectIamAdmin",
    }
)
_POLICY = "aws:iam/policy:Policy"
_CLUSTER_ROLES = frozenset({"cluster-admin", "admin", "edit"})
_EVERYBODY = frozenset(
    {
        "system:anonymous",
        "system:authenticated",
        "system:serviceaccounts",
        "system:unauthenticated",
    }
)


def of_cloud(resource: CloudResource) -> Iterator[str]:
    """Yield a message for each policy or role of a cloud that gives everything."""
    body = resource.body
    for path, value in _attached(body):
        # Of one that is not known :func:`attached_later` judges where it is from.
        if value is UNKNOWN:
            continue
        if (attached := str(value).rpartition("/")[2]).endswith("FullAccess"):
            yield (
                f"{resource.name}: {path} is {value}, all of a service: name the actions and the "
                "resources that it needs"
            )
        elif attached in _AWS:
            yield (
                f"{resource.name}: {path} is {value}, with which its holder can do anything in "
                "the account: attach the policy of the one service that it needs"
            )
    if resource.kind.startswith("gcp:") and "iam" in resource.kind.lower():
        role = body.get("role")
        if role is UNKNOWN:
            yield _unjudged(resource.name, "role")
        elif role in _GCP:
            yield (
                f"{resource.name}: role is {role}, with which its holder can do anything in the "
                "project: give the role of the one service that it needs"
            )
        yield from _bindings(resource.name, body.get("policyData"))
    if resource.kind.startswith("aws:"):
        documents = ((key, body.get(key)) for key in ("policy", "assumeRolePolicy"))
        for path, text in (*documents, *_inline(body)):
            if text is UNKNOWN and not named_later(resource):
                yield _unjudged(resource.name, path)
            yield from _document(resource.name, path, text)


def attached_later(
    name: str, body: Mapping[str, Any], made_by: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield a message for each attached policy that is neither known nor judged by itself.

    Args:
        name: of the resource.
        body: its inputs.
        made_by: input -> types of the plan's resources that it is made from.
    """
    for path, value in _attached(body):
        types = made_by.get(path.partition("[")[0]) or ("",)
        if value is UNKNOWN and any(type_ != _POLICY for type_ in types):
            yield _unjudged(name, path)


def _attached(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if "policyArn" in body:
        yield "policyArn", body["policyArn"]
    for path, value in rows(body, "managedPolicyArns", ""):
        yield path.lstrip("."), value


def _inline(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for path, value in rows(body, "inlinePolicies", ""):
        known = isinstance(value, Mapping)
        yield f"{path.lstrip('.')}.policy", value.get("policy") if known else value


def _document(name: str, path: str, text: Any) -> Iterator[str]:
    for index, item in documents.allowed(text):
        if documents.everything(item):
            yield (
                f"{name}: {path}.Statement[{index}] allows every action on everything, or one by "
                "which its holder gives himself the rest: name the actions and the resources that "
                "it needs"
            )
        elif service := documents.service(item):
            yield (
                f"{name}: {path}.Statement[{index}] allows {service}, all of a service: name the "
                "actions that it needs"
            )
        if path == "assumeRolePolicy" and documents.anybody(item):
            yield (
                f"{name}: {path}.Statement[{index}] lets every account take the role: name who may"
            )


def _bindings(name: str, text: Any) -> Iterator[str]:
    """Yield a message for each such binding in a whole IAM policy of Google's, as text."""
    if text is UNKNOWN:
        yield _unjudged(name, "policyData")
    for index, row in enumerate(documents.rows(text, "bindings")):
        if row.get("role") in _GCP:
            yield (
                f"{name}: policyData.bindings[{index}].role is {row['role']}, with which its "
                "holder can do anything in the project: give the role of the one service"
            )


def of_cluster(planned: PlannedObject) -> Iterator[str]:
    """Yield a message for each RBAC rule or binding of the stack that gives everything."""
    if planned.kind in ("Role", "ClusterRole"):
        for path, rule in rows(planned.body, "rules", ""):
            yield from _rule(planned, path.lstrip("."), rule)
            yield from _others(planned, path.lstrip("."), rule)
        selectors = at(planned.body, "aggregationRule", "clusterRoleSelectors")
        if selectors is UNKNOWN or not all(_named(selector) for selector in selectors or ()):
            yield (
                f"{planned.label}: aggregationRule takes every ClusterRole there is, or is not "
                "known before the update: name a label"
            )
    if planned.kind in ("RoleBinding", "ClusterRoleBinding"):
        yield from _binding(planned)


def _named(selector: Any) -> bool:
    return bool(selector) and selector is not UNKNOWN


def _rule(planned: PlannedObject, path: str, rule: Any) -> Iterator[str]:
    for key in ("verbs", "resources", "apiGroups", "nonResourceURLs"):
        value: Any = rule if rule is UNKNOWN else rule.get(key)
        if value is UNKNOWN or (isinstance(value, list) and UNKNOWN in value):
            yield _unjudged(planned.label, f"{path}.{key}")
        elif key == "verbs" and (more := TAKES_ALL & set(value or ())):
            yield (
                f"{planned.label}: {path}.verbs has {sorted(more)}, by which its holder takes "
                "every other right: list what is meant"
            )
        elif documents.star(value):
            yield (
                f"{planned.label}: {path}.{key} is '*', which also allows what nobody has thought "
                "of (secrets, other roles, what is installed later): list what is meant"
            )


def _others(planned: PlannedObject, path: str, rule: Any) -> Iterator[str]:
    """Yield a message for each right by which its holder takes others' rights."""
    if not isinstance(rule, Mapping) or rule.get("resourceNames"):
        return
    verbs, resources = rule.get("verbs") or (), rule.get("resources") or ()
    # `_rule` reports those that are not known.
    if UNKNOWN in (verbs, resources):
        return
    for power in POWERS:
        given = [name for name in power.resources if name in resources]
        if power.others and given and any(verb in power.verbs for verb in verbs):
            yield (
                f"{planned.label}: {path} gives {given[0]}, by which its holder can {power.can}: "
                "name them in resourceNames, or leave it out"
            )


def _binding(planned: PlannedObject) -> Iterator[str]:
    role = planned.body.get("roleRef")
    name = role if role is UNKNOWN else (role or {}).get("name")
    if name is UNKNOWN:
        yield _unjudged(planned.label, "roleRef.name")
    elif name in _CLUSTER_ROLES and (role or {}).get("kind") != "Role":
        yield (
            f"{planned.label}: roleRef is ClusterRole {name!r}, which goes around queues and "
            "guards: bind a role that lists what is meant"
        )
    if at(planned.body, "metadata", "namespace") == NAMESPACE:
        # The contract, which everyone may read.
        return
    for path, subject in rows(planned.body, "subjects", ""):
        who = subject if subject is UNKNOWN else subject.get("name")
        if who is UNKNOWN:
            yield _unjudged(planned.label, f"{path.lstrip('.')}.name")
        elif who in _EVERYBODY:
            yield (
                f"{planned.label}: {path.lstrip('.')} is {who!r}, that is everybody: name a group"
            )


def _unjudged(label: str, path: str) -> str:
    return (
        f"{label}: {path} is not known before the update, so nothing can be said of what it "
        "allows: give it a value that the plan knows"
    )
