"""Each kind of job with all that a job file can say, and what it refuses: every word of it.

As of `test_transcripts.py`, `RAILHEAD_TRANSCRIPTS=write` writes it anew; read the difference.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from railhead.base.errors import RailheadError
from railhead.framework import FRAMEWORKS
from railhead.launch.apis import apis
from railhead.launch.plan import Plan
from tests.unit.launch.test_transcripts import held, shortened
from tests.wiring import plan

ALL: dict[str, Any] = {
    "image": "registry.example.com/mine:1",
    "env": {"EPOCHS": "10", "NCCL_DEBUG": "INFO"},
    "secrets": {"TOKEN": "hub/token"},
    "mounts": {"/data": "corpus:ro"},
    "shm": "128Mi",
    "fabric": "none",
    "priority": "research",
    "gpus_per_node": 4,
    "timeout": "90m",
    "topology": "rack",
    "queue": "training",
}
#: Kind -> the framework that its job is of.
RUNS = {
    name: next(
        (f for f, row in FRAMEWORKS.items() if name in row.kinds and f != "horovod"), "torch"
    )
    for name in apis()
}


def told(ask: Callable[[], object]) -> str:
    try:
        ask()
    except RailheadError as error:
        return f"{error.problem} -> {error.remedy}"
    return ""


def labelled(made: Plan) -> Plan:
    """Of a runtime whose pods have labels of their own."""
    template = copy.deepcopy(dict(made.template))
    template["metadata"] |= {"labels": {"team": "language"}}
    return replace(made, template=template)


def sent() -> dict[str, Any]:
    found = {}
    for name, framework in RUNS.items():
        more = ALL | ({"restarts": 3} if apis()[name].restarts else {})
        made = labelled(plan(framework, 3, more=more))
        found[name] = apis()[name].objects(made)
        assert apis()[name].objects(made) == found[name], "what is made changes no plan"
    for count, words in enumerate((("train",), ("train", "$(X)")), 1):
        made = replace(plan("raw", 2), command=words)
        found[f"a command of {count}"] = apis()["jobset"].objects(made)
    found["one node"] = apis()["pytorchjob"].objects(plan("torch", 1))
    return found


def refused() -> dict[str, dict[str, str]]:
    """Kind -> what it is asked -> what it says of that."""

    def of(name: str) -> dict[str, Plan]:
        torch = {"min_nodes": {"min_nodes": 1}, "restarts": {"restarts": 2}}
        plans = {said: plan("torch", 2, more=more) for said, more in torch.items()}
        return plans | {f: plan(f, 2) for f in ("torch", "mpi", "jax") if f != RUNS[name]}

    return {
        name: {
            asked: said
            for asked, made in of(name).items()
            if (said := told(partial(api.objects, made)))
        }
        for name, api in apis().items()
    }


NAMES = ("mpijob", "tfjob", "indexed-job", "volcano")


def served(*versions: str) -> Any:
    """A cluster that serves MPIJobs, TFJobs and Jobs in these versions of a group."""
    rows = [{"name": name} for name in ("mpijobs", "tfjobs", "jobs")]
    found = {f"/apis/{version}": {"resources": rows} for version in versions}
    return SimpleNamespace(find=found.get)


def required() -> dict[str, dict[str, str]]:
    clusters = {
        "nothing": served(),
        "the training operator": served("kubeflow.org/v1"),
        "the MPI operator": served("kubeflow.org/v2beta1"),
        "both": served("kubeflow.org/v1", "kubeflow.org/v2beta1"),
        "Kubernetes and Volcano": served("batch/v1", "batch.volcano.sh/v1alpha1"),
    }
    return {
        where: {name: told(partial(apis()[name].require, cluster)) for name in NAMES}
        for where, cluster in clusters.items()
    }


def test_kinds_of_job_are_as_they_were() -> None:
    found = {"sent": shortened(sent()), "refused": refused(), "required": required()}
    found["hosts"] = {name: [*apis()[name].hosts(plan(of, 3))] for name, of in RUNS.items()}
    assert found == held("kinds", found)
