"""The report of an acceptance: verdicts, the evidence of each, and their figures.

Everything here is data: it is written as JSON, read again, drawn as HTML and signed. Bandwidths are
GB/s (1e9 bytes), sizes bytes, times seconds, unless a unit beside the value says otherwise.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from railhead.base.verdict import Verdict as Verdict  # noqa: PLC0414 - others have it from here

SCHEMA_VERSION: Literal[1] = 1


class Model(BaseModel):
    """Read strictly: a report with a key that nobody knows is not the report that was signed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Evidence(Model):
    """Evidence of a verdict, as it was read.

    ``title`` says what it is and of whom, ``text`` are its lines.
    """

    title: str
    text: str


class Measured(Model):
    """One figure, and its limit where it has one.

    ``limit`` is the least (``at_least``) or the most that passes; ``source`` says where that limit
    comes from. ``passed`` is None where nothing is asked of the figure. ``low`` and ``high`` are
    the 95 % confidence interval of the value, where repeats gave one.
    """

    name: str
    value: float
    unit: str = ""
    limit: float | None = None
    at_least: bool = True
    source: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def passed(self) -> bool | None:
        """True where the figure keeps its limit; None without one."""
        if self.limit is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit


class Axis(Model):
    """The axis along one side; ``logarithmic`` in base 2 for sizes, else base 10."""

    label: str
    unit: str = ""
    logarithmic: bool = False


class Series(Model):
    """Points of one name, ``(x, y)``; ``low`` and ``high`` are the confidence interval of each y.

    ``ideal`` marks what is drawn for comparison only: a line rate, a perfect scaling.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    ideal: bool = False


class Mark(Model):
    """A moment on the x axis that is named, such as a kill."""

    at: float
    label: str


class LinePlot(Model):
    """Curves: busbw against size, scaling, loss with restarts."""

    kind: Literal["lines"] = "lines"
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()


class Span(Model):
    """One bar of a timeline, seconds from its begin; ``state`` gives the colour and the legend."""

    lane: str
    begin: float
    end: float
    state: str
    label: str = ""


class Timeline(Model):
    """Lanes of spans: gangs that wait, run and end."""

    kind: Literal["timeline"] = "timeline"
    title: str
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...] = ()


class Cell(Model):
    """One thing of a map, such as a rail of a node; no ``value`` where nothing was measured."""

    row: str
    column: str
    value: float | None
    verdict: Verdict


class Map(Model):
    """Rows by columns: nodes and their rails."""

    kind: Literal["map"] = "map"
    title: str
    unit: str = ""
    cells: tuple[Cell, ...]


Plot = Annotated[LinePlot | Timeline | Map, Field(discriminator="kind")]


class Waiver(Model):
    """A promise that a person accepts unproven: who, until when, and why. It is printed."""

    check: str
    by: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    until: date


class Result(Model):
    """The result of one check.

    ``summary`` is one sentence, ``remedy`` what to do where it did not pass, ``reproduce`` command
    lines that show the same. ``seconds`` is how long it ran, ``node_hours`` what its jobs used.
    """

    name: str
    promise: str
    verdict: Verdict
    summary: str
    measured: tuple[Measured, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    plots: tuple[Plot, ...] = ()
    remedy: str = ""
    reproduce: tuple[str, ...] = ()
    seconds: float = 0
    node_hours: float = 0
    waiver: Waiver | None = None

    @property
    def accepted(self) -> bool:
        """Proven, or waived by name."""
        waived = self.waiver is not None and self.waiver.check == self.name
        return self.verdict is Verdict.PASSED or waived


class Report(Model):
    """One acceptance of one cluster.

    ``asked`` are all checks that there are; one without a result was not proven. ``versions`` and
    ``environment`` are the contract's, ``hardware`` what was discovered, by name.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    cluster: str
    platform: str
    begun: AwareDatetime
    ended: AwareDatetime
    railhead: str
    quick: bool
    nodes: tuple[str, ...]
    hardware: dict[str, str] = Field(default_factory=dict)
    versions: dict[str, str] = Field(default_factory=dict)
    environment: dict[str, str] = Field(default_factory=dict)
    asked: tuple[str, ...] = Field(min_length=1)
    checks: tuple[Result, ...]

    @property
    def accepted(self) -> bool:
        """Every promise has a result, and every result is proven, or waived on that day."""
        results = {result.name for result in self.checks}
        return results.issuperset(self.asked) and all(map(self.stands, self.checks))

    def stands(self, result: Result) -> bool:
        """Proven, or waived by a waiver that had not ended."""
        waiver = result.waiver
        ended = waiver is not None and waiver.until < self.begun.date()
        return result.accepted and (result.verdict is Verdict.PASSED or not ended)
