"""The labelled real logs of the project's instructions: a measured floor for each word."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from railhead.diagnose import read

LOGS = Path(__file__).resolve().parents[4] / "shared" / "nccl-logs"
# What is right of 46, as measured; and what is claimed and wrong. The transport of verbs is right
# where its link layer is, or is not claimed. The wrong one is labelled ib and prints a GID, which
# NCCL does for Ethernet ports only.
RIGHT = {"transport": 40, "gdr": 46, "verdict": 40}
WRONG = {"transport": 1, "gdr": 0, "verdict": 2}
# Two tables of 3 GB/s are labelled ok, and no line tells the rate of their NICs.
NO_CLAIM = ("unknown", "other", "measured", "libfabric")


@pytest.mark.skipif(not LOGS.is_dir(), reason=f"no labelled logs in {LOGS.name}")
def test_labelled_logs_are_read_as_labelled() -> None:
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    with (LOGS / "INDEX.tsv").open() as index:
        rows = list(csv.DictReader(index, delimiter="\t"))
    for row in rows:
        reading = read([LOGS / row["file"]])
        for key in RIGHT:
            got = getattr(reading, key)
            good = got == row[key] or (got == "verbs" and row[key] in ("ib", "roce"))
            right[key] += good
            wrong[key] += not good and got not in NO_CLAIM
    assert len(rows) == 46
    assert {key: right[key] >= floor for key, floor in RIGHT.items()} == dict.fromkeys(RIGHT, True)
    assert {key: wrong[key] <= most for key, most in WRONG.items()} == dict.fromkeys(WRONG, True)
