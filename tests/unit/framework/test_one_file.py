"""A framework is one module: nothing else names one, and one more is found by being there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from railhead.base.errors import InputError
from railhead.config import parse
from railhead.framework import FRAMEWORKS
from tests.components.recording import lab_cluster
from tests.unit.test_hygiene import python_sources

REPO = Path(__file__).resolve().parents[3]
NAMES = re.compile(r"\btorch|PET_[A-Z]")

#: Where else a framework's name may be, and why.
ELSEWHERE = {
    "railhead/diagnose": "causes of hangs are a framework's own, and told by its words",
    "railhead/nccl": "logs are read whatever wrote them",
    "railhead/lab": "builds the lab's training image",
    "railhead/launch/apis": "kinds of job of operators, which are each for one framework",
    "railhead/catalog/images.py": "what the lab's training image needs",
    "railhead/catalog/switches.py": "where a variable of the library's was read",
    "railhead/launch/after.py": "examples in help texts",
    "railhead/launch/failing.py": "a launcher's own words for which process failed first",
    "railhead/launch/api.py": "an example in its documentation",
    "railhead/launch/starting.py": "examples in help texts and first job files",
    "railhead/launch/cli.py": "examples in help texts",
    "railhead/launch/job": "examples in the words of errors",
    "railhead/launch/dev.py": "an example in a remedy",
    "railhead/launch/programs": "what proves the fabric before a job's command is PyTorch's",
    "railhead/framework/programs": "what pods run of a framework",
    "railhead/review/jobs.py": "by which imports a program is one that trains",
    "railhead/twin/jobs.py": "which shipped example a rehearsal starts",
    "railhead/accept": "its programs are PyTorch's, and it says which runtimes start them",
    "railhead/cli/__init__.py": "an example in a help text",
    "railhead/base/examples.py": "which shipped example stands for a framework without one",
    "railhead/platform/starter.py": "the one runtime of a first stack",
    "railhead/platform/lab/starters.py": "the lab's training image",
}


def test_no_other_source_names_a_framework() -> None:
    named = {
        name
        for name in python_sources("railhead", "components", "policies")
        if name.parent != Path("railhead/framework") and NAMES.search((REPO / name).read_text())
    }
    allowed = {name: next((p for p in ELSEWHERE if name.is_relative_to(p)), None) for name in named}
    assert [str(name) for name, place in allowed.items() if place is None] == []
    assert set(allowed.values()) == set(ELSEWHERE), "an exception that nothing needs any more"


def test_unknown_framework_is_refused_with_a_suggestion() -> None:
    raw = lab_cluster()
    raw["runtimes"][0]["framework"] = "torhc"
    with pytest.raises(InputError, match=r"runtimes\[0\]\.framework: 'torhc' .* mean 'torch'\?"):
        parse(raw, where="test")


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_says_what_it_is_asked(name: str) -> None:
    row = FRAMEWORKS[name]
    assert row.name == name
    assert row.source
    assert row.nodes_variable in row.rendezvous
    assert set(row.unwired) <= set(row.rendezvous), "Trainer would not replace it"
    assert not set(row.rendezvous) & set(row.per_process)
    if row.process_prefix is not None:
        assert re.compile(row.process_prefix).groups == 1


_ANOTHER = """
from dataclasses import dataclass
from railhead.framework.base import Framework

@dataclass(frozen=True, kw_only=True)
class Loom(Framework):
    def ml_policy(self, combination, processes):
        return {"loom": {"threads": processes}}

    def wiring(self, gang):
        return {"LOOM_NODES": str(gang.nodes)}

FRAMEWORK = Loom(
    name="loom", launcher="loomrun", rendezvous=("LOOM_NODES",), per_process=("LOOM_RANK",),
    unwired={"LOOM_NODES": "none"}, nodes_variable="LOOM_NODES", source="a test",
)
"""


@pytest.mark.slow
def test_one_more_file_is_all_that_a_framework_needs(tmp_path: Path) -> None:
    """A module that is not in the tree, through config, runtime, guards, contract and launch."""
    (tmp_path / "loom.py").write_text(_ANOTHER)
    program = """
        import importlib.util, json, sys

        import railhead
        home = railhead.__path__[0] + "/framework"
        spec = importlib.util.spec_from_file_location(
            "railhead.framework", home + "/__init__.py", submodule_search_locations=[home, FOLDER]
        )
        sys.modules["railhead.framework"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["railhead.framework"])

        from railhead.base.errors import InputError
        from railhead.config import parse
        from railhead.launch.job import parse_job
        from railhead.launch.refusals import check_job
        from railhead.resolve.cluster import resolve
        from tests.components.recording import lab_cluster

        raw = lab_cluster()
        raw["runtimes"].append(raw["runtimes"][0] | {"name": "woven", "framework": "loom"})
        resolved = resolve(parse(raw, where="test"))
        spec = resolved.runtimes[-1].spec
        (job,) = spec["template"]["spec"]["replicatedJobs"]
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        text = "name: a\\nnodes: 1\\nruntime: woven\\ncommand: [x]\\nenv: {LOOM_RANK: 1, RANK: 2}"
        try:
            check_job(parse_job(text, where="job"), resolved.contract)
        except InputError as error:
            refused = error.problem
        print(json.dumps({
            "policy": spec["mlPolicy"],
            "unwired": {e["name"]: e["value"] for e in container["env"]}["LOOM_NODES"],
            "guarded": [n for n, g in resolved.guards.items() if "LOOM_NODES" in str(g.policy)],
            "refused": refused,
        }))
    """
    done = subprocess.run(
        [sys.executable, "-c", f"FOLDER = {str(tmp_path)!r}\n" + textwrap.dedent(program)],
        cwd=REPO,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["policy"] == {"numNodes": 1, "loom": {"threads": 8}}
    assert result["unwired"] == "none"
    assert result["guarded"] == [
        "railhead-train-job",
        "railhead-fabric-pod",
        "railhead-parallel-job",
        "railhead-job-template",
    ]
    # Another framework's variables are the job's own.
    assert result["refused"] == "env: LOOM_RANK: set by loomrun, not by a job"
