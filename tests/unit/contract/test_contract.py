"""The contract's compatibility rule, held against contracts as they were once published."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from railhead.base.errors import ExitCode, InputError, NotFoundError
from railhead.contract import ClusterContract
from railhead.contract.migrations import MIGRATIONS, SCHEMA_VERSION

EXAMPLES = sorted((Path(__file__).parent / "examples").glob("v*.json"))


#: Version -> what it took away, each with where its meaning went.
GONE = {
    3: {
        # Of the first pool's whole node; now in each runtime's `shares` and `pod`.
        "fabric.device_resources",
        "fabric.hugepages_mib",
        "fabric.annotations",
        "fabric.claim",
    }
}


def read(path: Path) -> ClusterContract:
    return ClusterContract.from_json(path.read_text(), where=path.name)


def _version(path: Path) -> int:
    version: int = json.loads(path.read_text())["schema_version"]
    return version


def test_there_is_an_example_of_every_version() -> None:
    versions = {json.loads(path.read_text())["schema_version"] for path in EXAMPLES}
    assert versions == set(range(1, SCHEMA_VERSION + 1))
    assert all(path.name.startswith(f"v{_version(path)}-") for path in EXAMPLES)


def test_there_is_a_step_from_every_older_version() -> None:
    assert set(MIGRATIONS) == set(range(1, SCHEMA_VERSION))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_an_older_contract_is_read_whole(path: Path) -> None:
    published: dict[str, Any] = json.loads(path.read_text())
    contract = read(path)
    assert contract.schema_version == SCHEMA_VERSION
    now = contract.model_dump(mode="json")
    gone = {
        field for version, fields in GONE.items() if _version(path) < version for field in fields
    }
    for field, value in published.items():
        if field != "schema_version":
            _within(value, now[field], field, gone)


def _within(old: Any, new: Any, path: str, gone: set[str]) -> None:
    """Everything that was published then is said now, but what is gone; more may be."""
    if isinstance(old, dict):
        assert isinstance(new, dict), path
        for key, value in old.items():
            if f"{path}.{key}" not in gone:
                assert key in new, f"{path}.{key}"
                _within(value, new[key], f"{path}.{key}", gone)
    elif isinstance(old, list):
        assert len(old) == len(new), path
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            _within(before, after, f"{path}[{index}]", gone)
    else:
        assert old == new, path


@pytest.mark.parametrize("path", [p for p in EXAMPLES if _version(p) < 3], ids=lambda p: p.name)
def test_devices_of_a_fabric_become_those_of_its_runtimes(path: Path) -> None:
    published = json.loads(path.read_text())
    contract = read(path)
    devices = {k: str(v) for k, v in published["fabric"]["device_resources"].items()}
    # Of several pools nobody said which is whose.
    only = contract.node_pools[0] if len(contract.node_pools) == 1 else None
    assert set(contract.device_resources) == (set(devices) if only else set())
    for runtime in contract.runtimes:
        own = {only.gpu_resource: str(runtime.gpus_per_node)} | devices if only else {}
        assert runtime.devices == own
        assert runtime.pool is None, "it was never said"
    assert contract.placement_field is None
    assert contract.standing is (contract.platform in ("lab", "existing"))


@pytest.mark.parametrize("part", ["fabric", "node_pools", "runtimes"])
@pytest.mark.parametrize("value", [None, 3, "x", [], {}, [3], [{}], {"device_resources": [1]}])
def test_malformed_old_contract_is_refused_without_traceback(part: str, value: Any) -> None:
    data = json.loads(EXAMPLES[0].read_text()) | {part: value}
    with contextlib.suppress(InputError):
        ClusterContract.from_data(data, where="x")


def test_a_runtime_says_what_its_pods_are() -> None:
    contract = read(next(p for p in EXAMPLES if p.name == "v3-aws-p5-prod.json"))
    runtime = contract.runtime("torch")
    assert contract.pool(runtime).name == "h100"
    assert runtime.trainer["image"] == runtime.image
    assert runtime.environment["NCCL_NET"] == "AWS Libfabric"
    assert runtime.reserved["NCCL_NET"] == "the cluster's fabric"
    assert runtime.devices["vpc.amazonaws.com/efa"] == "32"
    assert {s.gpus: s.requests["vpc.amazonaws.com/efa"] for s in runtime.shares}[2] == "8"
    assert runtime.checkpoint is not None
    assert (runtime.checkpoint.claim, runtime.checkpoint.path) == ("checkpoints", "/checkpoints")
    assert contract.device_resources == ("vpc.amazonaws.com/efa",)
    assert contract.fabric.proofs


def test_whole_numbers_of_a_pod_stay_whole_in_a_stacks_output() -> None:
    """A pod rendered with 120.0 seconds would be refused by the API server."""
    path = next(p for p in EXAMPLES if p.name == "v3-aws-p5-prod.json")
    read_back = ClusterContract.from_data(json.loads(path.read_text(), parse_int=float), where="x")
    assert read_back.to_json() == read(path).to_json()


def test_fields_of_a_newer_stack_are_let_pass() -> None:
    data = json.loads(EXAMPLES[-1].read_text())
    data["weather"] = "fair"
    data["fabric"]["colour"] = "green"
    data["node_pools"][0]["altitude"] = 3
    assert ClusterContract.from_data(data, where="x") == read(EXAMPLES[-1])


def test_contract_survives_writing_and_reading() -> None:
    contract = read(EXAMPLES[-1])
    assert ClusterContract.from_json(contract.to_json(), where="x") == contract


def test_numbers_of_a_stack_output_are_floats() -> None:
    data = json.loads(EXAMPLES[-1].read_text(), parse_int=float)
    assert ClusterContract.from_data(data, where="x") == read(EXAMPLES[-1])


def test_a_newer_version_is_refused_by_its_number() -> None:
    data = json.loads(EXAMPLES[-1].read_text()) | {"schema_version": SCHEMA_VERSION + 1}
    with pytest.raises(InputError) as caught:
        ClusterContract.from_data(data, where="stack 'o/p/s'")
    assert caught.value.problem == (
        f"stack 'o/p/s': schema_version is {SCHEMA_VERSION + 1}, this Railhead reads 1 to "
        f"{SCHEMA_VERSION}"
    )
    assert "install the Railhead release" in caught.value.remedy


@pytest.mark.parametrize("version", [None, "2", 0, -1, True, 1.5, "newest", [], {}])
def test_contract_without_a_version_is_refused(version: Any) -> None:
    data = json.loads(EXAMPLES[-1].read_text()) | {"schema_version": version}
    with pytest.raises(InputError, match="schema_version is"):
        ClusterContract.from_data(data, where="x")


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '"text"', "{", "3"])
def test_other_text_is_refused_without_a_traceback(text: str) -> None:
    with pytest.raises(InputError) as caught:
        ClusterContract.from_json(text, where="x")
    assert caught.value.exit_code is ExitCode.BAD_INPUT


def test_mistakes_inside_a_contract_are_named() -> None:
    data = json.loads(EXAMPLES[-1].read_text())
    data["node_pools"][0]["nodes"] = "many"
    with pytest.raises(InputError, match=r"x: node_pools\.0\.nodes: "):
        ClusterContract.from_data(data, where="x")


def test_an_unknown_queue_and_runtime_name_those_there_are() -> None:
    contract = read(EXAMPLES[0])
    with pytest.raises(NotFoundError, match="there are: training"):
        contract.queue("trainign")
    with pytest.raises(NotFoundError, match="there are: torch"):
        contract.runtime("tensorflow")
