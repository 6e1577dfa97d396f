"""Each check before a launch, in worlds that differ in one thing: every word of its findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pytest

from railhead.kube.client import ApiError
from railhead.launch.asked import Asked
from railhead.launch.job import Payload, parse_job
from railhead.launch.plan import make_plan
from railhead.storage.claims import SHARED_ANNOTATION
from tests.snapshots import compare
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, GOLDEN, JOB, publish
from tests.unit.launch.fake_api import Api, Stored

NAMESPACE = "/api/v1/namespaces/training"
LOCAL = "/apis/kueue.x-k8s.io/v1beta2/namespaces/training/localqueues/training"
BEHIND = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/training"
QUEUE = "/apis/scheduling.volcano.sh/v1beta1/queues/training"
RUNTIME = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/torch"
CLAIM = f"{NAMESPACE}/persistentvolumeclaims/checkpoints"
FILES = f"{NAMESPACE}/configmaps/demo-files"
SECRET = f"{NAMESPACE}/secrets/hub"
NODES = "/api/v1/nodes"
RACK, HOST = "k.example/rack", "kubernetes.io/hostname"

Change = Callable[[Api], object]


@dataclass(frozen=True, kw_only=True)
class World:
    """One check's: what is otherwise than all is well."""

    check: str
    job: str = ""
    change: Change = lambda _: None
    refused: dict[str, int] = field(default_factory=dict)
    contract: dict[str, Any] = field(default_factory=dict)
    runtime: dict[str, Any] = field(default_factory=dict)
    files: bool = False
    api: str | None = None


def gone(path: str) -> Change:
    return lambda api: api.objects.pop(path)


def body(path: str, **more: Any) -> Change:
    """Put an object with these fields beside its metadata."""
    return lambda api: api.put(path, {"metadata": {"name": path.rpartition("/")[2]}} | more)


def said(path: str, **metadata: Any) -> Change:
    return lambda api: api.objects[path]["metadata"].update(metadata)


def every(*changes: Change) -> Change:
    return lambda api: [change(api) for change in changes]


def ended(**condition: str) -> Change:
    def change(api: Api) -> None:
        job = world.job(api, "demo")
        job["status"] = {"conditions": [{"type": "Created", "status": "True"}, condition]}

    return change


def cordoned(api: Api) -> None:
    api.objects[f"{NODES}/gpu-1"]["spec"]["unschedulable"] = True


def quota(gpus: str, **spec: Any) -> Change:
    """Put a ClusterQueue with this quota of GPUs and these other fields."""

    def change(api: Api) -> None:
        queue = api.objects[BEHIND]["spec"]
        (flavor,) = queue["resourceGroups"][0]["flavors"]
        flavor["resources"][0] |= {"nominalQuota": gpus} | spec.pop("flavor", {})
        queue |= spec

    return change


def racks(*names: str) -> Change:
    """Return the rack of each node of the pool."""

    def change(api: Api) -> None:
        for index, name in enumerate(names):
            labels = {RACK: name, HOST: f"gpu-{index}", "railhead.dev/pool": "gpu"}
            api.put(NODES, {"metadata": {"name": f"gpu-{index}", "labels": labels}})

    return change


def placed(how: str) -> dict[str, Any]:
    """Return the runtime's pods with this topology asked of Kueue."""
    (runtime,) = CONTRACT.runtimes
    return {"pod": runtime.pod | {"metadata": {"annotations": {how: RACK}}}}


def claiming(*claims: str) -> dict[str, Any]:
    """Return the runtime's pods with these claims mounted."""
    (runtime,) = CONTRACT.runtimes
    volumes = [{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in claims]
    more = {"volumes": [{"name": "shm", "emptyDir": {}}, *volumes]}
    return {"pod": runtime.pod | {"spec": runtime.pod["spec"] | more}}


REQUIRED = "kueue.x-k8s.io/podset-required-topology"
LEVELS = {"topology_levels": (RACK, HOST)}
VOLCANO = {"scheduler": "volcano"}
SECRETS = "secrets: {A: hub/token, B: hub/other}\n"
DATA = "mounts: {/data: corpus}\n"
CORPUS = f"{NAMESPACE}/persistentvolumeclaims/corpus"

WORLDS: dict[str, World] = {
    "a runtime": World(check="runtime"),
    "no runtime": World(check="runtime", change=gone(RUNTIME)),
    "a runtime that may not be read": World(check="runtime", refused={RUNTIME: 403}),
    "as many nodes as there are": World(check="capacity"),
    "a node too many": World(check="capacity", job="nodes: 3\n"),
    "restarts that nobody asks for": World(check="restarts", runtime={"restarts": 3}),
    "restarts as the runtime has them": World(
        check="restarts", job="restarts: 3\n", runtime={"restarts": 3}
    ),
    "other restarts than the runtime's": World(
        check="restarts", job="restarts: 2\n", runtime={"restarts": 3}
    ),
    "restarts of a runtime that does not say": World(check="restarts", job="restarts: 2\n"),
    "restarts of another kind of job": World(check="restarts", job="restarts: 2\n", api="jobset"),
    "a gang of one size": World(check="elastic"),
    "fewer nodes": World(check="elastic", job="min_nodes: 1\n"),
    "fewer nodes of another kind": World(check="elastic", job="min_nodes: 1\n", api="pytorchjob"),
    "nodes as promised": World(check="nodes"),
    "a node that is cordoned": World(check="nodes", change=cordoned),
    "one node where another is cordoned": World(check="nodes", job="nodes: 1\n", change=cordoned),
    "nodes that may not be listed": World(check="nodes", refused={NODES: 403}),
    "nodes that come when they are asked for": World(
        check="nodes", change=cordoned, contract={"standing": False}
    ),
    "more nodes than the pool has": World(check="nodes", job="nodes: 3\n", change=cordoned),
    "no level": World(check="topology", change=racks("a", "b"), contract=LEVELS),
    "a preferred level": World(
        check="topology",
        change=racks("a", "b"),
        contract=LEVELS,
        runtime=placed("kueue.x-k8s.io/podset-preferred-topology"),
    ),
    "a rack for all": World(
        check="topology", change=racks("a", "a"), contract=LEVELS, runtime=placed(REQUIRED)
    ),
    "no rack for all": World(
        check="topology", change=racks("a", "b"), contract=LEVELS, runtime=placed(REQUIRED)
    ),
    "a level of the job's own": World(
        check="topology", job=f"topology: {HOST}\n", change=racks("a", "a"), contract=LEVELS
    ),
    "no rack for each two": World(
        check="topology", job=f"topology: 2 in {RACK}\n", change=racks("a", "b"), contract=LEVELS
    ),
    "a rack for some of the twos": World(
        check="topology",
        job=f"nodes: 4\ntopology: 2 in {RACK}\n",
        change=racks("a", "a"),
        contract=LEVELS,
    ),
    "a level that the cluster does not have": World(
        check="topology", change=racks("a", "b"), runtime=placed(REQUIRED)
    ),
    "racks of nodes that come when they are asked for": World(
        check="topology",
        change=racks("a", "b"),
        contract=LEVELS | {"standing": False},
        runtime=placed(REQUIRED),
    ),
    "racks of nodes that may not be listed": World(
        check="topology", refused={NODES: 403}, contract=LEVELS, runtime=placed(REQUIRED)
    ),
    "a larger rack than the first": World(
        check="topology", change=racks("a", "b", "b"), contract=LEVELS, runtime=placed(REQUIRED)
    ),
    "racks of nodes without a label": World(
        check="topology",
        change=every(
            racks("a", "a"),
            *(said(f"{NODES}/gpu-{n}", labels={"railhead.dev/pool": "gpu"}) for n in range(2)),
        ),
        contract=LEVELS,
        runtime=placed(REQUIRED),
    ),
    "racks of another pool's nodes": World(
        check="topology",
        change=every(
            racks("a", "b"),
            body(f"{NODES}/other", spec={}),
            said(f"{NODES}/other", labels={RACK: "a", HOST: "x", "railhead.dev/pool": "cpu"}),
        ),
        contract=LEVELS,
        runtime=placed(REQUIRED),
    ),
    "two pods a machine": World(
        check="topology",
        job="gpus_per_node: 4\n",
        change=racks("a", "b"),
        contract=LEVELS,
        runtime=placed(REQUIRED),
    ),
    "a namespace": World(check="namespace"),
    "no namespace": World(check="namespace", change=gone(NAMESPACE)),
    "a namespace that may not be read": World(check="namespace", refused={NAMESPACE: 403}),
    "a namespace that may not be read, without its queue": World(
        check="namespace", refused={NAMESPACE: 403}, change=gone(LOCAL)
    ),
    "neither may be read": World(check="namespace", refused={NAMESPACE: 403, LOCAL: 403}),
    "a namespace that may not be read, whose queue is everybody's": World(
        check="namespace", refused={NAMESPACE: 403}, change=body(QUEUE), contract=VOLCANO
    ),
    "a queue": World(check="queue"),
    "no queue": World(check="queue", change=gone(LOCAL)),
    "a queue that may not be read": World(check="queue", refused={LOCAL: 403}),
    "nothing behind the queue": World(check="queue", change=gone(BEHIND)),
    "a queue that leads elsewhere": World(
        check="queue", change=body(LOCAL, spec={"clusterQueue": "x"})
    ),
    "a queue that does not say where it leads": World(check="queue", change=body(LOCAL)),
    "what is behind the queue may not be read": World(check="queue", refused={BEHIND: 403}),
    "a quota that is just enough": World(check="queue", change=quota("16")),
    "a quota that is too small": World(check="queue", change=quota("15")),
    "a quota of a queue that may borrow": World(check="queue", change=quota("8", cohortName="all")),
    "a quota that may borrow just enough": World(
        check="queue", change=quota("8", cohortName="all", flavor={"borrowingLimit": "8"})
    ),
    "a quota that may borrow too little": World(
        check="queue", change=quota("8", cohortName="all", flavor={"borrowingLimit": "7"})
    ),
    "a quota of another resource": World(
        check="queue", change=quota("8", flavor={"name": "amd.com/gpu"})
    ),
    "a quota of another resource, which may borrow": World(
        check="queue", change=quota("8", cohortName="all", flavor={"name": "amd.com/gpu"})
    ),
    "a quota of two that are short": World(
        check="queue",
        change=every(
            quota("8"),
            lambda api: api.objects[BEHIND]["spec"]["resourceGroups"][0]["flavors"][0][
                "resources"
            ].append({"name": "memory", "nominalQuota": "512Mi"}),
        ),
    ),
    "Volcano's queue": World(check="queue", change=body(QUEUE), contract=VOLCANO),
    "no queue of Volcano's": World(check="queue", contract=VOLCANO),
    "Volcano's queue that may not be read": World(
        check="queue", refused={QUEUE: 403}, contract=VOLCANO
    ),
    "Volcano's queue that is closed": World(
        check="queue", change=body(QUEUE, status={"state": "Closed"}), contract=VOLCANO
    ),
    "Volcano's queue that is just large enough": World(
        check="queue",
        change=body(QUEUE, spec={"capability": {"nvidia.com/gpu": "16", "memory": "1Gi"}}),
        contract=VOLCANO,
    ),
    "Volcano's queue that is too small": World(
        check="queue",
        change=body(QUEUE, spec={"capability": {"nvidia.com/gpu": "15", "memory": "1023Mi"}}),
        contract=VOLCANO,
    ),
    "more than the pool has, of Volcano's": World(
        check="queue", job="nodes: 3\n", change=body(QUEUE), contract=VOLCANO
    ),
    "a claim": World(check="checkpoints"),
    "no claim for checkpoints": World(check="checkpoints", runtime={"checkpoint": None}),
    "no claim": World(check="checkpoints", change=gone(CLAIM)),
    "a claim that may not be read": World(check="checkpoints", refused={CLAIM: 403}),
    "a claim that nodes share": World(
        check="checkpoints", change=said(CLAIM, annotations={SHARED_ANNOTATION: "yes: it was read"})
    ),
    "a claim of which that is not known": World(
        check="checkpoints", change=said(CLAIM, annotations={SHARED_ANNOTATION: "unsure: no pod"})
    ),
    "a claim that is not shared": World(
        check="checkpoints", change=said(CLAIM, annotations={SHARED_ANNOTATION: "no: empty"})
    ),
    "a claim of one node": World(
        check="checkpoints", change=body(CLAIM, spec={"accessModes": ["ReadWriteOnce"]})
    ),
    "a claim of one node for one": World(
        check="checkpoints",
        job="nodes: 1\n",
        change=body(CLAIM, spec={"accessModes": ["ReadWriteOnce"]}),
    ),
    "no references": World(check="references"),
    "secrets that are not there": World(check="references", job=SECRETS),
    "a secret that may not be read": World(
        check="references", job=SECRETS, refused={SECRET: 403}
    ),
    "a secret with its keys": World(
        check="references", job=SECRETS, change=body(SECRET, data={"token": "", "other": ""})
    ),
    "a secret without a key": World(
        check="references", job=SECRETS, change=body(SECRET, data={"token": "", "others": ""})
    ),
    "an empty secret": World(check="references", job=SECRETS, change=body(SECRET)),
    "a data claim that is not there": World(check="references", job=DATA),
    "a data claim that may not be read": World(
        check="references", job=DATA, refused={CORPUS: 403}
    ),
    "a data claim of one node": World(
        check="references",
        job=DATA,
        change=body(CORPUS, spec={"accessModes": ["ReadWriteOnce", "ReadWriteOncePod"]}),
    ),
    "a data claim of one node for one": World(
        check="references",
        job=DATA + "nodes: 1\n",
        change=body(CORPUS, spec={"accessModes": ["ReadWriteOnce"]}),
    ),
    "data claims of the job and the runtime": World(
        check="references",
        job="mounts: {/data: corpus:ro}\n",
        change=body(CORPUS, spec={"accessModes": ["ReadOnlyMany"]}),
        runtime=claiming("corpus", "words", "checkpoints"),
    ),
    "a free name": World(check="name"),
    "the name of a job": World(check="name", change=lambda api: world.job(api, "demo")),
    "the name of a job that ended": World(check="name", change=ended(type="Failed", status="True")),
    "the name of a job that completes": World(
        check="name", change=ended(type="Complete", status="False")
    ),
    "the name of a job that goes": World(
        check="name",
        change=every(
            ended(type="Complete", status="True"),
            said(f"{world.JOBS}/demo", deletionTimestamp="2026-01-02T03:04:05Z"),
        ),
    ),
    "the name of a JobSet": World(check="name", change=body(f"{world.JOBSETS}/demo")),
    "files of another's": World(check="name", files=True, change=body(FILES)),
    "files of another's of a job without": World(check="name", change=body(FILES)),
    "files of its own": World(
        check="name",
        files=True,
        change=every(body(FILES), said(FILES, labels={"railhead.dev/job": "demo"})),
    ),
    "an admission": World(check="admission"),
    "an admission that refuses": World(check="admission", refused={world.JOBS: 422}),
    "an admission that refuses and says what to do": World(
        check="admission", refused={world.JOBS: 403}
    ),
}  # fmt: skip


def asked(of: World) -> Asked:
    (runtime,) = CONTRACT.runtimes
    contract = CONTRACT.model_copy(
        update={"runtimes": (runtime.model_copy(update=of.runtime),)} | of.contract
    )
    fields = {line.partition(":")[0] for line in of.job.splitlines()}
    lines = [line for line in JOB.splitlines() if line.partition(":")[0] not in fields]
    files = (Payload(name="train.py", data=b""),) if of.files else ()
    job = parse_job("\n".join([*lines, of.job]), where="job")
    api = Api()
    publish(api, contract)
    of.change(api)
    cluster: Any = Stored(api, of.refused)
    plan = make_plan(job, files, contract)
    return Asked(cluster=cluster, plan=plan, contract=contract, api=of.api)


def found_in(of: World) -> list[dict[str, Any]]:
    check = import_module(f"railhead.launch.checks.{of.check}").check
    return [
        {"name": item.name, "passed": item.passed, "text": item.text, "remedy": item.remedy}
        for item in check(asked(of))
    ]


#: As a check's finding is shown here.
PASSED = {True: "ok", False: "no", None: "not known"}


def test_findings() -> None:
    def text(item: dict[str, Any]) -> str:
        remedy = f" -> {item['remedy']}" if item["remedy"] else ""
        return f"{item['name']}, {PASSED[item['passed']]}: {item['text']}{remedy}"

    results = {f"{of.check}: {name}": [*map(text, found_in(of))] for name, of in WORLDS.items()}
    compare(GOLDEN / "checks.yaml", results)


@pytest.mark.parametrize(
    ("check", "path", "status"),
    [
        ("runtime", RUNTIME, 500),
        ("nodes", NODES, 500),
        ("namespace", NAMESPACE, 500),
        ("checkpoints", CLAIM, 500),
        ("admission", world.JOBS, 503),
    ],
)
def test_other_errors_are_not_findings(check: str, path: str, status: int) -> None:
    with pytest.raises(ApiError, match=f"answer {status}"):
        found_in(World(check=check, refused={path: status}))
