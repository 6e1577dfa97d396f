"""A job's own proof of its fabric: what it asks for, what travels, what stops a gang."""

from __future__ import annotations

import ast
import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import railhead
from railhead.base.errors import InputError
from railhead.base.retries import HOPELESS
from railhead.fabric.kinds import FABRICS
from railhead.framework import FRAMEWORKS
from railhead.launch import failing, render
from railhead.launch.job import Payload, parse_job
from railhead.launch.plan import Plan, make_plan
from railhead.launch.programs import verify
from railhead.launch.proof import PLACE
from tests.unit.launch.conftest import CONTRACT, JOB

ROOT = Path(railhead.__file__).parent
GOLDEN = Path(__file__).parent / "golden"
LOG = Path(__file__).resolve().parents[2] / "nccl/tune/365-roce-ok-gid-index-3-set.log"
ROCE = FABRICS["roce"]
FABRIC = CONTRACT.fabric.model_copy(
    update={"proofs": ROCE.proofs, "gpudirect": ROCE.gpudirect},
)
FILES = (Payload(name="train.py", data=b"say('hello')\n"),)


def plan(*sets: str, trainer: str = "2.1.0", files: tuple[Payload, ...] = FILES) -> Plan:
    field = {"2.1.0": "podTemplateOverrides", "2.3.0": "runtimePatches"}[trainer]
    contract = CONTRACT.model_copy(update={"placement_field": field, "fabric": FABRIC})
    job = parse_job(JOB + "verify: true\n", where="job", sets=sets)
    return make_plan(job, files, contract)


# -- what is asked ------------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["true", "True", "TRUE", "'true'"])
def test_it_is_asked_in_words_that_yaml_has(said: str) -> None:
    assert parse_job(f"{JOB}verify: {said}\n", where="job").verify is True
    assert parse_job(JOB, where="job").verify is None
    assert plan("verify=false").proof is None


@pytest.mark.parametrize("said", ["yes", "1", "[true]"])
def test_other_words_are_refused(said: str) -> None:
    with pytest.raises(InputError, match=r"line 10: verify: .* is not allowed; allowed: true or f"):
        parse_job(f"{JOB}verify: {said}\n", where="job")


@pytest.mark.parametrize(
    ("sets", "problem"),
    [
        (("fabric=none",), "verify: contradicts `fabric: none`"),
        (("nodes=1",), "verify: one node has nothing to prove"),
    ],
)
def test_useless_verify_settings_are_refused(sets: tuple[str, ...], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        plan(*sets)
    assert problem in caught.value.problem


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_framework_starts_it_or_says_why_not(name: str) -> None:
    row = FRAMEWORKS[name]
    runtime = CONTRACT.runtimes[0].model_copy(
        update={"framework": name, "launches": None, "reserved": {}, "told": ()}
    )
    contract = CONTRACT.model_copy(update={"runtimes": (runtime,), "fabric": FABRIC})
    text = JOB.replace("torchrun, ", "").replace("processes_per_node: 2", "processes_per_node: 1")
    job = parse_job(text + "verify: true\n", where="job")
    if (start := row.proving(verify.__file__)) is None:
        with pytest.raises(InputError) as caught:
            make_plan(job, FILES, contract)
        assert f"of framework '{name}'" in caught.value.problem
        assert f"{row.launcher} starts none" in caught.value.problem
        return
    made = make_plan(job, FILES, contract)
    assert made.words == ("python3", f"{PLACE}/verify.py", *made.command)
    assert start[0] in (made.command[0], row.launcher)
    # Where the job's own processes meet, those of a pod that is done already may be waiting.
    assert not {"--master-port=29500", "29500"} & set(start)


def test_a_runtime_of_nobody_knows_what_is_refused() -> None:
    runtime = CONTRACT.runtimes[0].model_copy(update={"framework": "own"})
    contract = CONTRACT.model_copy(update={"runtimes": (runtime,)})
    with pytest.raises(InputError, match="no known launcher starts one"):
        make_plan(parse_job(JOB + "verify: true\n", where="job"), FILES, contract)


# -- what travels -------------------------------------------------------------------------------


@pytest.mark.parametrize("trainer", ["2.1.0", "2.3.0"])
def test_golden(trainer: str) -> None:
    """The TrainJob, line by line; a wanted change is copied from the failure."""
    expected = json.loads((GOLDEN / f"verify-{trainer[:3]}.json").read_text())
    made = json.loads(json.dumps(render.train_job(plan(trainer=trainer))))
    for source in _volume(made, trainer)["projected"]["sources"]:
        # Which files they are is held below.
        del source["configMap"]["items"]
    assert made == expected


def _volume(job: dict[str, Any], trainer: str) -> dict[str, Any]:
    if trainer == "2.1.0":
        pod = job["spec"]["podTemplateOverrides"][0]["spec"]
    else:
        (patch,) = job["spec"]["runtimePatches"]
        (item,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        pod = item["template"]["spec"]["template"]["spec"]
    result: dict[str, Any] = next(v for v in pod["volumes"] if v["name"] == render.PROOF_VOLUME)
    return result


def mounted(made: Plan) -> dict[str, bytes]:
    """Return the proof's folder as a kubelet would lay it out."""
    maps = {m["metadata"]["name"]: m for m in render.config_maps(made)}
    results: dict[str, bytes] = {}
    for source in _volume(render.train_job(made), "2.1.0")["projected"]["sources"]:
        body = maps[source["configMap"]["name"]]
        held = {k: v.encode() for k, v in body.get("data", {}).items()}
        held |= {k: base64.b64decode(v) for k, v in body.get("binaryData", {}).items()}
        results |= {item["path"]: held[item["key"]] for item in source["configMap"]["items"]}
    return results


@pytest.mark.parametrize("files", [FILES, ()])
def test_the_program_and_the_one_reader_travel_with_the_job(files: tuple[Payload, ...]) -> None:
    made = plan(files=files)
    result = mounted(made)
    assert result.pop("verify.py") == Path(verify.__file__).read_bytes()
    asked = json.loads(result.pop("asked.json"))
    assert (tuple(asked["proofs"]), asked["gpudirect"]) == (ROCE.proofs, ROCE.gpudirect)
    assert asked["world"] == 4
    assert result == {name: (ROOT.parent / name).read_bytes() for name in result}
    # Nothing of the image's or of the job's is hidden where the job brings no files.
    names = [m["mountPath"] for m in render.volumes_of(made)[1]]
    assert names == [*(["/workspace"] if files else []), PLACE]
    maps = render.config_maps(made)
    assert len({m["metadata"]["name"] for m in maps}) == len(maps) == len(files) + 1


def test_imported_modules_travel_too() -> None:
    """Each module that it imports at once travels, and none that images do not have."""
    results = {name: text for name, text in mounted(plan()).items() if name.startswith("railhead/")}
    for name, text in results.items():
        for node in ast.parse(text).body:
            if not isinstance(node, ast.Import | ast.ImportFrom) or name.endswith("report.py"):
                continue
            inside = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            assert inside is not None
            if inside.split(".")[0] != "railhead":
                assert inside.split(".")[0] in sys.stdlib_module_names, (name, inside)
                continue
            path = inside.replace(".", "/")
            assert {f"{path}.py", f"{path}/__init__.py"} & results.keys(), (name, inside)


# -- what it says -------------------------------------------------------------------------------


def processes(*, pod: int) -> list[list[str]]:
    """Return the log of each process of a pod: one that sent and received over RoCE, renamed."""
    text = LOG.read_text()
    writer = re.search(r"([\w.-]+:\d+):\d+ \[\d+\] ", text)
    assert writer is not None
    own = [line for line in text.splitlines() if f"{writer[1]}:" in line]
    return [
        [line.replace(f"{writer[1]}:", f"node-{pod}:{100 + local}:") for line in own]
        for local in range(8)
    ]


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(verify, "HERE", tmp_path)
    asked = {"proofs": ROCE.proofs, "gpudirect": ROCE.gpudirect}
    (tmp_path / "asked.json").write_text(json.dumps(asked))

    def judge(logs: Sequence[Sequence[str]], backend: str = "nccl") -> tuple[str, str]:
        for local, lines in enumerate(logs):
            (tmp_path / f"{local}.log").write_text("\n".join(lines))
        return verify.judged(tmp_path, backend, 1, 8)

    return judge


def test_a_pods_own_log_is_proof(judged: Any) -> None:
    assert judged(processes(pod=1)) == ("passed", "shown by all 8 processes")


def test_one_process_over_tcp_is_enough(judged: Any) -> None:
    logs = processes(pod=1)
    logs[5] = [
        line.replace("via NET/IB/", "via NET/Socket/").replace("/GDRDMA", "") for line in logs[5]
    ]
    verdict, text = judged(logs)
    assert verdict == "failed"
    assert text.startswith("the transport is TCP on 1 of 8 processes: ")


def test_one_process_without_a_connection_is_enough(judged: Any) -> None:
    logs = processes(pod=1)
    logs[5] = [line for line in logs[5] if "via NET/" not in line]
    verdict, text = judged(logs)
    assert verdict == "not-proven"
    assert text.startswith("1 of 8 processes: node-1:")


def test_a_process_that_wrote_nothing_is_missed(judged: Any) -> None:
    verdict, text = judged([*processes(pod=1)[:7], []])
    assert (verdict, text) == (
        "not-proven",
        "pod 1 has started 8 processes, and NCCL's log is of 7",
    )


def test_gloo_is_tcp(judged: Any) -> None:
    verdict, text = judged([], "gloo")
    assert verdict == "failed"
    assert text.startswith("the transport is TCP: ")


def test_it_is_small_and_runs_on_python_3_8() -> None:
    """Ten years of images: nothing of a newer syntax or library may slip in."""
    results = mounted(plan())
    assert sum(map(len, results.values())) < 20_000
    newer = r"kw_only|StrEnum|strict=True|removeprefix|removesuffix|\) \| \{|:="
    for name, data in results.items():
        if name.endswith(".py"):
            ast.parse(data, feature_version=(3, 8))
            assert not re.search(newer, data.decode()), name


def test_the_worst_pod_speaks_for_all() -> None:
    good, open_, bad = ("passed", "x"), ("not-proven", "y"), ("failed", "z")
    assert verify.together([good, open_, bad, good]) == ("failed", "z (node 2)")
    assert (
        verify.together([good, open_, open_])[1] == "y (node 1, and so on 1 of the other 2 nodes)"
    )
    assert verify.together([good, good])[0] == "passed"


def test_its_exit_code_is_one_that_nothing_starts_again() -> None:
    assert verify.STOPPED in HOPELESS
    assert verify.NO_PROGRAM in HOPELESS


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that took the process' place, which here goes on."""
    results: list[Any] = []
    monkeypatch.setattr(os, "execvpe", lambda *given: results.append(given))
    return results


@pytest.mark.parametrize(
    ("code", "verdict", "ended", "said"),
    [
        (0, "passed", None, "proven: why"),
        (0, "failed", 78, "stopped, failed; the command was not started: why"),
        (0, "not-proven", 78, "stopped, not-proven; the command was not started: why"),
        (
            *(3, "passed", 3),
            "the step failed with 3, so nothing is proven and the command was not started",
        ),
    ],
)
def test_the_command_starts_with_proof_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    became: list[Any], code: int, verdict: str, ended: int | None, said: str,
) -> None:  # fmt: skip
    folder = tmp_path / "made"
    seen: list[Any] = []
    folder.mkdir()
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(folder))

    def looked(found: Any) -> Callable[[Path], Any]:
        def look(at: Path) -> Any:
            seen.append(at)
            return found

        return look

    monkeypatch.setattr(verify, "step", looked(code))
    monkeypatch.setattr(verify, "verdict_of", looked((verdict, "why")))
    taken = [("train", ["train", "x"], verify.given())] if ended is None else []
    assert verify.main(["train", "x"]) == ended
    assert capsys.readouterr().out == f"railhead verify: {said}\n"
    assert became == taken
    assert (seen, folder.exists()) == ([folder, folder], False)
    assert verify.given()[b"PATH"] == os.environb[b"PATH"]


def test_a_command_that_is_not_there_ends_as_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(verify, "step", lambda _: 0)
    monkeypatch.setattr(verify, "verdict_of", lambda _: (verify.PASSED, "x"))
    for path, code, why in (
        (tmp_path / "none", verify.NO_PROGRAM, "No such file or directory"),
        (tmp_path, verify.NO_START, "Permission denied"),
    ):
        assert verify.main([str(path)]) == code
        assert f"railhead verify: {path}: {why}\n" in capsys.readouterr().out


def starting(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(verify, "HERE", folder)
    asked = {"start": words, "environment": {"ASKED": "yes"}}
    (folder / "asked.json").write_text(json.dumps(asked))


def test_without_a_launcher_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    starting(tmp_path, monkeypatch, str(tmp_path / "none"))
    assert verify.main(["true"]) == verify.NO_PROGRAM
    assert "railhead verify: the step did not start: [Errno 2]" in capsys.readouterr().out


def test_without_a_verdict_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    became: list[Any],
) -> None:  # fmt: skip
    starting(tmp_path, monkeypatch, "true")
    assert verify.main(["true"]) == verify.STOPPED
    assert "not-proven; the command was not started: the step ended without a verdict\n" in (
        capsys.readouterr().out
    )
    assert became == []
    for text in ("", "{"):
        (tmp_path / "verdict.json").write_text(text)
        assert verify.verdict_of(tmp_path) == (
            verify.NOT_PROVEN,
            "the step ended without a verdict",
        )


@pytest.mark.parametrize(("ends", "code"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_a_step_ends_as_a_shell_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, code: int
) -> None:
    """The step has the job's environment under its own; signals are afterwards as before."""
    monkeypatch.setenv("ASKED", "no")
    monkeypatch.setenv("MINE", "kept")
    reported = tmp_path / "told"
    script = f'echo "$ASKED $MINE $RAILHEAD_VERIFY" > {reported}; {ends}'
    starting(tmp_path, monkeypatch, "sh", "-c", script)
    before = [signal.getsignal(item) for item in (signal.SIGTERM, signal.SIGINT)]
    assert verify.step(tmp_path) == code
    assert reported.read_text() == f"yes kept {tmp_path}\n"
    assert [signal.getsignal(item) for item in (signal.SIGTERM, signal.SIGINT)] == before


def test_the_end_of_a_pod_reaches_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's first process alone gets the signal, and must pass it to its children."""
    ready = tmp_path / "ready"
    program = (
        "import pathlib, signal, sys\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "while True: signal.pause()\n"
    )
    starting(tmp_path, monkeypatch, sys.executable, "-c", program)

    def end() -> None:
        while not ready.exists() or signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    teller = threading.Thread(target=end)
    teller.start()
    assert verify.step(tmp_path) == 7
    teller.join()


# -- one process --------------------------------------------------------------------------------


@dataclass
class Values:
    """A tensor whose values are all the same."""

    count: int
    value: float
    device: Any = None

    def __ne__(self, other: object) -> Any:
        return SimpleNamespace(sum=lambda: self.count * (self.value != other))


class World:
    """Fake torch and torch.distributed for one process, whose peers do as they should."""

    float32 = "float32"

    def __init__(self, rank: int, world: int, *, gpu: bool = True, add: float = 0.0) -> None:
        self.rank, self.world, self.add = rank, world, add
        self.done: list[Any] = []
        self.others: dict[int, Any] = {}
        self.judged: Any = None
        self.cuda = SimpleNamespace(
            is_available=lambda: gpu, set_device=lambda local: self.done.append(("gpu", local))
        )

    def ones(self, count: int, *, dtype: str, device: Any) -> Values:
        assert dtype == self.float32
        return Values(count, 1.0, device)

    def full(self, shape: tuple[int], value: float, *, dtype: str, device: Any) -> Values:
        assert dtype == self.float32
        return Values(*shape, value, device)

    def device(self, kind: str, local: int = 0) -> str:
        return f"{kind}:{local}"

    def get_rank(self) -> int:
        return self.rank

    def get_world_size(self) -> int:
        return self.world

    def get_backend(self) -> str:
        return str(self.done[0][1])

    def init_process_group(self, backend: str, *, timeout: timedelta) -> None:
        assert timeout == timedelta(minutes=10)
        self.done.insert(0, ("met", backend))

    def all_reduce(self, values: Values) -> None:
        self.done.append(("all-reduce", values.count, values.value, values.device))
        values.value = float(self.world) + self.add

    def isend(self) -> None:
        """Named alone."""

    def irecv(self) -> None:
        """Named alone."""

    def P2POp(self, how: Any, values: Values, peer: int) -> Any:  # noqa: N802 - torch's name
        return how.__name__, values, peer

    def batch_isend_irecv(self, both: list[Any]) -> list[Any]:
        def wait(how: str, values: Values, peer: int) -> None:
            self.done.append((how, values.count, values.value, peer, values.device))
            if how == "irecv":
                values.value = float(peer)

        return [SimpleNamespace(wait=partial(wait, *item)) for item in both]

    def barrier(self) -> None:
        self.done.append("barrier")

    def destroy_process_group(self) -> None:
        self.done.append("left")

    def all_gather_object(self, told: list[Any], mine: Any) -> None:
        told[:] = [self.others.get(rank) for rank in range(self.world)]
        told[self.rank] = mine


def test_every_process_exchanges_values_with_other_pods() -> None:
    world = World(5, 8)
    assert verify.exchange(world, world, "gpu", 4) == 0
    mib = 1 << 20
    assert world.done == [
        ("all-reduce", 4 * mib, 1.0, "gpu"),
        ("isend", mib // 4, 5.0, 1, "gpu"),
        ("irecv", mib // 4, -1.0, 1, "gpu"),
    ]
    world = World(1, 12)
    assert verify.exchange(world, world, "gpu", 4) == 0
    assert [(item[0], item[3]) for item in world.done[1:]] == [("isend", 5), ("irecv", 9)]
    # What a broken sum is: every value of it.
    world = World(5, 8, add=1.0)
    assert verify.exchange(world, world, "gpu", 4) == 4 * mib


def one_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch, world: World, *, wanted: int = 4, local: int = 0
) -> Any:
    """Return what a process of a pod of two writes, and the logs that it judged."""
    folder.mkdir(exist_ok=True)
    monkeypatch.setattr(verify, "HERE", folder)
    (folder / "asked.json").write_text(json.dumps({"world": wanted}))
    for name, value in (("LOCAL_RANK", local), ("LOCAL_WORLD_SIZE", 2)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("NCCL_DEBUG_FILE", "")
    monkeypatch.setitem(sys.modules, "torch", world)
    monkeypatch.setitem(sys.modules, "torch.distributed", world)
    world.distributed = world  # type: ignore[attr-defined]

    def judged(_: Path, *given: Any) -> tuple[str, str]:
        world.judged = given
        return verify.PASSED, f"seen {given}"

    monkeypatch.setattr(verify, "judged", judged)
    verify.prove(folder)
    assert os.environ["NCCL_DEBUG_FILE"] == str(folder / f"{local}.log")
    written = folder / "verdict.json"
    return json.loads(written.read_text()) if written.exists() else None


def test_the_first_of_each_pod_writes_what_all_have_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = World(2, 4)
    first.others[0] = (verify.PASSED, "fine")
    text = one_process(tmp_path / "a", monkeypatch, first)
    assert text == ["passed", "fine of node 0, and so on all 2 nodes"]
    assert first.judged == ("nccl", 1, 2)
    assert first.done[:2] == [("met", "nccl"), ("gpu", 0)]
    assert first.done[2][3] == "cuda:0"
    assert first.done[-3:] == ["barrier", "barrier", "left"]
    second = World(3, 4)
    assert one_process(tmp_path / "b", monkeypatch, second, local=1) is None
    assert second.done[1:3] == [("gpu", 1), ("all-reduce", 4 << 20, 1.0, "cuda:1")]
    third = World(0, 4, gpu=False)
    third.others[2] = ("failed", "no")
    assert one_process(tmp_path / "c", monkeypatch, third) == ["failed", "no (node 1)"]
    assert third.done[:2] == [("met", "gloo"), ("all-reduce", 4 << 20, 1.0, "cpu:0")]
    alone = World(0, 2)
    assert one_process(tmp_path / "d", monkeypatch, alone, wanted=2)[1] == (
        "seen ('nccl', 0, 2) of node 0, and so on all 1 nodes"
    )


def test_a_world_of_another_size_or_a_wrong_sum_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = World(0, 2)
    assert one_process(tmp_path / "a", monkeypatch, small) == [
        "not-proven",
        "2 processes met, and the job has 4 (node 0)",
    ]
    assert "all-reduce" not in str(small.done)
    wrong = World(1, 4, add=1.0)
    wrong.others = {0: (verify.PASSED, "fine"), 2: (verify.PASSED, "fine")}
    assert one_process(tmp_path / "b", monkeypatch, wrong, local=1) is None
    wrong = World(0, 4, add=1.0)
    wrong.others = {2: (verify.PASSED, "fine")}
    assert one_process(tmp_path / "c", monkeypatch, wrong) == [
        "failed",
        f"{4 << 20} values that rank 0 got were wrong (node 0)",
    ]
    # Of a pod whose first process has all right, and another has not.
    right = World(0, 4)
    right.others = {1: (verify.FAILED, "wrong"), 2: (verify.PASSED, "fine")}
    assert one_process(tmp_path / "d", monkeypatch, right) == ["failed", "wrong (node 0)"]


# -- a gang of processes ------------------------------------------------------------------------

TORCHRUN = """\
#!/usr/bin/env python3
import os, subprocess, sys

assert sys.argv[1:-1] == ["--rdzv-backend=static", "--master-port=29501", "--max-restarts=0"]
node = os.environ["PET_NODE_RANK"]
told = {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "RANK": node, "WORLD_SIZE": "2"}
sys.exit(1 if subprocess.call([sys.executable, sys.argv[-1]], env={**os.environ, **told}) else 0)
"""
TORCH = """\
import os

float32 = None


class Tensor:
    def __ne__(self, other):
        return self

    def sum(self):
        return 0


def ones(*_, **__):
    return Tensor()


full = ones


def device(*_):
    return None


class cuda:
    is_available = staticmethod(lambda: True)
    set_device = staticmethod(lambda _: None)
"""
DISTRIBUTED = """\
import json, os, sys, time
from pathlib import Path
from types import SimpleNamespace

WORLD = Path(os.environ["FAKE"])
isend = irecv = P2POp = lambda *_: None
all_reduce = destroy_process_group = lambda *_: None
turn = 0


def batch_isend_irecv(_):
    return []


def get_rank():
    return int(os.environ["RANK"])


def get_world_size():
    return int(os.environ["WORLD_SIZE"])


def get_backend():
    return "nccl"


def init_process_group(backend, timeout):
    assert (backend, os.environ["NCCL_DEBUG"]) == ("nccl", "INFO")
    assert os.environ["NCCL_MNNVL_ENABLE"] == "0"
    log = WORLD / f"log-{get_rank()}"
    if not log.exists():
        sys.exit(9)
    Path(os.environ["NCCL_DEBUG_FILE"]).write_text(log.read_text())


def all_gather_object(told, mine):
    global turn
    turn += 1
    new = WORLD / f"new-{get_rank()}"
    new.write_text(json.dumps(mine))
    new.rename(WORLD / f"{turn}-{get_rank()}")
    end = time.monotonic() + 120
    for rank in range(len(told)):
        path = WORLD / f"{turn}-{rank}"
        while not path.exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        told[rank] = json.loads(path.read_text())


def barrier():
    all_gather_object([None] * get_world_size(), None)
"""


@dataclass(frozen=True, kw_only=True)
class Pod:
    """The exit code and the output of a pod's first process."""

    code: int
    output: str


def gang(folder: Path, logs: Sequence[Sequence[str] | None]) -> list[Pod]:
    """Start two pods of one process each as a plan says, with a fake torch."""
    made = plan("processes_per_node=1")
    place = folder / "place"
    for name, data in mounted(made).items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.replace(PLACE.encode(), str(place).encode()))
    files = {
        "bin/torchrun": TORCHRUN,
        "site/torch/__init__.py": TORCH,
        "site/torch/distributed.py": DISTRIBUTED,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (folder / "bin/python3").symlink_to(sys.executable)
    world = folder / "world"
    world.mkdir()
    for rank, lines in enumerate(logs):
        if lines is not None:
            (world / f"log-{rank}").write_text("\n".join(lines))
    command = ["python3", "-c", "import os; print('ran', sorted(os.environ), os.getpid())"]
    words = [word.replace(PLACE, str(place)) for word in (*made.words[:2], *command)]
    started = [
        subprocess.Popen(
            words,
            env={
                "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
                "PYTHONPATH": str(folder / "site"),
                "FAKE": str(world),
                "PET_NODE_RANK": str(node),
                "NCCL_DEBUG": "WARN",
                "LC_ALL": "C.UTF-8",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for node in range(2)
    ]
    return [Pod(output=item.communicate(timeout=240)[0], code=item.returncode) for item in started]


def test_with_proof_on_every_pod_the_command_takes_over(tmp_path: Path) -> None:
    pods = gang(tmp_path, [processes(pod=0)[0], processes(pod=1)[0]])
    for pod in pods:
        assert pod.code == 0, pod.output
        proven, ran = pod.output.splitlines()
        proof = "railhead verify: proven: shown by all 1 processes of node 0"
        assert proven.startswith(proof)
        # The pod's own environment, and nothing of the step's.
        names = ["FAKE", "LC_ALL", "NCCL_DEBUG", "PATH", "PET_NODE_RANK", "PYTHONPATH"]
        assert ran.startswith(f"ran {names} ")


def test_tcp_on_one_pod_stops_them_all(tmp_path: Path) -> None:
    over = [line.replace("via NET/IB/", "via NET/Socket/") for line in processes(pod=1)[0]]
    for pod in gang(tmp_path, [processes(pod=0)[0], over]):
        assert pod.code == verify.STOPPED, pod.output
        (line,) = pod.output.splitlines()
        assert line.startswith("railhead verify: stopped, failed; the command was not started: ")
        assert "the transport is TCP on 1 of 1 processes: " in line
        assert line.endswith("(node 1)")
        assert any(cause.search(line) for cause in failing._CAUSES[:1])


def test_failed_step_is_not_a_verdict(tmp_path: Path) -> None:
    """The step is tried again as the job's own failures are, and the command does not start."""
    for pod in gang(tmp_path, [None, None]):
        assert pod.code == 1, pod.output
        assert "the step failed with 1, so nothing is proven" in pod.output
        assert "ran" not in pod.output.split()
