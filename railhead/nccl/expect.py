"""Gates: is the log proof of what was wanted? Without proof the answer is no."""

from __future__ import annotations

from railhead.base.errors import ExitCode, InputError, RailheadError, did_you_mean
from railhead.nccl.reading import Reading

# What may be asked for, and the words of the reading that fulfil it.
EXPECTED = {
    "ib": ("ib",),
    "roce": ("roce",),
    "efa": ("efa",),
    "tcpx": ("tcpx",),
    "gib": ("gib",),
    "socket": ("socket",),
    "p2p": ("p2p/shm-only",),
    "p2p/shm-only": ("p2p/shm-only",),
    "rdma": ("ib", "roce", "efa", "gib"),
}
# Only NET connections show what carried the data; what was chosen or found does not.
PROOF = "connections"


class UnmetError(RailheadError):
    """The log shows something other than what was wanted."""

    exit_code = ExitCode.UNMET


class UnprovenError(RailheadError):
    """The log does not show what was wanted, nor anything else."""

    exit_code = ExitCode.UNPROVEN


def check_word(expected: str) -> str:
    """The word itself.

    Raises:
        InputError: it is none of :data:`EXPECTED`.
    """
    if expected not in EXPECTED:
        raise InputError(
            f"--expect {expected}: no such transport{did_you_mean(expected, EXPECTED)}",
            remedy=f"one of {', '.join(EXPECTED)}",
        )
    return expected


def check_transport(reading: Reading, expected: str) -> None:
    """Hold a reading to a transport.

    Raises:
        UnmetError: another transport is shown.
        UnprovenError: none is shown by connections.
    """
    claim = reading.claims["transport"]
    if claim.value == "unknown":
        raise UnprovenError(
            f"expected {expected}, and no line shows a transport",
            remedy="run with NCCL_DEBUG=INFO and read the logs of all nodes",
        )
    if claim.value not in EXPECTED[expected]:
        raise UnmetError(
            f"expected {expected}, and the transport is {claim.value}: {claim.why}",
            remedy="`railhead diagnose` with the same logs says why",
        )
    if claim.grade != PROOF:
        raise UnprovenError(
            f"expected {expected}: {claim.value} is likely, but {claim.why}, and no connection "
            "is shown",
            remedy="run with NCCL_DEBUG=INFO and give the whole log, with its Channel lines",
        )
    layer = reading.claims.get("link-layer")
    if set(EXPECTED[expected]) <= {"ib", "roce"} and (layer is None or layer.value == "unknown"):
        raise UnprovenError(
            f"expected {expected}: verbs carried the data, but no line shows the ports' link layer",
            remedy="give the whole log, with the line `NET/IB : Using [0]...`",
        )


def check_gdr(reading: Reading) -> None:
    """Hold a reading to GPUDirect RDMA on every connection.

    Raises:
        UnmetError: some or all connections go without.
        UnprovenError: no connection is shown.
    """
    claim = reading.claims["gdr"]
    if claim.value == "no":
        raise UnmetError(
            f"expected GPUDirect RDMA: {claim.why}",
            remedy="`railhead diagnose` with the same logs says why",
        )
    if claim.value != "yes":
        raise UnprovenError(
            "expected GPUDirect RDMA, and no connection over the network is shown",
            remedy="run with NCCL_DEBUG=INFO and give the whole log, with its Channel lines",
        )
