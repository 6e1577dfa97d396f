"""Outputs of a report for machines and pull requests."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
import typer
from rich.console import Console

from railhead.accept import cli, outputs, signing
from railhead.accept.model import Evidence, Measured, Report, Result, Verdict, Waiver
from railhead.base.errors import ExitCode


def _result(name: str, verdict: Verdict, **fields: Any) -> Result:
    values = {"name": name, "promise": f"{name} holds", "verdict": verdict, "summary": "as seen"}
    return Result.model_validate(values | fields)


WAIVER = Waiver(check="scaling", by="Ada", reason="two nodes", until=date(2027, 1, 1))
REPORT = Report(
    cluster="lab",
    platform="lab",
    begun=datetime(2026, 3, 1, 12, tzinfo=UTC),
    ended=datetime(2026, 3, 1, 13, tzinfo=UTC),
    railhead="1.0",
    quick=True,
    nodes=("a", "b"),
    asked=("gangs", "rdma", "scaling", "restart"),
    checks=(
        _result("gangs", Verdict.PASSED, measured=(Measured(name="jobs", value=8),), seconds=2),
        _result(
            "rdma",
            Verdict.FAILED,
            summary="TCP <script>|x`",
            remedy="mend it",
            evidence=(Evidence(title="log", text="a ```` b\n\x1b[0m </details>"),),
        ),
        _result("scaling", Verdict.FAILED, waiver=WAIVER),
        _result("restart", Verdict.NOT_PROVEN),
    ),
)


def test_json_is_as_its_schema_says() -> None:
    schema = outputs.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    document = signing.sealed(REPORT)
    jsonschema.validate(document, schema)
    assert document["accepted"] is False
    assert [(c["name"], c["verdict"]) for c in document["checks"]] == [
        ("gangs", "passed"),
        ("rdma", "failed"),
        ("scaling", "failed"),
        ("restart", "not-proven"),
    ]
    assert json.loads(outputs.json_text(document)) == document


@pytest.mark.parametrize(
    "spoil",
    [
        {"accepted": "yes"},
        {"accepted": None},
        {"checks": [{"name": "gangs"}]},
        {"further": 1},
        {"asked": []},
    ],
)
def test_the_schema_refuses(spoil: dict[str, Any]) -> None:
    document = signing.sealed(REPORT) | spoil
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, outputs.schema())
    without = {k: v for k, v in signing.sealed(REPORT).items() if k not in spoil}
    if "further" not in spoil:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(without, outputs.schema())


def test_the_schema_knows_the_three_verdicts_alone() -> None:
    document = signing.sealed(REPORT)
    document["checks"][0]["verdict"] = "ok"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, outputs.schema())


def test_junit_counts_what_did_not_pass() -> None:
    suite = ElementTree.fromstring(outputs.junit(REPORT))[0]
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}
    results = {
        case.get("name"): [child.tag for child in case if child.tag != "system-out"]
        for case in suite
    }
    assert results == {
        "gangs": [],
        "rdma": ["failure"],
        "scaling": ["skipped"],
        "restart": ["error"],
    }
    skipped = suite.find("testcase/skipped")
    assert skipped is not None
    assert skipped.get("message") == "waived by Ada until 2027-01-01: two nodes"


def test_markdown_names_every_promise_and_is_not_led_astray() -> None:
    text = outputs.markdown(REPORT)
    assert "lab is not accepted" in text
    assert "| ❌ | rdma | failed | TCP &lt;script&gt;\\|x\\` |" in text
    assert "waived by Ada until 2027-01-01: two nodes" in text
    assert "### gangs" not in text
    # The evidence's own fence is shorter than the one around it.
    assert "`````\nlog\na ```` b" in text


@pytest.mark.parametrize(
    ("of", "code"),
    [
        ({"rdma"}, ExitCode.REFUSED),
        ({"gangs", "restart"}, ExitCode.UNPROVEN),
        ({"restart", "rdma"}, ExitCode.REFUSED),
        ({"slow-nodes"}, ExitCode.UNPROVEN),
    ],
)
def test_a_part_exits_by_its_own_verdicts(of: set[str], code: ExitCode) -> None:
    """One without a result was not proven."""
    with pytest.raises(typer.Exit) as ended:
        cli._end(REPORT, [], Console(quiet=True), of=frozenset(of))
    assert ended.value.exit_code == code


@pytest.mark.parametrize("of", [{"gangs"}, {"gangs", "scaling"}])
def test_a_part_that_stands_is_enough(of: set[str]) -> None:
    """A waiver stands as it does for the whole."""
    cli._end(REPORT, [], Console(quiet=True), of=frozenset(of))
