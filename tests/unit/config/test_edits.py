"""Losses of an edit: described in words, stopped, and allowed by name alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from railhead import config
from railhead.base.errors import InputError, RefusedError
from railhead.config import edits
from railhead.contract import ClusterContract
from railhead.model.removals import RemovalConfig
from railhead.model.teams import PRIORITIES
from railhead.platform.aws import user_data
from railhead.resolve.cluster import resolve
from tests.components.recording import lab_cluster
from tests.shipped import stack as read

STACKS = Path(__file__).resolve().parents[3] / "stacks"
Change = Callable[[dict[str, Any]], None]


def contract(raw: dict[str, Any]) -> ClusterContract:
    return _contract(json.dumps(raw))


@cache
def _contract(text: str) -> ClusterContract:
    return resolve(config.parse(json.loads(text), where="lab")).contract


def changed(change: Change) -> dict[str, Any]:
    raw = lab_cluster()
    change(raw)
    return raw


def held(change: Change, *removals: dict[str, Any], before: Change | None = None) -> str:
    """Return the warnings of a change; raise its refusal."""
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
    "pool selects otherwise": (select_otherwise, "would be counted again", [RESHAPED]),
    "another placement field": (other_trainer, "by runtimePatches instead of", [PLACED]),
    "topology": (other_levels, "would be counted again", [RESHAPED]),
}


@pytest.mark.parametrize("name", EDITS)
def test_losing_edit_stops_until_each_object_is_named(name: str) -> None:
    change, message, entries = EDITS[name]
    with pytest.raises(RefusedError) as stopped:
        held(change)
    assert message in str(stopped.value)
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
    warnings = held(change, *entries).splitlines()
    assert all("its pods change: TrainJobs of it that wait get none" in line for line in warnings)


def test_impossible_edits_are_refused_despite_entries() -> None:
    for change, message in (
        (shrink, "cannot shrink from 10Gi to 9Gi"),
        (other_class, "cannot move"),
    ):
        with pytest.raises(RefusedError, match=message) as stopped:
            held(change)
        assert "under `removals`" not in str(stopped.value)
        with pytest.raises(RefusedError, match=message):
            held(change, CLAIM)


@pytest.mark.parametrize("field", ["name", "platform"])
def test_another_cluster_is_not_an_edit(field: str) -> None:
    old = contract(lab_cluster())
    other = "cluster" if field == "name" else field
    with pytest.raises(RefusedError, match="made a second time") as stopped:
        edits.stop(old, old.model_copy(update={other: "other"}), ())
    assert "another cluster is another stack's file" in str(stopped.value)


def test_fewer_nodes_are_warned_of() -> None:
    def fewer(raw: dict[str, Any]) -> None:
        raw["pools"][0]["nodes"] = 1

    assert "pool gpu: 1 nodes in place of 2" in held(fewer)


def finished(days: int | None) -> Change:
    return lambda raw: raw.update(finished_days=days)


def test_another_time_that_finished_jobs_stay_is_warned_of() -> None:
    for days in (3, None):
        warning = f"finished_days: {days or 'null'} in place of 7: TrainJobs that wait get no pods"
        assert warning in held(finished(days))


def test_a_runtime_that_jobs_may_hold_is_warned_of() -> None:
    def rename(raw: dict[str, Any]) -> None:
        raw["runtimes"][0]["name"] = "other"

    assert f"runtime {lab_cluster()['runtimes'][0]['name']}: goes once no TrainJob" in held(rename)


def shipped(stack: str, *changes: Change) -> dict[str, Any]:
    cluster = read(stack)
    for change in changes:
        change(cluster)
    return cluster


def after(before: dict[str, Any], raw: dict[str, Any], *removals: dict[str, Any]) -> str:
    """Return the warnings after a contract that was a stack's output, without any null."""
    output = contract(before).model_dump(mode="json", exclude_none=True)
    made = ClusterContract.from_data(output, where="it")
    rows = [RemovalConfig.model_validate(row) for row in removals]
    return edits.stop(made, contract(raw), rows)


def platform(**fields: Any) -> Change:
    return lambda raw: raw["platform"].update(fields)


def network(**fields: Any) -> Change:
    return lambda raw: raw["platform"]["network"].update(fields)


def storage(row: int, **fields: Any) -> Change:
    return lambda raw: raw["platform"]["storage"][row].update(fields)


def pool(**fields: Any) -> Change:
    return lambda raw: raw["pools"][0].update(fields)


def open_(raw: dict[str, Any]) -> None:
    raw["platform"]["deletion_protection"] = False


def to_h200(raw: dict[str, Any]) -> None:
    raw["pools"][0]["instance_type"] = "p5e.48xlarge"


def without_shared(raw: dict[str, Any]) -> None:
    raw["platform"]["storage"].pop()
    raw["checkpoints"].pop()


def without_claim_on_lustre(raw: dict[str, Any]) -> None:
    raw["platform"]["storage"][0]["throughput"] = 500
    del raw["checkpoints"][0]
    for runtime in raw["runtimes"]:
        runtime["checkpoint"] = "shared"


def lone_burst(raw: dict[str, Any]) -> None:
    raw["queues"][0]["pools"].remove("h100-burst")
    raw["queues"].append({**raw["queues"][0], "name": "burst", "cluster_queue": "burst"})
    raw["queues"][1]["pools"] = ["h100-burst"]


NFS = {"kind": "storage", "name": "nfs", "loses": ["data"]}
ROCE = {"kind": "cluster", "name": "roce-shared", "loses": ["jobs"]}
LUSTRE = {"kind": "storage", "name": "lustre", "loses": ["data"]}
H200 = {"kind": "pool", "name": "h200", "loses": ["jobs"]}
H100 = {"kind": "pool", "name": "h100", "loses": ["jobs"]}
SHARED = {"kind": "checkpoint", "name": "training/shared", "loses": ["data"]}
ALL = ["data", "jobs", "quota"]
# Shipped stack, edit, message, what the file must say; nothing where it cannot be allowed.
BELOW: dict[str, tuple[str, Change, str, list[dict[str, Any]]]] = {
    "another throughput over EFA": (
        "aws-p5-prod",
        storage(0, throughput=500),
        "throughput 250 to 500",
        [],
    ),
    "a file system from a backup": (
        "aws-p5-prod",
        storage(0, backup="backup-0a1b2c3d4e5f60718"),
        "backup none to backup-0a1b2c3d4e5f60718",
        [],
    ),
    "another tier": (
        "gcp-a3-mega",
        storage(0, tier="regional"),
        "tier zonal to regional",
        [],
    ),
    "another bucket": (
        "gcp-a3-ultra",
        storage(1, bucket="other"),
        "bucket railhead-training-a3-ultra-datasets to other",
        [],
    ),
    "a file system whose claim goes": (
        "aws-p5-prod",
        without_claim_on_lustre,
        "throughput 250 to 500",
        [LUSTRE, {**SHARED, "name": "training/checkpoints"}],
    ),
    "a file system and its claim": (
        "aws-p5-prod",
        without_shared,
        "storage shared (of training/shared) would be deleted",
        [{**LUSTRE, "name": "shared"}, SHARED],
    ),
    "another machine": (
        "aws-p5-prod",
        to_h200,
        "instance_type p5.48xlarge to p5e.48xlarge",
        [H100],
    ),
    "another image": ("aws-p5-prod", pool(ami_release="1.35.3-20261015"), "the newest to", [H100]),
    "a larger disk": ("aws-p5-prod", pool(root_volume_gib=600), "root_volume_gib 500 to", [H100]),
    "fewer devices for Lustre": (
        "aws-p5-prod",
        pool(lustre_efa_devices=4),
        "devices of Lustre 8 to 4",
        [H100],
    ),
    "a disk of a type": (
        "gcp-a3-ultra",
        pool(disk_type="hyperdisk-balanced"),
        "disk_type none to hyperdisk-balanced",
        [H200],
    ),
    "labels of Google's bill": (
        "gcp-a3-ultra",
        platform(labels={"team": "research", "cost": "7"}),
        "platform.labels team=research to cost=7, team=research",
        [H200],
    ),
    "fewer nodes that are kept": (
        "gcp-a3-mega",
        pool(nodes=4),
        "nodes down from 8 to 4",
        [{**H100, "name": "h100-mega"}],
    ),
    "another VPC": (
        "aws-p5en-block",
        network(vpc_id="vpc-0a1b2c3d4e5f60719"),
        "network vpc-0a1b2c3d4e5f60718 to vpc-0a1b2c3d4e5f60719",
        [],
    ),
    "zones in another order": (
        "aws-p5-prod",
        network(availability_zones=[f"us-east-2{z}" for z in "acb"]),
        "zone 2 us-east-2b to us-east-2c, zone 3 us-east-2c to us-east-2b",
        [],
    ),
    "a zone less": (
        "aws-p5-prod",
        network(availability_zones=[f"us-east-2{z}" for z in "ab"]),
        "zones down from 3 to 2",
        [],
    ),
    "another project": ("gcp-a3-ultra", platform(project="railhead-other"), "project", []),
    "another range of pods": ("gcp-a3-ultra", network(pods="10.12.0.0/14"), "network.pods", []),
    "an older Kubernetes": (
        "aws-p5en-block",
        platform(kubernetes="1.34"),
        "Kubernetes minor down from 35 to 34",
        [],
    ),
    "functions of a NIC": (
        "onprem-ib-sriov",
        lambda raw: raw["fabric"]["sriov"].update(vfs=8),
        "fabric.sriov.vfs 1 to 8",
        [H100],
    ),
    "a container's driver for the host's": (
        "onprem-ib-sriov",
        lambda raw: raw["fabric"]["network_operator"].update(ofed={}),
        "NICs' driver (fabric.network_operator.ofed) the host's to a container's",
        [H100],
    ),
    "addresses of a node": (
        "onprem-roce-shared",
        lambda raw: raw["fabric"]["ipam"].update(per_node=24),
        "addresses of a node on each rail (fabric.ipam.per_node) 16 to 24",
        [H200],
    ),
    "more pods on a node": (
        "onprem-roce-shared",
        lambda raw: raw["fabric"].update(
            pods_per_node=4, ipam={"kind": "nv-ipam", "pool": "block"}
        ),
        "(fabric.ipam.per_node) 16 to 8",
        [H200],
    ),
    "a rail's subnet": (
        "onprem-roce-shared",
        lambda raw: raw["fabric"]["rails"][7].update(
            subnet="192.168.32.0/22", range_end="192.168.35.191"
        ),
        "subnet of rail rail-7 192.168.28.0/22 to 192.168.32.0/22",
        [H200],
    ),
    "a router of a rail": (
        "onprem-roce-shared",
        lambda raw: raw["fabric"]["rails"][0].update(gateway="192.168.3.190"),
        "subnet of rail rail-0 192.168.0.0/22 to 192.168.0.0/22 by a router",
        [H200],
    ),
    "a server of NFS": (
        "onprem-roce-shared",
        lambda raw: raw["platform"]["nfs"]["classes"][0].update(server="nfs2.example.com"),
        "server nfs.example.com to nfs2.example.com for new claims alone",
        [NFS],
    ),
    "no NFS": (
        "onprem-roce-shared",
        lambda raw: raw["platform"].pop("nfs"),
        "would no longer be there for claims",
        [NFS, ROCE],
    ),
    "an operator": (
        "onprem-roce-shared",
        lambda raw: raw.pop("gpu_operator"),
        "would no longer have gpu-operator, which jobs from before ask for",
        [ROCE],
    ),
    "a rail": (
        "onprem-roce-shared",
        lambda raw: raw["fabric"]["rails"][0].update(name="first"),
        "would no longer have rail-0,",
        [ROCE],
    ),
    "another scheduler": (
        "onprem-ib-sriov",
        lambda raw: raw.update(queueing={"scheduler": "volcano"}),
        "would be volcano's instead of kueue's",
        [{"kind": "cluster", "name": "ib-sriov", "loses": ["jobs", "quota"]}],
    ),
    "a queue's pool": (
        "gcp-a3-mega",
        lone_burst,
        "would no longer hand out h100-burst",
        [{"kind": "queue", "name": "training/training", "loses": ["jobs", "quota"]}],
    ),
    "another identity": (
        "onprem-ib-sriov",
        platform(identity="other"),
        "identity ib-sriov to other",
        [{"kind": "cluster", "name": "ib-sriov", "loses": ALL}],
    ),
    "another lab": (
        "lab",
        platform(lab="other"),
        "lab lab to other",
        [{"kind": "cluster", "name": "lab", "loses": ALL}],
    ),
}


@pytest.mark.parametrize("name", BELOW)
def test_replacements_below_kubernetes_are_stopped(name: str) -> None:
    stack, change, message, entries = BELOW[name]
    old, new = shipped(stack), shipped(stack, change)
    with pytest.raises(RefusedError, match=re.escape(message)) as stopped:
        after(old, new)
    # Taking the protection away in the same edit, as the engine lets one do, is no way around it.
    if "deletion_protection" in old["platform"]:
        with pytest.raises(RefusedError, match=re.escape(message)):
            after(old, shipped(stack, change, open_))
    assert ("under `removals`" in str(stopped.value)) == bool(entries)
    for left_out in entries:
        with pytest.raises(RefusedError, match=left_out["name"]):
            after(old, new, *(e for e in entries if e is not left_out))
    if entries:
        after(old, new, *entries)


def test_kubernetes_goes_one_minor_at_a_time_on_eks() -> None:
    """EKS: `Unsupported Kubernetes minor version update` (terraform-aws-eks, issue 2607)."""
    old, new = (shipped("aws-p5en-block", platform(kubernetes=f"1.{n}")) for n in (33, 35))
    with pytest.raises(RefusedError, match=r"from Kubernetes 1\.33 to 1\.35 at once") as stopped:
        after(old, new)
    assert "write 1.34, run `pulumi up`" in str(stopped.value)
    between = shipped("aws-p5en-block", platform(kubernetes="1.34"))
    for was, now in ((old, between), (between, new)):
        after(was, now, H200)


def test_nvlink_domains_are_not_taken_from_jobs_unasked() -> None:
    """Deleting one ends its daemons on nodes (dra-driver-nvidia-gpu v0.4.1, computedomain.go)."""
    old = shipped("onprem-ib-sriov", lambda raw: raw["gpu_operator"].update(compute_domains=True))
    new = shipped("onprem-ib-sriov")
    with pytest.raises(RefusedError, match="would no longer have dra-driver-nvidia-gpu"):
        after(old, new)
    after(old, new, {"kind": "cluster", "name": "ib-sriov", "loses": ["jobs"]})


def volcano(raw: dict[str, Any]) -> None:
    raw["queueing"] = {"scheduler": "volcano"}


def test_changed_labels_are_a_loss_under_volcano() -> None:
    old = shipped("onprem-ib-sriov", volcano)
    new = shipped("onprem-ib-sriov", volcano, pool(node_selector={"railhead.dev/pool": "x"}))
    with pytest.raises(RefusedError, match="pool h100 would have other nodes"):
        after(old, new)
    assert after(old, new, H100) == ""


def images(**fields: Any) -> Change:
    row = {"name": "images", "namespace": "training", "mount_path": "/images", **fields}
    return lambda raw: raw.update(datasets=[row])


def as_data(raw: dict[str, Any]) -> None:
    raw["checkpoints"].pop()
    images(name="datasets", volume="pv")(raw)


def as_checkpoint(raw: dict[str, Any]) -> None:
    del raw["datasets"]
    row = {**raw["checkpoints"][0], "name": "images", "mount_path": "/images"}
    raw["checkpoints"].append(row)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (images(volume="other"), "cannot move from volume pv to other: a claim's is fixed"),
        (as_data, "checkpoint training/datasets cannot become a data set on a volume"),
        (as_checkpoint, "data set training/images cannot become a checkpoint"),
    ],
)
def test_a_claim_keeps_its_name_and_its_volume(change: Change, told: str) -> None:
    old = shipped("gcp-a3-ultra", images(volume="pv"))
    new = shipped("gcp-a3-ultra", images(volume="pv"), change)
    with pytest.raises(RefusedError, match=re.escape(told)):
        after(old, new)


def test_a_claim_may_become_a_data_set_as_it_is() -> None:
    def read_only(raw: dict[str, Any]) -> None:
        raw["checkpoints"].pop()
        images(name="datasets")(raw)

    old, new = shipped("gcp-a3-ultra"), shipped("gcp-a3-ultra", read_only)
    assert after(old, new, {**SHARED, "name": "training/datasets"}) == ""


def test_devices_of_earlier_jobs_are_named_when_removed() -> None:
    old = contract(shipped("onprem-roce-shared"))
    new = old.model_copy(update={"runtimes": ()})
    [edit] = edits.edits(old, new)
    assert f"would no longer have {', '.join(sorted(old.device_resources))}, which" in str(edit)


def test_an_entry_for_a_file_system_that_stays_is_refused() -> None:
    old = shipped("aws-p5-prod")
    with pytest.raises(RefusedError, match="storage lustre: this edit takes nothing from it"):
        after(old, old, LUSTRE)


def test_stack_without_recorded_objects_is_not_compared() -> None:
    old = contract(shipped("aws-p5-prod")).model_dump(mode="json")
    del old["made"]
    before = ClusterContract.from_data(old, where="it")
    removals = (RemovalConfig.model_validate(H100),)
    warning = edits.stop(before, contract(shipped("aws-p5-prod", to_h200)), removals)
    assert warning.startswith("an older Railhead made this stack last")


def test_directory_of_an_older_railheads_share_is_compared() -> None:
    """The cluster's name was it, and was not recorded; new claims would be elsewhere."""

    def by_uid(raw: dict[str, Any]) -> None:
        del raw["platform"]["nfs"]["directory"]
        raw["platform"]["uid"] = "0a1b2c3d-4e5f-4071-8a9b-0c1d2e3f4a5b"

    old = contract(shipped("onprem-roce-shared")).model_dump(mode="json")
    del old["made"]["storage"]["nfs"]["fixed"]["directory"]
    before = ClusterContract.from_data(old, where="it")
    with pytest.raises(RefusedError, match="directory roce-shared to roce-shared-0a1b2c3d for new"):
        edits.stop(before, contract(shipped("onprem-roce-shared", by_uid)), ())
    assert edits.stop(before, contract(shipped("onprem-roce-shared")), ()) == ""


def test_settings_that_an_older_railhead_did_not_record_pass() -> None:
    """Compare them from the next `up` on, which records them."""
    driver = "NICs' driver (fabric.network_operator.ofed)"
    for stack, part, name, group, key in (
        ("gcp-a3-mega", "storage", "filestore", "fixed", "capacity_gib"),
        ("gcp-a3-mega", "storage", "filestore", "fixed", "addresses"),
        ("gcp-a3-ultra", "storage", "lustre", "grows", "capacity_gib"),
        ("gcp-a3-ultra", "storage", "lustre", "fixed", "capacity_gib"),
        ("gcp-a3-ultra", "storage", "lustre", "fixed", "google_services"),
        ("gcp-a3-ultra", "pools", "h200", "fixed", "platform.labels"),
        ("onprem-ib-sriov", "pools", "h100", "fixed", driver),
    ):
        old = contract(shipped(stack)).model_dump(mode="json")
        del old["made"][part][name][group][key]
        before = ClusterContract.from_data(old, where="it")
        assert edits.stop(before, contract(shipped(stack)), ()) == "", key


def test_automatic_metadata_of_an_older_railhead_is_no_loss() -> None:
    automatic = shipped("aws-p5-prod", storage(0, metadata={"kind": "automatic"}))
    old = contract(automatic).model_dump(mode="json")
    old["made"]["storage"]["lustre"]["grows"]["metadata.iops"] = 0
    before = ClusterContract.from_data(old, where="it")
    for new in (automatic, shipped("aws-p5-prod")):
        assert edits.stop(before, contract(new), ()) == ""


def test_growth_beside_too_few_metadata_iops_is_refused() -> None:
    """terraform-provider-aws #44432: FSx refuses it, and `up` would end there."""
    few = shipped("aws-p5-prod", storage(0, capacity_gib=57600))
    with pytest.raises(RefusedError, match="which bring 24000 metadata IOPS, beside 12000: FSx"):
        after(shipped("aws-p5-prod"), few)
    # There already, it is left alone.
    assert after(few, few) == ""


def test_automatic_metadata_waits_for_its_size() -> None:
    """terraform-provider-aws #44456: metadata changes first, and FSx takes no IOPS away."""
    more = {"kind": "provisioned", "iops": 24000}
    before = shipped("aws-p5-prod", storage(0, metadata=more))
    automatic = storage(0, capacity_gib=57600, metadata={"kind": "automatic"})
    with pytest.raises(RefusedError, match=r"automatic .* at once: .* 38400 GiB bring 12000 IOPS"):
        after(before, shipped("aws-p5-prod", automatic))
    grown = shipped("aws-p5-prod", storage(0, capacity_gib=57600, metadata=more))
    assert after(before, grown) == ""
    assert after(grown, shipped("aws-p5-prod", automatic)) == ""


def test_filestore_stays_at_its_addresses() -> None:
    """terraform-provider-google, resource_filestore_instance.go: networks replace an instance."""
    for was in ("10.9.1.0/26", None):
        before = shipped("gcp-a3-mega", storage(0, addresses=was))
        with pytest.raises(RefusedError, match=rf"addresses {str(was).lower()} to 10\.9\.0\.0/26"):
            after(before, shipped("gcp-a3-mega"))


def test_lustre_of_google_stays_in_its_steps() -> None:
    """Managed Lustre documentation, Increase the capacity: not beyond the size of other steps."""
    small = {"throughput": 500, "capacity_gib": 36000}
    before = shipped("gcp-a3-ultra", storage(0, **small))
    grown = shipped("gcp-a3-ultra", storage(0, **small | {"capacity_gib": 3060000}))
    assert after(before, grown) == ""
    beyond = shipped("gcp-a3-ultra", storage(0, **small | {"capacity_gib": 3168000}))
    with pytest.raises(RefusedError, match="capacity_gib at most 3060000 to at most 20016000"):
        after(grown, beyond)


def test_nodes_of_an_older_railhead_are_asked_for() -> None:
    """A launch template of which nothing is known may be another: EKS then replaces each node."""
    old = contract(shipped("aws-p5-prod")).model_dump(mode="json")
    for part in (old["made"]["system"], *old["made"]["pools"].values()):
        del part["template"]
    before = ClusterContract.from_data(old, where="it")
    with pytest.raises(RefusedError, match=r"launch template of an older Railhead to [0-9a-f]{12}"):
        edits.stop(before, contract(shipped("aws-p5-prod")), ())
    # Of the controllers' nodes nothing is claimed.
    allowed = (RemovalConfig.model_validate(H100),)
    assert edits.stop(before, contract(shipped("aws-p5-prod")), allowed) == ""


def test_no_backup_replaces_a_file_system_of_an_older_railhead() -> None:
    """The provider does so for any; no backup was recorded (lustre_file_system.go)."""
    old = contract(shipped("aws-p5-prod")).model_dump(mode="json")
    for made in old["made"]["storage"].values():
        made["fixed"].pop("backup", None)
    before = ClusterContract.from_data(old, where="it")
    edited = shipped("aws-p5-prod", storage(0, backup="backup-0a1b2c3d4e5f60718"))
    with pytest.raises(RefusedError, match="backup none to backup-0a1b2c3d4e5f60718"):
        edits.stop(before, contract(edited), ())
    assert edits.stop(before, contract(shipped("aws-p5-prod")), ()) == ""


def test_configuration_of_others_operator_is_kept() -> None:
    """An older Railhead made it, and `up` would delete what the program names no more."""

    def others(raw: dict[str, Any]) -> None:
        del raw["fabric"]["network_operator"]

    new = contract(shipped("onprem-ib-sriov", others))
    old = new.model_dump(mode="json")
    for made in old["made"]["pools"].values():
        del made["fixed"]["SR-IOV operator"]
    before = ClusterContract.from_data(old, where="it")
    assert "`pulumi state delete` its URN before `up`" in edits.stop(before, new, ())
    assert edits.stop(new, new, ()) == ""


def test_an_upgrade_that_rolls_nodes_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Railhead's own text is in the template: the file is the same, and the nodes would go."""
    old = contract(shipped("aws-p5-prod"))
    monkeypatch.setattr(user_data, "_MEMLOCK", 2**52)
    _contract.cache_clear()
    new = contract(shipped("aws-p5-prod"))
    _contract.cache_clear()
    with pytest.raises(RefusedError, match=r"pool h100 would lose nodes .*: launch template"):
        edits.stop(old, new, ())
    assert edits.stop(old, new, (RemovalConfig.model_validate(H100),)) == ""


def test_upgrade_that_binds_reservation_groups_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An earlier template let EC2 start on demand what the group had no machine for."""
    arn = "arn:aws:resource-groups:us-east-2:123456789012:group/p5"
    group = {"kind": "reservation-group", "arn": arn, "availability_zone": "us-east-2a"}
    with monkeypatch.context() as earlier:
        earlier.setattr("railhead.platform.aws.template.capacity_preference", lambda _: None)
        old = contract(shipped("aws-p5-prod", pool(purchase=group)))
    _contract.cache_clear()
    with pytest.raises(RefusedError, match=r"pool h100 would lose nodes .*: launch template"):
        edits.stop(old, contract(shipped("aws-p5-prod", pool(purchase=group))), ())


def test_pinned_image_that_new_nodes_would_not_have_is_told() -> None:
    """terraform-provider-aws #40902: a release that stays is not sent, and EKS takes its newest."""
    old, new = pool(ami_release="1.35.3-20261015"), pool(ami_release="1.35.3-20261115")
    before, rolled = shipped("aws-p5-prod", old), pool(root_volume_gib=600)
    with pytest.raises(RefusedError, match=r"would not have the image 1\.35\.3-2026"):
        after(before, shipped("aws-p5-prod", old, rolled))
    with pytest.raises(RefusedError) as stopped:
        after(before, shipped("aws-p5-prod", new, rolled))
    assert "would not have" not in str(stopped.value)
    with pytest.raises(RefusedError, match=r"EKS refuses an image older than 1\.35\.3-20261115"):
        after(shipped("aws-p5-prod", new), shipped("aws-p5-prod", old))


def test_group_of_a_block_must_be_empty_before_its_update() -> None:
    """EKS user guide, capacity-blocks-mng: it refuses, and the state takes the update for done."""
    rolled = pool(root_volume_gib=600)
    with pytest.raises(RefusedError, match="capacity block while its nodes run: scale it to 0"):
        after(shipped("aws-p5en-block"), shipped("aws-p5en-block", rolled))
    with pytest.raises(RefusedError) as stopped:
        after(shipped("aws-p5-prod"), shipped("aws-p5-prod", pool(root_volume_gib=700)))
    assert "capacity block" not in str(stopped.value)


def test_newer_kubernetes_replaces_nodes_but_not_the_cluster() -> None:
    old, new = (shipped("aws-p5-prod", platform(kubernetes=k)) for k in ("1.34", "1.35"))
    with pytest.raises(RefusedError, match="pool h100 would lose nodes") as stopped:
        after(old, new)
    assert "cluster p5-prod cannot" not in str(stopped.value)
    assert "system pool: its nodes are replaced" in after(old, new, H100)


@pytest.mark.parametrize(
    ("stack", "change"),
    [
        ("aws-p5-prod", storage(0, capacity_gib=57600, metadata={"kind": "automatic"})),
        ("aws-p5-prod", storage(0, metadata={"kind": "automatic"})),
        ("aws-p5-prod", network(availability_zones=[f"us-east-2{z}" for z in "abcd"])),
        ("gcp-a3-mega", network(nodes="10.0.0.0/19", services="10.0.64.0/20")),
    ],
)
def test_growth_in_place_is_not_a_loss(stack: str, change: Change) -> None:
    old, new = shipped(stack), shipped(stack, change)
    if stack.startswith("gcp"):
        old["platform"]["network"]["services"] = "10.0.64.0/20"
    assert after(old, new) == ""


def test_fewer_operations_of_lustre_are_stopped() -> None:
    """FSx user guide, switch-provisioning-mode: no fewer, not by automatic mode either."""
    more = storage(0, metadata={"kind": "provisioned", "iops": 24000})
    for fewer in ({"kind": "automatic"}, {"kind": "provisioned", "iops": 12000}):
        with pytest.raises(RefusedError, match=r"metadata\.iops down from 24000 to 12000"):
            after(shipped("aws-p5-prod", more), shipped("aws-p5-prod", storage(0, metadata=fewer)))


def test_file_systems_of_google_keep_how_they_were_made() -> None:
    def small(raw: dict[str, Any]) -> None:
        raw["checkpoints"][0]["size"] = "1Ti"

    for stack, change, message in (
        ("gcp-a3-mega", storage(0, capacity_gib=5120), "capacity_gib 10 TiB and more to less than"),
        ("gcp-a3-ultra", storage(0, capacity_gib=18000), "capacity_gib down from 36000 to 18000"),
        ("gcp-a3-ultra", network(google_services="10.9.0.0/20"), "google_services 10.8.0.0/20 to"),
    ):
        with pytest.raises(RefusedError, match=message):
            after(shipped(stack, small), shipped(stack, small, change))


def test_claims_on_file_systems_of_clouds_keep_their_size() -> None:
    """Kubernetes grows claims of classes that allow it alone (admission, persistentvolume/resize).

    Those of an existing cluster may, and NFS' of the stack's does.
    """

    def sized(index: int, size: str) -> Change:
        return lambda raw: raw["checkpoints"][index].update(size=size)

    for stack, index in (
        ("gcp-a3-mega", 0),
        ("gcp-a3-ultra", 0),
        ("gcp-a3-ultra", 1),
        ("aws-p5-prod", 0),
        ("aws-p5-prod", 1),
    ):
        old, new = (shipped(stack, sized(index, size)) for size in ("10Ti", "20Ti"))
        with pytest.raises(RefusedError, match="cannot grow from 10Ti to 20Ti: Kubernetes"):
            after(old, new)
    metal = "onprem-roce-shared"
    assert after(shipped(metal), shipped(metal, sized(0, "200Ti"))) == ""


def more(raw: dict[str, Any]) -> None:
    images(volume="pv")(raw)
    usual = [priority.model_dump() for priority in PRIORITIES]
    raw["priorities"] = [{"name": "urgent", "value": 9, "description": "first"}, *usual]


SCRATCH = {"kind": "lustre", "name": "scratch", "capacity_gib": 18000, "throughput": 500}


def first_lustre(raw: dict[str, Any]) -> None:
    raw["platform"]["storage"].append(SCRATCH)
    raw["platform"]["network"]["google_services"] = "10.8.0.0/20"


WARNED: dict[str, tuple[str, Change, str]] = {
    "protection": ("aws-p5-prod", open_, "nothing but this comparison keeps the cluster"),
    "less of each node": (
        "onprem-ib-sriov",
        lambda raw: raw["pools"][0]["schedulable"].update(cpu=200),
        "each node counts for less cpu",
    ),
    "less promised": (
        "onprem-roce-shared",
        lambda raw: raw["teams"][0]["shares"][0].update(nodes=8, lend=8),
        "team training: is promised 8 nodes of h200 in place of 12",
    ),
    "a data set": (
        "onprem-roce-shared",
        lambda raw: raw.pop("datasets"),
        "data set training/images: its claim stays in the cluster without the stack",
    ),
    "a priority": (
        "onprem-roce-shared",
        lambda raw: raw.pop("priorities"),
        "priorities urgent: jobs that name them",
    ),
    "fewer nodes that come and go": (
        "gcp-a3-mega",
        lambda raw: raw["pools"][1].update(nodes=2),
        "pool h100-burst: 2 nodes in place of 4",
    ),
    "pods of a runtime": (
        "onprem-ib-sriov",
        lambda raw: raw["runtimes"][0].update(memory="1000Gi"),
        "wait get none, and those that run lose their admission while their pods go on",
    ),
    "a first Lustre on nodes of GKE": (
        "gcp-a3-mega",
        first_lustre,
        "storage scratch: the nodes there do not load Lustre's kernel module",
    ),
    "another path": (
        "aws-p5-prod",
        lambda raw: raw["checkpoints"][0].update(mount_path="/ckpt"),
        "mounts checkpoints at /ckpt in place of checkpoints at /checkpoints",
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_harmless_edits_only_warn(name: str) -> None:
    stack, change, warning = WARNED[name]
    assert warning in after(shipped(stack, more), shipped(stack, more, change))


def test_entry_for_a_smaller_loss_permits_nothing() -> None:
    with pytest.raises(RefusedError, match="pool gpu"):
        held(rename_pool, {**POOL, "loses": ["quota"]})


def test_stale_entry_is_reported_or_refused() -> None:
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


def test_additions_are_not_losses() -> None:
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
