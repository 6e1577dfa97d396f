"""Default deny in a training namespace, with what a job needs to run.

What the policies cover is the pod network. Rails that Multus or a cloud's multi-networking attaches
are not the pod network's to police, nor are pods in their node's own namespace: see docs/fabric.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.model.cluster import Cluster
from railhead.model.network_policy import Destination
from railhead.platform.registry import platform_of
from railhead.resolve.schedulers import scheduler_of

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_DNS_NAMESPACE = "kube-system"
_DNS_PODS = ("kube-dns", "node-local-dns")
# NodeLocal DNSCache listens there, in the node's namespace, where no pod selector finds it.
_NODE_LOCAL_DNS = "169.254.20.10/32"


@dataclass(frozen=True, kw_only=True)
class NetworkPoliciesArgs:
    """Arguments of :class:`NetworkPolicies`."""

    cluster: Cluster
    namespace: str
    after: Sequence[pulumi.Resource] = ()


def dns_addresses(cluster: Cluster) -> tuple[str, ...]:
    """Name servers that are no pods of kube-system."""
    found = (_NODE_LOCAL_DNS, *platform_of(cluster).name_servers, *cluster.network_policy.dns)
    return tuple(dict.fromkeys(found))


def policies(cluster: Cluster, namespace: str) -> dict[str, Any]:
    """Name -> spec of each policy of a training namespace.

    A job's pods reach each other on every port: NCCL's bootstrap and sockets take ephemeral ones,
    and so do rendezvous and gloo. One job is not kept from another of the same namespace.
    """
    # Its scheduler admitted it, so it is a job's; nothing else in the namespace is let in or out.
    label = {"key": scheduler_of(cluster).pods, "operator": "Exists"}
    selected: dict[str, Any] = {"matchExpressions": [label]}
    jobs = [{"podSelector": selected}]
    found: dict[str, Any] = {
        "railhead-default-deny": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        "railhead-jobs": {
            "podSelector": selected,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": jobs}],
            "egress": [{"to": jobs}],
        },
        "railhead-names": {
            "podSelector": {},
            "policyTypes": ["Egress"],
            "egress": [
                {
                    "to": [
                        {
                            "namespaceSelector": _namespace(_DNS_NAMESPACE),
                            "podSelector": {
                                "matchExpressions": [
                                    {"key": "k8s-app", "operator": "In", "values": list(_DNS_PODS)}
                                ]
                            },
                        },
                        *({"ipBlock": {"cidr": cidr}} for cidr in dns_addresses(cluster)),
                    ],
                    "ports": [{"protocol": p, "port": 53} for p in ("UDP", "TCP")],
                }
            ],
        },
    }
    site = cluster.network_policy
    if egress := (*platform_of(cluster).egress(cluster, namespace), *site.egress):
        found["railhead-egress"] = {
            "podSelector": selected,
            "policyTypes": ["Egress"],
            "egress": [_egress(destination) for destination in egress],
        }
    if site.ingress_namespaces:
        found["railhead-ingress"] = {
            "podSelector": selected,
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"namespaceSelector": _namespace(n)} for n in site.ingress_namespaces]}
            ],
        }
    return found


def _namespace(name: str) -> dict[str, Any]:
    # The API server itself keeps this label, so nobody can claim another namespace's name.
    return {"matchLabels": {NAMESPACE_LABEL: name}}


def _egress(destination: Destination) -> dict[str, Any]:
    to: dict[str, Any] = (
        {"ipBlock": {"cidr": destination.cidr}}
        if destination.cidr is not None
        else {"namespaceSelector": _namespace(str(destination.namespace))}
    )
    rule: dict[str, Any] = {"to": [to]}
    if destination.ports:
        rule["ports"] = [{"protocol": destination.protocol, "port": p} for p in destination.ports]
    return rule


class NetworkPolicies(pulumi.ComponentResource):
    """The policies of one training namespace."""

    policies: Sequence[kubernetes.networking.v1.NetworkPolicy]

    def __init__(
        self,
        name: str,
        args: NetworkPoliciesArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railhead:index:NetworkPolicies", name, None, opts)
        enabled = args.cluster.network_policy.enabled
        specs = policies(args.cluster, args.namespace) if enabled else {}
        self.policies = [
            kubernetes.networking.v1.NetworkPolicy(
                f"{name}-{policy.removeprefix('railhead-')}",
                metadata={"name": policy, "namespace": args.namespace},
                spec=spec,
                opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
            )
            for policy, spec in specs.items()
        ]
        self.register_outputs({"policies": list(specs)})
