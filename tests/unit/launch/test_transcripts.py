"""Figures, `--explain`, `status` and `cancel` of a few jobs, and the objects sent for them.

Some scenarios are whole, of the others the fields that they are about (`snapshots.py`).
`RAILHEAD_TRANSCRIPTS=write python -m pytest tests/unit/launch` writes them; read the difference.
"""

from __future__ import annotations

import functools
import itertools
import json
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
from railhead.launch.apis import objects as sent_objects
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
from tests.snapshots import compare, differs, lines
from tests.unit.launch import world
from tests.unit.launch.conftest import CONTRACT, GOLDEN
from tests.unit.launch.fake_api import STAMP, Api
from tests.wiring import contract, objects


def worked_out(shape: Shape, **fields: Any) -> Callable[[], Any]:
    return lambda: [figure.to_json() for figure in figures(SizingFile(**fields), shape)]


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


def figure_text(row: dict[str, Any]) -> str:
    """Return a figure on one line; sums of floats may differ in their last digit."""
    value = row["value"]
    if value is None:
        return f"{row['name']}: {row['formula']}"
    text = f"{row['name']}: {value:.9g} {row['unit']}".rstrip()
    return f"{text} (wrong: {row['formula']})" if row["wrong"] else text


def test_figures() -> None:
    results: dict[str, Any] = {name: list(map(figure_text, case())) for name, case in CASES.items()}
    whole = CASES["figures of all that is given"]()
    results["groups of all that is given"] = {row["name"]: row["group"] for row in whole}
    for name in ("figures of all that is given", "figures of a cut model, measured"):
        rows = {row["name"]: [row["formula"], row["source"]] for row in CASES[name]()}
        results[f"formulas: {name}"] = rows
    compare(GOLDEN / "figures.yaml", results)


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


@functools.cache
def cluster_of(framework: str) -> ClusterContract:
    return contract(framework)


def planned(text: str, framework: str) -> tuple[JobFile, Plan, ClusterContract]:
    of = cluster_of(framework)
    job = parse_job(text, where="job")
    return job, make_plan(job, FILES if job.files else (), of), of


def explained(job: JobFile, made: Plan, of: ClusterContract) -> dict[str, str]:
    """Return name -> value, where it is from, and why."""
    return {
        row.name: f"{row.value} ({row.origin}{f': {row.why}' if row.why else ''})"
        for row in derived(job, made, of)
    }


def test_jobs_are_explained_and_sent() -> None:
    """One job is whole; of each other what is not as in a short one."""
    results: dict[str, Any] = {}
    job, made, of = planned(SHORT, "torch")
    short, short_sent = explained(job, made, of), sent_objects(made)
    results["short"] = {"explained": short, "sent": lines(short_sent)}
    job, made, of = planned(ALL, "torch")
    sent = sent_objects(made)
    results["all"] = {
        "explained": explained(job, made, of),
        "sent": {item["kind"]: lines(item) for item in sent},
    }
    for name, (framework, more) in MORE.items():
        job, made, of = planned(SHORT.replace("nodes: 1\n", more), framework)
        results[name] = {"explained": differs(explained(job, made, of), short)}
        if not job.verify:
            # What proves the fabric travels as many files, which are held elsewhere.
            results[name]["sent"] = differs(sent_objects(made), short_sent)
    compare(GOLDEN / "jobs.yaml", results)


def test_each_framework_is_sent() -> None:
    """The golden file has, for each kind of job, what differs from the first framework's."""
    results: dict[str, Any] = {}
    first: dict[str, Any] = {}
    for framework, row in FRAMEWORKS.items():
        _, made, _ = planned(SHORT.replace("nodes: 1", "nodes: 2"), framework)
        for api in ("trainjob", *row.kinds):
            sent = objects(api, made)
            # The first of a kind is whole in kinds.yaml.
            base = first.setdefault(api, sent)
            results[f"{framework} as {api}"] = differs(sent, base)
    (item,) = reader.readers(cluster_of("torch"), cluster_of("torch").namespaces)
    asked = {"folder": "/claim/demo", "node": None, "runs": 2, "most": 1}
    results["reads a claim"] = lines(item.job_set("railhead-logs", asked))
    compare(GOLDEN / "frameworks.yaml", results)


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
        for condition in made["status"]["conditions"]:
            condition["lastTransitionTime"] = STAMP
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
    """Requeue the job once, start it again, let it print its progress and its pods complain."""
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
    for index, (name, printed) in enumerate(api.logs.items()):
        printed[:] = [
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
    """Put a job of a user's own: no queue, one process a node, and a claim."""
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
    """Return what a command prints to both streams."""
    return text_of("".join(run(*words)[1:]))


def text_of(printed: str) -> list[str]:
    same = re.sub(r"127\.0\.0\.1:\d+", "SERVER", re.sub(r"/\S+/kubeconfig", "FILE", printed))
    lines = re.sub(r"\b\d+(\.\d+)? ?[smhd]\b", "TIME", same).splitlines()
    return [re.sub(r" {2,}", "  ", line).rstrip() for line in lines]


def asked_of(api: Api) -> list[str]:
    """Return the requests to the server, each once."""
    every = [f"{method} {path} {json.dumps(params)}" for method, path, params in api.asked]
    api.asked.clear()
    return sorted({str(still(item)) for item in every})


#: Worlds of which every command is shown; of the others what a person asks first.
SHOWN_WHOLE = (waiting, eventful)


def fields(printed: str) -> dict[str, Any]:
    """Return the fields of a command's JSON that have a value."""
    return {path: value for path, value in lines(still(json.loads(printed))).items() if value}


def test_commands(api: Api, run: Any) -> None:
    before = dict(api.objects)
    results: dict[str, Any] = {}
    for make in WORLDS:
        make(api)
        api.asked.clear()
        results[make.__name__] = {
            "one": told(run, "status", "demo"),
            "logs": told(run, "logs", "demo", "--tail", "1"),
        }
        if make in SHOWN_WHOLE:
            results[make.__name__] |= {
                "one, JSON": fields(run("status", "demo", "--json")[1]),
                "described": told(run, "describe", "demo"),
                "all": told(run, "status"),
                "all, JSON": sorted(fields(run("status", "--json")[1])),
                "listed": told(run, "list"),
                "described, JSON": fields(run("describe", "demo", "--json")[1]),
                "top": told(run, "top"),
                "top, JSON": fields(run("top", "--json")[1]),
                "logs, JSON": told(run, "logs", "demo", "--json"),
                "logs by time": told(run, "logs", "demo", "--timestamps", "--rank", "1"),
            }
        results[make.__name__] |= cancelled(api, run)
        if make in SHOWN_WHOLE:
            results[make.__name__]["asked"] = asked_of(api)
        api.objects.clear()
        api.objects.update(before)
        api.logs.clear()
    results["nothing"] = {
        "all": told(run, "status"),
        "listed": told(run, "list"),
        "a first job": told(run, "init", "-"),
    }
    compare(GOLDEN / "commands.yaml", results)


def cancelled(api: Api, run: Any) -> dict[str, Any]:
    """Return what `cancel` prints, in words and for machines."""
    there = dict(api.objects)
    words = told(run, "cancel", "demo")
    api.objects.update(there)
    printed = run("cancel", "demo", "--json")[1]
    done = json.loads(printed)
    assert printed == json.dumps(done, indent=1, sort_keys=True) + "\n"
    return {"cancelled": words, "cancelled, JSON": still(done)}


# -- what may not be read, and what is not there --------------------------------------------------


def each_refused(api: Api, say: Callable[[], tuple[int, str, str]]) -> dict[str, list[str]]:
    """Return what is printed when all is well, and what differs if one request is refused."""

    def said() -> list[str]:
        code, out, err = say()
        return [f"exit {code}", *text_of(out + err)]

    api.asked.clear()
    results = {"all is well": said()}
    reads = sorted({path for method, path, _ in api.asked if method == "GET"})
    results["asked"] = asked_of(api)
    for path, status in itertools.product(reads, (403, 404)):
        api.refusals[("GET", path)] = (status, f"answer {status}")
        results[f"{status} {path}"] = [
            line for line in said() if line not in results["all is well"]
        ]
        del api.refusals[("GET", path)]
    return results


def test_unreadable_objects_are_reported(
    api: Api, cluster: Cluster, run: Any, job_file: Path
) -> None:
    def launched() -> tuple[int, str, str]:
        code, _, err = run("launch", job_file, "--dry-run")
        return code, "", err

    checked = preflight(cluster, make_plan(*read_job(job_file), CONTRACT), CONTRACT)
    explained = still(json.loads(run("launch", job_file, "--explain", "--json")[1]))
    results: dict[str, Any] = {
        "checks": [f"{item.name}: {item.passed}: {item.text}" for item in checked],
        "explained": {
            row["name"]: f"{row['value']} ({row['from']})" for row in explained["values"]
        },
        "launch": each_refused(api, launched),
    }
    waiting(api)
    results["status"] = each_refused(api, lambda: run("status", "demo"))
    compare(GOLDEN / "refusals.yaml", results)


# -- options --------------------------------------------------------------------------------------


COMMANDS = (
    *("launch", "status", "logs", "cancel", "wait", "list", "describe", "top", "restart"),
    *("exec", "port-forward", "run", "init", "dev"),
)


def option(param: Any) -> str:
    """Return an option on one line: how it is written, its default and its least value."""
    text = " ".join([*param.opts, *param.secondary_opts])
    text += " ..." if param.nargs != 1 or param.multiple else ""
    text += f" from {param.min}" if param.min is not None else ""
    return text + (" (required)" if param.required else f" = {param.default}")


def test_commands_have_their_options() -> None:
    results = {
        name: [option(param) for param in commands.command_at((name,)).params] for name in COMMANDS
    }
    compare(GOLDEN / "options.yaml", results)


# -- mistakes --------------------------------------------------------------------------------------

WRONG = ("[1, x]", "{x: y}", "'A  b'", "-1", "7.5", "null", "[]", "{}")
FIELDS = (
    *JobFile.model_fields,
    *(f"{name}.{inner}" for name, section in SECTIONS.items() for inner in section.model_fields),
    "name.inner",
    "colour",
)


def mistake(field: str, value: str) -> str:
    """Return the message on a job file that has this value; empty if it is taken."""
    name, _, inner = field.partition(".")
    wrong = f"{name}: {{{inner}: {value}}}" if inner else f"{name}: {value}"
    rest = [line for line in SHORT.splitlines() if not line.startswith(f"{name}:")]
    try:
        parse_job("\n".join([*rest, wrong]), where="job")
    except InputError as error:
        return f"{error.problem} -> {error.remedy}"
    return ""


def test_mistakes_are_reported() -> None:
    """The golden file has, for each field, the values it takes and the messages on others."""
    results: dict[str, Any] = {}
    for field in FIELDS:
        answers = {value: mistake(field, value) for value in WRONG}
        messages = {
            text.partition("; ")[2].partition(" -> ")[0] for text in answers.values() if text
        }
        results[field] = {
            "takes": [value for value, text in answers.items() if not text],
            "says": sorted(messages),
        }
        for text in filter(None, answers.values()):
            assert text.startswith("job: 1 mistake\n  line "), text
            assert f": {field.partition('.')[0]}" in text
            assert text.endswith(
                " -> nothing was created; `railhead launch --help` shows a complete job file"
            )
    whole = {value: mistake("nodes", value) for value in WRONG}
    compare(GOLDEN / "mistakes.yaml", results | {"nodes, whole": whole})


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
    item: dict[str, Any] = {"machine": "m-1", "exit": "exited 1", "line": "no", "at": STAMP}
    return Failure(node=1, name="node-1", job="demo", **item | {"rank": 3} | fields)


def is_silent(**fields: Any) -> Silence:
    item: dict[str, Any] = {"ranks": (2, 3), "seconds": 420, "others": 400}
    return Silence(node=1, name="node-1", **item | fields)


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


#: Of these the JSON, too.
IN_JSON = ("two, and one has a limit", "others may start", "a rank failed", "its steps stand still")


def test_observations_of_a_job() -> None:
    results: dict[str, Any] = {
        name: item.lines() if isinstance(item, Waiting) else [item.text()]
        for name, item in SEEN.items()
    }
    results |= {f"{name}, JSON": lines(SEEN[name].to_json()) for name in IN_JSON}
    compare(GOLDEN / "seen.yaml", results)


# -- first job files ------------------------------------------------------------------------------

RUNTIMES: dict[str, dict[str, Any]] = {
    "of two nodes": {},
    "of one node": {"max_nodes": 1},
    "of any number of nodes": {"max_nodes": None},
    "of three nodes and no other number": {"only_nodes": 3, "max_nodes": 4},
    "with little of its own": {"launcher": None, "checkpoint": None},
    "of another pool": {"pool": "cpu", "shares": ()},
}


def test_first_job_files() -> None:
    (runtime,) = CONTRACT.runtimes
    (queue,) = CONTRACT.queues
    two = (runtime, runtime.model_copy(update={"name": "raw"}))
    queues = (queue, queue.model_copy(update={"name": "late"}))
    of = CONTRACT.model_copy(update={"runtimes": two, "queues": queues})
    texts = {
        name: first_job(of, runtime.model_copy(update=fields), "mine")
        for name, fields in RUNTIMES.items()
    }
    (first, whole), *others = texts.items()
    results: dict[str, Any] = {first: whole}
    for name, text in others:
        results[f"{name}, lines of its own"] = sorted(
            set(text.split("\n")) - set(whole.split("\n"))
        )
        results[f"{name}, lines gone"] = sorted(set(whole.split("\n")) - set(text.split("\n")))
    compare(GOLDEN / "first.yaml", results)


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


def test_shell_lines_print_their_recorded_output(
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

    results = {line: said(line) for line in RUNNING}
    world.end(api, owner, failed=True)
    results |= {line: said(line) for line in FAILED}
    compare(GOLDEN / "lines.yaml", results)
