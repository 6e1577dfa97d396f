"""Each kind of job with all that a job file can say, and what it refuses.

A JobSet's pod is whole; the pods of other kinds are shown where they differ from it.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from railhead.base.errors import RailheadError
from railhead.framework import FRAMEWORKS
from railhead.launch.apis import apis
from railhead.launch.plan import Plan
from tests.snapshots import compare, differs, lines
from tests.unit.launch.conftest import GOLDEN
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
    "avoid": ["gpu-7"],
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
    """Return the plan with a runtime whose pods have labels of their own."""
    template = copy.deepcopy(dict(made.template))
    template["metadata"] |= {"labels": {"team": "language"}}
    return replace(made, template=template)


def sent() -> dict[str, Any]:
    results = {}
    for name, framework in RUNS.items():
        more = ALL | ({"restarts": 3} if apis()[name].restarts else {})
        made = labelled(plan(framework, 3, more=more))
        results[name] = apis()[name].objects(made)
        assert apis()[name].objects(made) == results[name], "what is made changes no plan"
    for count, words in enumerate((("train",), ("train", "$(X)")), 1):
        made = replace(plan("raw", 2), command=words)
        results[f"a command of {count}"] = apis()["jobset"].objects(made)
    results["one node"] = apis()["pytorchjob"].objects(plan("torch", 1))
    return results


def refused() -> dict[str, dict[str, str]]:
    """Kind -> what it is asked -> what it says of that."""

    def of(name: str) -> dict[str, Plan]:
        torch = {"min_nodes": {"min_nodes": 1}, "restarts": {"restarts": 2}}
        plans = {item: plan("torch", 2, more=more) for item, more in torch.items()}
        return plans | {f: plan(f, 2) for f in ("torch", "mpi", "jax") if f != RUNS[name]}

    return {
        name: {
            asked: text
            for asked, made in of(name).items()
            if (text := told(partial(api.objects, made)))
        }
        for name, api in apis().items()
    }


NAMES = ("mpijob", "tfjob", "indexed-job", "volcano")


def served(*versions: str) -> Any:
    """Return a cluster that serves MPIJobs, TFJobs and Jobs in these versions of a group."""
    rows = [{"name": name} for name in ("mpijobs", "tfjobs", "jobs")]
    results = {f"/apis/{version}": {"resources": rows} for version in versions}
    return SimpleNamespace(find=results.get)


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


def pods_of(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each pod's template, taken out of its object, by its place."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        if isinstance(inner, dict) and "containers" in inner.get("spec", {}):
            value[key] = "below"
            # Its name is the operator's; all else compares by it.
            inner["spec"]["containers"][0]["name"] = "node"
            yield path or "pod", inner
        elif isinstance(inner, dict | list):
            yield from pods_of(inner, key if isinstance(key, str) else path)


def test_words_of_a_ray_program_survive_kubelet_and_shell() -> None:
    """Kubelet expands the submitting pod's words, then Ray's job supervisor has a shell."""
    words = ("train.py", "--name=a b", "it's", "$(X)", "$$", "$HOME", "a;b", "two\nlines", "", "*")
    made = replace(plan("ray", 2), program=words)
    spec = apis()["rayjob"].objects(made)[-1]["spec"]
    (container,) = spec["submitterPodTemplate"]["spec"]["containers"]
    *_, text = (
        re.sub(r"\$\$|\$\(X\)", lambda m: "$" if m[0] == "$$" else "gone", word)
        for word in container["command"]
    )
    assert text == spec["entrypoint"]
    printed = subprocess.run(
        ["sh", "-c", f"printf '%s\\0' {text} ;"], capture_output=True, check=True
    )
    assert printed.stdout.decode().split("\0")[:-1] == ["python3", *words]


def test_a_ray_job_of_one_node_has_a_head_alone() -> None:
    (body,) = apis()["rayjob"].objects(plan("ray", 1))
    assert "workerGroupSpecs" not in body["spec"]["rayClusterSpec"]


def test_slices_are_refused_where_the_first_pod_is_apart() -> None:
    """Kueue admits no slice larger than a pod set (tas_validation.go)."""
    for name, framework in RUNS.items():
        if framework == "mpi":
            continue
        several = told(
            partial(apis()[name].objects, plan(framework, 4, more={"topology": "2 in rack"}))
        )
        lone = told(
            partial(apis()[name].objects, plan(framework, 1, more={"topology": "1 in rack"}))
        )
        assert not lone, name
        assert several.startswith("topology: 2 in rack is not possible") == (
            name in ("pytorchjob", "rayjob")
        ), name


def test_kinds_of_job() -> None:
    made = json.loads(json.dumps(sent()))
    names = {
        name: re.findall(r'"containers": \[\{"name": "([^"]+)"', json.dumps(items))
        for name, items in made.items()
    }
    (pod,) = dict(pods_of(copy.deepcopy(made["jobset"]))).values()
    results: dict[str, Any] = {"a pod": lines(pod)}
    for name, items in made.items():
        pods = {f"{path} (pod)": differs(of, pod) for path, of in pods_of(items)}
        results[f"{name} sent"] = lines(items) | pods | {"containers": names[name]}
    results |= {f"{name} refused": texts for name, texts in refused().items()}
    results |= {f"required of {where}": texts for where, texts in required().items()}
    results["hosts"] = {name: [*apis()[name].hosts(plan(of, 3))] for name, of in RUNS.items()}
    compare(GOLDEN / "kinds.yaml", results)
