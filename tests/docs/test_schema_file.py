"""The JSON Schema that lies beside the stacks is what the models say."""

from __future__ import annotations

from pathlib import Path

from railhead.config.schema import FILE, text

REPO = Path(__file__).resolve().parents[2]


def test_the_schema_of_the_checkout_is_the_models_own() -> None:
    mended = "run `railhead config schema > stacks/stack.schema.json`"
    assert (REPO / FILE).read_text() == text(), mended
