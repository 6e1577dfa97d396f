"""Callers of the API server, told apart in CEL: controllers, administrators, and everyone else."""

from __future__ import annotations

from railhead.model.cluster import Cluster
from railhead.resolve import cel

# Anyone who may change the guards need not be held by them, and the stack's own update is one. By
# RBAC, since the name of the stack's user is not known.
ADMINISTRATORS = (
    "authorizer.group('admissionregistration.k8s.io').resource('validatingadmissionpolicies')"
    ".check('patch').allowed()"
)
_MANAGER = "system:kube-controller-manager"


def controllers(cluster: Cluster) -> str:
    """Return CEL that tests whether the caller is a controller, which acts for a checked user.

    Those are service accounts, but for a training namespace's, which is a job's; and Kubernetes'
    own controllers where they have one account (kube-controller-manager without
    ``--use-service-account-credentials``).
    """
    jobs = sorted(f"system:serviceaccounts:{name}" for name in cluster.training_namespaces)
    return (
        f"(request.userInfo.username == {cel.string(_MANAGER)}"
        " || request.userInfo.username.startsWith('system:serviceaccount:')"
        f" && !request.userInfo.groups.exists(g, g in {cel.strings(jobs)}))"
    )


def no_controller(cluster: Cluster) -> dict[str, str]:
    """Return the match condition of a policy that holds everyone but controllers."""
    return {"name": "no-controller", "expression": f"!{controllers(cluster)}"}
