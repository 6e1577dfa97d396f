"""Logs of jobs that are gone, read from a claim by a pod that this plays as a real process."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from railhead.base.errors import ExitCode, InputError, RailheadError
from railhead.contract import ClusterContract, Toleration
from railhead.kube import jobs
from railhead.kube.client import ApiError, Cluster
from railhead.launch import Run
from railhead.launch.logs import claimed, kept, reader
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT
from tests.unit.launch.fake_api import Api
from tests.unit.launch.test_keep import ABOUT


class Claim:
    """The files on the claim, and the pods that were made to read it."""

    def __init__(self, path: Path, api: Api) -> None:
        self.path = path
        self.api = api
        self.made: list[Any] = []
        self.broken = ""
        self.status: dict[str, Any] = {"phase": "Succeeded"}

    def put(self, run: str, file: str, *lines: str, name: str = "demo") -> None:
        """Write a start of a pod as :mod:`railhead.launch.programs.keep` does."""
        folder = self.path / claimed.FOLDER / "training" / name / run
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "about.json").write_text(json.dumps(ABOUT))
        (folder / file).write_text("".join(f"{line}\n" for line in lines))

    def play(self, key: str, body: Any) -> None:
        """Play the pod of a JobSet: run its command here, on the claim's folder."""
        if not key.startswith(f"{world.JOBSETS}/railhead-logs-"):
            return
        self.made.append(body)
        (job,) = body["spec"]["replicatedJobs"]
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        *words, asked = container["command"][1:]
        asked = asked.replace(reader.PLACE, str(self.path))
        done = subprocess.run(
            [sys.executable, *words, asked], capture_output=True, text=True, check=True
        )
        name = f"{body['metadata']['name']}-read-0-0-abcde"
        labels = {jobs.JOBSET_LABEL: body["metadata"]["name"]}
        self.api.put(
            world.PODS, {"metadata": {"name": name, "labels": labels}, "status": self.status}
        )
        texts = [self.broken] if self.broken else done.stdout.splitlines()
        self.api.logs[name] = [f"2026-01-02T03:04:05.000000001Z {line}" for line in texts]


@pytest.fixture
def claim(api: Api, tmp_path: Path) -> Iterator[Claim]:
    path = tmp_path / "claim"
    path.mkdir()
    made = Claim(path, api)
    api.on_create = made.play
    yield made
    # Whatever came of it, the pod's job is taken away.
    assert not [key for key in api.objects if "/railhead-logs-" in key and "/jobsets/" in key]


def at(second: int, text: str) -> str:
    return f"2026-01-02T03:04:{second:02}.000000001Z {text}"


@pytest.fixture
def two_attempts(claim: Claim) -> Claim:
    for attempt in (0, 1):
        for node in (0, 1):
            lines = [at(10 * attempt + second, f"a{attempt} {second}") for second in (node, 5)]
            claim.put("run-1", f"{node}-pod{attempt}{node}-0.log", *lines)
    return claim


def test_all_attempts_of_a_job_that_is_gone(run: Any, two_attempts: Claim) -> None:
    code, out, err = run("logs", "demo")
    assert code == 0
    assert out.splitlines() == [
        *("[node-0] a0 0", "[node-0] a0 5", "[node-0] a1 0", "[node-0] a1 5"),
        *("[node-1] a0 1", "[node-1] a0 5", "[node-1] a1 1", "[node-1] a1 5"),
    ]
    assert "reading logs on claim checkpoints of namespace training" in err
    merged = run("logs", "demo", "--merged")[1].splitlines()
    assert merged[:3] == ["[node-0] a0 0", "[node-1] a0 1", "[node-0] a0 5"]
    assert run("logs", "demo", "--previous")[1].splitlines() == merged
    assert run("logs", "demo", "--rank", "1", "--tail", "1")[1] == "[node-1] a1 5\n"
    assert run("logs", "demo", "--node", "0")[1].splitlines() == out.splitlines()[:4]
    assert run("logs", "demo", "--rank", "2")[0] == ExitCode.BAD_INPUT


def test_attempts_before_the_one_that_runs(api: Api, run: Any, two_attempts: Claim) -> None:
    owner = world.job(api, "demo")
    world.admit(api, owner)
    api.objects[f"{world.JOBSETS}/demo"]["metadata"]["uid"] = "run-1"
    for node in (0, 1):
        api.objects[f"{world.PODS}/demo-node-0-{node}-abcde"]["metadata"]["uid"] = f"pod1{node}"
    out = run("logs", "demo", "--previous")[1]
    assert out.splitlines() == ["[node-0] a0 0", "[node-1] a0 1", "[node-0] a0 5", "[node-1] a0 5"]
    assert (kept.home() / "training" / "demo" / owner["metadata"]["uid"]).is_dir()


def test_python_reads_the_same(api: Api, cluster: Cluster, two_attempts: Claim) -> None:
    made = Run(cluster, world.job(api, "demo")["metadata"]["name"])
    api.remove(f"{world.JOBS}/demo")
    assert str(next(made.logs(rank=0))) == "[node-0] a0 0"
    assert len(list(made.logs(previous=True))) == 8


def test_followed_and_claimed_logs_are_merged(run: Any, two_attempts: Claim) -> None:
    here = kept.folder("training", "demo", "job-1")
    writer = here.writer(index=0, uid="pod00", restarts=0, of=2)
    writer.write(at(0, "a0 0"))
    writer.close()
    assert len(run("logs", "demo")[1].splitlines()) == 8
    assert [path.name for path in here.path.parent.iterdir()] == ["job-1"]


def test_newest_job_of_a_reused_name_is_reported(run: Any, claim: Claim) -> None:
    claim.put("run-1", "0-pod1-0.log", at(1, "old"))
    claim.put("run-2", "0-pod2-0.log", at(2, "new"))
    assert run("logs", "demo")[1] == "[node-0] new\n"


def test_a_long_log_comes_with_its_newest_part(
    run: Any, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MOST_BYTES", 40_000)
    for node in (0, 1):
        name = f"{node}-pod{node}-0.log"
        claim.put("run-1", f"{name}.before", *(at(1, f"{n}") for n in range(1000)))
        claim.put("run-1", name, *(at(2, f"{n}") for n in range(1000, 2000)))
    texts = [line.split()[1] for line in run("logs", "demo", "--node", "1")[1].splitlines()]
    assert texts == [str(n) for n in range(int(texts[0]), 2000)]
    assert 1000 < len(texts) < 1300


def test_a_name_of_nobody_is_not_found(run: Any, claim: Claim) -> None:
    code, out, err = run("logs", "other")
    assert (code, out) == (ExitCode.NOT_FOUND, "")
    assert "no job is called 'other'" in err
    assert run("logs", "../demo")[0] == ExitCode.NOT_FOUND
    assert len(claim.made) == 1


def test_user_who_cannot_submit_gets_an_error(api: Api, run: Any, two_attempts: Claim) -> None:
    api.refusals["POST", world.JOBSETS] = (403, "jobsets is forbidden")
    code, _, err = run("logs", "demo")
    assert code == ExitCode.NOT_FOUND
    assert "note: no claim with logs can be read in training" in err
    assert "ask someone who may submit jobs there" in err
    assert two_attempts.made == []


def test_pod_that_cannot_read_is_reported(run: Any, two_attempts: Claim) -> None:
    two_attempts.broken = "PermissionError: [Errno 13] Permission denied: '/claim/.railhead'"
    code, _, err = run("logs", "demo")
    assert code == ExitCode.NOT_FOUND
    assert "the pod in namespace training said: PermissionError: [Errno 13]" in err


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ([], "no node yet"),
        ([{"running": {}}, {"waiting": {"reason": "ErrImagePull"}}], "ErrImagePull"),
    ],
)
def test_a_pod_that_does_not_start_is_not_waited_for_for_ever(
    run: Any, two_attempts: Claim, states: list[Any], words: str
) -> None:
    results = [{"state": state} for state in states]
    two_attempts.status = {"phase": "Pending", "containerStatuses": results}
    err = run("logs", "demo")[2]
    assert f"were not read within 0 s: its pod has not started: {words}" in err


def test_a_pod_is_waited_for(
    run: Any, two_attempts: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_attempts.status = {"phase": "Pending"}
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        assert not slept
        slept.append(seconds)
        two_attempts.status["phase"] = "Running"

    monkeypatch.setattr(reader, "START_SECONDS", 60.0)
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    monkeypatch.setattr(reader, "time", clock)
    assert len(run("logs", "demo")[1].splitlines()) == 8
    assert slept == [reader.POLL_SECONDS]


def test_the_pod_is_one_that_the_strictest_level_lets_in(run: Any, two_attempts: Claim) -> None:
    """Pod Security's restricted, and no more than it needs: no GPU, no token, nothing to write."""
    run("logs", "demo")
    (made,) = two_attempts.made
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "training"
    (job,) = made["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]["spec"]
    assert not pod["automountServiceAccountToken"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert not security["allowPrivilegeEscalation"]
    assert security["readOnlyRootFilesystem"]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}


def test_a_job_that_is_gone_has_no_end_to_follow(run: Any, two_attempts: Claim) -> None:
    assert run("logs", "demo", "--follow")[0] == ExitCode.NOT_FOUND
    assert two_attempts.made == []


# -- without a process --------------------------------------------------------------------------


class Team:
    """A namespace where a pod's log is all that there is; what was asked of it."""

    def __init__(self, *said: str | Exception, pods: Sequence[Any] = ()) -> None:
        self.said, self.pods = said, list(pods)
        self.asked: list[Any] = []
        self.refused: dict[str, int] = {}

    def create(self, path: str, body: Any, *, dry_run: bool = False) -> None:
        self.asked.append(("dry run" if dry_run else "create", path, body["metadata"]["name"]))
        if status := self.refused.get(body["metadata"]["namespace"]):
            raise ApiError(status=status, reason="", message="no")

    def list(self, path: str, *, selector: str) -> list[Any]:
        self.asked.append(("list", path, selector))
        return self.pods

    def delete(self, path: str) -> None:
        self.asked.append(("delete", path))

    @contextmanager
    def log_lines(self, namespace: str, pod: str, **how: Any) -> Iterator[Iterator[str]]:
        self.asked.append(("log", namespace, pod, how))
        yield self._lines()

    def _lines(self) -> Iterator[str]:
        for line in self.said:
            if isinstance(line, Exception):
                raise line
            yield f"2026-01-02T03:04:05Z {line}"


def frames(*, run: str = "run-1", at: float = 77.0, text: bytes = b"1 a\n") -> list[str]:
    data = base64.b64encode(zlib.compress(text)).decode()
    head = {"run": run, "at": at, "file": "0-pod-0.log", "about": ABOUT}
    return [json.dumps(item) for item in (head, {"data": data[:9]}, {"data": data[9:]})]


START_SECONDS = reader.START_SECONDS
RUNNING = {"metadata": {"name": "pod"}, "status": {"phase": "Running"}}
END = json.dumps({"end": 2})


def fetched(team: Any, **how: Any) -> Any:
    """Return how many starts were read, or the error; and the messages meanwhile."""
    texts: list[str] = []
    try:
        result: Any = reader.fetch(
            team, CONTRACT, how.pop("where", ("training",)), "demo", say=texts.append, **how
        )
    except RailheadError as error:
        result = str(error)
    return result, texts


def test_lines_read_by_a_pod_are_kept() -> None:
    team = Team(*frames(), END, "and more", pods=[RUNNING])
    text = "reading logs on claim checkpoints of namespace training, by a pod there"
    assert fetched(team) == (1, [text])
    sets = world.JOBSETS
    tried, made, listed, log, deleted = team.asked
    assert tried == ("dry run", sets, "railhead-logs")
    name = made[2]
    assert re.fullmatch("railhead-logs-[0-9a-f]{8}", name)
    assert made == ("create", sets, name)
    assert listed == ("list", world.PODS, f"jobset.sigs.k8s.io/jobset-name={name}")
    assert log == ("log", "training", "pod", {
        "container": "read", "follow": True, "quiet_seconds": 120,
    })  # fmt: skip
    assert deleted == ("delete", f"{sets}/{name}")
    folder = kept.home() / "training" / "demo" / "run-1"
    assert list(kept.Folder(path=folder).lines()) == [("1", 0, "a")]
    assert kept.Folder(path=folder).about() is not None
    assert folder.stat().st_mtime == 77.0
    # Where the job is known by another name than its run's.
    shutil.rmtree(folder)
    assert fetched(Team(*frames(), END, pods=[RUNNING]), known={"run-1": "job"})[0] == 1
    assert [path.name for path in folder.parent.iterdir()] == ["job"]


@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_output_of_an_ended_pod_is_read(phase: str) -> None:
    pod = RUNNING | {"status": {"phase": phase}}
    assert fetched(Team(*frames(), END, pods=[pod]))[0] == 1


def test_path_outside_the_folder_is_ignored() -> None:
    reported = [*frames(), *frames(run="../../x"), *frames(run=""), json.dumps({"end": 6})]
    assert fetched(Team(*reported, pods=[RUNNING]))[0] == 1
    made = [path for path in kept.home().parent.parent.rglob("*") if path.is_file()]
    assert {path.parent.name for path in made} == {"run-1"}


@pytest.mark.parametrize(
    ("told", "last"),
    [
        ([], "nothing"),
        ([*frames()[:2], END], '{"end": 2}'),
        (frames(), frames()[-1]),
        (["[]"], "[]"),
        (["x" * 400], "x" * 300),
        ([frames()[0], TimeoutError()], frames()[0][:300]),
    ],
)
def test_a_part_of_what_there_is_is_not_taken_for_all(
    told: list[str | Exception], last: str
) -> None:
    team = Team(*told, pods=[RUNNING])
    assert fetched(team)[0] == (
        f"the claim's logs could not be read; the pod in namespace training said: {last}\n"
        "  fix: try again, with --node for less of them; the runtime's image must have Python 3.7 "
        "or newer, and the claim's own folder must be open to other users"
    )
    assert team.asked[-1][0] == "delete"
    assert not list(kept.home().rglob("*.log"))


def waiting(*reasons: str | None) -> dict[str, Any]:
    states = [{"state": {"waiting": {"reason": reason}} if reason else None} for reason in reasons]
    return {
        "metadata": {"name": "pod"},
        "status": {"phase": "Pending", "containerStatuses": states},
    }


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ([], "queue training has not admitted it"),
        ([{"metadata": {"name": "pod"}}], "its pod has not started: no node yet"),
        ([waiting()], "its pod has not started: no node yet"),
        ([waiting(None, "ErrImagePull")], "its pod has not started: ErrImagePull"),
    ],
)
def test_cause_of_a_waiting_pod_is_reported(
    monkeypatch: pytest.MonkeyPatch, pods: list[Any], why: str
) -> None:
    slept: list[float] = []
    times = iter([0.0, 50.0, 100.0, 150.0])
    fake = SimpleNamespace(monotonic=times.__next__, sleep=slept.append)
    monkeypatch.setattr(reader, "time", fake)
    monkeypatch.setattr(reader, "START_SECONDS", START_SECONDS)
    team = Team(pods=pods)
    assert fetched(team)[0] == (
        "the logs on claim checkpoints of namespace training were not read within 120 s: "
        f"{why}\n  fix: try again when the queue has 100m of CPU free"
    )
    assert slept == [reader.POLL_SECONDS] * 2
    assert team.asked[-1][0] == "delete"


@pytest.mark.parametrize("status", [403, 404])
def test_lack_of_rights_to_create_pods_is_reported(status: int) -> None:
    team = Team()
    team.refused["training"] = status
    assert fetched(team, where=("training", "other")) == (
        "no claim with logs can be read in training, other\n"
        "  fix: ask someone who may submit jobs there: a pod of the namespace reads them",
        [],
    )
    team.refused["training"] = 500
    assert fetched(team)[0] == "no"


def many(count: int) -> ClusterContract:
    """Return a contract with a claim and a queue in each of so many namespaces."""
    (queue,), (claim,) = CONTRACT.queues, CONTRACT.checkpoints
    names = [f"team-{number}" for number in range(count)]
    return CONTRACT.model_copy(
        update={
            "queues": tuple(queue.model_copy(update={"namespace": name}) for name in names),
            "checkpoints": tuple(claim.model_copy(update={"namespace": name}) for name in names),
        }
    )


def test_a_name_is_not_looked_for_on_every_claim() -> None:
    names = [f"team-{number}" for number in range(4)]
    cluster: Any = Team(*frames(), END, pods=[RUNNING])
    with pytest.raises(InputError) as reported:
        reader.fetch(cluster, many(4), names, "demo")
    assert str(reported.value) == (
        "demo is gone, and its logs may be on any of 4 claims\n"
        "  fix: say in which namespace it was, with --namespace"
    )
    assert reader.fetch(cluster, many(4), names[1:], "demo") == 3
    assert reader.fetch(cluster, many(3), names, "demo") == 3
    # A namespace where the user may not is left out.
    cluster.refused["team-0"] = 403
    assert reader.fetch(cluster, many(4), names, "demo") == 3
    cluster.asked.clear()
    assert reader.fetch(cluster, many(1), names, "../demo") == 0
    assert cluster.asked == []


def test_reader_uses_image_and_queue_of_jobs_on_its_claim() -> None:
    (runtime,), (queue,), (pool,) = CONTRACT.runtimes, CONTRACT.queues, CONTRACT.node_pools
    row = {"key": "gpu", "operator": "Exists"}
    pools = (pool.model_copy(update={"tolerations": (Toleration(**row),)}),)

    def found(runtimes: Sequence[Any] = (runtime,), queues: Sequence[Any] = (queue,)) -> Any:
        update = {"runtimes": tuple(runtimes), "queues": tuple(queues), "node_pools": pools}
        return reader.readers(CONTRACT.model_copy(update=update), ("training",))

    item = reader.Reader(
        namespace="training", claim="checkpoints", image=runtime.image, queue="training",
        tolerations=(row,),
    )  # fmt: skip
    bare = runtime.model_copy(update={"checkpoint": None, "image": "bare"})
    assert runtime.checkpoint is not None
    mount = runtime.checkpoint.model_copy(update={"claim": "another"})
    other = runtime.model_copy(update={"checkpoint": mount, "image": "other"})
    assert found() == [item]
    assert found([bare, other, runtime]) == [item]
    assert found([bare, other]) == []
    elsewhere = queue.model_copy(update={"namespace": "other", "name": "x"})
    poor = queue.model_copy(update={"pools": ("cpu",), "name": "y"})
    assert found(queues=[elsewhere, poor, queue]) == [item]
    assert found(queues=[elsewhere, poor]) == []
    assert reader.readers(CONTRACT, ("other",)) == []


def test_only_the_requested_node_is_read() -> None:
    team: Any = Team(END.replace("2", "0"), pods=[RUNNING])
    asked: list[Any] = []
    create = team.create

    def kept_body(path: str, body: Any, *, dry_run: bool = False) -> None:
        create(path, body, dry_run=dry_run)
        (job,) = body["spec"]["replicatedJobs"]
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        asked.append(json.loads(container["command"][-1]))

    team.create = kept_body
    assert fetched(team, node=3)[0] == 0
    folder = "/claim/.railhead/logs/training/demo"
    assert asked == [{}, {"folder": folder, "node": 3, "runs": 2, "most": 64 << 20}]
