"""`railhead dashboards`: what Grafana would draw, as one page, for whoever has none at hand."""

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
from xml.etree.ElementTree import Element

import typer

from railhead.base.options import Context, Kubeconfig, Lab

if TYPE_CHECKING:
    from railhead.accept.model import LinePlot, Series

#: A panel has at most so many moments, as many as can be told from each other.
_MOMENTS = 240
_STEP_SECONDS = 15
#: Grafana's units -> what a value is multiplied by, and how the axis is labelled.
_UNITS: Mapping[str, tuple[float, str, str]] = {
    "Bps": (1, "bytes a second", "B"),
    "percentunit": (100, "share", "%"),
    "percent": (1, "share", "%"),
    "s": (1, "time", "s"),
    "hertz": (1, "clock", "Hz"),
    "watt": (1, "power", "W"),
}
#: A query, answered over time as Prometheus' API has it (`result` of `query_range`).
Ask = Callable[[str], Sequence[Mapping[str, Any]]]


def dashboards(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where the page goes.")
    ] = Path("dashboards.html"),
    prometheus: Annotated[
        str, typer.Option(metavar="NAMESPACE/SERVICE:PORT", help="Who is asked.")
    ] = "monitoring/prometheus:9090",
    hours: Annotated[float, typer.Option(min=0.05, max=744, help="How far back.")] = 6,
    selector: Annotated[
        str, typer.Option(metavar="LABELS", help="Of the ConfigMaps with the dashboards.")
    ] = "grafana_dashboard=1",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lab: Lab = None,
) -> None:
    """Draw the dashboards of a cluster into one page that loads nothing, without Grafana.

    Prometheus is asked through the API server, which takes the right to its Service's proxy.

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
            found: Sequence[Mapping[str, Any]] = answer.body["data"]["result"]
            return found

        maps = cluster.list("/api/v1/configmaps", selector=selector)
        documents = [json.loads(text) for one in maps for text in one["data"].values()]
        if not documents:
            raise NotFoundError(
                f"no ConfigMap has the label {selector}",
                remedy="have the stack make dashboards (docs/watching.md), or name its "
                "watching.dashboard_labels with --selector",
            )
        out.write_text(page(documents, ask, end), encoding="utf-8")
    typer.echo(f"{out}: {len(documents)} dashboards")


def _service(name: str) -> str:
    """The path of a Service's proxy; raises InputError."""
    from railhead.base.errors import InputError

    found = re.fullmatch(r"([a-z0-9-]+)/([a-z0-9-]+):([a-z0-9-]+)", name)
    if found is None:
        raise InputError(
            f"--prometheus: {name!r} is no NAMESPACE/SERVICE:PORT",
            remedy="such as monitoring/prometheus-operated:9090",
        )
    namespace, service, port = map(quote, found.groups())
    return f"/api/v1/namespaces/{namespace}/services/{service}:{port}/proxy"


def page(documents: Iterable[Mapping[str, Any]], ask: Ask, end: float) -> str:
    """Every panel of Grafana's ``documents`` up to ``end``, seconds since the epoch, as HTML."""
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
        draw(one, f"{document['uid']}-{number}") for number, one in enumerate(plots) if one.series
    ]
    empty = [one.title for one in plots if not one.series]
    said = f"Nothing was found for: {'; '.join(empty)}." if empty else ""
    return el(
        "section", {}, el("h2", {}, document["title"]), *figures, el("p", {"class": "soft"}, said)
    )


def plot(panel: Mapping[str, Any], ask: Ask, end: float) -> LinePlot:
    """A panel of time series; without any where nothing was found."""
    from railhead.accept.model import Axis, LinePlot

    unit = panel["fieldConfig"]["defaults"].get("unit", "short")
    factor, label, short = _UNITS.get(unit, (1, "value", ""))
    clock = datetime.fromtimestamp(end, UTC).strftime("%H:%M UTC")
    return LinePlot(
        title=panel["title"],
        x=Axis(label=f"minutes until {clock}"),
        y=Axis(label=label, unit=short),
        series=tuple(
            one
            for target in panel["targets"]
            for found in ask(target["expr"])
            if (one := _series(target["legendFormat"], found, factor, end)).points
        ),
    )


def _series(legend: str, found: Mapping[str, Any], factor: float, end: float) -> Series:
    from railhead.accept.model import Series

    labels = found["metric"]
    points = (((moment - end) / 60, float(value) * factor) for moment, value in found["values"])
    return Series(
        name=re.sub(r"{{\s*(\w+)\s*}}", lambda named: labels.get(named[1], ""), legend),
        # A quantile of nothing is no number.
        points=tuple(point for point in points if math.isfinite(point[1])),
    )
