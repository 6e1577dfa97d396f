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

from railhead.model.network_policy import Destination

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_DNS_NAMESPACE = "kube-system"
_DNS_PODS = ("kube-dns", "node-local-dns")
# NodeLocal DNSCache listens there, in the node's namespace, where no pod selector finds it.
_NODE_LOCAL_DNS = "169.254.20.10/32"


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Connections of a training namespace's pods that are allowed.

    Args:
        jobs_label: key of the label that every pod of a job has, and no other pod: the scheduler's.
        dns: CIDR blocks of name servers, beside the DNS pods of kube-system and NodeLocal DNSCache.
        egress: what jobs may connect to, beside each other.
        ingress_namespaces: namespaces whose pods may connect to jobs, such as a scraper's.
    """

    jobs_label: str
    dns: Sequence[str] = ()
    egress: Sequence[Destination] = ()
    ingress_namespaces: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class NetworkPoliciesArgs:
    """Arguments of :class:`NetworkPolicies`.

    Args:
        namespace: the training namespace.
        traffic: what is allowed; None makes no policy, so that everything is.
        after: resources that must exist before the policies, such as the namespace.
    """

    namespace: str
    traffic: Traffic | None
    after: Sequence[pulumi.Resource] = ()


def dns_addresses(traffic: Traffic) -> tuple[str, ...]:
    """Return the CIDR blocks of name servers that are not pods of kube-system."""
    return tuple(dict.fromkeys((_NODE_LOCAL_DNS, *traffic.dns)))


def policies(traffic: Traffic) -> dict[str, Any]:
    """Return the policies of a training namespace: name -> spec.

    A job's pods reach each other on every port: NCCL's bootstrap and sockets take ephemeral ones,
    and so do rendezvous and gloo. One job is not kept from another of the same namespace.
    """
    # Its scheduler admitted it, so it is a job's; nothing else in the namespace is let in or out.
    label = {"key": traffic.jobs_label, "operator": "Exists"}
    selected: dict[str, Any] = {"matchExpressions": [label]}
    jobs = [{"podSelector": selected}]
    results: dict[str, Any] = {
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
                        *({"ipBlock": {"cidr": cidr}} for cidr in dns_addresses(traffic)),
                    ],
                    "ports": [{"protocol": p, "port": 53} for p in ("UDP", "TCP")],
                }
            ],
        },
    }
    if traffic.egress:
        results["railhead-egress"] = {
            "podSelector": selected,
            "policyTypes": ["Egress"],
            "egress": [egress_rule(destination) for destination in traffic.egress],
        }
    if traffic.ingress_namespaces:
        results["railhead-ingress"] = {
            "podSelector": selected,
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"namespaceSelector": _namespace(n)} for n in traffic.ingress_namespaces]}
            ],
        }
    return results


def _namespace(name: str) -> dict[str, Any]:
    # The API server itself keeps this label, so nobody can claim another namespace's name.
    return {"matchLabels": {NAMESPACE_LABEL: name}}


def egress_rule(destination: Destination) -> dict[str, Any]:
    """Return the rule of a NetworkPolicy that lets pods out to a destination."""
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
    """The policies of one training namespace: nothing is allowed but what ``traffic`` says.

    Attributes:
        policies: the NetworkPolicies.
    """

    policies: Sequence[kubernetes.networking.v1.NetworkPolicy]

    def __init__(
        self,
        name: str,
        args: NetworkPoliciesArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("railhead:index:NetworkPolicies", name, None, opts)
        specs = policies(args.traffic) if args.traffic is not None else {}
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
