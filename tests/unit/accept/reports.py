"""Reports for the tests: one that is full, and any that can be."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

from hypothesis import strategies as st

from railhead import __version__
from railhead.accept.model import (
    Axis,
    Cell,
    Evidence,
    LinePlot,
    Map,
    Mark,
    Measured,
    Report,
    Result,
    Series,
    Span,
    Timeline,
    Verdict,
    Waiver,
)

NAMES = ("rdma", "slow-nodes", "scaling", "gangs", "launch", "restart")


def lines() -> LinePlot:
    return LinePlot(
        title="Bus bandwidth",
        x=Axis(label="message size", unit="bytes", logarithmic=True),
        y=Axis(label="busbw", unit="GB/s"),
        series=(
            Series(
                name="all-reduce",
                points=((2.0**20, 1.0), (2.0**30, 300.0), (2.0**34, 360.0)),
                low=(0.9, 290.0, 355.0),
                high=(1.1, 310.0, 365.0),
            ),
            Series(name="line rate", points=((2.0**20, 400.0), (2.0**34, 400.0)), ideal=True),
        ),
        marks=(Mark(at=2.0**25, label="a mark"),),
    )


def result(name: str, verdict: Verdict = Verdict.PASSED, **fields: object) -> Result:
    given: dict[str, object] = {
        "name": name,
        "promise": f"the promise of {name}",
        "verdict": verdict,
        "summary": f"what {name} found",
        "measured": (
            Measured(name="busbw", value=355.5, unit="GB/s", limit=360, source="8 NICs"),
            Measured(name="pairs", value=12),
        ),
        "evidence": (Evidence(title="rank 0", text="NET/IB : Using [0]mlx5_0:1/RoCE\nsecond"),),
        "plots": (lines(),),
        "remedy": "mend it",
        "reproduce": (f"railhead accept --only {name}",),
        "seconds": 75.0,
        "node_hours": 0.25,
    }
    return Result.model_validate({**given, **fields})


def report(*checks: Result, **fields: object) -> Report:
    given: dict[str, object] = {
        "cluster": "north",
        "platform": "lab",
        "begun": datetime(2026, 3, 1, 8, 0, tzinfo=UTC),
        "ended": datetime(2026, 3, 1, 8, 13, 9, tzinfo=UTC),
        "railhead": __version__,
        "quick": False,
        "nodes": ("node-0", "node-1"),
        "hardware": {"NICs": "8 x 400 Gbit/s"},
        "versions": {"kueue": "0.1"},
        "environment": {"NCCL_DEBUG": "INFO"},
        "asked": NAMES,
        "checks": checks or tuple(result(name) for name in NAMES),
    }
    return Report.model_validate({**given, **fields})


def waiver(check: str) -> Waiver:
    return Waiver(check=check, by="N. Otis", reason="parts come in May", until=date(2026, 5, 1))


_text = st.text(max_size=25) | st.sampled_from(
    ["</script>", "<!--", "]]>", "&lt;", '" onload="x', "\u202eabc", "\x00\x1b[31m", "\r\n", "'"]
)
_number = st.floats(allow_nan=False, allow_infinity=False)
_axis = st.builds(
    Axis, label=_text, unit=st.sampled_from(["", "B", "s", "%", "GB/s"]), logarithmic=st.booleans()
)
_point = st.tuples(_number, _number)
_mark = st.builds(Mark, at=_number, label=_text)


def _few(one: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(one, max_size=3).map(tuple)


_series = st.builds(Series, name=_text, points=_few(_point), low=_few(_number), high=_few(_number))
_verdict = st.sampled_from(list(Verdict))
_plot = st.one_of(
    st.builds(LinePlot, title=_text, x=_axis, y=_axis, series=_few(_series), marks=_few(_mark)),
    st.builds(
        Timeline,
        title=_text,
        marks=_few(_mark),
        spans=_few(
            st.builds(Span, lane=_text, begin=_number, end=_number, state=_text, label=_text)
        ),
    ),
    st.builds(
        Map,
        title=_text,
        unit=_text,
        cells=_few(
            st.builds(Cell, row=_text, column=_text, value=st.none() | _number, verdict=_verdict)
        ),
    ),
)
_waiver = st.builds(
    Waiver,
    check=_text,
    by=_text.filter(bool),
    reason=_text.filter(bool),
    until=st.dates(),
)
_moment = st.datetimes(
    min_value=datetime(2000, 1, 1),  # noqa: DTZ001 - the strategy takes naive bounds
    max_value=datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=-9, minutes=-30))]),
)
any_result = st.builds(
    Result,
    name=st.sampled_from(NAMES) | _text,
    promise=_text,
    verdict=_verdict,
    summary=_text,
    measured=_few(
        st.builds(
            Measured,
            name=_text,
            value=_number,
            unit=_text,
            limit=st.none() | _number,
            at_least=st.booleans(),
            source=_text,
        )
    ),
    evidence=_few(st.builds(Evidence, title=_text, text=_text)),
    plots=_few(_plot),
    remedy=_text,
    reproduce=_few(_text),
    seconds=st.floats(0, 1e6),
    node_hours=st.floats(0, 1e6),
    waiver=st.none() | _waiver,
)
any_report = st.builds(
    Report,
    cluster=_text,
    platform=_text,
    begun=_moment,
    ended=_moment,
    railhead=st.just(__version__) | _text,
    quick=st.booleans(),
    nodes=_few(_text),
    hardware=st.dictionaries(_text, _text, max_size=2),
    versions=st.dictionaries(_text, _text, max_size=2),
    environment=st.dictionaries(_text, _text, max_size=2),
    asked=st.lists(_text, min_size=1, max_size=3).map(tuple),
    checks=_few(any_result),
)
