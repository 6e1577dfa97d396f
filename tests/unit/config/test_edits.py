"""What an edit loses: told in words, stopped, and let through by name alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead import config
from railhead.base.errors import InputError, RefusedError
from railhead.config import edits
from railhead.contract import ClusterContract
from railhead.platform.registry import platform_of
from railhead.resolve.cluster import resolve
from tests.components.recording import lab_cluster

STACKS = Path(__file__).resolve().parents[3] / "stacks"
Change = Callable[[dict[str, Any]], None]


def contract(raw: dict[str, Any]) -> ClusterContract:
    return resolve(config.parse(raw, where="lab")).contract


def changed(change: Change) -> dict[str, Any]:
    raw = lab_cluster()
    change(raw)
    return raw


def held(change: Change, *removals: dict[str, Any], before: Change | None = None) -> str:
    """What is warned of; raises what is refused."""
    raw = changed(change)
    raw["removals"] = list(removals)
    old = lab_cluster()
    if before:
        before(old)
    cluster = config.parse(raw, where="lab")
    return edits.stop(contract(old), resolve(cluster).contract, cluster.removals)


def rename_claim(raw: dict[str, Any]) -> None:
    raw["checkpoints"][0]["name"] = raw["runtimes"][0]["checkpoint"] = "weights"


def remove_claim(raw: dict[str, Any]) -> None:
    raw["checkpoints"] = []
    del raw["runtimes"][0]["checkpoint"]


def rename_namespace(raw: dict[str, Any]) -> None:
    raw["namespaces"] = ["research"]
    for row in (*raw["queues"], *raw["checkpoints"]):
        row["namespace"] = "research"


def rename_queue(raw: dict[str, Any]) -> None:
    raw["queues"][0]["name"] = "everyone"


def move_queue(raw: dict[str, Any]) -> None:
    raw["queues"][0]["cluster_queue"] = "other"


def rename_pool(raw: dict[str, Any]) -> None:
    raw["pools"][0]["name"] = raw["runtimes"][0]["pool"] = "big"
    raw["queues"][0]["pools"] = ["big"]


def select_otherwise(raw: dict[str, Any]) -> None:
    raw["pools"][0]["node_selector"]["team"] = "nlp"


def other_levels(raw: dict[str, Any]) -> None:
    raw["topology"] = raw["topology"][1:]


def shrink(raw: dict[str, Any]) -> None:
    raw["checkpoints"][0]["size"] = "9Gi"


def other_class(raw: dict[str, Any]) -> None:
    raw["checkpoints"][0]["storage_class"] = "fast"


def other_trainer(raw: dict[str, Any]) -> None:
    raw["versions"] = "lab-trainer-2.2"


CLAIM = {"kind": "checkpoint", "name": "training/checkpoints", "loses": ["data"]}
NAMESPACE = {"kind": "namespace", "name": "training", "loses": ["jobs"]}
QUEUE = {"kind": "queue", "name": "training/training", "loses": ["jobs"]}
POOL = {"kind": "pool", "name": "gpu", "loses": ["jobs", "quota"]}
RESHAPED = {"kind": "pool", "name": "gpu", "loses": ["jobs"]}
PLACED = {"kind": "cluster", "name": "lab", "loses": ["jobs"]}
EDITS: dict[str, tuple[Change, str, list[dict[str, Any]]]] = {
    "claim renamed": (rename_claim, "write `name: weights` and `claim: checkpoints`", [CLAIM]),
    "claim removed": (remove_claim, "(10Gi) would no longer be the stack's", [CLAIM]),
    "namespace renamed": (
        rename_namespace,
        "namespace training would go, with every job that runs or waits in it",
        [NAMESPACE, CLAIM],
    ),
    "queue renamed": (rename_queue, "everyone would be a new queue", [QUEUE]),
    "cluster queue renamed": (move_queue, "from cluster queue training to other", [QUEUE]),
    "pool renamed": (rename_pool, "big would be a new pool over the same nodes", [POOL]),
    "pool selects otherwise": (select_otherwise, "would be counted anew", [RESHAPED]),
    "another placement field": (other_trainer, "by runtimePatches instead of", [PLACED]),
    "topology": (other_levels, "would be counted anew", [RESHAPED]),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_that_loses_something_stops_until_each_object_is_named(name: str) -> None:
    change, told, entries = EDITS[name]
    with pytest.raises(RefusedError) as stopped:
        held(change)
    assert told in str(stopped.value)
    assert "nothing was changed" in str(stopped.value)
    for entry in entries:
        loses = ", ".join(entry["loses"])
        line = f"- {{kind: {entry['kind']}, name: {entry['name']}, loses: [{loses}]}}"
        assert line in str(stopped.value), stopped.value
    # Each by itself: one short is not enough, nor is another's name or less than is lost.
    for left_out in entries:
        with pytest.raises(RefusedError, match=left_out["name"]):
            held(change, *(e for e in entries if e is not left_out))
    other = [{**e, "name": f"{e['name']}x"} for e in entries]
    with pytest.raises(RefusedError):
        held(change, *other)
    assert held(change, *entries) == ""


def test_what_cannot_be_done_at_all_no_entry_allows() -> None:
    for change, told in ((shrink, "cannot shrink from 10Gi to 9Gi"), (other_class, "cannot move")):
        with pytest.raises(RefusedError, match=told) as stopped:
            held(change)
        assert "under `removals`" not in str(stopped.value)
        with pytest.raises(RefusedError, match=told):
            held(change, CLAIM)


@pytest.mark.parametrize("field", ["name", "platform"])
def test_another_cluster_is_no_edit(field: str) -> None:
    old = contract(lab_cluster())
    other = "cluster" if field == "name" else field
    with pytest.raises(RefusedError, match="made a second time") as stopped:
        edits.stop(old, old.model_copy(update={other: "other"}), ())
    assert "another cluster is another stack's file" in str(stopped.value)


def test_fewer_nodes_are_warned_of() -> None:
    def fewer(raw: dict[str, Any]) -> None:
        raw["pools"][0]["nodes"] = 1

    assert "pool gpu: 1 nodes in place of 2" in held(fewer)


def test_a_runtime_that_jobs_may_hold_is_warned_of() -> None:
    def rename(raw: dict[str, Any]) -> None:
        raw["runtimes"][0]["name"] = "other"

    assert f"runtime {lab_cluster()['runtimes'][0]['name']}: goes once no TrainJob" in held(rename)


Stack = tuple[str, Change, str]
SYSTEMS: dict[str, Stack] = {
    "efa off": (
        "aws-p5en-block",
        lambda raw: raw["platform"]["storage"][0].update(efa=False),
        "efa True to False",
    ),
    "fewer operations": (
        "aws-p5-prod",
        lambda raw: raw["platform"]["storage"][0]["metadata"].update(iops=6000),
        "metadata.iops down from 12000 to 6000",
    ),
    "another VPC": (
        "aws-p5en-block",
        lambda raw: raw["platform"]["network"].update(vpc_id="vpc-0a1b2c3d4e5f60719"),
        "network vpc-0a1b2c3d4e5f60718 to vpc-0a1b2c3d4e5f60719",
    ),
    "another tier": (
        "gcp-a3-mega",
        lambda raw: raw["platform"]["storage"][0].update(tier="regional"),
        "tier zonal to regional",
    ),
    "another bucket": (
        "gcp-a3-ultra",
        lambda raw: raw["platform"]["storage"][1].update(bucket="other"),
        "bucket railhead-training-a3-ultra-datasets to other",
    ),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_file_system_that_would_be_made_anew_is_data_lost(name: str) -> None:
    stack, change, told = SYSTEMS[name]
    raw = yaml.safe_load((STACKS / f"Pulumi.{stack}.yaml").read_text())
    raw = raw["config"]["railhead:cluster"]
    old = config.parse(raw, where=stack)
    change(raw)
    new = config.parse(raw, where=stack)
    platform = platform_of(old)
    systems = edits.FileSystems(
        before=json.loads(json.dumps(platform.file_systems(old))),
        after=platform.file_systems(new),
    )
    before, after = resolve(old).contract, resolve(new).contract
    with pytest.raises(RefusedError, match=re.escape(told)) as stopped:
        edits.stop(before, after, (), systems)
    assert "{kind: checkpoint, name: training/" in str(stopped.value)
    # What an older stack did not say is not held against anything.
    assert edits.stop(before, after, (), edits.FileSystems(after=systems.after)) == ""


def test_a_file_system_may_grow() -> None:
    raw = yaml.safe_load((STACKS / "Pulumi.aws-p5-prod.yaml").read_text())
    raw = raw["config"]["railhead:cluster"]
    old = config.parse(raw, where="x")
    raw["platform"]["storage"][0].update(capacity_gib=57600)
    new = config.parse(raw, where="x")
    platform = platform_of(old)
    systems = edits.FileSystems(before=platform.file_systems(old), after=platform.file_systems(new))
    assert edits.stop(resolve(old).contract, resolve(new).contract, (), systems) == ""


def test_less_than_is_lost_is_no_permission() -> None:
    with pytest.raises(RefusedError, match="pool gpu"):
        held(rename_pool, {**POOL, "loses": ["quota"]})


def test_an_entry_that_no_longer_applies_is_told_or_refused() -> None:
    assert "checkpoint training/old" in held(
        lambda _: None, {"kind": "checkpoint", "name": "training/old", "loses": ["data"]}
    )
    for entry in (CLAIM, NAMESPACE, QUEUE, POOL, PLACED):
        with pytest.raises(RefusedError, match="would let a later one do so"):
            held(lambda _: None, entry)


def test_a_claim_is_renamed_in_the_file_and_stays_what_it_is() -> None:
    def rename(raw: dict[str, Any]) -> None:
        rename_claim(raw)
        raw["checkpoints"][0]["claim"] = "checkpoints"

    assert held(rename) == ""
    old, new = contract(lab_cluster()), contract(changed(rename))
    assert new.checkpoints == old.checkpoints
    assert new.runtimes[0].pod == old.runtimes[0].pod


def grow(raw: dict[str, Any]) -> None:
    raw["checkpoints"][0]["size"] = "20Gi"
    raw["pools"][0]["nodes"] = 3
    raw["namespaces"].append("second")
    raw["checkpoints"].append({**raw["checkpoints"][0], "namespace": "second"})
    raw["queues"].append({**raw["queues"][0], "namespace": "second"})


def test_what_only_adds_is_no_loss() -> None:
    assert held(grow) == ""


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({**CLAIM, "name": "checkpoints"}, "named by namespace/name"),
        ({**NAMESPACE, "name": "a/b"}, "named by its name alone"),
        ({**CLAIM, "loses": []}, "is empty"),
        ({**CLAIM, "kind": "secret"}, "'secret' is not allowed"),
    ],
)
def test_a_malformed_entry_is_a_mistake(entry: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        config.parse({**lab_cluster(), "removals": [entry]}, where="lab")
