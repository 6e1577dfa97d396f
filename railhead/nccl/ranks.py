"""Proof from NCCL's log, for every process of a job of several nodes. Pure.

If one process uses TCP, the whole job runs at TCP's speed: the others wait for it. So each process
is checked for the contract's proofs by itself, and a single sign of TCP outweighs all else.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from railhead.base.verdict import Verdict
from railhead.nccl.build import build
from railhead.nccl.expect import proven
from railhead.nccl.sources import Source
from railhead.nccl.transport import RDMA

# Signs that the kernel's TCP carries, or was chosen to carry, what goes between nodes:
# NVIDIA/nccl src/transport/net.cc (`via NET/`) and src/plugin/net.cc (`Using network`);
# Google's FastSocket plugin; aws-ofi-nccl src/nccl_ofi_net.c (`Selected provider is`).
TCP = re.compile(
    r"via NET/(?:Socket|FastSocket)\b|Using network (?:Socket|FastSocket)\b"
    r"|(?i:Selected provider is (?:tcp|sockets|udp)\b)"
)
#: Settings that make NCCL print all that is judged here; nodes of one rack would go by NVLink, past
#: the NICs that are to be proven.
DEBUG = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,NET,GRAPH",
    "NCCL_MNNVL_ENABLE": "0",
}
_NCCL = re.compile(r"NCCL (?:INFO|WARN)|NCCL version ")
_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Process:
    """The verdict on one process of a pod; ``text`` says why, ``lines`` are its evidence."""

    pod: int
    name: str
    verdict: Verdict
    text: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Transport:
    """The verdict on a whole job."""

    verdict: Verdict
    text: str
    processes: tuple[Process, ...] = ()
    reading: str = "unknown"


def is_nccl(line: str) -> bool:
    """Return whether NCCL or one of its plugins wrote the line."""
    return _NCCL.search(line) is not None


def judge(
    log: Mapping[int, Sequence[str]],
    *,
    processes: int,
    proofs: Sequence[str],
    gpudirect: str | None,
) -> Transport:
    """Check the log of every pod for the proofs of the fabric.

    Args:
        log: each pod's lines, by its number; a pod without lines is there without any.
        processes: how many each pod has started.
        proofs: the contract's; each must match a line of every process.
        gpudirect: the contract's; None where NCCL says nothing of it.
    """
    results = [
        item for pod, lines in sorted(log.items()) for item in _pod(pod, lines, proofs, gpudirect)
    ]
    tcp = [item for item in results if item.verdict is Verdict.FAILED and TCP.search(item.text)]
    spread = [line for lines in log.values() for line in lines if TCP.search(line)]
    reported = tuple(results)
    if spread:
        count = len({(item.pod, item.name) for item in tcp})
        who = f"{count} of {len(results)} processes" if count else "some processes"
        return Transport(
            verdict=Verdict.FAILED,
            text=f"the transport is TCP on {who}: {_shown(spread[0])}",
            processes=reported,
            reading="socket",
        )
    if failed := [item for item in results if item.verdict is Verdict.FAILED]:
        return Transport(
            verdict=Verdict.FAILED,
            text=f"{len(failed)} of {len(results)} processes: {failed[0].name}: {failed[0].text}",
            processes=reported,
        )
    if short := [pod for pod in sorted(log) if _count(results, pod) != processes]:
        seen = _count(results, short[0])
        return Transport(
            verdict=Verdict.NOT_PROVEN,
            text=f"pod {short[0]} has started {processes} processes, and NCCL's log is of {seen}",
            processes=reported,
        )
    if open_ := [item for item in results if item.verdict is not Verdict.PASSED]:
        return Transport(
            verdict=Verdict.NOT_PROVEN,
            text=f"{len(open_)} of {len(results)} processes: {open_[0].name}: {open_[0].text}",
            processes=reported,
        )
    reading = _read(line for lines in log.values() for line in lines)
    if reading not in RDMA:
        verdict = Verdict.FAILED if reading == "socket" else Verdict.NOT_PROVEN
        return Transport(
            verdict=verdict,
            text=f"the whole log says that the transport is {reading}",
            processes=reported,
            reading=reading,
        )
    return Transport(
        verdict=Verdict.PASSED if results else Verdict.NOT_PROVEN,
        text=f"all {len(results)} processes show {reading}" if results else "no process is shown",
        processes=reported,
        reading=reading,
    )


def _pod(
    pod: int, lines: Sequence[str], proofs: Sequence[str], gpudirect: str | None
) -> list[Process]:
    made = []
    for finding in proven(lines, proofs, gpudirect):
        verdict = {True: Verdict.PASSED, False: Verdict.FAILED, None: Verdict.NOT_PROVEN}[
            finding.passed
        ]
        own = [line for line in lines if f"{finding.name}:" in line and TCP.search(line)]
        text, shown = finding.text, finding.evidence
        if own:
            verdict, text, shown = Verdict.FAILED, f"TCP: {_shown(own[0])}", tuple(own)
        if finding.name == "log":
            # Nothing of NCCL's: no process is shown, so the count of them is short.
            continue
        made.append(
            Process(pod=pod, name=finding.name, verdict=verdict, text=text, lines=shown[:_SHOWN])
        )
    return made


def _count(found: Iterable[Process], pod: int) -> int:
    return sum(1 for item in found if item.pod == pod)


def _read(lines: Iterable[str]) -> str:
    data = "\n".join(lines).encode()
    return build([Source(name="job", open=lambda: io.BytesIO(data), size=len(data))]).transport


def _shown(line: str) -> str:
    """Return NCCL's message without its prefix."""
    _, _, text = line.partition("NCCL INFO ")
    return (text or line).strip()[:160]
