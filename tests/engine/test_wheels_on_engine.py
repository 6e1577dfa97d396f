"""Programs of other projects, run by the real engine on what our wheels alone install.

Language host, policy runner and providers are railhead-lab's, from its wheel too; the cluster's
objects go to recorders.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import wheels
from tests.engine.controlplane import locate
from tests.wheels import REPO, Environment

pytestmark = pytest.mark.slow
#: Prints the environment in which `pulumi` runs a project on the recorders.
LAY_OUT = """
import json, sys
from pathlib import Path
from railhead.lab.recorders.workspace import workspace

folder, project, file, pulumi = map(Path, sys.argv[1:])
laid = workspace(folder, checkout=project, stack="lab", file=file, pulumi=pulumi)
print(json.dumps({"folder": str(laid.project), "environment": dict(laid.environment)}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return an environment outside the checkout with what deploys, and the stand-in plugins."""
    built = wheels.build_all(tmp_path_factory.mktemp("dist"))
    return wheels.environment(
        tmp_path_factory.mktemp("installed") / "venv", built, ["railhead[deploy]", "railhead-lab"]
    )


class Project:
    """A copy of an example, with a state of its own."""

    def __init__(self, installed: Environment, folder: Path, example: str) -> None:
        pulumi = locate("pulumi")
        if pulumi is None:
            pytest.skip("no pulumi: set RAILHEAD_TEST_BIN or run `railhead lab build`")
        source = shutil.copytree(REPO / "examples" / example, folder / "source")
        file = REPO / "stacks" / "Pulumi.lab.yaml"
        laid = json.loads(
            installed.run(
                "python", "-c", LAY_OUT, str(folder / "laid"), str(source), str(file), str(pulumi)
            )
        )
        self.pulumi, self.folder, self.environment = pulumi, laid["folder"], laid["environment"]
        # Nothing but the environment's own packages is on the programs' path.
        del self.environment["PYTHONPATH"]
        self.run("stack", "init", "lab")

    def run(self, *arguments: str) -> str:
        """Run `pulumi`; return its standard output after checking that it succeeded."""
        done = subprocess.run(
            [str(self.pulumi), *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def up(self) -> dict[str, list[dict[str, Any]]]:
        """Update twice, the second time without a change; return what was made, by type."""
        self.run("up", "--yes", "--skip-preview")
        self.run("up", "--yes", "--skip-preview", "--expect-no-changes")
        made: dict[str, list[dict[str, Any]]] = {}
        state = json.loads(self.run("stack", "export"))
        for resource in state["deployment"]["resources"]:
            made.setdefault(resource["type"].rpartition(":")[2], []).append(resource)
        return made


def test_the_programs_see_the_wheels_alone(installed: Environment) -> None:
    text = installed.run("python", "-c", "import sys, railhead; print(railhead.__path__, sys.path)")
    assert str(REPO) not in text
    for name in ("components", "policies", "tests", "railhead.accept"):
        code = f"from importlib.util import find_spec; print(find_spec({name!r}))"
        assert installed.run("python", "-c", code).strip() == "None", name


def test_a_program_composes_a_whole_cluster(installed: Environment, tmp_path: Path) -> None:
    project = Project(installed, tmp_path, "own-program")
    made = project.up()
    assert len(made["TrainingCluster"]) == 1
    assert {"NodeGate", "Queues", "Fabric", "Guards", "ClusterTrainingRuntime"} <= set(made)
    contract = json.loads(project.run("stack", "output", "contract", "--json"))
    assert contract["cluster"] == "lab"
    assert contract["fabric"]["mode"] == "rdma-shared"


def test_a_program_takes_three_parts(installed: Environment, tmp_path: Path) -> None:
    project = Project(installed, tmp_path, "parts")
    project.run("config", "set", "kubeconfig", str(tmp_path / "laid/home/.kube/config"))
    made = project.up()
    assert {"NodeGate", "Queues", "Fabric"} <= set(made)
    assert not {"TrainingCluster", "Guards", "TrainingNamespace", "JobSet", "Trainer"} & set(made)
    [flavor] = made["ResourceFlavor"]
    assert flavor["inputs"]["spec"]["nodeLabels"] == {
        "example.com/pool": "h100",
        "railhead.dev/fabric": "ready",
    }
    assert len(made["DaemonSet"]) == 1
    [policy] = made["NicClusterPolicy"]
    assert "rdmaSharedDevicePlugin" in policy["inputs"]["spec"]
