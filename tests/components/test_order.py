"""Order of each resource relative to the namespaces that jobs run in.

A job needs its resources from its first pod to its last. A resource without an order relative to
the namespaces may be deleted while their pods still end, or keep them open. Each such resource is
listed here with the reason why that does no harm.
"""

from __future__ import annotations

import pytest

from tests.components.order import before
from tests.components.recording import STACKS, Recording, recorded

# Whole stacks of a cloud are recorded here.
pytestmark = pytest.mark.slow

NAMESPACE = "railhead:index:TrainingNamespace"

# By type, or by type and a part of the name.
AT_ANY_TIME = {
    ("aws:ec2/defaultSecurityGroup:DefaultSecurityGroup", ""): "closed; nothing is in it",
    ("aws:kms/alias:Alias", ""): "a name for people; the cluster has the key's own",
    ("aws:efs/backupPolicy:BackupPolicy", ""): "AWS Backup's; no mount asks for it",
    ("aws:autoscaling/tag:Tag", ""): "of instances that are yet to be launched; for the bill",
    (
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
        "-researchers-",
    ): "what a person may read",
    (
        "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
        "-researchers-",
    ): "what a person may read",
}


def above(stack: Recording, urn: str) -> set[str]:
    """Return the parents of a resource, up to the stack."""
    results = set()
    while (parent := stack.resources[urn].parent) in stack.resources:
        results.add(parent)
        urn = parent
    return results


@pytest.fixture(scope="module", params=STACKS)
def stack(request: pytest.FixtureRequest) -> Recording:
    return recorded(request.param)


def test_what_is_unordered_to_a_namespace_of_jobs_is_listed(stack: Recording) -> None:
    components = {r.urn for r in stack.of_type(NAMESPACE)}
    namespaces = [r for r in stack.kind("Namespace") if above(stack, r.urn) & components]
    assert namespaces
    earlier = {urn: before(stack, urn) for urn in stack.resources}
    chance = [
        resource.urn
        for namespace in namespaces
        for resource in stack.resources.values()
        # Components are nothing that is made; a namespace's own are not another's.
        if not resource.type.startswith(("railhead:", "pulumi:"))
        and not above(stack, resource.urn) & components
        and resource.urn not in earlier[namespace.urn]
        and namespace.urn not in earlier[resource.urn]
        and not any(resource.type == kind and part in resource.name for kind, part in AT_ANY_TIME)
    ]
    assert not chance


def test_each_reason_is_still_of_use() -> None:
    seen = {(r.type, r.name) for name in STACKS for r in recorded(name).resources.values()}
    for kind, part in AT_ANY_TIME:
        assert any(kind == seen_kind and part in name for seen_kind, name in seen), kind
