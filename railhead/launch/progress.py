"""The progress of a run by its output: steps, loss and throughput, in any framework's words.

Nothing has to be changed in a script: the forms are those that PyTorch's examples, Hugging Face's
Trainer, DeepSpeed, Megatron-LM, Lightning, Keras and tqdm print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

_NUMBER = r"([-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf)"
_BETWEEN = r"[\"']?\s*[:=]?\s*\[?\s*"
_STEP = re.compile(
    rf"\b(?:global[_ ]step|steps?|iteration|iter)\b{_BETWEEN}(\d+)(?:\s*(?:/|of)\s*(\d+))?", re.I
)
_EPOCH = re.compile(rf"\bepochs?\b{_BETWEEN}(\d+(?:\.\d+)?)(?:\s*(?:/|of)\s*(\d+))?", re.I)
_LOSS = re.compile(rf"\b(?:train(?:ing)?[_ ]|lm[_ ])?loss\b{_BETWEEN}{_NUMBER}", re.I)
# 1234 tokens/s, 3.2it/s, 12 samples/sec
_RATE = re.compile(
    rf"{_NUMBER}\s*(tokens?|tok|samples?|images?|img|sequences?|seqs?|it|iter|steps?)"
    r"\s*(?:/|per)\s*s(?:ec(?:ond)?)?\b",
    re.I,
)
# samples/sec: 30.1 (DeepSpeed)
_TOLD_RATE = re.compile(
    rf"\b(tokens?|samples?|images?|iters?|steps?)\s*/\s*s(?:ec(?:ond)?)?\s*[:=]\s*{_NUMBER}", re.I
)
# 45/100 [00:12<00:15 (tqdm)
_BAR = re.compile(r"\b(\d+)/(\d+)\s*\[[0-9:?]+<")
# tokens_per_second: 1234, train_samples_per_second=12
_NAMED_RATE = re.compile(
    rf"\b(?:train_)?(tokens?|samples?|images?|steps?|iterations?)_per_s(?:ec(?:ond)?)?{_BETWEEN}"
    rf"{_NUMBER}",
    re.I,
)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The newest of each that was printed; empty where nothing was.

    Attributes:
        step: such as ``120/1000``; steps where there are any, else epochs.
        unit: ``step`` or ``epoch``.
        loss: as it was printed.
        rate: such as ``1234 tokens/s``.
        last: when the newest line was written; None before the first.
        moved: when the step was first another than before; None before the first.
    """

    step: str = ""
    unit: str = ""
    loss: str = ""
    rate: str = ""
    last: datetime | None = None
    moved: datetime | None = None

    def silent(self, now: datetime) -> int:
        """Return the seconds since the newest line; 0 before the first."""
        return 0 if self.last is None else max(0, int((now - self.last).total_seconds()))

    def still(self, now: datetime) -> int:
        """Return the seconds since the step moved; 0 before the first."""
        return 0 if self.moved is None else max(0, int((now - self.moved).total_seconds()))


def _step(text: str) -> tuple[str, str] | None:
    for unit, pattern in (("step", _STEP), ("step", _BAR), ("epoch", _EPOCH)):
        if match := pattern.search(text):
            of = f"/{match[2]}" if match[2] else ""
            return unit, f"{match[1]}{of}"
    return None


def _rate(text: str) -> str:
    if match := _NAMED_RATE.search(text) or _TOLD_RATE.search(text):
        return f"{match[2]} {match[1].lower()}/s"
    if match := _RATE.search(text):
        return f"{match[1]} {match[2].lower()}/s"
    return ""


def read(lines: Iterable[str]) -> Progress:
    """Read the progress from lines with the kubelet's timestamp in front, of nodes in any order."""
    seen = Progress()
    for line in lines:
        stamp, _, text = line.partition(" ")
        at = when(stamp)
        if at is not None and (seen.last is None or at > seen.last):
            seen = replace(seen, last=at)
        # Steps outrank epochs: where both are printed, the steps move.
        step = _step(text)
        if step and (step[0] == "step" or seen.unit != "step"):
            moved = seen.moved if (seen.unit, seen.step) == step else at or seen.moved
            seen = replace(seen, unit=step[0], step=step[1], moved=moved)
        if loss := _LOSS.search(text):
            seen = replace(seen, loss=loss[1])
        if rate := _rate(text):
            seen = replace(seen, rate=rate)
    return seen


def steps(lines: Iterable[tuple[str, str]]) -> list[tuple[datetime, str, float]]:
    """Return when each step was printed, which steps or epochs they are, and how far it was.

    Two kinds are two totals: a bar of shards that are loaded is not the training's. A bar is
    at 0 before the script knows where it goes on, so 0 is no step.
    """
    rows = []
    for stamp, text in lines:
        at, step = when(stamp), _step(text)
        if at is not None and step is not None:
            number, _, of = step[1].partition("/")
            rows.append((at, f"{step[0]} of {of}", float(number)))
    return [row for row in rows if row[2]]


def when(stamp: str) -> datetime | None:
    """Return the kubelet's timestamp of a line; None if it has none."""
    try:
        # Nanoseconds are more than Python reads.
        cut = re.sub(r"(\.\d{6})\d+", r"\1", stamp)
        result = datetime.fromisoformat(cut)
    except ValueError:
        return None
    return result if result.tzinfo else result.replace(tzinfo=UTC)
