"""State of the stack's last update: its outputs, its contract and adopted resources."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest

from railhead import contract
from railhead.base.errors import InputError
from railhead.components import last_update
from railhead.lab.recorders import answers
from tests.components.recording import (
    Recording,
    fake_lab,
    lab_cluster,
    recorded,
    run_program,
)

ASKED = "pulumi:pulumi:readStackOutputs"
LEFT = {"adopted": True, "kubeconfig": "a token", "note": "kept"}
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stacks whose outputs were asked for; each has what an earlier update left."""
    results: list[str] = []

    def answer(arguments: Any) -> dict[str, Any]:
        results.append(arguments["name"])
        return {"name": results[-1], "outputs": LEFT, "secretOutputNames": ["kubeconfig"]}

    monkeypatch.setitem(answers.ANSWERS, ASKED, answer)
    return results


def stack_outputs(recording: Recording) -> dict[str, Any]:
    (stack,) = recording.of_type("pulumi:pulumi:Stack")
    return recording.outputs[stack.urn]


def run(folder: Path, **program: Any) -> Recording:
    fake_lab(folder)
    return run_program(lab_cluster(), folder, **program)


def test_outputs_survive_an_empty_program(asked: list[str], tmp_path: Path) -> None:
    def program() -> None:
        assert last_update.outputs() == LEFT

    result = stack_outputs(run(tmp_path, program=program))
    (name,) = asked
    assert name.endswith("/railhead/lab")
    secret = result.pop("kubeconfig")
    assert result == {"adopted": True, "note": "kept"}
    assert secret == {**SECRET, "value": "a token"}


@pytest.mark.parametrize(("empty", "asks"), [(2, 3), (9, last_update.READS)])
def test_a_state_that_is_being_written_is_read_again(
    monkeypatch: pytest.MonkeyPatch, empty: int, asks: int
) -> None:
    asked = []

    def invoke(token: str, arguments: Any) -> Any:
        asked.append(arguments["name"])
        if len(asked) <= empty:
            raise RuntimeError(f"invoke of {token} failed: failed to load checkpoint: EOF")
        return SimpleNamespace(value={"outputs": LEFT})

    monkeypatch.setattr(last_update, "READ_SECONDS", 0.0)
    monkeypatch.setattr(pulumi.runtime, "invoke", invoke)
    monkeypatch.setattr(pulumi, "export", lambda *_: None)
    if empty < last_update.READS:
        assert last_update.outputs() == LEFT
    else:
        with pytest.raises(RuntimeError, match="EOF"):
            last_update.outputs()
    assert len(asked) == asks


def test_another_failure_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def invoke(*_: Any) -> Any:
        asked.append(1)
        raise RuntimeError("no such stack")

    monkeypatch.setattr(pulumi.runtime, "invoke", invoke)
    with pytest.raises(RuntimeError, match="no such stack"):
        last_update.outputs()
    assert len(asked) == 1


def test_what_was_taken_over_stays_so(asked: list[str], tmp_path: Path) -> None:
    adopting = run(tmp_path)
    (provider,) = adopting.of_type("pulumi:providers:kubernetes")
    assert provider.inputs["upsertExistingObjects"] == "true"
    assert stack_outputs(adopting)["adopted"] is True


def test_nothing_is_adopted_by_default() -> None:
    (usual,) = recorded("lab").of_type("pulumi:providers:kubernetes")
    assert "upsertExistingObjects" not in usual.inputs
    assert "adopted" not in stack_outputs(recorded("lab"))


def test_contract_is_read_and_a_broken_one_names_its_place() -> None:
    assert last_update.made({"note": "kept"}) is None
    (stack,) = recorded("lab").of_type("pulumi:pulumi:Stack")
    reported = recorded("lab").outputs[stack.urn]["contract"]
    assert last_update.made({contract.OUTPUT: reported}) == contract.ClusterContract.from_data(
        reported, where="the stack"
    )
    with pytest.raises(InputError, match="the stack's output 'contract'"):
        last_update.made({contract.OUTPUT: {"schema_version": 99}})


def test_details_have_a_name() -> None:
    published = {"cluster": "lab"}
    assert last_update.detailed(published, {"": "an id"}) == published
    assert last_update.detailed(published, {"": "an id", "vpc_id": "vpc-1"}) == {
        "cluster": "lab",
        "details": {"vpc_id": "vpc-1"},
    }
