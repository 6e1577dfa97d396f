"""``python3 -m railhead.gate``: prove this node's fabric again and again, and label the node.

With ``--once`` it only prints its findings, and exits 1 if a proof failed; it does not contact the
cluster unless ``--node`` is given too.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from railhead.base.finding import Finding
from railhead.gate import dcb
from railhead.gate.api import ApiError, NodeApi
from railhead.gate.expectation import Expectation
from railhead.gate.node import RESULTS, Node
from railhead.gate.prove import evaluate
from railhead.gate.state import ANNOTATION, LABEL, Gate, label_before, report, verdict
from railhead.gate.words import now, say

HEARTBEAT = "beat"
SPOKEN = "spoken"
# After this many periods without a sign of life the pod is restarted.
_PATIENCE = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the gate; returns the exit status."""
    options = _options().parse_args(arguments)
    if options.alive:
        return _alive(options)
    expected = Expectation.from_json(options.expectation.read_text(encoding="utf-8"))
    if options.once:
        return _once(options, expected)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    return _run(options, expected, NodeApi.in_cluster(options.node), stop)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="railhead.gate",
        description="Prove a node's fabric and label the node.",
        epilog="example: python3 -m railhead.gate --once --expectation expectation.json",
    )
    parser.add_argument("--expectation", type=Path, default=Path("expectation.json"))
    parser.add_argument("--node", default=os.environ.get("NODE_NAME", ""), help="the node's name")
    parser.add_argument("--sys", type=Path, default=Path("/sys"), help="the node's /sys")
    parser.add_argument("--dev", type=Path, default=Path("/dev"), help="the node's /dev")
    parser.add_argument(
        "--plugins",
        type=Path,
        default=Path("/home/kubernetes/bin"),
        help="the folder of NCCL plugins on a GKE node",
    )
    parser.add_argument(
        "--run", type=Path, default=Path(RESULTS), help="the folder of results of the node's boot"
    )
    parser.add_argument("--proc", type=Path, default=Path("/proc"))
    parser.add_argument(
        "--state", type=Path, default=Path("/run/gate"), help="the folder of state for the probes"
    )
    parser.add_argument("--period", type=float, default=30, help="seconds between two checks")
    parser.add_argument("--once", action="store_true", help="print the findings, change nothing")
    parser.add_argument(
        "--alive", action="store_true", help="exit 0 if the running gate still checks"
    )
    return parser


def _alive(options: argparse.Namespace) -> int:
    try:
        age = time.time() - (options.state / HEARTBEAT).stat().st_mtime
    except OSError:
        return 1
    return int(age > _PATIENCE * options.period + 30)


def _look(
    options: argparse.Namespace,
    expected: Expectation,
    status: object,
    counted: dict[str, tuple[float, int]],
) -> tuple[Finding, ...]:
    allocatable = status.get("allocatable", {}) if isinstance(status, dict) else {}
    node = Node(
        sys=options.sys,
        dev=options.dev,
        proc=options.proc,
        run=options.run,
        plugins=options.plugins,
        kernel=os.uname().release,
        allocatable=allocatable,
        dcb=dcb.read,
        now=time.monotonic(),
        counted=counted,
    )
    return evaluate(node, expected)


def _once(options: argparse.Namespace, expected: Expectation) -> int:
    status = {}
    if options.node:
        try:
            status = NodeApi.in_cluster(options.node).read().get("status", {})
        except ApiError as error:
            sys.stderr.write(f"the node's own status is not known: {error}\n")
    findings = _look(options, expected, status, {})
    for finding in findings:
        remedy = f"        {finding.remedy}\n" if finding.remedy else ""
        sys.stdout.write(f"{verdict(finding):7} {finding.name}: {finding.text}\n{remedy}")
    return int(any(f.passed is False for f in findings))


def _run(
    options: argparse.Namespace, expected: Expectation, api: NodeApi, stop: threading.Event
) -> int:
    gate, warned = Gate(), ""
    options.state.mkdir(parents=True, exist_ok=True)
    while not stop.is_set():
        try:
            _turn(options, expected, api, gate)
            warned = ""
        except ApiError as error:
            if str(error) != warned:
                say("warning", str(error))
            warned = str(error)
        (options.state / HEARTBEAT).touch()
        stop.wait(options.period)
    # A node without a running gate is not proven.
    try:
        note = report((), now(), "the gate has ended", gate.label)
        api.label({LABEL: None}, {ANNOTATION: note})
        say("info", "label withdrawn")
    except ApiError as error:
        say("warning", str(error))
    return 0


def _turn(options: argparse.Namespace, expected: Expectation, api: NodeApi, gate: Gate) -> None:
    node = api.read()
    findings = _look(options, expected, node.get("status"), gate.counted)
    metadata = node.get("metadata", {})
    labels = metadata.get("labels", {})
    before = label_before(labels, metadata.get("annotations", {})) or gate.label
    decision = gate.label = gate.decide(findings, before)
    unproven = {finding for finding in findings if not finding.passed}
    if decision != labels.get(LABEL) or unproven != gate.published:
        api.label({LABEL: decision}, {ANNOTATION: report(findings, now(), "")})
        say("info", f"{LABEL}={decision}")
        for finding in findings:
            say(verdict(finding), f"{finding.name}: {finding.text}", finding.remedy)
        gate.published = unproven
    (options.state / SPOKEN).touch()


if __name__ == "__main__":
    sys.exit(main())
