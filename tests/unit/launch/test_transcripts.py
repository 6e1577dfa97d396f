"""What figures, `--explain`, `status` and `cancel` say of a few jobs, and what is sent for them.

`RAILHEAD_TRANSCRIPTS=write python -m pytest tests/unit/launch/test_transcripts.py` writes it anew;
read the difference.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from railhead import cli
from railhead.base.errors import InputError
from railhead.contract import ClusterContract
from railhead.framework import FRAMEWORKS
from railhead.kube.client import Cluster
from railhead.launch import render
from railhead.launch.apis import apis
from railhead.launch.estimates import Shape, figures
from railhead.launch.explain import derived
from railhead.launch.failing import Failure, Silence
from railhead.launch.job import JobFile, Payload, SizingFile, parse_job, read_job
from railhead.launch.logs import reader
from railhead.launch.plan import Plan, make_plan
from railhead.launch.preflight import preflight
from railhead.launch.schema import SECTIONS
from railhead.launch.starting import first_job
from railhead.launch.waiting import Holder, Waiting
from tests.docs import commands
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT
from tests.unit.launch.fake_api import STAMP, Api
from tests.wiring import contract, kinds, objects

GOLDEN = Path(__file__).parent / "golden"


def worked_out(shape: Shape, **fields: Any) -> Callable[[], Any]:
    return lambda: [one.to_json() for one in figures(SizingFile(**fields), shape)]


EIGHT = Shape(nodes=8, gpus=8, gbps=3200.0)
WHOLE = {
    "params": 7.5e9,
    "global_batch": 1024,
    "micro_batch": 4,
    "seq_len": 4096,
    "tflops": 400.0,
    "base_batch": 256,
    "base_lr": 1e-4,
    "gpu_memory_gb": 80.0,
    "checkpoint_gbs": 20.0,
}
CASES: dict[str, Callable[[], Any]] = {
    "figures of all that is given": worked_out(EIGHT, **WHOLE),
    "figures of a cut model, measured": worked_out(
        EIGHT, params=70e9, tensor=8, pipeline=4, dtype="fp32", optimizer="sgd",
        accumulation=8, global_batch=128, step_seconds=2.5, gpu_mtbf_hours=5000.0,
        base_batch=64, base_lr=0.1,
    ),
    "figures of one node": worked_out(Shape(nodes=1, gpus=8, gbps=3200.0), params=1e9),
    "figures without a rate": worked_out(Shape(nodes=2, gpus=8, gbps=0.0), params=1e9),
    "figures of nothing": worked_out(EIGHT),
    "a batch from its parts": worked_out(EIGHT, micro_batch=2, accumulation=3, base_lr=1.0),
    "a batch against its parts": worked_out(
        EIGHT, micro_batch=2, accumulation=3, global_batch=100, base_lr=0.1, base_batch=64
    ),
    "a batch that micro batches do not make": worked_out(EIGHT, micro_batch=3, global_batch=1000),
    "a batch that many numbers of nodes make": worked_out(EIGHT, micro_batch=3, global_batch=720),
    "a batch that accumulation does not make": worked_out(EIGHT, accumulation=5, global_batch=64),
    "a batch that its parts make": worked_out(
        EIGHT, micro_batch=2, accumulation=3, global_batch=384
    ),
    "a batch in parts of one": worked_out(EIGHT, accumulation=2, global_batch=128, dtype="fp16"),
    "a batch that fewer or more nodes make": worked_out(
        Shape(nodes=2, gpus=1, gbps=100.0), micro_batch=1, global_batch=15
    ),
    "a batch that is less than one each": worked_out(EIGHT, micro_batch=4, global_batch=32),
    "a batch that replicas of a cut model do not make": worked_out(
        EIGHT, micro_batch=3, global_batch=240, tensor=2, pipeline=2
    ),
    "as much memory as there is": worked_out(
        EIGHT, params=7.5e9, gpu_memory_gb=120.0, dtype="fp16", base_lr=0.1, base_batch=64
    ),
    "cuts that do not divide": worked_out(EIGHT, params=1e9, tensor=7),
    "cuts that fit no node": worked_out(
        Shape(nodes=3, gpus=8, gbps=100.0), params=1e9, tensor=6, pipeline=2
    ),
    "cuts over several nodes": worked_out(EIGHT, params=1e9, tensor=16, micro_batch=1),
}  # fmt: skip


def said() -> dict[str, Any]:
    # Sums of floats may differ in their last digit between machines.
    return {
        name: json.loads(json.dumps(case()), parse_float=lambda text: float(f"{float(text):.9g}"))
        for name, case in CASES.items()
    }


def held(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """What was said when it was last read and found right."""
    path = GOLDEN / f"{name}.json"
    if os.environ.get("RAILHEAD_TRANSCRIPTS") == "write":
        path.write_text(json.dumps(found, indent=1) + "\n")
    expected: dict[str, Any] = json.loads(path.read_text())
    return expected


def test_figures_say_what_they_said() -> None:
    found = said()
    expected = held("figures", found)
    assert found.keys() == expected.keys()
    for case, rows in found.items():
        assert rows == expected[case], case


# -- what is explained and sent -------------------------------------------------------------------

ALL = """\
name: all
runtime: own
nodes: 4
gpus_per_node: 4
processes_per_node: 2
command: [torchrun, /workspace/train.py, "$(X)", "a b"]
files: [train.py]
image: registry.example.com/mine:1
env: {EPOCHS: 10, TEXT: "$HOME $(X) %"}
queue: training
namespace: training
fabric: none
timeout: 90m
shm: 128Mi
secrets: {TOKEN: hub/token}
mounts: {/data: corpus}
checkpoint: {path: deep/down}
topology: kubernetes.io/hostname
"""
SHORT = "name: short\nnodes: 1\ncommand: [train.py]\n"
MORE = {
    "proven": ("torch", "nodes: 2\nverify: true\n"),
    "with fewer nodes": ("torch", "nodes: 4\nmin_nodes: 2\nprocesses_per_node: 2\n"),
    "carried": ("raw", "nodes: 3\nframework: jax\n"),
    "each node alone": ("torch", "nodes: 2\nframework: torch\nlauncher: none\ntopology: any\n"),
    "of its own world": ("torch", "nodes: 2\nlauncher: own\nrestarts: 3\nshm: 96Mi\n"),
}
FILES = (Payload(name="train.py", data=b"say('hello')\n"), Payload(name="b.bin", data=b"\xff"))
LONGEST = 200


def shortened(value: Any) -> Any:
    """A program stands as its digest: it is another file's."""
    if isinstance(value, dict):
        return {key: shortened(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(inner) for inner in value]
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{hashlib.sha256(value.encode()).hexdigest()[:16]}, {len(value)} characters"
    return value


@functools.cache
def cluster_of(framework: str) -> ClusterContract:
    return contract(framework)


def planned(text: str, framework: str) -> tuple[JobFile, Plan, ClusterContract]:
    of = cluster_of(framework)
    job = parse_job(text, where="job")
    return job, make_plan(job, FILES if job.files else (), of), of


def every_job() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, text in (("all", ALL), ("short", SHORT)):
        job, made, of = planned(text, "torch")
        rows = [f"{r.name}: {r.value} ({r.origin}: {r.why})" for r in derived(job, made, of)]
        found[name] = {"explained": rows, "sent": render.objects(made)}
    for name, (framework, more) in MORE.items():
        job, made, of = planned(SHORT.replace("nodes: 1\n", more), framework)
        rows = [f"{r.name}: {r.value} ({r.origin}: {r.why})" for r in derived(job, made, of)]
        # What proves the fabric travels as many files, which are held elsewhere.
        found[name] = {"explained": rows, "sent": [] if job.verify else render.objects(made)}
    (one,) = reader.readers(cluster_of("torch"), cluster_of("torch").namespaces)
    asked = {"folder": "/claim/demo", "node": None, "runs": 2, "most": 1}
    found["reads a claim"] = {"sent": [one.job_set("railhead-logs", asked)]}
    rows_of = {
        name: {key: str(of) for key, of in vars(api).items()} for name, api in apis().items()
    }
    found["kinds of job"] = {"sent": [rows_of]}
    for framework, row in FRAMEWORKS.items():
        _, made, _ = planned(SHORT.replace("nodes: 1", "nodes: 2"), framework)
        for api in kinds(framework) if framework == "torch" else ("trainjob", *row.kinds):
            found[f"{framework} as {api}"] = {"sent": objects(api, made)}
    short: dict[str, Any] = shortened(found)
    return short


def test_jobs_are_explained_and_sent_as_they_were() -> None:
    found = every_job()
    expected = held("jobs", found)
    assert found.keys() == expected.keys()
    for name, job in found.items():
        assert job == expected[name], name


# -- status and cancel ----------------------------------------------------------------------------


def waiting(api: Api) -> None:
    for name, gpus, limit in (("large", 8, 3600), ("small", 4, None)):
        owner = world.job(api, name)
        made = world.workload(api, owner, admitted=True)
        made["metadata"]["ownerReferences"][0]["name"] = name
        made["spec"] |= {"queueName": "training"} | (
            {"maximumExecutionTimeSeconds": limit} if limit else {}
        )
        usage = [{"name": "node", "resourceUsage": {"nvidia.com/gpu": str(gpus)}}]
        made["status"]["admission"] = {"clusterQueue": "training", "podSetAssignments": usage}
        for one in made["status"]["conditions"]:
            one["lastTransitionTime"] = STAMP
    last = world.workload(api, world.job(api, "demo"), message="12 more needed")
    last["spec"] |= {"queueName": "training"}


def running(api: Api) -> None:
    world.admit(api, world.job(api, "demo"))


def failed(api: Api) -> None:
    owner = world.job(api, "demo")
    world.admit(api, owner)
    world.end(api, owner, failed=True)


def completed(api: Api) -> None:
    owner = world.job(api, "demo", nodes=1, processes=1)
    world.admit(api, owner)
    world.end(api, owner)


def starting(api: Api) -> None:
    owner = world.job(api, "demo")
    world.workload(api, owner, admitted=True)
    owner["spec"]["suspend"] = False
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    world.pod(api, owner, 0, state=state, phase="Pending")


def eventful(api: Api) -> None:
    """It was given back once, started again, prints how far it is, and its pods complain."""
    owner = world.job(api, "demo")
    owner["spec"]["trainer"] |= {
        "image": "registry.example.com/mine:1",
        "command": ["torchrun"],
        "args": ["/workspace/train.py", "a b"],
        "env": [{"name": "EPOCHS", "value": "10"}, {"name": "TOKEN", "value": "secret"}],
    }
    world.admit(api, owner)
    api.objects[f"{world.JOBSETS}/demo"]["status"]["restarts"] = 1
    given = api.objects[f"{world.WORKLOADS}/trainjob-demo"]["status"]["conditions"]
    given.append(
        {"type": "Evicted", "status": "True", "message": "preempted", "lastTransitionTime": STAMP}
    )
    for index, (name, lines) in enumerate(api.logs.items()):
        lines[:] = [
            f"2026-01-02T03:05:0{index}.000000001Z [default0]:step 12/100 loss: 1.5 30 samples/s",
            f"2026-01-02T03:05:0{index}.000000001Z [default1]:epoch 3",
        ]
        pod = api.objects[f"{world.PODS}/{name}"]["metadata"]
        event = {
            "eventTime": "2026-01-02T03:04:05.250000Z",
            "metadata": {"name": f"event-{index}"},
            "involvedObject": {"uid": pod["uid"], "name": name},
            "reason": "BackOff",
            "message": "no such image",
        }
        more = {"count": 3, "type": "Warning", "lastTimestamp": STAMP} if index else {}
        api.put("/api/v1/namespaces/training/events", event | more)


def bare(api: Api) -> None:
    """Somebody's own: of no queue, of one process a node, and with a claim."""
    owner = world.job(api, "demo", processes=1, queue="")
    world.admit(api, owner)
    del api.objects[f"{world.WORKLOADS}/trainjob-demo"]
    owner["status"] = {"conditions": [{"type": "Odd", "status": "False", "reason": "InAWord"}]}
    for index in range(2):
        api.logs[f"demo-node-0-{index}-abcde"].append(
            f"{STAMP} railhead: claim checkpoints at /checkpoints is slow since {STAMP}"
        )


WORLDS = (waiting, running, failed, completed, starting, eventful, bare)
#: Times that pass while the test runs.
PASSED = {"age_seconds", "newest_line_seconds", "seconds", "silent_seconds"}


def still(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: "TIME" if k in PASSED else still(inner) for k, inner in value.items()}
    if isinstance(value, list):
        return [still(inner) for inner in value]
    return re.sub(r"uid-\d+", "UID", value) if isinstance(value, str) else value


def told(run: Any, *words: str) -> list[str]:
    """What a command prints, and what it says besides."""
    return text_of("".join(run(*words)[1:]))


def text_of(printed: str) -> list[str]:
    same = re.sub(r"127\.0\.0\.1:\d+", "SERVER", re.sub(r"/\S+/kubeconfig", "FILE", printed))
    lines = re.sub(r"\b\d+(\.\d+)? ?[smhd]\b", "TIME", same).splitlines()
    return [re.sub(r" {2,}", "  ", line).rstrip() for line in lines]


def asked_of(api: Api) -> list[str]:
    """What was asked of the server, each once."""
    every = [f"{method} {path} {json.dumps(params)}" for method, path, params in api.asked]
    api.asked.clear()
    return sorted({str(still(one)) for one in every})


def test_commands_say_what_they_said(api: Api, run: Any) -> None:
    before = dict(api.objects)
    found: dict[str, Any] = {}
    for make in WORLDS:
        make(api)
        api.asked.clear()
        found[make.__name__] = {
            "all": told(run, "status"),
            "all, JSON": still(json.loads(run("status", "--json")[1])),
            "one": told(run, "status", "demo"),
            "one, JSON": still(json.loads(run("status", "demo", "--json")[1])),
            "listed": told(run, "list"),
            "described": told(run, "describe", "demo"),
            "described, JSON": still(json.loads(run("describe", "demo", "--json")[1])),
            "top": told(run, "top"),
            "top, JSON": still(json.loads(run("top", "--json")[1])),
            "logs": told(run, "logs", "demo", "--tail", "1"),
            "logs, JSON": told(run, "logs", "demo", "--json"),
            "logs by time": told(run, "logs", "demo", "--timestamps", "--rank", "1"),
            **cancelled(api, run),
            "asked": asked_of(api),
        }
        api.objects.clear()
        api.objects.update(before)
        api.logs.clear()
    found["nothing"] = {
        "all": told(run, "status"),
        "listed": told(run, "list"),
        "a first job": told(run, "init", "-"),
    }
    compare("commands", found)


def cancelled(api: Api, run: Any) -> dict[str, Any]:
    """In words, and once more for machines."""
    there = dict(api.objects)
    words = told(run, "cancel", "demo")
    api.objects.update(there)
    printed = run("cancel", "demo", "--json")[1]
    done = json.loads(printed)
    assert printed == json.dumps(done, indent=1, sort_keys=True) + "\n"
    return {"cancelled": words, "cancelled, JSON": still(done)}


def compare(name: str, found: dict[str, Any]) -> None:
    for world_of, said_of in held(name, found).items():
        for command, lines in said_of.items():
            assert found[world_of][command] == lines, (world_of, command)


# -- what may not be read, and what is not there --------------------------------------------------


def each_refused(api: Api, say: Callable[[], tuple[int, str, str]]) -> dict[str, list[str]]:
    """What is said where all is well, and where the cluster gives one answer less."""

    def said() -> list[str]:
        code, out, err = say()
        return [f"exit {code}", *text_of(out + err)]

    api.asked.clear()
    found = {"all is well": said()}
    reads = sorted({path for method, path, _ in api.asked if method == "GET"})
    found["asked"] = asked_of(api)
    for path, status in itertools.product(reads, (403, 404)):
        api.refusals[("GET", path)] = (status, f"answer {status}")
        found[f"{status} {path}"] = said()
        del api.refusals[("GET", path)]
    return found


def test_whatever_may_not_be_read_is_said(
    api: Api, cluster: Cluster, run: Any, job_file: Path
) -> None:
    def launched() -> tuple[int, str, str]:
        code, _, err = run("launch", job_file, "--dry-run")
        return code, "", err

    checked = preflight(cluster, make_plan(*read_job(job_file), CONTRACT), CONTRACT)
    found: dict[str, Any] = {
        "checks": {"of launch": [f"{one.name}: {one.passed}: {one.text}" for one in checked]},
        "explained": still(json.loads(run("launch", job_file, "--explain", "--json")[1])),
        "launch": each_refused(api, launched),
    }
    waiting(api)
    found["status"] = each_refused(api, lambda: run("status", "demo"))
    compare("refusals", found)


# -- options --------------------------------------------------------------------------------------


COMMANDS = (
    *("launch", "status", "logs", "cancel", "wait", "list", "describe", "top", "restart"),
    *("exec", "port-forward", "run", "init"),
)


def options() -> dict[str, Any]:
    """Every argument and option of launch's commands."""
    return {
        name: {
            str(one.name): {
                "written": [*one.opts, *one.secondary_opts],
                "default": str(one.default),
                "least": one.min,
                "required": one.required,
                "several": one.nargs != 1 or one.multiple,
            }
            for one in commands.command_at((name,)).params
        }
        for name in COMMANDS
    }


def test_commands_have_their_options() -> None:
    found = options()
    assert found == held("options", found)


# -- mistakes --------------------------------------------------------------------------------------

WRONG = ("[1, x]", "{x: y}", "'A  b'", "-1", "7.5", "null", "[]", "{}")
FIELDS = (
    *JobFile.model_fields,
    *(f"{name}.{inner}" for name, one in SECTIONS.items() for inner in one.model_fields),
    "name.inner",
    "colour",
)


def mistake(field: str, value: str) -> str:
    """What is said of a job file that has this value; empty where it is taken."""
    name, _, inner = field.partition(".")
    wrong = f"{name}: {{{inner}: {value}}}" if inner else f"{name}: {value}"
    rest = [line for line in SHORT.splitlines() if not line.startswith(f"{name}:")]
    try:
        parse_job("\n".join([*rest, wrong]), where="job")
    except InputError as error:
        return f"{error.problem} -> {error.remedy}"
    return ""


def test_mistakes_are_told_as_they_were() -> None:
    found = {field: {value: mistake(field, value) for value in WRONG} for field in FIELDS}
    assert found == held("mistakes", found)


# -- what is seen of a job ------------------------------------------------------------------------


def holders(*limits: datetime | None) -> tuple[Holder, ...]:
    return tuple(
        Holder(job=f"job-{number}", queue="ns/queue", amount=Decimal(8 - number), until=until)
        for number, until in enumerate(limits)
    )


def waits(**fields: Any) -> Waiting:
    nothing: dict[str, Any] = {
        **dict.fromkeys(("ahead", "ahead_here", "starts")),
        **dict.fromkeys(("holders", "unseen"), ()),
        "kueue": True,
        "resource": "nvidia.com/gpu",
    }
    return Waiting(**nothing | fields)


def fails(**fields: Any) -> Failure:
    one: dict[str, Any] = {"machine": "m-1", "exit": "exited 1", "line": "no", "at": STAMP}
    return Failure(node=1, **one | {"rank": 3} | fields)


def is_silent(**fields: Any) -> Silence:
    one: dict[str, Any] = {"ranks": (2, 3), "seconds": 420, "others": 400}
    return Silence(node=1, **one | fields)


AT = datetime(2026, 1, 2, 4, 30, tzinfo=timezone(timedelta(hours=1)))
SEEN: dict[str, Waiting | Failure | Silence] = {
    "nothing": waits(),
    "the next": waits(ahead=0, ahead_here=0),
    "one before it": waits(ahead=1, ahead_here=0),
    "several before it, as they may be read": waits(ahead=3, ahead_here=2, kueue=False),
    "one without a limit": waits(holders=holders(None)),
    "it asks for no GPU": waits(holders=holders(AT), resource=""),
    "two, and one has a limit": waits(holders=holders(AT, None), unseen=("a", "b")),
    "as many as are named": waits(holders=holders(*[None] * 5)),
    "one more": waits(holders=holders(*[None] * 6)),
    "it may start": waits(ahead=0, ahead_here=0, holders=holders(AT), starts=AT),
    "others may start": waits(ahead=2, ahead_here=0, holders=holders(AT), starts=AT),
    "a rank failed": fails(),
    "a node failed": fails(rank=None),
    "it said nothing": fails(rank=0, line=""),
    "it said nothing of its end": fails(line="", exit="", machine=""),
    "a node is silent": is_silent(),
    "a rank is silent": is_silent(ranks=(3,), seconds=300),
    "a node never spoke": is_silent(seconds=None),
    "its steps stand still": is_silent(step="3/4", seconds=600, others=1),
}


def test_what_is_seen_of_a_job_is_told_as_it_was() -> None:
    found = {
        name: {
            "words": one.lines() if isinstance(one, Waiting) else [one.text()],
            "JSON": one.to_json(),
        }
        for name, one in SEEN.items()
    }
    assert found == held("seen", found)


# -- first job files ------------------------------------------------------------------------------

RUNTIMES: dict[str, dict[str, Any]] = {
    "of two nodes": {},
    "of one node": {"max_nodes": 1},
    "of any number of nodes": {"max_nodes": None},
    "of three nodes and no other number": {"only_nodes": 3, "max_nodes": 4},
    "with little of its own": {"launcher": None, "checkpoint": None},
    "of another pool": {"pool": "cpu", "shares": ()},
}


def test_first_job_files_are_as_they_were() -> None:
    (runtime,) = CONTRACT.runtimes
    (queue,) = CONTRACT.queues
    two = (runtime, runtime.model_copy(update={"name": "raw"}))
    queues = (queue, queue.model_copy(update={"name": "late"}))
    of = CONTRACT.model_copy(update={"runtimes": two, "queues": queues})
    found = {
        name: first_job(of, runtime.model_copy(update=fields), "mine").splitlines()
        for name, fields in RUNTIMES.items()
    }
    assert found == held("first", found)


# -- lines of a shell ----------------------------------------------------------------------------

#: On a machine without kubectl, while `demo` runs and once one of its nodes has failed.
RUNNING = (
    "run -j 2x4 --name mine --image i:1 --runtime torch --queue training -e A=1 -e B= --files data "
    "--set timeout=2h --set restarts=2 --set logs=pods --explain train.py 1",
    *("launch job.yaml --name first", "restart first", "cancel first", "init second.yaml"),
    *("exec demo -- ls", "exec demo --node 7 -- ls"),
    *(f"port-forward demo {port}" for port in ("0", "1", "65535", "65536", "x", "1:2", "1:2:3")),
)
FAILED = (
    *("list --phase runing", "wait dmeo", "wait demo", "describe other", "top other"),
    *("exec demo --node 1 -- ls", "restart demo", "cancel other", "status other"),
    *("logs other", "logs other --follow", "logs demo --rank 9", "logs demo --node 0 --rank 0"),
    *(f"logs demo --previous{more}" for more in ("", " --follow", " --tail 0", " --node 2")),
    *("launch nothing.yaml", "launch job.yaml", "launch job.yaml --api jobst --name new"),
    *("init", "init nothing/job.yaml", "init - --runtime trch"),
    *(f"run -j {size} x" for size in ("2x", "x8", "0", "3", "2x9")),
    *("run -e LR x", "run -e =1 x", "run --set command=x --set y=1 x", "run --name Not_A x"),
)


def test_a_line_of_a_shell_says_what_it_said(
    api: Api,
    kubeconfig: Path,
    job_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert job_file.parent == tmp_path
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(reader, "START_SECONDS", 0.0)
    monkeypatch.setattr("secrets.token_hex", lambda length: "0" * 2 * length)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x.py").touch()
    owner = world.job(api, "demo")
    world.admit(api, owner)

    def said(line: str) -> list[str]:
        code = cli.run(line.split())
        printed = capsys.readouterr()
        return [f"exit {code}", *text_of(printed.out + printed.err)]

    found = {line: said(line) for line in RUNNING}
    world.end(api, owner, failed=True)
    found |= {line: said(line) for line in FAILED}
    assert found == held("lines", found)
