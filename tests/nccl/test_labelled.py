"""The labelled set is in order, and the reader does not fall behind what was measured."""

from __future__ import annotations

import hashlib
import importlib.util
import ipaddress
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from railhead.diagnose.knowledge import CAUSES
from tests.unit.nccl.words import WORDS

HERE = Path(__file__).resolve().parent
COLUMNS = [
    "file",
    "source",
    "nccl_version",
    "transport",
    "gdr",
    "verdict",
    "root_cause_confirmed",
    "root_cause",
    "fix",
    "fidelity",
    "cause",
]
VOCABULARY = WORDS | {
    "root_cause_confirmed": {"yes", "no", "partial"},
}


@cache
def evaluation() -> ModuleType:
    """`evaluate.py` is a program beside the logs, in no package."""
    spec = importlib.util.spec_from_file_location("nccl_evaluate", HERE / "evaluate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@cache
def measured() -> dict[str, dict[str, dict[str, Any]]]:
    table: dict[str, dict[str, dict[str, Any]]] = evaluation().evaluate()
    return table


# -- the set --------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["tune", "held_out"])
def test_the_index_names_every_log_and_nothing_else(part: str) -> None:
    rows = evaluation().index(HERE / part)
    assert list(rows[0]) == COLUMNS
    assert sorted(row["file"] for row in rows) == sorted(
        p.name for p in (HERE / part).glob("*.log")
    )
    for row in rows:
        for column, words in VOCABULARY.items():
            assert row[column] in words, (row["file"], column)
        assert all(row[column].strip() for column in COLUMNS), row["file"]
        if row["root_cause_confirmed"] == "no":
            assert row["cause"] == "null", row["file"]


@pytest.mark.parametrize("part", ["tune", "held_out"])
def test_a_logs_name_decides_its_part(part: str) -> None:
    for path in (HERE / part).glob("*.log"):
        aside = hashlib.sha256(path.name.encode()).digest()[0] % 5 < 2
        assert aside == (part == "held_out"), path.name


def test_no_number_is_used_twice() -> None:
    numbers = Counter(p.name.split("-")[0] for p in HERE.glob("*/*.log"))
    assert [number for number, count in numbers.items() if count > 1] == []


def test_causes_are_of_the_knowledge_base() -> None:
    known = {cause.id for cause in CAUSES.values()} | {"null"}
    for part in ("tune", "held_out"):
        for row in evaluation().index(HERE / part):
            assert row["cause"] in known, (row["file"], row["cause"])
    for line in (HERE / "shared-causes.tsv").read_text().splitlines()[1:]:
        assert line.split("\t")[1] in known


def test_logs_are_anonymous() -> None:
    """Addresses are of private and documentation ranges; there are no keys and no accounts."""
    for path in HERE.glob("*/*.log"):
        text = path.read_text(encoding="utf-8")
        for item in re.findall(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])", text):
            assert ipaddress.ip_address(item).is_private, (path.name, item)
        assert not re.search(r"AKIA[0-9A-Z]{16}|BEGIN [A-Z ]*PRIVATE KEY|@[\w-]+\.(com|org)", text)


def test_the_set_is_broad() -> None:
    rows = [row for part in ("tune", "held_out") for row in evaluation().index(HERE / part)]
    assert len(rows) >= 180
    for column in ("transport", "gdr", "verdict"):
        # EFA without a line that names it is libfabric, which no thread says of its own log.
        assert {row[column] for row in rows} == VOCABULARY[column] - {"libfabric"}
    assert len({row["cause"] for row in rows} - {"null"}) >= 60
    aside = len(evaluation().index(HERE / "held_out"))
    # It stays as it is while the other part grows.
    assert 0.3 <= aside / len(rows) <= 0.5


# -- the evaluation -------------------------------------------------------------------------------


def test_the_part_kept_aside_is_never_listed() -> None:
    with pytest.raises(ValueError, match="kept aside"):
        evaluation().misreadings("held_out")


@pytest.mark.slow
def test_no_figure_of_the_part_kept_aside_is_of_one_or_two_logs() -> None:
    module = evaluation()
    for rows in measured().values():
        for label, row in rows.items():
            if "held_out" in row and label not in module.WHOLES:
                assert row["held_out"].support >= module.FEW, label


def test_precision_and_recall_by_hand() -> None:
    module = evaluation()
    pairs = [("ib", "ib"), ("ib", "roce"), ("roce", "roce"), ("efa", "unknown"), ("unknown", "ib")]
    results = [
        module.Result(
            log=module.Labelled(path=Path("x"), labels={"transport": wanted}),
            got={"transport": got},
        )
        for wanted, got in pairs
    ]
    scores = module.score(results, "transport")
    assert (scores["ib"].precision, scores["ib"].recall) == (0.5, 0.5)
    assert (scores["roce"].precision, scores["roce"].recall) == (0.5, 1.0)
    assert (scores["efa"].precision, scores["efa"].recall, scores["efa"].silent) == (None, 0.0, 1)
    assert "unknown" not in scores
    # Four are there to claim and two are right; four are claimed and two are wrong.
    assert (scores["all"].precision, scores["all"].recall) == (0.5, 0.5)


def test_a_problem_of_another_kind_is_a_problem_seen() -> None:
    module = evaluation()
    pairs = [("ok", "ok"), ("ok", "other"), ("hang", "ok"), ("hang", "timeout"), ("other", "other")]
    results = [
        module.Result(
            log=module.Labelled(path=Path("x"), labels={"verdict": wanted}), got={"verdict": got}
        )
        for wanted, got in pairs
    ]
    result = module.alarms(results)
    assert result.recall == result.precision == pytest.approx(2 / 3)


# Measured on 2026-11-21 and lowered a little, so that one log more or less is no failure:
# (part, dimension) -> the least precision and the least recall. Raise them when they were passed.
FLOORS: dict[tuple[str, str], tuple[float, float]] = {
    # Two low results that their authors call ok are only measured: no line tells a rate.
    ("shared", "verdict"): (0.88, 0.86),
    ("shared", "problem"): (0.96, 0.94),
    # InfiniBand and Ethernet apart only where a line tells; the kind is held to what it was.
    ("shared", "transport"): (0.93, 0.55),
    ("shared", "kind"): (0.96, 0.82),
    ("shared", "gdr"): (0.93, 0.93),
    ("shared", "cause"): (0.88, 0.80),
    ("tune", "verdict"): (0.88, 0.88),
    ("tune", "problem"): (0.97, 0.93),
    ("tune", "transport"): (0.97, 0.86),
    ("tune", "kind"): (0.97, 0.98),
    ("tune", "gdr"): (0.95, 0.95),
    ("tune", "cause"): (0.90, 0.80),
    ("held_out", "verdict"): (0.72, 0.72),
    ("held_out", "problem"): (0.94, 0.90),
    ("held_out", "transport"): (0.92, 0.67),
    ("held_out", "kind"): (0.93, 0.83),
    ("held_out", "gdr"): (0.87, 0.87),
    ("held_out", "cause"): (0.76, 0.66),
}


@pytest.mark.slow
@pytest.mark.parametrize(("part", "dimension"), sorted(FLOORS))
def test_quality_does_not_fall(part: str, dimension: str) -> None:
    table = measured()
    within = {"problem": "verdict", "kind": "transport"}
    whole = table[within.get(dimension, dimension)][dimension if dimension in within else "all"]
    result = whole.get(part)
    if result is None:
        pytest.skip("the given logs (../shared/nccl-logs) are not on this machine")
    precision, recall = FLOORS[(part, dimension)]
    assert result.precision >= precision
    assert result.recall >= recall


@pytest.mark.slow
def test_the_documentation_shows_what_is_measured() -> None:
    module = evaluation()
    if not module.PAGE.is_file():
        pytest.skip(f"{module.PAGE.name} is not written yet")
    text = module.PAGE.read_text(encoding="utf-8")
    assert module.page_with(text, measured()) == text, "run `make nccl-eval WRITE=1`"
