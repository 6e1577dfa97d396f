"""Reports that are kept, and what became worse between two of them beyond their noise.

A report is kept by cluster, hardware and version. A figure is judged if a limit is set for it, for
then it is known which way is worse; others are reported when they change. How much is noise:

- where both sides have several reports, or one has and the other one, from their scatter (Student's
  t with pooled variance, one-sided);
- else from the figures' own confidence intervals, where both have one;
- else it is not known, and a share of the figure, ``tolerance``, is taken for it.

Many figures are held at once, so the level of 5 % is that of the whole comparison (Holm 1979).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from statistics import NormalDist, mean, variance
from typing import Any

from railhead.accept import document, signing
from railhead.accept.model import LinePlot, Report, Result, Verdict
from railhead.base.errors import InputError, NotFoundError
from railhead.base.reading import read_bytes

# Of a whole comparison in which nothing became worse, this share says that something did.
ALPHA = 0.05
# What became worse by less than this share is no regression, however sure it is.
LEAST = 0.01
_RANK = {Verdict.PASSED: 2, Verdict.NOT_PROVEN: 1, Verdict.FAILED: 0}
# Two-sided 95 %, which intervals in reports are.
_WIDTH = NormalDist().inv_cdf(0.975)


class Change(StrEnum):
    """The change of one figure between two reports."""

    WORSE = "worse"
    BETTER = "better"
    SAME = "same"
    CHANGED = "changed"
    MISSING = "missing"
    NEW = "new"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing on both sides.

    ``noise`` says in words what was taken for it; ``p`` is the chance that noise alone makes it so
    much worse, None where that is not known. Only ``Change.WORSE`` is a regression.
    """

    check: str
    what: str
    before: str
    after: str
    change: Change
    share: float | None = None
    noise: str = ""
    p: float | None = None


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A figure on one side: its values, the half width of its interval, and which way is worse."""

    values: tuple[float, ...]
    half: float | None
    more_is_better: bool | None
    unit: str

    @property
    def middle(self) -> float:
        """The mean."""
        return math.fsum(value / len(self.values) for value in self.values)


# -- what is kept ---------------------------------------------------------------------------------


def hardware_id(report: Report) -> str:
    """Return the same for the same hardware: eight hexadecimal digits."""
    return document.sha256(dict(report.hardware))[:8]


def place(report: Report) -> Path:
    """Return the path of a kept report: ``CLUSTER/HARDWARE/VERSION/WHEN.json``."""
    when = f"{report.begun.isoformat(timespec='seconds')}-{document.digest(report)[:8]}"
    parts = (report.cluster, hardware_id(report), report.railhead)
    return Path(*map(_safe, parts), f"{_safe(when)}.json")


def _safe(name: str) -> str:
    """Return a name of a folder, another one for each text."""
    made = re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".")[:80]
    if made == name:
        return made
    return f"{made}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def keep(report: Report, folder: Path, key: Any = None) -> Path:
    """Keep a report, sealed; the file that it is now.

    Raises:
        InputError: the folder cannot be written.
    """
    target = folder / place(report)
    partial = target.with_suffix(".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(signing.sealed(report, key), indent=1), encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        raise InputError(
            f"{target} cannot be written: {error.strerror}", remedy="name another folder"
        ) from error
    return target


def read(path: Path) -> tuple[Report, ...]:
    """Return one report, or all that are kept in a folder and below it, oldest first.

    Raises:
        ChangedError: one of them is not as it was sealed.
        NotFoundError: there is no report.
    """
    try:
        files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
        results = [signing.check(read_bytes(file)).report for file in files]
    except OSError as error:
        raise NotFoundError(
            f"{path} cannot be read: {error.strerror}", remedy="name a report or a folder of them"
        ) from error
    if not results:
        raise NotFoundError(f"no report is kept in {path}", remedy="name a folder with some")
    return tuple(sorted(results, key=lambda report: report.begun))


# -- what is compared -----------------------------------------------------------------------------


def unlike(reports: Iterable[Report]) -> list[str]:
    """Return why the figures of these reports cannot be compared; empty where they can."""
    all_of = list(reports)
    kinds: dict[str, set[Any]] = {
        "hardware": {hardware_id(r) for r in all_of},
        "size of the run (quick or whole)": {r.quick for r in all_of},
        "number of nodes": {len(r.nodes) for r in all_of},
    }
    return [name for name, kind in kinds.items() if len(kind) > 1]


def compare(
    before: Sequence[Report], after: Sequence[Report], *, tolerance: float = 0.1
) -> tuple[Row, ...]:
    """Return every verdict and figure of both sides.

    Args:
        before: reports of one state, oldest first; verdicts are the last one's.
        after: of the other.
        tolerance: what is taken for noise, as a share, where nothing tells it.
    """
    rows = list(_verdicts(before[-1], after[-1]))
    old, new = _figures(before), _figures(after)
    for key in {**old, **new}:
        check, what = key
        if key not in new:
            rows.append(_one_side(check, what, old[key], Change.MISSING))
        elif key not in old:
            rows.append(_one_side(check, what, new[key], Change.NEW))
        else:
            rows.append(_figure(check, what, old[key], new[key], tolerance))
    return tuple(_together(rows))


def regressions(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows that became worse."""
    return tuple(row for row in rows if row.change is Change.WORSE)


def _verdicts(before: Report, after: Report) -> Iterator[Row]:
    old = {result.name: result for result in before.checks}
    new = {result.name: result for result in after.checks}
    for name in dict.fromkeys((*before.asked, *old, *after.asked, *new)):
        a, b = old.get(name), new.get(name)
        ranks = _rank(a), _rank(b)
        change = Change.SAME if ranks[0] == ranks[1] else Change.BETTER
        change = Change.WORSE if ranks[1] < ranks[0] else change
        yield Row(check=name, what="verdict", before=_said(a), after=_said(b), change=change)


def _rank(result: Result | None) -> int:
    """Return the verdict on a promise; without a result it is not proven."""
    return _RANK[Verdict.NOT_PROVEN if result is None else result.verdict]


def _said(result: Result | None) -> str:
    if result is None:
        return "no result"
    return result.verdict.value + (", waived" if result.waiver is not None else "")


def _figures(reports: Sequence[Report]) -> dict[tuple[str, str], Sample]:
    """Return every figure by check and name, its values over the reports."""
    figures: dict[tuple[str, str], Sample] = {}
    for report in reports:
        seen: set[tuple[str, str]] = set()
        for result in report.checks:
            for what, sample in (*_measured(result), *_curves(result)):
                key = (result.name, what)
                # Of two figures of one name in one report nobody knows which is meant later.
                if key in seen:
                    continue
                seen.add(key)
                earlier = figures[key].values if key in figures else ()
                figures[key] = replace(sample, values=(*earlier, *sample.values))
    return figures


def _measured(result: Result) -> Iterator[tuple[str, Sample]]:
    for item in result.measured:
        half = None
        if item.low is not None and item.high is not None and item.high >= item.low:
            half = item.high / 2 - item.low / 2
        yield (
            item.name,
            Sample(
                values=(item.value,),
                half=half,
                more_is_better=None if item.limit is None else item.at_least,
                unit=item.unit,
            ),
        )


def _curves(result: Result) -> Iterator[tuple[str, Sample]]:
    """Points with an interval, of plots with an ideal: it tells which way is better."""
    for plot in result.plots:
        if not isinstance(plot, LinePlot):
            continue
        ideal = [y for series in plot.series if series.ideal for _, y in series.points]
        for series in plot.series:
            if (
                series.ideal
                or not ideal
                or not len(series.points) == len(series.low) == len(series.high)
            ):
                continue
            for (x, y), low, high in zip(series.points, series.low, series.high, strict=True):
                yield (
                    f"{plot.title}: {series.name} at {x:g} {plot.x.unit}".rstrip(),
                    Sample(
                        values=(y,),
                        half=abs(high / 2 - low / 2),
                        more_is_better=mean(ideal) >= mean(v for _, v in series.points),
                        unit=plot.y.unit,
                    ),
                )


def _one_side(check: str, what: str, sample: Sample, change: Change) -> Row:
    text = _value(sample)
    gone = change is Change.MISSING
    return Row(
        check=check,
        what=what,
        before=text if gone else "",
        after="" if gone else text,
        change=change,
    )


def _value(sample: Sample) -> str:
    return f"{sample.middle:.4g} {sample.unit}".rstrip()


def _figure(check: str, what: str, a: Sample, b: Sample, tolerance: float) -> Row:
    """Return one figure; whether a p is small enough is said by :func:`_together`."""
    step = b.middle - a.middle
    share = step / abs(a.middle) if a.middle and math.isfinite(step) else None
    row = Row(
        check=check,
        what=what,
        before=_value(a),
        after=_value(b),
        change=Change.SAME,
        share=share,
    )
    if b.more_is_better is None or a.more_is_better is None:
        return replace(
            row, change=Change.CHANGED if step else Change.SAME, noise="no limit is set for it"
        )
    worse = -step if b.more_is_better else step
    spread = _spread(a, b)
    if spread is None:
        over = abs(step) > tolerance * abs(a.middle)
        change = (Change.WORSE if worse > 0 else Change.BETTER) if over else Change.SAME
        return replace(row, change=change, noise=f"not known; {tolerance:.0%} is taken for it")
    width, freedom, noise = spread
    p = _tail(worse / width, freedom) if width > 0 else _sure(worse)
    return replace(row, noise=noise, p=p)


def _spread(a: Sample, b: Sample) -> tuple[float, int | None, str] | None:
    """Return the standard error of the difference, its degrees of freedom and their origin."""
    n, m = len(a.values), len(b.values)
    freedom = n + m - 2
    if freedom > 0:
        scattered = [s.values for s in (a, b) if len(s.values) > 1]
        try:
            squares = sum((len(values) - 1) * variance(values) for values in scattered)
        except OverflowError:
            return None
        error = math.sqrt(squares / freedom * (1 / n + 1 / m))
        return error, freedom, f"scatter of {n} and {m} runs"
    if a.half is not None and b.half is not None:
        return math.hypot(a.half, b.half) / _WIDTH, None, "their confidence intervals"
    return None


def _sure(worse: float) -> float:
    """Return t; without any scatter every difference is certain."""
    return 0.5 if worse == 0 else float(worse < 0)


def _tail(t: float, freedom: int | None) -> float:
    """Return the chance of more than ``t``, Student's; the normal distribution's without a freedom.

    For whole degrees of freedom it is a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4).
    """
    if freedom is None:
        return NormalDist().cdf(-t)
    angle = math.atan(abs(t) / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for n in range(odd, freedom - 1, 2):
        total += term
        term *= cosine**2 * (n + 1) / (n + 2)
    inside = (angle + sine * total) * 2 / math.pi if odd else sine * total
    upper = max(0.0, (1 - inside) / 2)
    return upper if t >= 0 else 1 - upper


def _together(rows: Sequence[Row]) -> Iterator[Row]:
    """Judge what has a p, each way at the level of the whole."""
    held = [row for row in rows if row.p is not None]
    worse = _holm([row.p for row in held if row.p is not None])
    better = _holm([1 - row.p for row in held if row.p is not None])
    changes = {
        id(row): Change.WORSE if w else Change.BETTER
        for row, w, b in zip(held, worse, better, strict=True)
        if (w or b) and (row.share is None or abs(row.share) >= LEAST)
    }
    for row in rows:
        yield replace(row, change=changes.get(id(row), row.change))


def _holm(chances: Sequence[float]) -> list[bool]:
    """Return which p-values are small enough, all taken together."""
    passed = [False] * len(chances)
    for rank, n in enumerate(sorted(range(len(chances)), key=lambda k: chances[k])):
        if chances[n] > ALPHA / (len(chances) - rank):
            break
        passed[n] = True
    return passed
