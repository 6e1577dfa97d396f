"""A stack's configuration: every mistake named, all at once, with what was probably meant."""

from __future__ import annotations

import contextlib
import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from railhead.base.errors import ExitCode, InputError
from railhead.catalog.switches import SWITCHES
from railhead.config import Cluster, load, parse
from railhead.framework import FRAMEWORKS
from tests.shipped import stack

REPO = Path(__file__).resolve().parents[3]
LAB = REPO / "stacks" / "Pulumi.lab.yaml"
WHERE = "stacks/Pulumi.x.yaml"

Raw = dict[str, Any]


def lab() -> Raw:
    return stack("lab")


def mistakes(raw: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        parse(raw, where=WHERE)
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert caught.value.remedy
    lines = caught.value.problem.splitlines()
    assert all(line.startswith(f"{WHERE}: ") for line in lines)
    return [line.removeprefix(f"{WHERE}: ") for line in lines]


def put(raw: Raw, path: str, value: Any) -> None:
    holder: Any = raw
    *parents, last = path.replace("[", ".").replace("]", "").split(".")
    for key in parents:
        holder = holder[int(key) if key.isdigit() else key]
    holder[int(last) if last.isdigit() else last] = value


def test_the_lab_stack_loads() -> None:
    cluster = load(LAB)
    assert cluster.name == "lab"
    assert cluster.platform.kind == "lab"
    assert cluster.pools[0].instance_type == "lab.8gpu"


@pytest.mark.slow
def test_loading_needs_no_pulumi() -> None:
    code = (
        "import sys; from pathlib import Path; from railhead.config import load; "
        f"load(Path({str(LAB)!r})); assert not any(m.startswith('pulumi') for m in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=REPO)


def test_a_cluster_is_frozen() -> None:
    with pytest.raises(ValidationError):
        load(LAB).name = "other"


ONE: list[tuple[str, Any, str, str]] = [
    (
        "pools[0].instance_type",
        "lab.8gpuu",
        "pools[0].instance_type",
        "'lab.8gpuu' is not in the catalogue; did you mean 'lab.8gpu'?",
    ),
    (
        "pools[0].instance_type",
        "zzz",
        "pools[0].instance_type",
        "'zzz' is not in the catalogue; there are: ",
    ),
    ("versions", "labb", "versions", "did you mean 'lab'?"),
    ("fabric.kind", "rocee", "fabric.kind", "did you mean 'roce'?"),
    ("fabric.mode", "rdma-sharedd", "fabric.mode", "did you mean 'rdma-shared'?"),
    ("fabric.mtu", 9999, "fabric.mtu", "9999: input should be less than or equal to 9216"),
    ("fabric.mtu", True, "fabric.mtu", "valid integer"),
    ("fabric.rails", [], "fabric.rails", "is empty"),
    ("fabric.rails[0].subnet", "10.0.0.1/8", "fabric.rails[0].subnet", "is not a network"),
    ("fabric.rails[0].subnet", "192.168.1.0/24", "fabric.rails[0].range_start", "is not in subnet"),
    ("fabric.rails[0].range_start", "x", "fabric.rails[0].range_start", "is not an IP address"),
    (
        "fabric.rails[0].range_end",
        "192.168.136.1",
        "fabric.rails[0].subnet",
        "1 addresses for pods on 2 nodes",
    ),
    ("fabric.rails[0].master", "a b", "fabric.rails[0].master", "interface's name"),
    ("fabric.ipam.data_dir", "var/lib", "fabric.ipam.data_dir", "absolute path"),
    ("platform", {"kind": "lba"}, "platform.kind", "did you mean 'lab'?"),
    ("platform", {}, "platform.kind", "is missing"),
    ("platform", {"kind": "existing"}, "platform.kubeconfig", "is missing"),
    (
        "platform",
        {"kind": "existing", "kubeconfg": "x", "kubeconfig": "x"},
        "platform.kubeconfg",
        "did you mean 'kubeconfig'?",
    ),
    ("nmae", "x", "nmae", "is not a field; did you mean 'name'?"),
    ("pools[0].node", 2, "pools[0].node", "is not a field; did you mean 'nodes'?"),
    ("pools[0].nodes", 0, "pools[0].nodes", "greater than or equal to 1"),
    ("pools[0].nodes", "two", "pools[0].nodes", "'two': input should be a valid integer"),
    ("pools[0].node_selector", {}, "pools[0].node_selector", "is empty"),
    ("name", "Lab_1", "name", "'Lab_1' is not a DNS label"),
    ("name", "x" * 64, "name", "at most 63 characters"),
    ("queues[0].namespace", "trainin", "queues[0].namespace", "did you mean 'training'?"),
    ("queues[0].pools", ["gpus"], "queues[0].pools[0]", "did you mean 'gpu'?"),
    ("runtimes[0].pool", "cpu", "runtimes[0].pool", "'cpu' is not one of pools"),
    ("runtimes[0].framework", "torhc", "runtimes[0].framework", "did you mean 'torch'?"),
    ("runtimes[0].checkpoint", "ckpt", "runtimes[0].checkpoint", "is not one of checkpoints"),
    ("runtimes[0].memory", "512 MB", "runtimes[0].memory", "Kubernetes quantity"),
    ("runtimes[0].nodes", 3, "runtimes[0].nodes", "3 is more than the 2 of pool 'gpu'"),
    ("runtimes[0].gpus_per_node", 9, "runtimes[0].gpus_per_node", "more than the 8"),
    ("runtimes[0].environment", {"A-B": "x"}, "runtimes[0].environment.A-B", "variable's name"),
    ("checkpoints[0].mount_path", "/", "checkpoints[0].mount_path", "absolute path below /"),
    ("checkpoints[0].mount_path", "/a/../b", "checkpoints[0].mount_path", "absolute path"),
    ("topology", ["rack"], "topology[0]", "must be 'kubernetes.io/hostname'"),
    ("namespaces", ["training", "training"], "namespaces[1]", "is there twice"),
    (
        "namespaces",
        ["training", "research"],
        "runtimes[0].checkpoint",
        "namespace 'research' has no checkpoint claim",
    ),
]


@pytest.mark.parametrize(("path", "value", "where", "words"), ONE)
def test_a_mistake_is_named(path: str, value: Any, where: str, words: str) -> None:
    raw = lab()
    put(raw, path, value)
    text = mistakes(raw)
    assert any(line.startswith(f"{where}: ") and words in line for line in text), text


@pytest.mark.parametrize(
    "field", sorted(name for name, field in Cluster.model_fields.items() if field.is_required())
)
def test_a_missing_field_is_named(field: str) -> None:
    raw = lab()
    del raw[field]
    assert f"{field}: is missing" in mistakes(raw)


def duplicate(key: str) -> Callable[[Raw], None]:
    return lambda raw: raw[key].append(copy.deepcopy(raw[key][0]))


@pytest.mark.parametrize("key", ["pools", "queues", "checkpoints", "runtimes"])
def test_a_name_is_taken_once(key: str) -> None:
    raw = lab()
    duplicate(key)(raw)
    where = f"{key}[{len(raw[key]) - 1}].name: "
    assert any(line.startswith(where) and "taken" in line for line in mistakes(raw))


def test_rails_do_not_overlap() -> None:
    raw = lab()
    rail = raw["fabric"]["rails"][0]
    raw["fabric"]["rails"].append({"name": "rail-1", "master": "rail1", "subnet": "192.168.0.0/16"})
    assert any("overlaps" in line and rail["subnet"] in line for line in mistakes(raw))


def test_one_pool_is_not_paid_out_twice() -> None:
    raw = lab()
    raw["queues"].append(raw["queues"][0] | {"name": "other", "cluster_queue": "other"})
    assert any("admit twice what it has" in line for line in mistakes(raw))


def test_a_runtimes_pool_has_a_queue() -> None:
    raw = lab()
    raw["pools"].append(raw["pools"][0] | {"name": "spare"})
    raw["runtimes"][0]["pool"] = "spare"
    assert any("no queue covers pool 'spare'" in line for line in mistakes(raw))


def test_all_mistakes_come_at_once_whatever_their_kind() -> None:
    raw = lab()
    put(raw, "pools[0].instance_type", "lab.8gpuu")
    put(raw, "pools[0].nodes", "x")
    put(raw, "nmae", "x")
    put(raw, "queues[0].namespace", "trainin")
    put(raw, "topology", ["rack"])
    text = mistakes(raw)
    for start in ("pools[0].instance_type", "pools[0].nodes", "nmae", "queues[0]", "topology[0]"):
        assert any(line.startswith(start) for line in text), (start, text)
    assert len(text) == 5


def test_present_fields_are_not_reported_absent() -> None:
    raw = lab()
    put(raw, "runtimes[0].framework", "caffe")
    assert mistakes(raw) == [
        "runtimes[0].framework: 'caffe' is not in the catalogue of frameworks; there are: "
        + ", ".join(FRAMEWORKS)
    ]


@pytest.mark.parametrize("raw", [[], "x", 3, {}, {"pools": None}, {"pools": [None], "queues": 4}])
def test_malformed_shapes_never_give_a_traceback(raw: Any) -> None:
    assert mistakes(raw)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "kind", "pools", "rails"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@pytest.mark.slow
@example("checkpoints", [{"name": []}])
@example("pools", [{"name": {}, "instance_type": []}])
@given(st.sampled_from(sorted(lab())), _JSON)
def test_any_value_anywhere_is_a_cluster_or_a_named_mistake(field: str, value: Any) -> None:
    raw = lab()
    raw[field] = value
    # Anything but a named mistake, a traceback above all, fails the test.
    with contextlib.suppress(InputError):
        assert isinstance(parse(raw, where=WHERE), Cluster)


class TestFiles:
    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="cannot be read: No such file"):
            load(tmp_path / "Pulumi.x.yaml")

    def test_no_yaml(self, tmp_path: Path) -> None:
        path = tmp_path / "Pulumi.x.yaml"
        path.write_text("config:\n  a: [1\n")
        with pytest.raises(InputError, match=r"Pulumi\.x\.yaml:\d+: "):
            load(path)

    def test_not_text(self, tmp_path: Path) -> None:
        path = tmp_path / "Pulumi.x.yaml"
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(InputError, match="not UTF-8"):
            load(path)

    @pytest.mark.parametrize("text", ["", "[]", "config: 3", "config: {}"])
    def test_no_cluster_in_it(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "Pulumi.x.yaml"
        path.write_text(text)
        with pytest.raises(InputError, match="railhead:cluster is missing"):
            load(path)


@pytest.mark.parametrize("name", sorted(SWITCHES))
def test_no_runtime_takes_its_jobs_off_the_network(name: str) -> None:
    raw = lab()
    raw["runtimes"][0]["environment"] = {name: "x", "OMP_NUM_THREADS": "1"}
    with pytest.raises(InputError) as caught:
        parse(raw, where="x")
    assert f"runtimes[0].environment.{name}: 'x' would take every job" in str(caught.value)
    assert "OMP_NUM_THREADS" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(SWITCHES))
def test_a_stack_sets_for_all_jobs_only_what_is_a_sites_to_say(name: str) -> None:
    raw = lab()
    raw["fabric"]["environment"] = {name: "x"}
    if SWITCHES[name].site and name not in ("NCCL_IB_HCA", "NCCL_IB_TC"):
        assert parse(raw, where="x").fabric.environment == {name: "x"}
        return
    with pytest.raises(InputError) as caught:
        parse(raw, where="x")
    assert f"fabric.environment.{name}: " in str(caught.value)
