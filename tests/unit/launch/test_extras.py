"""Folders of code, secrets, mounts, limits of time and checkpoints in a job file."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railhead.base.errors import ExitCode, InputError, RefusedError
from railhead.base.names import JOB_LABEL
from railhead.contract import ClusterContract, Dataset, Runtime
from railhead.kube.client import Cluster
from railhead.launch import job as jobs
from railhead.launch import render
from railhead.launch.asked import Asked
from railhead.launch.checks import references
from railhead.launch.job import Payload, parse_job, read_job
from railhead.launch.plan import Plan, make_plan
from railhead.launch.preflight import preflight
from railhead.launch.render import train_job
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, JOB
from tests.unit.launch.fake_api import Api

CORE = "/api/v1/namespaces/training"


def plan(text: str = JOB, files: tuple[Payload, ...] = ()) -> Plan:
    return make_plan(parse_job(text, where="job"), files, CONTRACT)


def of(runtime: Runtime) -> ClusterContract:
    return CONTRACT.model_copy(update={"runtimes": (runtime,)})


def refused(more: str) -> str:
    with pytest.raises(InputError) as caught:
        plan(JOB + more)
    return caught.value.problem


# -- folders ------------------------------------------------------------------------------------


@pytest.fixture
def tree(job_file: Path) -> Path:
    root = job_file.parent / "src"
    for name in ("a.py", "pkg/__init__.py", "pkg/b.py", "pkg/data.bin", ".git/config"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xff\x00" if name.endswith("bin") else name.encode())
    (root / "pkg" / "__pycache__").mkdir()
    (root / "pkg" / "__pycache__" / "b.pyc").touch()
    (root / "round").symlink_to(root)
    job_file.write_text(JOB.replace("[train.py]", "[train.py, src]"))
    return job_file


def mounted(made: Plan) -> dict[str, bytes]:
    """Return the workspace as a kubelet would lay it out."""
    import base64

    maps = {m["metadata"]["name"]: m for m in render.config_maps(made)}
    patch = render.train_job(made)["spec"]["podTemplateOverrides"][0]["spec"]
    (volume,) = patch["volumes"]
    results: dict[str, bytes] = {}
    sources: list[dict[str, Any]] = (
        [{"configMap": volume["configMap"]}]
        if "configMap" in volume
        else volume["projected"]["sources"]
    )
    for source in (s["configMap"] for s in sources):
        body = maps[source["name"]]
        held = {k: v.encode() for k, v in body.get("data", {}).items()}
        held |= {k: base64.b64decode(v) for k, v in body.get("binaryData", {}).items()}
        items = source.get("items") or [{"key": k, "path": k} for k in held]
        for item in items:
            assert item["path"] not in results
            results[item["path"]] = held[item["key"]]
    return results


def test_a_folder_lies_in_the_workspace_as_it_lies_here(tree: Path) -> None:
    job, files = read_job(tree)
    assert mounted(make_plan(job, files, CONTRACT)) == {
        "train.py": b"say('hello')\n",
        "src/a.py": b"a.py",
        "src/pkg/__init__.py": b"pkg/__init__.py",
        "src/pkg/b.py": b"pkg/b.py",
        "src/pkg/data.bin": b"\xff\x00",
    }


def test_the_folder_of_the_job_file_is_the_workspace(tree: Path) -> None:
    tree.write_text(JOB.replace("[train.py]", "[.]"))
    job, files = read_job(tree)
    assert set(mounted(make_plan(job, files, CONTRACT))) == {
        "job.yaml", "train.py", "src/a.py", "src/pkg/__init__.py", "src/pkg/b.py",
        "src/pkg/data.bin",
    }  # fmt: skip


def test_oversized_folder_is_reported(tree: Path) -> None:
    for index in range(9):
        (tree.parent / "src" / f"{index}.bin").write_bytes(b"x" * (1 << 20))
    with pytest.raises(InputError, match=r"bytes together; allowed: 8388608"):
        read_job(tree)


@given(st.lists(st.integers(0, jobs.MAX_FILES_BYTES // 2), max_size=12))
def test_config_maps_fit_the_servers_limit(sizes: list[int]) -> None:
    files = tuple(Payload(name=f"d/{i}", data=b"x" * size) for i, size in enumerate(sizes))
    made = plan(files=files)
    for body in render.config_maps(made):
        held = body.get("data", {}) | body.get("binaryData", {})
        assert sum(map(len, held.values())) <= jobs.MAX_FILES_BYTES
        assert held
    if files:
        assert mounted(made) == {f.name: f.data for f in files}


@pytest.mark.parametrize(("more", "parts"), [(0, 1), (1, 2)])
def test_a_config_map_is_filled_up(more: int, parts: int) -> None:
    """A name counts twice, as a key and as a place."""
    half = jobs.MAX_FILES_BYTES // 2 - 2
    files = (Payload(name="a", data=b"x" * half), Payload(name="b", data=b"x" * (half + more)))
    assert len(render.config_maps(plan(files=files))) == parts


def test_every_config_map_goes_with_the_job(api: Api, run: Any, tree: Path) -> None:
    for index in range(3):
        (tree.parent / "src" / f"{index}.bin").write_bytes(b"x" * (1 << 19))
    code, _, _ = run("launch", tree)
    assert code == 0
    names = [p.rpartition("/")[2] for p in api.objects if f"{CORE}/configmaps/" in p]
    assert sorted(names) == ["demo-files", "demo-files-1", "demo-files-2"]
    owners = {
        api.objects[f"{CORE}/configmaps/{n}"]["metadata"]["ownerReferences"][0]["name"]
        for n in names
    }
    assert owners == {"demo"}


def test_refused_job_leaves_no_objects(api: Api, run: Any, tree: Path) -> None:
    api.refusals[("POST", world.JOBS)] = (422, "no")
    code, _, _ = run("launch", tree)
    assert code == ExitCode.REFUSED
    assert not [p for p in api.objects if f"{CORE}/configmaps/" in p]


def part(number: int, job: str = "demo") -> dict[str, Any]:
    """Return a ConfigMap that a launch left which was killed half-way: nobody owns it."""
    name = render.files_name("demo", number)
    return {"metadata": {"name": name, "labels": {JOB_LABEL: job}}, "data": {"old": "x"}}


def left(api: Api) -> list[str]:
    return sorted(p.rpartition("/")[2] for p in api.objects if f"{CORE}/configmaps/" in p)


def test_a_cancel_takes_every_part_of_a_launch_that_was_killed(
    api: Api, run: Any, tree: Path
) -> None:
    assert run("launch", tree)[0] == 0
    for number in (1, 2, 7):
        api.put(f"{CORE}/configmaps", part(number, job="demo" if number < 7 else "another"))
    assert run("cancel", "demo")[0] == 0
    assert left(api) == ["demo-files-7"]


def test_files_without_a_job_are_cancelled_too(api: Api, run: Any) -> None:
    """Killed between its files and its job: there is no job to cancel."""
    for number in range(3):
        api.put(f"{CORE}/configmaps", part(number))
    code, _, err = run("cancel", "demo")
    assert (code, left(api)) == (0, [])
    assert "training/demo-files, training/demo-files-1, training/demo-files-2" in err
    assert run("cancel", "demo")[0] == ExitCode.NOT_FOUND


def test_launch_replaces_leftovers_and_keeps_others_objects(api: Api, run: Any, tree: Path) -> None:
    for index in range(3):
        (tree.parent / "src" / f"{index}.bin").write_bytes(b"x" * (1 << 19))
    api.put(f"{CORE}/configmaps", part(1))
    assert run("launch", tree)[0] == 0
    assert "old" not in api.objects[f"{CORE}/configmaps/demo-files-1"].get("data", {})
    assert run("cancel", "demo")[0] == 0
    api.put(f"{CORE}/configmaps", part(1, job="another"))
    code, _, err = run("launch", tree)
    assert code == ExitCode.REFUSED
    assert "already exists" in err
    assert left(api) == ["demo-files-1"]


# -- secrets, mounts, limits, checkpoints -------------------------------------------------------


def trainer(made: Plan) -> dict[str, Any]:
    result: dict[str, Any] = render.train_job(made)["spec"]["trainer"]
    return result


def test_a_secret_reaches_the_process_by_reference() -> None:
    made = trainer(plan(JOB + "secrets:\n  HF_TOKEN: hub/token\n"))
    assert {
        "name": "HF_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
    } in made["env"]


def test_a_claim_is_mounted_where_the_job_says() -> None:
    made = plan(JOB + "mounts:\n  /data: imagenet:ro\n  /out: scratch\n")
    (patch,) = render.train_job(made)["spec"]["podTemplateOverrides"]
    assert patch["spec"]["volumes"] == [
        {"name": "railhead-mount-0", "persistentVolumeClaim": {"claimName": "imagenet"}},
        {"name": "railhead-mount-1", "persistentVolumeClaim": {"claimName": "scratch"}},
    ]
    (container,) = patch["spec"]["containers"]
    assert container["volumeMounts"] == [
        {"name": "railhead-mount-0", "mountPath": "/data", "readOnly": True},
        {"name": "railhead-mount-1", "mountPath": "/out"},
    ]


def test_a_claim_at_two_paths_is_one_volume() -> None:
    made = plan(JOB + "mounts:\n  /a: imagenet:ro\n  /b: imagenet\n")
    (patch,) = render.train_job(made)["spec"]["podTemplateOverrides"]
    # kubelet would wait for the second volume of a claim for ever.
    assert patch["spec"]["volumes"] == [
        {"name": "railhead-mount-0", "persistentVolumeClaim": {"claimName": "imagenet"}},
    ]
    (container,) = patch["spec"]["containers"]
    assert container["volumeMounts"] == [
        {"name": "railhead-mount-0", "mountPath": "/a", "readOnly": True},
        {"name": "railhead-mount-0", "mountPath": "/b"},
    ]


@pytest.mark.parametrize(
    ("given", "told"), [("90", "90"), ("30m", "1800"), ("12h", "43200"), ("2d", "172800")]
)
def test_a_limit_of_time_is_kueues(given: str, told: str) -> None:
    labels = render.train_job(plan(JOB + f"timeout: {given}\n"))["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/max-exec-time-seconds"] == told


def test_without_a_limit_there_is_no_label() -> None:
    assert not any("max-exec" in k for k in render.train_job(plan())["metadata"]["labels"])


def test_shared_memory_is_mounted_if_the_runtime_does_not() -> None:
    (patch,) = render.train_job(plan(JOB + "shm: 512Mi\n"))["spec"]["podTemplateOverrides"]
    (volume,) = patch["spec"]["volumes"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "512Mi"}
    (container,) = patch["spec"]["containers"]
    assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/dev/shm"}]


def test_shared_memory_of_a_container_beside_it_is_left_alone() -> None:
    (runtime,) = CONTRACT.runtimes
    pod = copy.deepcopy(runtime.pod)
    mounts = [{"name": "theirs", "mountPath": "/dev/shm"}]
    pod["spec"]["containers"].insert(0, {"name": "beside", "volumeMounts": mounts})
    contract = of(runtime.model_copy(update={"pod": pod}))
    made = make_plan(parse_job(JOB + "shm: 512Mi\n", where="job"), (), contract)
    ((volume,), (mount,)) = render.volumes_of(made)
    assert volume["name"] == mount["name"] != "theirs"


@pytest.mark.parametrize(
    ("own", "wanted", "said"),
    [
        (3, 3, None),
        (3, None, None),
        (
            3,
            0,
            "restarts: 0 cannot be set for one TrainJob, .* runtime torch recreates a gang 3 times",
        ),
        (None, 3, "restarts: 3 cannot be set for one TrainJob, .* as often as its stack says"),
    ],
)
def test_a_trainjob_starts_again_as_often_as_its_runtime(
    cluster: Cluster, own: int | None, wanted: int | None, said: str | None
) -> None:
    (runtime,) = CONTRACT.runtimes
    contract = of(runtime.model_copy(update={"restarts": own}))
    text = JOB + (f"restarts: {wanted}\n" if wanted is not None else "")
    made = make_plan(parse_job(text, where="job"), (), contract)
    # Another kind of job has a field for it.
    preflight(cluster, made, contract, api="jobset")
    if said is None:
        preflight(cluster, made, contract)
        return
    with pytest.raises(RefusedError, match=said):
        preflight(cluster, made, contract)


def test_checkpoints_lie_where_the_job_says() -> None:
    made = plan(JOB + "checkpoint: {path: team/llama, resume: auto}\n")
    assert made.env["CHECKPOINT_DIR"] == "/checkpoints/team/llama"
    fresh = plan(JOB + "checkpoint: {resume: never}\n").env["CHECKPOINT_DIR"]
    assert fresh.startswith("/checkpoints/demo/2")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("timeout: 0", "a duration from 1s on"),
        ("timeout: soon", "a duration from 1s on"),
        ("timeout: 99999d", "a duration from 1s on"),
        ("shm: 64Mi", "more than the 64Mi that a container has anyway"),
        ("shm: 513Mi", "at most the 512Mi of memory that its pods request"),
        ("secrets: {A: token}", "SECRET/KEY"),
        ("secrets: {A: x/../y}", "SECRET/KEY"),
        ("secrets: {RANK: x/y}", "RANK: set by torchrun"),
        ("secrets: {EPOCHS: x/y}", "EPOCHS: given in env too"),
        ("secrets: {NCCL_SOCKET_IFNAME: x/y}", "set by the cluster's fabric"),
        ("mounts: {data: x}", "an absolute path"),
        ("mounts: {/etc/x: x}", "an absolute path"),
        ("mounts: {/workspace/x: x}", "an absolute path"),
        ("mounts: {/a/../b: x}", "an absolute path"),
        ("mounts: {/data: X}", "the name of a claim"),
        ("mounts: {/data: x:rw}", "the name of a claim"),
        ("mounts: {/checkpoints/mine: x}", "which runtime 'torch' mounts"),
        ("checkpoint: {path: /abs}", "a path inside the claim"),
        ("checkpoint: {path: a/../../b}", "a path inside the claim"),
        ("checkpoint: {resume: maybe}", "auto"),
        ("checkpoint: {paths: x}", "no such field"),
    ],
)
def test_forbidden_values_are_reported(more: str, words: str) -> None:
    assert words in refused(more + "\n")


def test_a_checkpoint_without_a_claim_is_refused() -> None:
    (runtime,) = CONTRACT.runtimes
    bare = runtime.model_copy(update={"checkpoint": None})
    with pytest.raises(InputError, match="has no claim for checkpoints"):
        make_plan(parse_job(JOB + "checkpoint: {path: x}\n", where="j"), (), of(bare))


@pytest.fixture
def referring(cluster: Cluster, api: Api) -> Callable[[], str]:
    def check() -> str:
        made = plan(JOB + "secrets: {A: hub/token}\nmounts: {/data: imagenet}\n")
        try:
            findings = preflight(cluster, made, CONTRACT)
        except RefusedError as error:
            return error.problem
        asked = [f for f in findings if f.name in ("secrets", "mounts")]
        return "; ".join(f.text for f in asked if f.passed is None)

    return check


def known(*names: str, **of: Any) -> ClusterContract:
    """Return the contract with data sets of the queue's namespace, at /data/NAME."""
    fields = {"namespace": "training"} | of
    sets = [Dataset(name=n, claim=f"{n}-1", mount_path=f"/data/{n}", **fields) for n in names]
    return CONTRACT.model_copy(update={"datasets": tuple(sets)})


def reading(more: str, contract: ClusterContract) -> Plan:
    return make_plan(parse_job(JOB + more, where="job"), (), contract)


def test_data_sets_are_mounted_read_only_where_the_cluster_says() -> None:
    made = reading("datasets: [words]\nmounts: {/out: mine}\n", known("words", "images"))
    assert made.mounts == {"/out": "mine", "/data/words": "words-1:ro"}
    patch = train_job(made)["spec"]["podTemplateOverrides"][0]["spec"]
    (mount,) = (
        m for m in patch["containers"][0]["volumeMounts"] if m["mountPath"] == "/data/words"
    )
    assert mount["readOnly"] is True


def test_one_that_the_runtime_mounts_is_not_mounted_twice() -> None:
    (runtime,) = CONTRACT.runtimes
    pod = copy.deepcopy(runtime.pod)
    container = next(c for c in pod["spec"]["containers"] if c["name"] == runtime.container)
    container.setdefault("volumeMounts", []).append({"name": "d", "mountPath": "/data/words"})
    own = runtime.model_copy(update={"pod": pod})
    contract = known("words").model_copy(update={"runtimes": (own,)})
    assert reading("datasets: [words]\n", contract).mounts == {}


def test_every_claim_that_a_pod_mounts_is_asked_how_it_is() -> None:
    (runtime,) = CONTRACT.runtimes
    pod = copy.deepcopy(runtime.pod)
    pod["spec"]["volumes"] = [
        {"name": "d", "persistentVolumeClaim": {"claimName": "words-1"}},
        {"name": "shm", "emptyDir": {}},
    ]
    pod["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "d", "mountPath": "/data/words"},
        {"name": "shm", "mountPath": "/dev/shm"},
    ]
    made = reading("mounts: {/out: mine:ro}\n", of(runtime.model_copy(update={"pod": pod})))
    (settings,) = (json.loads(word) for word in made.keeping if word.startswith("{"))
    assert {mount["path"]: mount["claim"] for mount in settings["mounts"]} == {
        "/checkpoints": "checkpoints", "/data/words": "words-1", "/out": "mine",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "contract", "words"),
    [
        ("datasets: [word]", known("words"), "did you mean 'words'?"),
        ("datasets: [words]", known("words", namespace="other"), "has no data set 'words'"),
        ("datasets: [words]\nmounts: {/data/words: x}", known("words"), "which mounts names too"),
    ],
)
def test_missing_data_set_is_reported(more: str, contract: ClusterContract, words: str) -> None:
    with pytest.raises(InputError) as caught:
        reading(more + "\n", contract)
    assert words in caught.value.problem


def test_a_fabric_that_is_required_is_the_default() -> None:
    assert reading("fabric: required\n", CONTRACT) == reading("", CONTRACT)


def test_a_data_set_of_the_runtime_must_be_there(cluster: Cluster, api: Api) -> None:
    (runtime,) = CONTRACT.runtimes
    pod = copy.deepcopy(runtime.pod)
    source = {"claimName": "words", "readOnly": True}
    volumes = pod["spec"].setdefault("volumes", [])
    volumes.append({"name": "dataset-words", "persistentVolumeClaim": source})
    contract = of(runtime.model_copy(update={"pod": pod}))
    made = make_plan(parse_job(JOB, where="job"), (), contract)
    with pytest.raises(RefusedError, match="claim training/words is not there"):
        preflight(cluster, made, contract)


def test_names_in_a_job_must_exist(referring: Any, api: Api) -> None:
    says = referring()
    assert "Secret training/hub is not there" in says
    assert "claim training/imagenet is not there" in says
    api.put(f"{CORE}/secrets", {"metadata": {"name": "hub"}, "data": {"tokens": "eA=="}})
    api.put(
        f"{CORE}/persistentvolumeclaims",
        {"metadata": {"name": "imagenet"}, "spec": {"accessModes": ["ReadWriteOnce"]}},
    )
    says = referring()
    assert "has no key token; did you mean 'tokens'?" in says
    assert "is for one node (ReadWriteOnce), the job has 2" in says
    api.objects[f"{CORE}/secrets/hub"]["data"]["token"] = "eA=="
    api.objects[f"{CORE}/persistentvolumeclaims/imagenet"]["spec"]["accessModes"] = [
        "ReadWriteMany"
    ]
    assert referring() == ""
    claim = api.objects[f"{CORE}/persistentvolumeclaims/imagenet"]
    for modes in (["ReadOnlyMany"], ["ReadWriteOnce", "ReadOnlyMany"], []):
        claim["spec"]["accessModes"] = modes
        assert referring() == ""


def test_checkpoints_and_claimless_volumes_are_not_checked(cluster: Cluster) -> None:
    (runtime,) = CONTRACT.runtimes
    assert runtime.checkpoint is not None
    pod = copy.deepcopy(runtime.pod)
    claim = {"claimName": runtime.checkpoint.claim}
    pod["spec"]["volumes"] = [
        {"name": "shm", "emptyDir": {}},
        {"name": "checkpoints", "persistentVolumeClaim": claim},
    ]
    contract = of(runtime.model_copy(update={"pod": pod}))
    made = make_plan(parse_job(JOB, where="job"), (), contract)
    assert references.check(Asked(cluster=cluster, plan=made, contract=contract)) == []


def test_a_secret_that_may_not_be_read_is_not_checked(referring: Any, api: Api) -> None:
    api.refusals[("GET", f"{CORE}/secrets/hub")] = (403, "no")
    api.put(f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "imagenet"}})
    assert referring() == "secrets: Secret training/hub may not be read"
