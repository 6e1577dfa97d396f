"""Remedies of faults that several checks may find."""

from __future__ import annotations

CLOCK = (
    "a clock does not run true: compare the node's with another's (`chronyc tracking` on both, "
    "/sys/devices/system/clocksource/clocksource0/current_clocksource), look at what the image or "
    "the runtime puts between programs and the clock, and run the check again"
)
CUT_OFF = (
    "a pod's log was not whole when it was read: see that the kubelet does not rotate it away "
    "(containerLogMaxSize) and that the node's disk is not full, and run the check again"
)


def unreached(namespace: str) -> str:
    """Return the remedy where pods of one job do not reach each other.

    Args:
        namespace: of the job.
    """
    return (
        "the pods of a job must reach each other on every port: see which NetworkPolicies select "
        f"them (`kubectl get networkpolicy -n {namespace}`; railhead-jobs is what lets them, and "
        "`pulumi up` puts it back), and which firewalls are between their nodes"
    )
