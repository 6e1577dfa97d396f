"""Logs of runs of our own with a GPU, each harmed by hand, so that what went wrong is known."""

from __future__ import annotations

import csv
from pathlib import Path

from railhead.diagnose import read

RUNS = Path(__file__).resolve().parent / "runs"
COLUMNS = ("transport", "gdr", "verdict", "cause")


def test_each_run_is_read_as_what_was_done_to_it() -> None:
    with (RUNS / "INDEX.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert sorted(row["file"] for row in rows) == sorted(p.name for p in RUNS.glob("*.log"))
    for row in rows:
        reading = read([RUNS / row["file"]])
        values = {name: claim.value for name, claim in reading.claims.items()}
        values["cause"] = reading.cause or "null"
        assert {name: values[name] for name in COLUMNS} == {name: row[name] for name in COLUMNS}, (
            row
        )
