"""Comparison of reports: a worse figure is reported, noise is not."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import NormalDist

import pytest

from railhead.accept import baselines, signing
from railhead.accept.baselines import Change, _holm, _tail, compare, keep, read, regressions
from railhead.accept.model import Axis, LinePlot, Measured, Report, Series, Verdict
from railhead.base.errors import NotFoundError
from railhead.cli import run
from tests.unit.accept.reports import NAMES, report, result, waiver


def of(*figures: Measured, day: int = 0, **fields: object) -> Report:
    begun = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day)
    rest = [result(n, measured=(), plots=()) for n in NAMES[1:]]
    item = result("rdma", measured=figures, plots=())
    return report(item, *rest, begun=begun, ended=begun + timedelta(minutes=10), **fields)


def busbw(value: float, half: float | None = None, at_least: bool = True) -> Measured:
    return Measured(
        name="busbw",
        value=value,
        unit="GB/s",
        limit=1,
        at_least=at_least,
        low=None if half is None else value - half,
        high=None if half is None else value + half,
    )


def change(before: Sequence[Report], after: Sequence[Report], what: str = "busbw") -> Change:
    (row,) = (r for r in compare(before, after) if r.what == what)
    return row.change


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (busbw(360, 5), busbw(340, 5), Change.WORSE),
        (busbw(340, 5), busbw(360, 5), Change.BETTER),
        (busbw(360, 20), busbw(340, 20), Change.SAME),
        # Sure, and too little to matter.
        (busbw(360, 0.01), busbw(359, 0.01), Change.SAME),
        # Noise is not known: a tenth is taken for it.
        (busbw(360), busbw(330), Change.SAME),
        (busbw(360), busbw(320), Change.WORSE),
        (busbw(360), busbw(400), Change.BETTER),
        (busbw(360, 5), busbw(320), Change.WORSE),
        # Less is better.
        (busbw(20, 1, at_least=False), busbw(30, 1, at_least=False), Change.WORSE),
        (busbw(30, 1, at_least=False), busbw(20, 1, at_least=False), Change.BETTER),
        # From nothing to something: there is no share of nothing.
        (busbw(0, at_least=False), busbw(1, at_least=False), Change.WORSE),
        (busbw(0, 0, at_least=False), busbw(1, 0, at_least=False), Change.WORSE),
        (busbw(5, 0), busbw(5, 0), Change.SAME),
        (busbw(1.7e308, 1), busbw(-1.7e308, 1), Change.WORSE),
    ],
)
def test_one_figure_on_both_sides(before: Measured, after: Measured, expected: Change) -> None:
    assert change([of(before)], [of(after)]) is expected


def test_the_scatter_of_repeats_is_the_noise() -> None:
    def runs(*values: float) -> list[Report]:
        return [of(busbw(v), day=n) for n, v in enumerate(values)]

    quiet, loud = runs(360, 361, 359, 360), runs(360, 330, 390, 340)
    assert change(quiet, runs(350)) is Change.WORSE
    assert change(loud, runs(350)) is Change.SAME
    assert change(quiet, runs(350, 349)) is Change.WORSE
    assert change(quiet, runs(370)) is Change.BETTER
    assert change(runs(360, 360), runs(360)) is Change.SAME
    assert change(runs(360, 360), runs(350)) is Change.WORSE


def test_figure_without_a_limit_is_reported_but_not_judged() -> None:
    rows = compare(
        [of(Measured(name="longest wait", value=3, unit="s"))],
        [of(Measured(name="longest wait", value=9, unit="s"))],
    )
    (row,) = (r for r in rows if r.what == "longest wait")
    assert row.change is Change.CHANGED
    assert (row.before, row.after, row.share) == ("3 s", "9 s", 2)
    assert not regressions(rows)


def test_figures_on_one_side_only_are_reported() -> None:
    rows = compare([of(busbw(360))], [of(Measured(name="other", value=1))])
    assert {(r.what, r.change) for r in rows if r.what != "verdict"} == {
        ("busbw", Change.MISSING),
        ("other", Change.NEW),
    }


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Verdict.PASSED, Verdict.NOT_PROVEN, Change.WORSE),
        (Verdict.PASSED, Verdict.FAILED, Change.WORSE),
        (Verdict.NOT_PROVEN, Verdict.FAILED, Change.WORSE),
        (Verdict.FAILED, Verdict.PASSED, Change.BETTER),
        (Verdict.PASSED, None, Change.WORSE),
        (None, Verdict.NOT_PROVEN, Change.SAME),
    ],
)
def test_verdicts(before: Verdict | None, after: Verdict | None, expected: Change) -> None:
    def one(verdict: Verdict | None) -> Report:
        # A waiver makes nothing better.
        return report(
            *([result("rdma", verdict, waiver=waiver("rdma"))] if verdict else ()), result("gangs")
        )

    rows = compare([one(before)], [one(after)])
    (row,) = (r for r in rows if r.check == "rdma" and r.what == "verdict")
    assert row.change is expected


def test_points_of_curves_are_judged_towards_their_ideal() -> None:
    def scaling(efficiency: float, ideal: float = 1) -> Report:
        points = ((1.0, 1.0), (8.0, efficiency))
        plot = LinePlot(
            title="weak",
            x=Axis(label="nodes"),
            y=Axis(label="efficiency"),
            series=(
                Series(
                    name="real",
                    points=points,
                    low=tuple(y - 0.01 for _, y in points),
                    high=tuple(y + 0.01 for _, y in points),
                ),
                Series(name="ideal", points=((1.0, ideal), (8.0, ideal)), ideal=True),
                Series(name="no interval", points=points),
            ),
        )
        return report(result("scaling", plots=(plot,), measured=()))

    reported = {r.what: r.change for r in compare([scaling(0.95)], [scaling(0.85)])}
    assert reported["weak: real at 8"] is Change.WORSE
    assert reported["weak: real at 1"] is Change.SAME
    assert not any("no interval" in what for what in reported)
    reported = {r.what: r.change for r in compare([scaling(0.95, 0)], [scaling(0.85, 0)])}
    assert reported["weak: real at 8"] is Change.BETTER


# Of tables of Student's distribution: (freedom, t, upper tail).
@pytest.mark.parametrize(
    ("freedom", "t", "upper"),
    [
        (1, 12.706, 0.025),
        (2, 4.303, 0.025),
        (3, 3.182, 0.025),
        (4, 2.776, 0.025),
        (5, 4.032, 0.005),
        (10, 2.228, 0.025),
        (11, 1.796, 0.05),
        (30, 2.75, 0.005),
        (120, 1.98, 0.025),
        (None, 1.96, 0.025),
        (7, 0.0, 0.5),
        (4, -2.776, 0.975),
    ],
)
def test_tails_are_those_of_the_tables(freedom: int | None, t: float, upper: float) -> None:
    assert _tail(t, freedom) == pytest.approx(upper, rel=2e-3)


def test_holm_takes_all_of_them_together() -> None:
    assert _holm([0.01, 0.04, 0.03]) == [True, False, False]
    assert _holm([0.01, 0.02, 0.03]) == [True, True, True]
    assert _holm([0.02, 0.03]) == [True, True]
    assert _holm([0.03, 0.03]) == [False, False]
    assert _holm([]) == []


def told_worse(rng: random.Random, drop: float, runs: int) -> bool:
    """Ten figures with 2 % noise; the first of them drops."""

    def one(share: float) -> Report:
        figures = []
        for n in range(10):
            sigma = 7.2
            mean = 360 * (1 - share if n == 0 else 1)
            value = rng.gauss(mean, sigma)
            half = None if runs > 1 else 1.96 * sigma
            low, high = (None, None) if half is None else (value - half, value + half)
            figures.append(
                Measured(name=f"f{n}", value=value, unit="GB/s", limit=1, low=low, high=high)
            )
        return of(*figures)

    before = [one(0) for _ in range(runs)]
    after = [one(drop) for _ in range(runs)]
    return bool(regressions(compare(before, after)))


@pytest.mark.parametrize("runs", [1, 4])
def test_false_alarms_and_finds_of_random_comparisons(runs: int) -> None:
    """Measured, with room: 5 % is asked of false alarms, over all ten figures together."""
    rng = random.Random(20261122)
    times = 60
    assert sum(told_worse(rng, 0, runs) for _ in range(times)) <= 7
    assert sum(told_worse(rng, 0.15, runs) for _ in range(times)) >= 57


def test_baseline_is_chosen_by_cluster_hardware_and_version(tmp_path: Path) -> None:
    north = of(busbw(360))
    kept = [
        keep(north, tmp_path),
        keep(of(busbw(361), day=1), tmp_path),
        keep(of(busbw(1), hardware={"NICs": "none"}), tmp_path),
        keep(of(busbw(2), cluster="../../etc"), tmp_path),
        keep(of(busbw(2), cluster=".."), tmp_path),
        keep(of(busbw(2), railhead="9.9"), tmp_path),
    ]
    assert len(set(kept)) == 6
    for path in kept:
        assert path.resolve().is_relative_to(tmp_path)
        assert len(path.relative_to(tmp_path).parts) == 4
    assert kept[0].parent == kept[1].parent
    assert [r.checks[0].measured[0].value for r in read(kept[0].parent)] == [360, 361]
    assert keep(north, tmp_path) == kept[0]
    assert len(read(tmp_path)) == 6
    assert not list(tmp_path.rglob("*.part"))
    with pytest.raises(NotFoundError):
        read(tmp_path / "none")


def test_changed_baseline_is_refused(tmp_path: Path) -> None:
    path = keep(of(busbw(360)), tmp_path)
    path.write_text(path.read_text().replace("360.0", "160.0"))
    with pytest.raises(signing.ChangedError):
        read(tmp_path)


def test_differences_are_named() -> None:
    item = of(busbw(1))
    assert baselines.unlike([item, of(busbw(2), railhead="9", cluster="south")]) == []
    for other in (
        of(busbw(1), hardware={"GPU": "x"}),
        of(busbw(1), quick=True),
        of(busbw(1), nodes=("a",)),
    ):
        assert len(baselines.unlike([item, other])) == 1


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = keep(of(busbw(360, 5)), tmp_path), keep(of(busbw(300, 5), day=1), tmp_path)
    page = tmp_path / "page.html"
    page.write_text(signing.sealed_page(of(busbw(360, 5), nodes=("a",))), encoding="utf-8")
    assert run(["accept", "compare", str(a), str(a)]) == 0
    assert "nothing became worse" in capsys.readouterr().out
    assert run(["accept", "compare", str(a), str(b)]) == 6
    assert "busbw" in capsys.readouterr().out
    assert run(["accept", "compare", str(a), str(b), "--json"]) == 6
    reported = json.loads(capsys.readouterr().out)
    assert reported["worse"] == 1
    (row,) = (r for r in reported["rows"] if r["change"] == "worse")
    assert (row["check"], row["what"], row["after"]) == ("rdma", "busbw", "300 GB/s")
    assert run(["accept", "compare", str(a), str(page)]) == 3
    assert "number of nodes" in capsys.readouterr().err
    assert run(["accept", "compare", str(a), str(page), "--unlike"]) == 0


def test_the_normal_distribution_is_what_intervals_are_made_with() -> None:
    assert pytest.approx(NormalDist().inv_cdf(0.975), abs=1e-3) == baselines._WIDTH
