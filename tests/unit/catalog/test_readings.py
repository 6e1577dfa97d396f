"""Every figure of a row names the reading that confirmed it last."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.fabric.kinds import FABRICS
from railhead.fabric.modes import MODES
from railhead.machines import SHIPPED
from railhead.machines.rows import readings
from tests.unit.catalog import figures

REPO = Path(__file__).resolve().parents[3]
READINGS = readings()
FABRICS_READ: dict[str, Any] = yaml.safe_load((REPO / "railhead/fabric/readings.yaml").read_text())
FIGURES = {
    "fabrics": {name: figures.of_fabric(row) for name, row in FABRICS.items()},
    "modes": {name: figures.of_mode(row) for name, row in MODES.items() if figures.of_mode(row)},
}


def used() -> Counter[str]:
    """Return how often each reading is named."""
    names = Counter(name for row in SHIPPED.values() for name in row.readings.values())
    names.update(measured.reading for row in SHIPPED.values() for measured in row.published)
    names.update(
        name for kind in FABRICS_READ.values() for row in kind.values() for name in row.values()
    )
    return names


def test_every_figure_of_a_machine_names_its_reading() -> None:
    for machine in SHIPPED.values():
        asked = {name for name in figures.of_machine(machine) if not name.startswith("published ")}
        assert set(machine.readings) == asked, (
            f"{machine.name}: `readings` of its row in railhead/machines/rows/ and its figures "
            f"differ in {sorted(asked ^ set(machine.readings))}"
        )


@pytest.mark.parametrize("kind", FIGURES)
def test_every_figure_of_a_fabric_names_its_reading(kind: str) -> None:
    asked = {name: set(row) for name, row in FIGURES[kind].items()}
    read = {name: set(row) for name, row in FABRICS_READ[kind].items()}
    assert read == asked, f"railhead/fabric/readings.yaml names other {kind} than there are"


def test_every_reading_says_where_and_when() -> None:
    for name, source in READINGS["sources"].items():
        assert set(source) == {"of", "at", "where", "read"}, name
        assert all(source.values()), name
        assert datetime.date.fromisoformat(source["read"]).year >= 2026, name
    assert all(READINGS["unread"].values())
    assert not set(READINGS["sources"]) & set(READINGS["unread"])


def test_readings_exist_and_are_all_used() -> None:
    assert set(used()) == set(READINGS["sources"]) | set(READINGS["unread"])


def test_a_plugin_and_its_profile_are_of_one_release() -> None:
    """Each variable that the vendor's checker enforces is read at the plugin's own tag."""
    [tag] = {
        source["at"] for name, source in READINGS["sources"].items() if name == "tcpxo-profile"
    }
    assert FIGURES["fabrics"]["tcpxo"]["plugin image"].endswith(f":{tag}")
    enforced = [v.name for v in FABRICS["tcpxo"].environment if "guest config checker" in v.source]
    assert len(enforced) == 14
    assert {FABRICS_READ["fabrics"]["tcpxo"][name] for name in enforced} == {"tcpxo-profile"}
