"""From what was found to what the node is labelled."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from railhead.base.finding import Finding

#: The label that a pool's ResourceFlavor demands, and where the reasons are.
LABEL = "railhead.dev/fabric"
ANNOTATION = "railhead.dev/fabric-report"

State = Literal["ready", "failed"]
READY: State = "ready"
FAILED: State = "failed"

# A link that flaps must hold for so many looks before jobs are placed on it again.
_SETTLE = 3


@dataclass
class Gate:
    """Remembers what decides whether a node that failed has settled.

    ``said``: what was last published besides the label. ``label``: what was decided last.
    ``counted``: what the node's counters were (:class:`railhead.gate.node.Node`).
    """

    good: int = _SETTLE
    said: set[Finding] | None = None
    label: State | None = None
    counted: dict[str, tuple[float, int]] = field(default_factory=dict)
    _failed: bool = field(default=False, repr=False)

    def decide(self, findings: Iterable[Finding], now: str | None) -> State:
        """``ready`` or ``failed``; ``now`` is what the node is labelled already.

        Nothing found is nothing proven. Something that a pod has in use proves nothing and fails
        nothing: a node that was ready stays so, one that was not is not ready until it is seen.
        """
        passed = {finding.passed for finding in findings}
        if False in passed or not passed:
            self._failed, self.good = True, 0
            return FAILED
        if None in passed:
            return READY if now == READY else FAILED
        self.good += 1
        if self._failed and self.good < _SETTLE:
            return FAILED
        self._failed = False
        return READY


def verdict(finding: Finding) -> str:
    """In the gate's words: what is neither proven nor failed is in use by a pod."""
    return {True: "proven", False: "failed", None: "held"}[finding.passed]


def label_before(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str | None:
    """What the node was labelled, or was when the gate before this one withdrew its label.

    Without it a node whose NICs are switched off, as a pod of mode host-device gives them back,
    would be failed for good by every rollout of the gate: nothing can be proven until the next pod.
    """
    if LABEL in labels:
        return labels[LABEL]
    try:
        was = json.loads(annotations.get(ANNOTATION, "{}"))["was"]
    except (ValueError, KeyError, TypeError):
        return None
    return was if was in (READY, FAILED) else None


def report(findings: Iterable[Finding], at: str, note: str, was: str | None = None) -> str:
    """The annotation: since when, and everything that is not proven, with its remedy.

    ``was``: what the node was labelled, where the label is withdrawn.
    """
    open_ = [
        {"name": f.name, "verdict": verdict(f), "text": f.text}
        | ({"remedy": f.remedy} if f.remedy else {})
        for f in findings
        if not f.passed
    ]
    told: dict[str, object] = {"since": at, "open": open_}
    told |= {key: value for key, value in (("note", note), ("was", was)) if value}
    return json.dumps(told)
