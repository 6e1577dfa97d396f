"""A cache of its own for every test here."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.lab.artifacts.commands import Runner


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    root = tmp_path / "cache"
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setenv("RAILHEAD_CACHE", str(root))
    return root


@pytest.fixture
def runner() -> Runner:
    return Runner()
