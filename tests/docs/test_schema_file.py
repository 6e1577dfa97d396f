"""The JSON Schemas of the checkout, of stacks and of the contract, are what the models say."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from railhead.config.schema import FILE, text
from railhead.contract import ClusterContract
from railhead.contract import schema as published

REPO = Path(__file__).resolve().parents[2]


def test_the_schema_of_the_checkout_is_the_models_own() -> None:
    mended = "run `railhead config schema > stacks/stack.schema.json`"
    assert (REPO / FILE).read_text() == text(), mended


def test_the_schema_of_the_contract_is_the_models_own() -> None:
    mended = f"run `railhead config schema --contract > {published.FILE}`"
    assert (REPO / published.FILE).read_text() == published.text(), mended


def test_published_contracts_are_as_their_schema_says() -> None:
    validator = jsonschema.Draft202012Validator(published.contract_schema())
    validator.check_schema(published.contract_schema())
    for file in sorted((REPO / "tests/unit/contract/examples").glob("v3-*.json")):
        contract = json.loads(file.read_text())
        validator.validate(contract)
        whole = ClusterContract.from_json(file.read_text(), where=file.name)
        validator.validate(whole.model_dump(mode="json"))
        # A field of a newer stack is no mistake, a lost one is.
        validator.validate({**contract, "later": 1})
        del contract["fabric"]["kind"]
        with pytest.raises(jsonschema.ValidationError, match="'kind' is a required property"):
            validator.validate(contract)
