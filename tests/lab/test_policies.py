"""The policy pack in the engine: `pulumi preview --policy-pack policies` on the lab."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

PACK = ("queue-covers-devices", "training-has-shared-memory", "no-reach-into-nodes")

# A program of its own, with the lab stack's real specs and one of them spoilt, so that what fires
# is the pack in the engine and not the way a test calls it.
PROGRAM = """
import copy
from pathlib import Path

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.config import load
from railhead.resolve.cluster import resolve

case = pulumi.Config("violations").require("case")
resolved = resolve(load(Path(pulumi.Config("violations").require("stack"))))
runtime = copy.deepcopy(resolved.runtimes[0].spec)
(job,) = runtime["template"]["spec"]["replicatedJobs"]
pod = job["template"]["spec"]["template"]["spec"]
queue = copy.deepcopy(resolved.queues.cluster_queues[0].spec)
bare = {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]}

if case == "queue":
    (group,) = queue["resourceGroups"]
    group["coveredResources"].remove("rdma/rdma_shared_device_a")
    for flavor in group["flavors"]:
        flavor["resources"] = [
            r for r in flavor["resources"] if r["name"] != "rdma/rdma_shared_device_a"
        ]
elif case == "shm":
    (container,) = pod["containers"]
    container["volumeMounts"] = [
        m for m in container["volumeMounts"] if m["mountPath"] != "/dev/shm"
    ]
elif case == "privileged":
    bare["containers"][0]["securityContext"] = {"privileged": True}
elif case == "hostpath":
    bare["volumes"] = [{"name": "h", "hostPath": {"path": "/dev"}}]
elif case == "unknown":
    # Nobody knows an id before the update; the rule must not be skipped for it.
    other = kubernetes.core.v1.ConfigMap("other", metadata={"name": "violations-other"}, data={})
    bare["containers"][0]["securityContext"] = {"privileged": other.id.apply(lambda _: True)}

# What the runtime mounts.
kubernetes.core.v1.PersistentVolumeClaim(
    "claim",
    metadata={"name": resolved.runtimes[0].config.checkpoint},
    spec={
        "access_modes": ["ReadWriteMany"],
        "storage_class_name": "none",
        "resources": {"requests": {"storage": "1Gi"}},
    },
)
kubernetes.core.v1.Pod("pod", metadata={"name": "violations-pod"}, spec=bare)
kubernetes.apiextensions.CustomResource(
    "queue",
    api_version="kueue.x-k8s.io/v1beta2",
    kind="ClusterQueue",
    metadata={"name": "violations-queue"},
    spec=queue,
)
kubernetes.apiextensions.CustomResource(
    "runtime",
    api_version="trainer.kubeflow.org/v1alpha1",
    kind="ClusterTrainingRuntime",
    metadata={"name": "violations-runtime"},
    spec=runtime,
)
"""


def pulumi(
    env: dict[str, str], directory: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["pulumi", *arguments, "--non-interactive", "--color=never"],
        cwd=directory,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def project(
    lab_env: dict[str, str], repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, str], Path]:
    """A project beside the repository, with state of its own."""
    directory = tmp_path_factory.mktemp("violations")
    (directory / "state").mkdir()
    env = {
        **lab_env,
        "PULUMI_BACKEND_URL": f"file://{directory / 'state'}",
        "PYTHONPATH": str(repo),
    }
    virtualenv = Path(sys.prefix)
    settings = {
        "name": "violations",
        "runtime": {
            "name": "python",
            "options": {"toolchain": "pip", "virtualenv": str(virtualenv)},
        },
    }
    (directory / "Pulumi.yaml").write_text(yaml.safe_dump(settings))
    (directory / "__main__.py").write_text(
        f"import sys\nsys.path.insert(0, {str(repo)!r})\n{PROGRAM}"
    )
    made = pulumi(env, directory, "stack", "init", "lab")
    assert made.returncode == 0, made.stderr
    stack = str(repo / "stacks" / "Pulumi.lab.yaml")
    pulumi(env, directory, "config", "set", "stack", stack)
    return env, directory


def preview(
    project: tuple[dict[str, str], Path], repo: Path, case: str
) -> subprocess.CompletedProcess[str]:
    env, directory = project
    pulumi(env, directory, "config", "set", "case", case)
    return pulumi(env, directory, "preview", "--policy-pack", str(repo / "policies"))


def test_the_lab_stack_obeys(lab_env: dict[str, str], repo: Path) -> None:
    result = pulumi(lab_env, repo, "preview", "--stack", "lab", "--policy-pack", "policies")
    output = result.stdout + result.stderr
    assert result.returncode == 0, output
    assert "railhead" in output.partition("Policies:")[2], "the pack did not run"
    assert "mandatory" not in output
    # What the engine says of a rule that touched an unknown value and was skipped.
    assert "can't run policy" not in output


@pytest.mark.exhaustive
def test_the_same_objects_unspoilt_pass(project: tuple[dict[str, str], Path], repo: Path) -> None:
    result = preview(project, repo, "none")
    output = result.stdout + result.stderr
    assert "railhead" in output.partition("Policies:")[2], "the pack did not run"
    # Rules over a whole stack miss the rest of it here; that it obeys them all is the test above.
    assert not [rule for rule in PACK if rule in output]
    assert "can't run policy" not in output


@pytest.mark.parametrize(
    ("case", "rule", "words"),
    [
        ("privileged", PACK[2], "securityContext.privileged is true"),
        *(
            pytest.param(*row, marks=pytest.mark.exhaustive)
            for row in (
                ("queue", PACK[0], "not 'rdma/rdma_shared_device_a'"),
                ("shm", PACK[1], "mounts nothing at /dev/shm"),
                ("hostpath", PACK[2], "hostPath mounts '/dev'"),
                ("unknown", PACK[2], "is not known before the update"),
            )
        ),
    ],
)
def test_a_violation_fails_the_preview(
    project: tuple[dict[str, str], Path], repo: Path, case: str, rule: str, words: str
) -> None:
    result = preview(project, repo, case)
    output = result.stdout + result.stderr
    assert result.returncode != 0, output
    assert f"{rule}" in output
    assert "mandatory" in output
    assert words in output
    assert "can't run policy" not in output
    for other in set(PACK) - {rule}:
        assert other not in output, f"{other} fires as well"
