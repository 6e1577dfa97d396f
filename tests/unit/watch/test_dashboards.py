"""Dashboards: their queries name metrics that there are, and Prometheus itself takes each."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from railhead.lab.artifacts import watching
from railhead.watch.dashboards import DASHBOARDS, Dashboard, queries
from railhead.watch.metrics import metric_of
from tests.unit.watch.cases import SITE
from tests.unit.watch.queries import by_labels, selectors

DATA = Path(__file__).resolve().parents[2] / "data" / "grafana"
every = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda d: d.uid)


@every
def test_its_queries_name_metrics_and_labels_that_exporters_give(dashboard: Dashboard) -> None:
    for panel in dashboard.panels:
        for legend, query in panel.queries.items():
            known: set[str] = set()
            for selector in selectors(SITE.fill(query)):
                metric = metric_of(str(selector.name))
                own = {*metric.labels, "le"}
                assert {m.name for m in selector.matchers.matchers} <= own, panel.title
                known |= own
            assert by_labels(SITE.fill(query)) <= known, panel.title
            shown = set(re.findall(r"{{(\w+)}}", legend))
            assert shown <= known | {"Hostname", "hostname"}, panel.title


@every
def test_it_is_what_grafanas_schema_has(dashboard: Dashboard) -> None:
    schema = json.loads((DATA / "dashboard.jsonschema.json").read_text())
    checked = jsonschema.validators.validator_for(schema)(schema)
    document = dashboard.document(SITE)
    assert [error.message for error in checked.iter_errors(document)] == []
    document["panels"][0]["gridPos"]["w"] = "12"
    assert list(checked.iter_errors(document)), "the schema says nothing of panels"


@every
def test_panels_lie_side_by_side_and_nowhere_twice(dashboard: Dashboard) -> None:
    document = dashboard.document(SITE)
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in document["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert all(0 <= x < 24 for x, _ in cells)
    ids = [panel["id"] for panel in document["panels"]]
    assert len(set(ids)) == len(ids)
    assert all(panel["targets"] for panel in document["panels"])


@pytest.mark.slow
def test_prometheus_takes_each_query(tmp_path: Path) -> None:
    """Queries are written as recording rules, which promtool reads with Prometheus' own parser."""
    watching.ensure()
    result = watching.program("promtool")
    assert result is not None
    rules = [{"record": f"q{n}", "expr": query} for n, query in enumerate(queries(SITE))]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    done = subprocess.run(
        [str(result), "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"SUCCESS: {len(rules)} rules found" in done.stdout
