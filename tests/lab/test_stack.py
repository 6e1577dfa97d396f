"""Plain `pulumi` on the stack `lab`: up, again, refresh, preview, a kill in the middle, destroy."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.base import paths
from railhead.base.version import __version__
from railhead.contract import CONFIG_MAP, KEY, NAMESPACE, ClusterContract
from railhead.lab.cli import environment
from tests import wheels
from tests.lab.conftest import STACK, Run, railhead, succeed

OTHER = "stack-life"
CLAIM = (
    *("kubectl", "-n", "training", "get", "pvc", "checkpoints"),
    *("-o", "jsonpath={.metadata.uid}"),
)


def test_the_stack_exports_a_contract_that_the_cluster_holds_too(
    pulumi: Run, stack: str, kubectl: Run
) -> None:
    exported = succeed(pulumi("stack", "output", "contract", "--json", "--stack", stack)).stdout
    contract = ClusterContract.from_json(exported, where="stack output")
    data = succeed(kubectl("-n", NAMESPACE, "get", "configmap", CONFIG_MAP, "-o", "json")).stdout
    held = ClusterContract.from_json(json.loads(data)["data"][KEY], where="config map")
    assert held == contract
    assert contract.node_pools[0].nodes == 2
    # What is promised is what the nodes have.
    nodes = json.loads(
        succeed(kubectl("get", "nodes", "-l", "railhead.dev/pool=gpu", "-o", "json")).stdout
    )
    assert len(nodes["items"]) == contract.node_pools[0].nodes
    for node in nodes["items"]:
        for resource, amount in contract.node_pools[0].capacity.items():
            if "/" in resource:
                assert node["status"]["allocatable"][resource] == amount


def test_authenticated_users_may_read_only_the_contract(stack: str, kubectl: Run) -> None:
    someone = ("--as=someone", "--as-group=system:authenticated")

    def may(*what: str) -> bool:
        return kubectl("auth", "can-i", *what, *someone).stdout.strip() == "yes"

    assert may("get", f"configmaps/{CONFIG_MAP}", "-n", NAMESPACE)
    assert not may("get", "configmaps/other", "-n", NAMESPACE)
    assert not may("get", "secrets", "-n", NAMESPACE)
    assert not may("update", f"configmaps/{CONFIG_MAP}", "-n", NAMESPACE)


def test_a_second_up_and_a_refresh_change_nothing(pulumi: Run, stack: str) -> None:
    again = succeed(pulumi("up", "--stack", stack, "--yes", "--expect-no-changes"))
    assert re.search(r"\b\d+ unchanged", again.stdout)
    refreshed = succeed(pulumi("refresh", "--stack", stack, "--yes", "--expect-no-changes"))
    assert re.search(r"\b\d+ unchanged", refreshed.stdout)
    succeed(pulumi("preview", "--stack", stack, "--expect-no-changes"))


def test_change_by_hand_is_reported_and_reverted(pulumi: Run, stack: str, kubectl: Run) -> None:
    patch = '{"spec":{"queueingStrategy":"StrictFIFO"}}'
    succeed(kubectl("patch", "clusterqueue", "training", "--type=merge", "-p", patch))
    # Without a look nobody knows; a refresh says so, and the provider takes the field back.
    seen = succeed(pulumi("preview", "--stack", stack, "--refresh", "--diff"))
    assert "queueingStrategy" in seen.stdout
    succeed(pulumi("up", "--stack", stack, "--yes", "--refresh", "--skip-preview"))
    strategy = ("get", "clusterqueue", "training", "-o", "jsonpath={.spec.queueingStrategy}")
    assert kubectl(*strategy).stdout == "BestEffortFIFO"
    succeed(pulumi("preview", "--stack", stack, "--refresh", "--expect-no-changes"))


def test_state_holds_no_key(pulumi: Run, stack: str, kubeconfig: Path) -> None:
    state = succeed(pulumi("stack", "export", "--stack", stack)).stdout
    assert "PRIVATE KEY" not in state
    key = re.search(r"client-key-data: (\S+)", kubeconfig.read_text())
    assert key is not None
    assert key.group(1) not in state


def test_plugins_say_that_they_are_stand_ins(pulumi: Run, stack: str) -> None:
    reported = succeed(pulumi("preview", "--stack", stack, "--logtostderr", "-v=1", "--debug"))
    assert "stand-in" in reported.stdout + reported.stderr


@pytest.fixture(scope="module")
def other() -> Iterator[dict[str, str]]:
    """A lab of its own, for what must not happen to the one that other tests share."""
    succeed(railhead("lab", "up", "--name", OTHER))
    yield {**os.environ, **environment(OTHER)}
    succeed(railhead("lab", "down", "--name", OTHER))


def _run(env: dict[str, str], repo: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=repo, env=env, capture_output=True, text=True, timeout=600, check=False
    )


def _objects(env: dict[str, str], repo: Path) -> dict[str, Any]:
    """Return the stack's resources, without what differs from run to run."""
    export = succeed(_run(env, repo, "pulumi", "stack", "export", "--stack", STACK)).stdout
    deployment = json.loads(export)["deployment"]
    return {
        r["urn"]: (r.get("id") if "::kubernetes:" in r["urn"] else None, r.get("inputs"))
        for r in deployment["resources"]
    }


@pytest.mark.exhaustive
def test_up_after_a_kill_reaches_the_same_state(
    other: dict[str, str], repo: Path, stack: str, bare_env: dict[str, str]
) -> None:
    succeed(_run(other, repo, "pulumi", "stack", "select", "--create", STACK))
    up = ["pulumi", "up", "--stack", STACK, "--yes", "--non-interactive"]
    for seconds in (7, 14, 22):
        half = subprocess.Popen(
            up,
            cwd=repo,
            env=other,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        time.sleep(seconds)
        # The whole session: an engine that is killed leaves its plugins no time either.
        os.killpg(half.pid, signal.SIGKILL)
        half.wait()
        # A killed engine leaves its lock in a file backend; this is Pulumi's own way to lift it.
        _run(other, repo, "pulumi", "cancel", "--stack", STACK, "--yes")
    succeed(_run(other, repo, *up))
    ended = _objects(other, repo)
    assert set(ended) == set(_objects(bare_env, repo))
    quiet = _run(other, repo, *up, "--expect-no-changes")
    assert quiet.returncode == 0, quiet.stdout
    # The engine warns of creations that it saw no end of until a refresh clears them.
    forget = ("pulumi", "refresh", "--stack", STACK, "--yes", "--non-interactive")
    succeed(_run(other, repo, *forget, "--clear-pending-creates", "--expect-no-changes"))
    state = succeed(_run(other, repo, "pulumi", "stack", "export", "--stack", STACK)).stdout
    assert not json.loads(state)["deployment"].get("pending_operations")


@pytest.mark.last
def test_destroy_waits_for_jobs_and_keeps_claims(
    bare_env: dict[str, str], repo: Path, stack: str
) -> None:
    resources = _objects(bare_env, repo)
    # As after `make demo`: a job that has ended, and whose runtime it would keep.
    command = (sys.executable, "-m", "railhead")
    launch = (*command, "launch", "examples/torch-ddp.yaml", "--name")
    succeed(_run(bare_env, repo, *launch, "ended", "--set", "env.EPOCHS=1", "--wait"))
    # A job that nobody ended stops it before anything is gone.
    succeed(_run(bare_env, repo, *launch, "stays", "--set", "env.EPOCHS=500"))
    destroy = ("pulumi", "destroy", "--stack", STACK, "--yes", "--non-interactive")
    refused = _run(bare_env, repo, *destroy)
    assert refused.returncode != 0
    assert "TrainJob training/stays has not ended" in refused.stdout
    assert set(_objects(bare_env, repo)) == set(resources)
    succeed(_run(bare_env, repo, *command, "cancel", "stays"))
    kept = succeed(_run(bare_env, repo, *CLAIM)).stdout
    succeed(_run(bare_env, repo, *destroy))
    left = succeed(_run(bare_env, repo, "pulumi", "stack", "export", "--stack", STACK)).stdout
    assert not json.loads(left)["deployment"].get("resources")
    # Checkpoints survive every deletion, and belong to the next stack.
    assert succeed(_run(bare_env, repo, *CLAIM)).stdout == kept
    inside = "pods,networkpolicies,roles,rolebindings"
    assert not succeed(_run(bare_env, repo, "kubectl", "-n", "training", "get", inside)).stdout


@pytest.mark.last
@pytest.mark.acceptance
def test_life_of_a_repository_from_wheels(
    bare_env: dict[str, str], repo: Path, running_lab: str, stack: str, tmp_path: Path
) -> None:
    """An empty folder, wheels alone, two versions of Railhead, and the claims of the stack."""
    succeed(_run(bare_env, repo, "pulumi", "destroy", "--stack", stack, "--yes"))
    kept = succeed(_run(bare_env, repo, *CLAIM)).stdout
    folder = tmp_path / "clusters"
    installed = wheels.environment(
        folder / ".venv",
        wheels.build_all(tmp_path / "dist"),
        ["railhead[deploy]", "railhead-accept", "railhead-lab"],
    )
    environment = {
        "PATH": f"{installed.python.parent}:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(tmp_path),
        "RAILHEAD_CACHE": str(paths.cache_root()),
    }

    def run(*words: str, status: int = 0) -> str:
        inside = ("railhead", "lab", "exec", "--name", running_lab, "--", *words)
        done = _run(environment, folder, *inside)
        assert done.returncode == status, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def pulumi(*words: str) -> str:
        return run("pulumi", *words, "--stack", "lab", "--non-interactive")

    run("railhead", "new", ".", "--yes", "--platform", "lab")
    plan = json.loads(run("railhead", "plan", "lab", "--json").splitlines()[0])
    assert (plan["policies"], plan["violations"]) == ("run", [])
    run("pulumi", "stack", "init", "lab", "--non-interactive")
    # Its preview is judged, too.
    assert "clusters@v" in pulumi("up", "--yes", "--policy-pack", "policies")
    assert run(*CLAIM) == kept
    run("railhead", "launch", "examples/torch-ddp.yaml", "--set", "env.EPOCHS=1", "--wait")
    assert json.loads(run("railhead", "status", "torch-ddp", "--json"))["phase"] == "completed"
    upgrade = ("railhead", "upgrade", "lab")
    assert run(*upgrade) == f"lab: Railhead {__version__} changes 0 resources\n"
    program = "railhead/launch/programs/probe.py"
    installed.install(wheels.build_next(tmp_path / "next", "9.9.9", program))
    assert run(*upgrade).splitlines() == [
        "lab: Railhead 9.9.9 changes 1 resources",
        '  changed  ConfigMap training/railhead-nccl: data["probe.py"]',
        "  none deleted or replaced",
    ]
    pulumi("up", "--yes", "--skip-preview", "--policy-pack", "policies")
    assert run(*upgrade) == "lab: Railhead 9.9.9 changes 0 resources\n"
    state = json.loads(pulumi("stack", "export"))["deployment"]["resources"]
    spaces = [made["inputs"] for made in state if "core/v1:Namespace::" in made["urn"]]
    made = {f"namespace/{inputs['metadata']['name']}" for inputs in spaces}
    gone = ("kubectl", "delete", "namespace", "training")
    refused = _run(bare_env, repo, *gone)
    assert "annotate pvc checkpoints railhead.dev/delete=checkpoints" in refused.stderr
    asked = "railhead.dev/delete=checkpoints"
    run("kubectl", "-n", "training", "annotate", "pvc/checkpoints", asked)
    pulumi("destroy", "--yes", "--skip-preview")
    run(*gone)
    after = run("kubectl", "get", "namespaces", "-o", "name")
    assert "namespace/training" in made
    assert not made & set(after.split())
    hooks = "validatingwebhookconfigurations,mutatingwebhookconfigurations"
    policies = "validatingadmissionpolicies,validatingadmissionpolicybindings"
    for kind in (hooks, policies):
        assert run("kubectl", "get", kind, "-o", "name") == ""
