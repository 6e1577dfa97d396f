"""The alerts' rows: whole, of metrics that there are, and told by the page."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import promql_parser
import pytest

from railhead.watch import page
from railhead.watch.alerts import ACCEPTANCE, ALERTS, Alert
from railhead.watch.dashboards import queries
from railhead.watch.metrics import METRICS, metric_of
from tests.unit.watch.cases import CASES, SITE
from tests.unit.watch.queries import by_labels, selectors

REPO = Path(__file__).resolve().parents[3]
NAMED = {alert.name: alert for alert in ALERTS}
every = pytest.mark.parametrize("alert", ALERTS, ids=lambda a: a.name)


def test_names_are_unique_and_distinct_from_others() -> None:
    assert len(NAMED) == len(ALERTS)
    assert all(re.fullmatch(r"Railhead[A-Z][A-Za-z]+", name) for name in NAMED)


@every
def test_it_names_metrics_and_labels_that_exporters_give(alert: Alert) -> None:
    for selector in selectors(SITE.fill(alert.expr)):
        metric = metric_of(str(selector.name))
        known = {*metric.labels, "le"} if metric.kind == "histogram" else set(metric.labels)
        asked = {matcher.name for matcher in selector.matchers.matchers}
        assert asked <= known, f"{alert.name}: {selector.name} has no label {asked - known}"


@every
def test_alert_texts_use_labels_of_their_metrics(alert: Alert) -> None:
    texts = alert.annotations.summary + alert.annotations.description
    shown = set(re.findall(r"\$labels\.(\w+)", texts))
    results = {
        label for s in selectors(SITE.fill(alert.expr)) for label in metric_of(str(s.name)).labels
    }
    # DCGM's exporter spells the node Hostname up to 4.8.2 and hostname after it (its #655).
    assert shown <= results | {"Hostname", "hostname"}
    assert "$labels" not in re.sub(r"\{\{ \$labels\.\w+ \}\}", "", texts)


@every
def test_it_has_recordings_of_firing_and_of_silence(alert: Alert) -> None:
    mine = [case for case in CASES if case.alert == alert.name]
    assert any(case.labels is not None for case in mine)
    assert any(case.labels is None for case in mine)
    if alert.wait != "0s":
        first = min(case.at for case in mine if case.labels is not None)
        assert any(case.labels is None and case.at < first for case in mine), "too early is unseen"


def test_cases_are_of_alerts_that_there_are() -> None:
    assert {case.alert for case in CASES} == NAMED.keys()


def test_every_expression_parses_without_what_a_stack_decides() -> None:
    for alert in ALERTS:
        promql_parser.parse(SITE.fill(alert.expr))
        assert "$" not in SITE.fill(alert.expr)


def test_grouping_keys_are_labels() -> None:
    for alert in ALERTS:
        known = {
            label
            for s in selectors(SITE.fill(alert.expr))
            for label in metric_of(str(s.name)).labels
        }
        known.add("le")
        assert by_labels(SITE.fill(alert.expr)) <= known, alert.name


def test_groups_stand_together() -> None:
    order = [alert.group for alert in ALERTS]
    assert len(Counter(order)) == sum(a != b for a, b in zip(order, [None, *order], strict=False))


def test_fatal_xids_are_among_those_of_hardware() -> None:
    from railhead.diagnose.facts import HARDWARE_XIDS

    fatal = set(re.findall(r"DCGM_FI_DEV_XID_ERRORS == (\d+)", NAMED["RailheadXid"].expr))
    assert fatal
    assert fatal <= HARDWARE_XIDS
    # Illegal access, a stopped channel, a contained error: a program's, or healed by a restart.
    assert not {"13", "31", "43", "45", "63", "94"} & fatal


def test_those_of_an_acceptance_ask_for_its_cronjob() -> None:
    asked = {alert.name for alert in ALERTS if f'cronjob="{ACCEPTANCE}"' in alert.expr}
    assert asked == {alert.name for alert in ALERTS if alert.acceptance}


def test_the_page_tells_each_alert_as_its_row_does() -> None:
    text = (REPO / "docs" / "watching.md").read_text()
    begin, end = "<!-- alerts -->\n", "<!-- end of alerts -->"
    assert text.split(begin)[1].split(end)[0] == page.alerts()
    for alert in ALERTS:
        assert alert.annotations.runbook == f"docs/watching.md#{alert.name.lower()}"


def test_the_page_lists_each_metric_with_its_source() -> None:
    text = (REPO / "docs" / "watching.md").read_text()
    begin, end = "<!-- metrics -->\n", "<!-- end of metrics -->"
    assert text.split(begin)[1].split(end)[0] == page.metrics()


def test_every_metric_has_a_reader() -> None:
    named = {s.name for alert in ALERTS for s in selectors(SITE.fill(alert.expr))}
    named |= {s.name for query in queries(SITE) for s in selectors(query)}
    assert {metric_of(str(name)).name for name in named} == METRICS.keys()
