"""`railhead dashboards`: the dashboards as one page, for clusters without Grafana."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from railhead.base.options import Context, Kubeconfig, Lab

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from railhead.accept.model import LinePlot, Series

#: The most points in time of a panel; more could not be distinguished.
_MOMENTS = 240
_STEP_SECONDS = 15
#: Grafana's units -> a factor for the values, the label and the short unit of the axis.
_UNITS: Mapping[str, tuple[float, str, str]] = {
    "Bps": (1, "bytes a second", "B"),
    "percentunit": (100, "share", "%"),
    "percent": (1, "share", "%"),
    "s": (1, "time", "s"),
    "hertz": (1, "clock", "Hz"),
    "watt": (1, "power", "W"),
}
#: Runs a query over time, and returns the `result` of Prometheus' `query_range`.
Ask = Callable[[str], Sequence[Mapping[str, Any]]]


def dashboards(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="File that the page is written to.")
    ] = Path("dashboards.html"),
    prometheus: Annotated[
        str, typer.Option(metavar="NAMESPACE/SERVICE:PORT", help="The Prometheus to query.")
    ] = "monitoring/prometheus:9090",
    hours: Annotated[float, typer.Option(min=0.05, max=744, help="Hours to look back.")] = 6,
    selector: Annotated[
        str, typer.Option(metavar="LABELS", help="Labels of the ConfigMaps with the dashboards.")
    ] = "grafana_dashboard=1",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Draw the dashboards of a cluster into one self-contained page, without Grafana.

    Queries Prometheus through the API server, which needs the right to use its Service's proxy.

    Example: [bold]railhead dashboards --hours 1[/bold]
    """
    from railhead.base.errors import NotFoundError
    from railhead.kube.client import opened

    service = _service(prometheus)
    end = time.time()
    span = {"start": end - hours * 3600, "end": end}
    step = max(_STEP_SECONDS, hours * 3600 / _MOMENTS)
    with opened(kubeconfig, context, lab) as cluster:

        def ask(query: str) -> Sequence[Mapping[str, Any]]:
            asked = {key: f"{value:.0f}" for key, value in {**span, "step": step}.items()}
            path = f"{service}/api/v1/query_range"
            answer = cluster.request("GET", path, query={"query": query, **asked})
            series: Sequence[Mapping[str, Any]] = answer.body["data"]["result"]
            return series

        maps = cluster.list("/api/v1/configmaps", selector=selector)
        documents = [
            json.loads(document) for config_map in maps for document in config_map["data"].values()
        ]
        if not documents:
            raise NotFoundError(
                f"no ConfigMap has the label {selector}",
                remedy="have the stack make dashboards (docs/watching.md), or name its "
                "watching.dashboard_labels with --selector",
            )
        out.write_text(page(documents, ask, end), encoding="utf-8")
    typer.echo(f"{out}: {len(documents)} dashboards")


def _service(name: str) -> str:
    """Return the path of a Service's proxy; raise InputError for a malformed name."""
    from railhead.base.errors import InputError

    match = re.fullmatch(r"([a-z0-9-]+)/([a-z0-9-]+):([a-z0-9-]+)", name)
    if match is None:
        raise InputError(
            f"--prometheus: {name!r} is not NAMESPACE/SERVICE:PORT",
            remedy="give it as in monitoring/prometheus-operated:9090",
        )
    namespace, service, port = map(quote, match.groups())
    return f"/api/v1/namespaces/{namespace}/services/{service}:{port}/proxy"


def page(documents: Iterable[Mapping[str, Any]], ask: Ask, end: float) -> str:
    """Return every panel of Grafana's ``documents`` up to ``end`` (a Unix time), as HTML."""
    from railhead.accept.report import head
    from railhead.accept.report.html import el, write

    moment = datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%d %H:%M UTC")
    sections = [_section(document, ask, end) for document in documents]
    body = el(
        "body",
        {},
        el("header", {}, el("h1", {}, "Dashboards"), el("p", {"class": "soft"}, moment)),
        el("main", {}, *sections),
    )
    return write(el("html", {"lang": "en"}, head(f"Dashboards, {moment}"), body))


def _section(document: Mapping[str, Any], ask: Ask, end: float) -> Element:
    from railhead.accept.report.html import el
    from railhead.accept.report.plots import draw

    plots = [plot(panel, ask, end) for panel in document["panels"]]
    figures = [
        draw(panel, f"{document['uid']}-{number}")
        for number, panel in enumerate(plots)
        if panel.series
    ]
    empty = [panel.title for panel in plots if not panel.series]
    missing = f"No data for: {'; '.join(empty)}." if empty else ""
    return el(
        "section",
        {},
        el("h2", {}, document["title"]),
        *figures,
        el("p", {"class": "soft"}, missing),
    )


def plot(panel: Mapping[str, Any], ask: Ask, end: float) -> LinePlot:
    """Return a panel of time series; it is empty when Prometheus has no data."""
    from railhead.accept.model import Axis, LinePlot

    unit = panel["fieldConfig"]["defaults"].get("unit", "short")
    factor, label, short = _UNITS.get(unit, (1, "value", ""))
    clock = datetime.fromtimestamp(end, UTC).strftime("%H:%M UTC")
    return LinePlot(
        title=panel["title"],
        x=Axis(label=f"minutes until {clock}"),
        y=Axis(label=label, unit=short),
        series=tuple(
            series
            for target in panel["targets"]
            for answer in ask(target["expr"])
            if (series := _series(target["legendFormat"], answer, factor, end)).points
        ),
    )


def _series(legend: str, answer: Mapping[str, Any], factor: float, end: float) -> Series:
    from railhead.accept.model import Series

    labels = answer["metric"]
    points = (((moment - end) / 60, float(value) * factor) for moment, value in answer["values"])
    return Series(
        name=re.sub(r"{{\s*(\w+)\s*}}", lambda named: labels.get(named[1], ""), legend),
        # A quantile of no data is NaN.
        points=tuple(point for point in points if math.isfinite(point[1])),
    )


def register(root: typer.Typer) -> None:
    """Add the command to the root application."""
    root.command()(dashboards)
