"""Proof of a fabric in NCCL's log, for every process of a job of several nodes. Pure.

If one process uses TCP, the whole job runs at TCP's speed: the others wait for it. So each process
is checked for the contract's proofs by itself, and a single sign of TCP outweighs all else.

`railhead launch --verify` sends this file to pods, whose images have a Python from 3.8 on and no
Railhead: it imports the standard library alone. :mod:`railhead.nccl.expect` and
:mod:`railhead.nccl.ranks` judge by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

#: The words of :class:`railhead.base.verdict.Verdict`, which needs a newer Python.
PASSED, FAILED, NOT_PROVEN = "passed", "failed", "not-proven"
# Signs that the kernel's TCP carries, or was chosen to carry, what goes between nodes:
# NVIDIA/nccl src/transport/net.cc (`via NET/`) and src/plugin/net.cc (`Using network`);
# Google's FastSocket plugin; aws-ofi-nccl src/nccl_ofi_net.c (`Selected provider is`).
TCP = re.compile(
    r"via NET/(?:Socket|FastSocket)\b|Using network (?:Socket|FastSocket)\b"
    r"|(?i:Selected provider is (?:tcp|sockets|udp)\b)"
)
# Who wrote a line of NCCL's or of a plugin's: `host:pid:tid [gpu] NCCL INFO ...`.
_PROCESS = re.compile(r"([\w.-]+:\d+):\d+ \[\d+\] ")
_CONNECTION = re.compile(r"\[(send|receive)\] via NET/")
_SHOWN = 3


class Shown(NamedTuple):
    """The finding on the log of one process, ``host:pid``; ``passed`` is None without proof."""

    name: str
    passed: bool | None
    text: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""


class Process(NamedTuple):
    """The verdict on one process of a pod; ``text`` says why, ``lines`` are its evidence."""

    pod: int
    name: str
    verdict: str
    text: str
    lines: tuple[str, ...] = ()


class Judgement(NamedTuple):
    """The verdict on all processes; ``tcp`` says that a line is of TCP."""

    verdict: str
    text: str
    processes: tuple[Process, ...] = ()
    tcp: bool = False


def shown(
    lines: Iterable[str], proofs: Sequence[str], gpudirect: str | None = None
) -> tuple[Shown, ...]:
    """Return what each process that wrote a log shows; see :func:`railhead.nccl.expect.proven`."""
    wrote: dict[str, list[str]] = {}
    for line in lines:
        process = _PROCESS.search(line)
        if process:
            wrote.setdefault(process[1], []).append(line)
    if not proofs:
        # All of nothing is true of every log.
        text = "nothing is said to prove this fabric, so no log proves it"
        return tuple(Shown(name, None, text) for name in wrote)
    return tuple(_shows(name, own, proofs, gpudirect) for name, own in wrote.items())


def _shows(process: str, lines: Sequence[str], proofs: Sequence[str], direct: str | None) -> Shown:
    first = {p: next((line for line in lines if re.search(p, line)), None) for p in proofs}
    unproven = [proof for proof, line in first.items() if line is None]
    if unproven:
        text = f"no line matches {' nor '.join(map(repr, unproven))}"
        remedy = "run with NCCL_DEBUG=INFO and give the whole log of every rank"
        return Shown(process, None, text, remedy=remedy)
    evidence = tuple(line for line in first.values() if line is not None)
    if direct is not None:
        ways: dict[str, list[str]] = {"send": [], "receive": []}
        for line in lines:
            way = _CONNECTION.search(line)
            if way:
                ways[way[1]].append(line)
        without = tuple(o for own in ways.values() for o in own if not re.search(direct, o))
        if without:
            text = f"{len(without)} connections go without GPUDirect"
            remedy = "`railhead-diagnose` with the same logs says why"
            return Shown(process, False, text, without[:_SHOWN], remedy)
        missing = [way for way, own in ways.items() if not own]
        if missing:
            text = f"no connection shows the direction {' nor '.join(missing)}"
            return Shown(process, None, text, evidence)
    return Shown(process, True, "shows all that proves it", evidence)


def judge(
    log: Mapping[int, Sequence[str]],
    *,
    processes: int,
    proofs: Sequence[str],
    gpudirect: str | None,
) -> Judgement:
    """Check the log of every pod for the proofs of the fabric.

    Args:
        log: each pod's lines, by its number; a pod without lines is there without any.
        processes: how many each pod has started.
        proofs: the contract's; each must match a line of every process.
        gpudirect: the contract's; None where NCCL says nothing of it.
    """
    every = tuple(
        process
        for pod, lines in sorted(log.items())
        for process in _pod(pod, lines, proofs, gpudirect)
    )
    spread = [line for lines in log.values() for line in lines if TCP.search(line)]
    if spread:
        count = len({(p.pod, p.name) for p in every if p.verdict == FAILED and TCP.search(p.text)})
        who = f"{count} of {len(every)} processes" if count else "some processes"
        text = f"the transport is TCP on {who}: {_message(spread[0])}"
        return Judgement(FAILED, text, every, tcp=True)
    failed = [process for process in every if process.verdict == FAILED]
    if failed:
        text = f"{len(failed)} of {len(every)} processes: {failed[0].name}: {failed[0].text}"
        return Judgement(FAILED, text, every)
    wrote = {pod: sum(process.pod == pod for process in every) for pod in sorted(log)}
    short = [pod for pod, count in wrote.items() if count != processes]
    if short:
        text = (
            f"pod {short[0]} has started {processes} processes, and NCCL's log is of "
            f"{wrote[short[0]]}"
        )
        return Judgement(NOT_PROVEN, text, every)
    unproven = [process for process in every if process.verdict != PASSED]
    if unproven:
        text = f"{len(unproven)} of {len(every)} processes: {unproven[0].name}: {unproven[0].text}"
        return Judgement(NOT_PROVEN, text, every)
    if not every:
        return Judgement(NOT_PROVEN, "no process is shown")
    return Judgement(PASSED, f"shown by all {len(every)} processes", every)


def _pod(
    pod: int, lines: Sequence[str], proofs: Sequence[str], gpudirect: str | None
) -> Iterable[Process]:
    words = {True: PASSED, False: FAILED, None: NOT_PROVEN}
    for process in shown(lines, proofs, gpudirect):
        own = [line for line in lines if f"{process.name}:" in line and TCP.search(line)]
        if own:
            text = f"TCP: {_message(own[0])}"
            yield Process(pod, process.name, FAILED, text, tuple(own[:_SHOWN]))
        else:
            verdict, lines_of = words[process.passed], process.evidence[:_SHOWN]
            yield Process(pod, process.name, verdict, process.text, lines_of)


def _message(line: str) -> str:
    """Return NCCL's message without its prefix."""
    _, _, text = line.partition("NCCL INFO ")
    return (text or line).strip()[:160]
