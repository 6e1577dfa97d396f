"""Gates: does the log prove what was wanted? Without proof the answer is no."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from railhead.base.errors import ExitCode, InputError, RailheadError, did_you_mean
from railhead.base.finding import Finding
from railhead.nccl.proofs import shown
from railhead.nccl.reading import Claim, Reading

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
    "rdma": ("ib", "roce", "verbs", "efa", "gib", "libfabric"),
}
# Only NET connections show what carried the data; what was chosen or found does not.
PROOF = "connections"
DIAGNOSE = "`railhead-diagnose` with the same logs says why"
WHOLE_LOG = "run with NCCL_DEBUG=INFO and give the whole log, with its Channel lines"


class UnmetError(RailheadError):
    """The log shows something other than what was wanted."""

    exit_code = ExitCode.UNMET


class UnprovenError(RailheadError):
    """The log does not show what was wanted, nor anything else."""

    exit_code = ExitCode.UNPROVEN


def check_word(expected: str) -> str:
    """Return the word itself.

    Raises:
        InputError: it is not one of :data:`EXPECTED`.
    """
    if expected not in EXPECTED:
        raise InputError(
            f"--expect {expected}: no such transport{did_you_mean(expected, EXPECTED)}",
            remedy=f"one of {', '.join(EXPECTED)}",
        )
    return expected


def transport(reading: Reading, expected: str) -> Finding:
    """Check a reading for a transport; ``passed`` is None where no connection proves any."""
    claim = reading.claims["transport"]
    passed: bool | None = None
    if claim.value == "unknown":
        text = f"expected {expected}, and no line shows a transport"
        remedy = "run with NCCL_DEBUG=INFO and read the logs of all nodes"
    elif claim.value == "verbs" and expected in ("ib", "roce"):
        text = f"expected {expected}: {claim.why}"
        remedy = "give the whole log, with the line `NET/IB : Using [0]...`"
    elif claim.value not in EXPECTED[expected]:
        passed = False
        text = f"expected {expected}, and the transport is {claim.value}: {claim.why}"
        remedy = DIAGNOSE
    elif claim.grade != PROOF:
        text = (
            f"expected {expected}: {claim.value} is likely, but {claim.why}, and no connection "
            "is shown"
        )
        remedy = WHOLE_LOG
    else:
        passed, text, remedy = True, f"{claim.value}: {claim.why}", ""
    return _finding("transport", passed, text, remedy, claim)


def gdr(reading: Reading) -> Finding:
    """Check that every connection uses GPUDirect RDMA; None where no connection is shown."""
    claim = reading.claims["gdr"]
    if claim.value == "no":
        return _finding("gdr", False, f"expected GPUDirect RDMA: {claim.why}", DIAGNOSE, claim)
    if claim.value != "yes":
        text = "expected GPUDirect RDMA, and no connection over the network is shown"
        return _finding("gdr", None, text, WHOLE_LOG, claim)
    return _finding("gdr", True, claim.why, "", claim)


def _finding(name: str, passed: bool | None, text: str, remedy: str, claim: Claim) -> Finding:
    evidence = tuple(f"{at}: {at.text}" for at in claim.evidence)
    return Finding(name=name, passed=passed, text=text, evidence=evidence, remedy=remedy)


def require(finding: Finding) -> None:
    """Raise unless the finding is proven.

    Raises:
        UnmetError: the log shows something else.
        UnprovenError: it shows nothing of the kind.
    """
    if finding.passed is False:
        raise UnmetError(finding.text, remedy=finding.remedy)
    if finding.passed is None:
        raise UnprovenError(finding.text, remedy=finding.remedy)


def proven(
    lines: Iterable[str], proofs: Sequence[str], gpudirect: str | None = None
) -> tuple[Finding, ...]:
    """Check every process that wrote a log for the proofs of a cluster's fabric.

    Args:
        lines: the whole log of a job of several nodes, or of one of its nodes.
        proofs: regular expressions, each of which some line of every process must match; a
            cluster's contract has them as ``fabric.proofs``.
        gpudirect: a regular expression that each process' connections over the network must match,
            in both directions; the contract's ``fabric.gpudirect``, None where NCCL says nothing.

    Returns:
        One finding per process, named ``host:pid``; one without a process where none wrote. A
        proof that no line shows is not passed.
    """
    findings = tuple(Finding(**each._asdict()) for each in shown(lines, proofs, gpudirect))
    return findings or (Finding(name="log", passed=None, text="no line is NCCL's"),)
