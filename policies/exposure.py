"""Rules for services of the cluster: none is reached from the internet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from railhead.policies.clouds import outside
from railhead.policies.plan import UNKNOWN, PlannedObject, at


def problems(planned: PlannedObject, allowed: Sequence[str] | None = None) -> Iterator[str]:
    """Yield a message for a load balancer that is not kept to named networks.

    Args:
        planned: an object of the cluster.
        allowed: the site's own networks; None allows any that is not wide.
    """
    if planned.kind != "Service" or at(planned.body, "spec", "type") != "LoadBalancer":
        return
    notes = at(planned.body, "metadata", "annotations")
    # As the clouds' controllers read it: `aws-load-balancer-scheme: internal`,
    # `aws-load-balancer-internal: "true"`, `networking.gke.io/load-balancer-type: Internal`.
    if isinstance(notes, Mapping) and any(
        str(value).lower() == "internal" or (key.endswith("-internal") and str(value) == "true")
        for key, value in notes.items()
    ):
        return
    networks = at(planned.body, "spec", "loadBalancerSourceRanges")
    if (
        networks is UNKNOWN
        or not networks
        or any(n is UNKNOWN or outside(n, allowed) for n in networks)
    ):
        yield (
            f"{planned.label}: spec.type is LoadBalancer, which everyone on the internet reaches: "
            "use ClusterIP, annotate it as internal, or name networks in loadBalancerSourceRanges"
        )
