"""Findings for people."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from railhead.diagnose.model import NAMED, RankedCause

if TYPE_CHECKING:
    from rich.console import Console

    from railhead.nccl.reading import Reading

LIKELY = 0.8
SHOWN = 5
LINES = 4
TEXT = 200


def sureness(confidence: float) -> str:
    """Return a word for a confidence from 0 to 1."""
    if confidence >= LIKELY:
        return "sure"
    return "likely" if confidence >= NAMED else "possible"


def collect_command(job: str | None, pod: str | None, logs: Sequence[str]) -> str:
    """Return the command that collects the evidence, from the cluster for a named job or pod."""
    words = ["railhead", "diagnose"]
    words += ["--job", job] if job else ["--pod", pod] if pod else []
    words += [name for name in logs if name != "-"]
    if not (job or pod):
        words += ["--job", "NAME"]
    return " ".join(word if word == "NAME" else shlex.quote(word) for word in words) + " --collect"


def wanted(reading: Reading) -> list[str]:
    """Return what to collect when no cause is named: the shortest way to evidence for one."""
    hits = reading.hits
    asked = []
    if not any(sign.startswith("nccl.") for sign in hits):
        asked.append(
            "NCCL's own lines: run once with NCCL_DEBUG=INFO and "
            "NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,ENV,NET,GRAPH in the job's `env`"
        )
    if hits.any("watchdog-timeout", "gloo-timeout", "other-rank-timeout"):
        asked.append(
            "flight-recorder dumps of all ranks: TORCH_FR_BUFFER_SIZE=2000, "
            "TORCH_NCCL_DUMP_ON_TIMEOUT=1, TORCH_NCCL_DESYNC_DEBUG=1 in the job's `env`; then "
            "`railhead-diagnose` on their folder"
        )
    if hits.any("wc-retry", "wc-rnr", "wc-flush", "async-fatal"):
        asked.append(
            "the NICs' counters on both nodes of the failing pair, twice, a minute apart, and the "
            "kernel's log of that time"
        )
    if reading.verdict == "hang":
        asked.append("while it hangs: `ncclras -v` in any of its pods (NCCL 2.24 and newer)")
    if reading.ranks and reading.nodes and len(reading.nodes) < 2 < reading.ranks:
        asked.append("the logs of all nodes, not of one: the first error by time is the one")
    asked.append("pod specifications, events, node conditions and network policies")
    return asked


def to_json(
    reading: Reading, findings: Sequence[RankedCause], *, skipped: Sequence[str], command: str
) -> dict[str, Any]:
    """Return an object; ``cause`` is the likeliest cause's id or null, as in `nccl read`."""
    named = next((item.cause.id for item in findings if item.named), None)
    return {
        "cause": named,
        "verdict": reading.verdict,
        "transport": reading.transport,
        "findings": [finding.to_json() for finding in findings],
        "collect": {"command": command, "evidence": wanted(reading)} if named is None else None,
        "skipped": list(skipped),
    }


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"


def _finding(console: Console, number: int, finding: RankedCause, *, full: bool) -> None:
    cause = finding.cause
    style = "bold red" if finding.named else "bold yellow"
    console.print(
        f"{number}. [{style}]{cause.id}[/{style}]  "
        f"{sureness(finding.confidence)} ({finding.confidence:.0%})",
        highlight=False,
    )
    console.print(f"   {cause.title}", markup=False, highlight=False)
    reason = f"follows from {finding.after}" if finding.after else finding.because
    console.print(f"   because: {reason}", markup=False, highlight=False)
    for proof in finding.evidence[:LINES]:
        console.print(f"   {proof.where}: {_short(proof.text)}", markup=False, highlight=False)
    if not full:
        return
    rows = [("fix by hand", cause.by_hand), ("confirm", cause.confirm), ("source", cause.source)]
    if cause.fix.where == "none":
        rows.insert(0, ("fix", cause.fix.text))
    else:
        rows.insert(0, (f"fix in the {cause.fix.where}", f"{cause.fix.path}: {cause.fix.text}"))
    for label, text in rows:
        console.print(f"   {label}: {text}", markup=False, highlight=False)
    for other, item in finding.apart.items():
        console.print(f"   {other} instead, if: {item}", markup=False, highlight=False)


def show(
    console: Console,
    reading: Reading,
    findings: Sequence[RankedCause],
    *,
    skipped: Sequence[str],
    command: str,
) -> None:
    """Print the findings, best first; without a named cause, also what to collect and how."""
    head = f"verdict {reading.verdict}, transport {reading.transport}"
    console.print(head, markup=False, highlight=False)
    for reason in skipped:
        console.print(f"not read: {reason}", markup=False, highlight=False, style="yellow")
    if not findings and reading.verdict == "ok":
        console.print("Nothing is wrong that the logs show.", highlight=False)
        return
    if not any(finding.named for finding in findings):
        console.print(
            "No cause: no line names one" + (", these are possible:" if findings else "."),
            highlight=False,
        )
    for number, finding in enumerate(findings[:SHOWN], 1):
        console.print()
        _finding(console, number, finding, full=finding.named or number == 1)
    if len(findings) > SHOWN:
        rest = ", ".join(finding.cause.id for finding in findings[SHOWN:])
        console.print(f"\nalso possible: {rest}", markup=False, highlight=False)
    if not any(finding.named for finding in findings):
        console.print("\nTo find out, collect:", highlight=False)
        for gang in wanted(reading):
            console.print(f"  - {gang}", markup=False, highlight=False)
        console.print(f"  $ {command}", markup=False, highlight=False)
