"""Every figure of a machine's, a fabric's and a mode's row was read again in its named source."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.catalog.machines import MACHINES
from railhead.fabric.kinds import FABRICS
from railhead.fabric.modes import MODES
from tests.unit.catalog import figures

PAGE = Path(__file__).resolve().parents[3] / "docs" / "catalogue-readings.yaml"
READINGS: dict[str, Any] = yaml.safe_load(PAGE.read_text())
ROWS = {
    "machines": {name: figures.of_machine(row) for name, row in MACHINES.items()},
    "fabrics": {name: figures.of_fabric(row) for name, row in FABRICS.items()},
    "modes": {name: found for name, row in MODES.items() if (found := figures.of_mode(row))},
}


@pytest.mark.parametrize("kind", ROWS)
def test_what_was_read_is_what_the_row_says(kind: str) -> None:
    """A figure that changes, comes or goes is read in its source first, and written down here."""
    read = {
        name: {figure: value for figure, (value, _) in row.items()}
        for name, row in READINGS[kind].items()
    }
    assert read == ROWS[kind]


def test_every_reading_says_where_and_when() -> None:
    for name, source in READINGS["sources"].items():
        assert set(source) == {"of", "at", "where", "read"}, name
        assert all(source.values()), name
        assert datetime.date.fromisoformat(source["read"]).year >= 2026, name
    assert all(READINGS["unread"].values())
    assert not set(READINGS["sources"]) & set(READINGS["unread"])


def test_readings_name_sources_that_are_there_and_all_are_used() -> None:
    used = Counter(
        where for kind in ROWS for row in READINGS[kind].values() for _, where in row.values()
    )
    assert set(used) == set(READINGS["sources"]) | set(READINGS["unread"])
    unread = sum(used[name] for name in READINGS["unread"])
    said = (PAGE.parent / "catalogue.md").read_text()
    assert f"Of {used.total()} figures {unread} could not be read again" in " ".join(said.split())


def test_a_plugin_and_all_of_its_profile_are_of_one_release() -> None:
    """The vendor's environment, as one thing: each enforced variable from the plugin's own tag."""
    [tag] = {
        source["at"] for name, source in READINGS["sources"].items() if name == "tcpxo-profile"
    }
    row = READINGS["fabrics"]["tcpxo"]
    assert row["plugin image"][0].endswith(f":{tag}")
    enforced = [v.name for v in FABRICS["tcpxo"].environment if "guest config checker" in v.source]
    assert len(enforced) == 14
    assert {row[name][1] for name in enforced} == {"tcpxo-profile"}
