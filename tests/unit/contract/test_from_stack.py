"""`ClusterContract.from_stack` in a program: what it gives, what stays secret, and what it says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime import test as pulumi_test

from railhead.base.errors import ExitCode, RailheadError
from railhead.contract import ClusterContract
from railhead.contract.reference import MissingOutputError, UnreadableContractError

EXAMPLES = Path(__file__).parent / "examples"
STACK = "organization/railhead/prod"
PUBLISHED = json.loads((EXAMPLES / "v3-aws-p5-prod.json").read_text(), parse_int=float)


class References(pulumi.runtime.Mocks):
    """Answers a stack reference as the engine does."""

    def __init__(self, outputs: dict[str, Any], secret: tuple[str, ...] = ()) -> None:
        self.outputs, self.secret = outputs, secret

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        assert args.typ == "pulumi:pulumi:StackReference"
        assert args.inputs["name"] == STACK
        answer = {"outputs": self.outputs, "secretOutputNames": list(self.secret)}
        return args.name, dict(args.inputs) | answer

    def call(
        self, args: pulumi.runtime.MockCallArgs
    ) -> tuple[dict[Any, Any], list[tuple[str, str]] | None]:
        raise AssertionError(args.token)


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """Pulumi's mocks want a current event loop, which ``asyncio.run`` elsewhere has taken away."""
    mine = asyncio.new_event_loop()
    asyncio.set_event_loop(mine)
    yield
    asyncio.set_event_loop(None)
    mine.close()


@pytest.mark.parametrize("second", ["again", "named", "optioned", "own"])
def test_a_stack_is_read_twice_in_one_program(second: str) -> None:
    registered: list[str] = []

    class Engine(References):
        def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
            assert args.name not in registered, f"Duplicate resource URN of {args.name}"
            registered.append(args.name)
            return super().new_resource(args)

    def body() -> pulumi.Output[Any]:
        own = pulumi.StackReference("mine", stack_name=STACK)
        first = ClusterContract.from_stack(STACK)
        cases: dict[str, dict[str, Any]] = {
            "again": {},
            "named": {"name": "other"},
            "optioned": {"name": "other", "opts": pulumi.ResourceOptions(parent=own)},
            "own": {"reference": own},
        }
        twice = ClusterContract.from_stack(STACK, **cases[second])
        assert (twice.reference is first.reference) == (second == "again")
        assert (twice.reference is own) == (second == "own")
        return pulumi.Output.all(first.contract, twice.contract)

    contracts, _ = program({"contract": PUBLISHED}, body, engine=Engine)
    assert [contract.cluster for contract in contracts] == ["p5-prod", "p5-prod"]
    extra = {"named": ["other"], "optioned": ["other"]}.get(second, [])
    assert sorted(registered) == sorted(["mine", STACK, *extra])


def program(
    outputs: dict[str, Any],
    body: Callable[[], pulumi.Output[Any]],
    *,
    secret: tuple[str, ...] = (),
    preview: bool = False,
    engine: type[References] = References,
) -> tuple[Any, bool]:
    """Return what ``body``'s output holds in a program whose other stack has ``outputs``."""
    pulumi.runtime.set_mocks(engine(outputs, secret), project="consumer", preview=preview)
    seen: list[tuple[Any, bool]] = []

    async def settled(output: pulumi.Output[Any]) -> None:
        value: Awaitable[Any] = output.future()
        seen.append((await value, await output.is_secret()))

    @pulumi_test
    def run() -> pulumi.Output[Any]:
        output = body()
        return pulumi.Output.from_input(settled(output))

    run()
    [result] = seen
    return result


@pytest.mark.parametrize("preview", [False, True])
def test_the_contract_is_there_in_preview_as_well(preview: bool) -> None:
    contract, secret = program(
        {"contract": PUBLISHED, "kubeconfig": "{}"},
        lambda: ClusterContract.from_stack(STACK).contract,
        secret=("kubeconfig",),
        preview=preview,
    )
    assert isinstance(contract, ClusterContract)
    assert contract.cluster == "p5-prod"
    assert contract.fabric.nics_per_node == 32
    assert not secret, "the contract must not become a secret because the kubeconfig is one"


def test_an_older_contract_is_read() -> None:
    older = json.loads((EXAMPLES / "v1-lab.json").read_text(), parse_int=float)
    contract, _ = program({"contract": older}, lambda: ClusterContract.from_stack(STACK).contract)
    assert contract.cluster == "lab"


def test_another_key() -> None:
    contract, _ = program(
        {"training": PUBLISHED}, lambda: ClusterContract.from_stack(STACK, key="training").contract
    )
    assert contract.cluster == "p5-prod"


def test_the_kubeconfig_stays_a_secret() -> None:
    kubeconfig, secret = program(
        {"contract": PUBLISHED, "kubeconfig": "apiVersion: v1"},
        lambda: ClusterContract.from_stack(STACK).kubeconfig,
        secret=("kubeconfig",),
    )
    assert (kubeconfig, secret) == ("apiVersion: v1", True)


def test_a_detail_of_the_platform() -> None:
    vpc, secret = program(
        {"contract": PUBLISHED}, lambda: ClusterContract.from_stack(STACK).detail("vpc_id")
    )
    assert (vpc, secret) == ("vpc-0123456789abcdef0", False)


@pytest.mark.parametrize("preview", [False, True])
def test_a_missing_output_names_those_there_are(preview: bool) -> None:
    with pytest.raises(MissingOutputError) as caught:
        program(
            {"endpoint": "x", "kubeconfig": "y"},
            lambda: ClusterContract.from_stack(STACK).contract,
            secret=("kubeconfig",),
            preview=preview,
        )
    error = caught.value
    assert isinstance(error, RailheadError)
    assert isinstance(error, pulumi.RunError), "or the engine prints a traceback"
    assert error.exit_code is ExitCode.NOT_FOUND
    assert f"stack {STACK!r} has no output 'contract'; there are: endpoint, kubeconfig" in str(
        error
    )
    assert "pulumi up" in str(error)


def test_a_stack_without_outputs_says_so() -> None:
    with pytest.raises(MissingOutputError, match="there are: none; it was never deployed"):
        program({}, lambda: ClusterContract.from_stack(STACK).contract)


def test_a_missing_detail_names_those_there_are() -> None:
    with pytest.raises(MissingOutputError, match="has no detail 'vpcid'; there are: vpc_id"):
        program({"contract": PUBLISHED}, lambda: ClusterContract.from_stack(STACK).detail("vpcid"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (PUBLISHED | {"schema_version": 9.0}, "schema_version is 9, this Railhead reads 1 to 3"),
        ({"schema_version": 2.0}, "Field required"),
        ("text", "schema_version is None"),
    ],
)
def test_an_unreadable_contract_is_an_error_of_its_own(data: Any, said: str) -> None:
    with pytest.raises(UnreadableContractError, match=said) as caught:
        program({"contract": data}, lambda: ClusterContract.from_stack(STACK).contract)
    assert STACK in str(caught.value)
    assert isinstance(caught.value, pulumi.RunError)
