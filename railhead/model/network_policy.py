"""The network policy of training namespaces in a stack's file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from railhead.base.fields import IpNetwork, Model, Name, problem

PortNumber = Annotated[int, Field(strict=True, ge=1, le=65535)]


class Destination(Model):
    """A target to which jobs may connect beside each other: addresses, or a namespace's pods.

    ``ports`` are TCP unless ``protocol`` says otherwise; without any, every port of every protocol.

    ``cidr`` is a network, ``namespace`` the name of one of the cluster's; exactly one of both is
    given.
    """

    cidr: IpNetwork | None = None
    namespace: Name | None = None
    ports: tuple[PortNumber, ...] = ()
    protocol: Literal["TCP", "UDP"] = "TCP"

    @model_validator(mode="after")
    def _one_of_both(self) -> Destination:
        if (self.cidr is None) == (self.namespace is None):
            raise problem("give either cidr or namespace")
        return self


class NetworkPolicyConfig(Model):
    """Default deny in training namespaces, with what jobs need and what is added here.

    The cluster's network must enforce NetworkPolicies. ``egress`` is what jobs reach outside the
    cluster or in other namespaces, such as object storage; ``ingress_namespaces`` whose pods reach
    them, such as a scraper's; ``dns`` adds addresses of name servers that are no pods of
    kube-system.

    ``enabled`` false leaves namespaces open to whatever reaches them.
    """

    enabled: bool = True
    egress: tuple[Destination, ...] = ()
    ingress_namespaces: tuple[Name, ...] = ()
    dns: tuple[IpNetwork, ...] = ()
