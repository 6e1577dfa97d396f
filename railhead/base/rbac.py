"""Rights of Kubernetes' RBAC by which their holder does more than they say.

The policy pack refuses anyone those that give others' rights; a review refuses each that is added.
"""

from __future__ import annotations

from dataclasses import dataclass

READS = frozenset({"get", "list", "watch"})
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
#: Verbs by which their holder takes all other rights (kubernetes, rbac good practices).
TAKES_ALL = frozenset({"bind", "escalate", "impersonate"})


@dataclass(frozen=True, kw_only=True)
class Power:
    """Verbs on resources, and what their holder can do by them.

    ``others``: it gives others' rights, which nobody needs.
    """

    verbs: frozenset[str]
    resources: tuple[str, ...]
    can: str
    others: bool = False


POWERS: tuple[Power, ...] = (
    Power(verbs=READS, resources=("secrets",), can="read every token and key there", others=True),
    Power(
        verbs=READS | {"create"},
        resources=("nodes/proxy",),
        can="run commands in any pod of the nodes, past admission",
        others=True,
    ),
    Power(
        verbs=frozenset({"create"}),
        resources=("serviceaccounts/token",),
        can="take the token of any account there",
        others=True,
    ),
    Power(
        verbs=WRITES,
        resources=("roles", "clusterroles", "rolebindings", "clusterrolebindings"),
        can="give itself any other right",
    ),
    Power(
        verbs=WRITES,
        resources=("validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
        can="switch off checks of the API server",
    ),
    Power(
        verbs=WRITES,
        resources=(
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "networkpolicies",
            "resourcequotas",
            "limitranges",
        ),
        can="switch off the guards, the network policies or the limits",
    ),
    Power(
        verbs=WRITES,
        resources=("clusterqueues", "cohorts", "localqueues", "resourceflavors", "workloads"),
        can="give itself quota, or take it from others",
    ),
    Power(
        verbs=frozenset({"delete", "deletecollection"}),
        resources=("persistentvolumeclaims", "persistentvolumes", "namespaces", "storageclasses"),
        can="delete checkpoints",
    ),
    Power(
        verbs=WRITES,
        resources=("nodes", "nodes/status"),
        can="change or drain nodes under running jobs",
    ),
    Power(
        verbs=WRITES,
        resources=("pods/exec", "pods/attach"),
        can="run commands in others' pods",
    ),
)
