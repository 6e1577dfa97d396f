"""An acceptance that comes again and again: every mistake is named where it was made."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.config import parse
from railhead.resolve.acceptance import acceptance, command
from tests.unit.config.test_config import WHERE, Raw, lab, mistakes, put

AT = "watching.acceptance"


def asking() -> Raw:
    raw = lab()
    raw["watching"] = {"kind": "files", "acceptance": {"image": "registry.example.com/railhead:1"}}
    return raw


@pytest.mark.parametrize(
    ("path", "value", "where", "words"),
    [
        ("schedule", "daily", f"{AT}.schedule", "five fields"),
        ("schedule", "0 3 * *", f"{AT}.schedule", "five fields"),
        ("schedule", "0 3 * * *\n", f"{AT}.schedule", "five fields"),
        ("checks", [], f"{AT}.checks", ""),
        ("checks", ["gangs"], f"{AT}.checks[0]", "rdma"),
        ("namespace", "trianing", f"{AT}.namespace", "did you mean 'training'?"),
        ("image", "railhead:latest", f"{AT}.image", "latest"),
        ("minutes", 5, f"{AT}.minutes", "10"),
    ],
)
def test_a_mistake_is_named(path: str, value: Any, where: str, words: str) -> None:
    raw = asking()
    parse(raw, where=WHERE)
    put(raw, f"{AT}.{path}", value)
    text = mistakes(raw)
    assert any(line.startswith(f"{where}: ") and words in line for line in text), text


def test_acceptance_without_watching_is_refused() -> None:
    raw = asking()
    raw["watching"]["kind"] = "none"
    assert any("nobody sees what it finds" in line for line in mistakes(raw))


def test_it_runs_what_is_asked_in_the_namespace_that_is_named() -> None:
    raw = asking()
    raw["watching"]["acceptance"]["checks"] = ["scaling"]
    wanted = acceptance(parse(raw, where=WHERE))
    assert wanted is not None
    asked = command(wanted)
    assert asked[asked.index("--only") + 1] == "scaling"
    assert asked[asked.index("--namespace") + 1] == "training"
    assert acceptance(parse(lab(), where=WHERE)) is None
