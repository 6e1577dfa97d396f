"""From what was found to what the node is labelled."""

from __future__ import annotations

import json
from collections.abc import Iterable
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

    ``said``: what was last published besides the label.
    """

    good: int = _SETTLE
    said: set[Finding] | None = None
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


def report(findings: Iterable[Finding], at: str, note: str) -> str:
    """The annotation: since when, and everything that is not proven, with its remedy."""
    open_ = [
        {"name": f.name, "verdict": verdict(f), "text": f.text}
        | ({"remedy": f.remedy} if f.remedy else {})
        for f in findings
        if not f.passed
    ]
    told: dict[str, object] = {"since": at, "open": open_}
    return json.dumps(told | ({"note": note} if note else {}))
