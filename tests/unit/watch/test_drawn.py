"""Dashboards as a page: what Prometheus answers is drawn, and what it does not is said."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from railhead.accept.dashboards import _service, page, plot
from railhead.base.errors import InputError
from railhead.watch.dashboards import DASHBOARDS
from tests.unit.watch.cases import SITE

END = 1_800_000_000.0
JOBS = json.loads(DASHBOARDS[0].text(SITE))


def answer(query: str) -> Sequence[Mapping[str, Any]]:
    """Return one series of every query but those of Kueue."""
    if "kueue" in query:
        return []
    labels = {"namespace": "training", "jobset": "llama", "claim": "c", "directory": "d"}
    return [{"metric": labels, "values": [[END - 120, "0.5"], [END - 60, "NaN"], [END, "1"]]}]


def panel(title: str) -> Mapping[str, Any]:
    (result,) = (item for item in JOBS["panels"] if item["title"].startswith(title))
    return dict(result)


def test_series_has_its_labels_as_name_and_its_measured_points() -> None:
    drawn = plot(panel("Restarts"), answer, END)
    (series,) = drawn.series
    assert series.name == "training/llama"
    assert series.points == ((-2.0, 0.5), (0.0, 1.0))


def test_shares_are_drawn_in_per_cent() -> None:
    drawn = plot(panel("Share of held time"), answer, END)
    assert drawn.y.unit == "%"
    assert [y for _, y in drawn.series[0].points] == [50.0, 100.0]


def test_page_draws_answered_panels_and_names_the_others() -> None:
    text = page([JOBS], answer, END)
    drawn = re.findall(r"<figcaption>(.*?)</figcaption>", text)
    silent = [item["title"] for item in JOBS["panels"] if "kueue" in item["targets"][0]["expr"]]
    assert drawn == [item["title"] for item in JOBS["panels"] if item["title"] not in silent]
    assert silent
    assert f"No data for: {'; '.join(silent)}." in text
    assert "http" not in re.sub(r"http-equiv", "", text)


@pytest.mark.parametrize("name", ["prometheus", "a/b", "a/b:9090/c", "a/../b:9090", "A/b:1"])
def test_prometheus_that_is_not_a_service_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="NAMESPACE/SERVICE:PORT"):
        _service(name)


def test_a_service_is_asked_through_its_proxy() -> None:
    path = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy"
    assert _service("monitoring/prometheus:9090") == path
