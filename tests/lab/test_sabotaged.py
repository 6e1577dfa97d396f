"""A lab that something is wrong with: one check tells, with what mends it, and the others do not.

What is spoilt is spoilt in the cluster itself, for real jobs of `railhead accept` to run into.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from railhead.accept.programs.slow_nodes import MARK
from railhead.accept.site import PREFIX
from railhead.kube import client as kube
from railhead.kube.jobs import JOBSET_LABEL
from railhead.lab import cgroups
from railhead.lab import cluster as labs
from railhead.lab.spec import node_name
from tests.lab.conftest import Run, succeed
from tests.lab.jobs import CLUSTER_QUEUE, NAMESPACE, RUNTIME, wait
from tests.lab.promises import Lab

pytestmark = [pytest.mark.lab, pytest.mark.slow]
# Those that take minutes; the first is part of every run of the lab's tests.
long = pytest.mark.sabotage

Object = dict[str, Any]
# The second node of the gang is the one that is harmed.
VICTIM = 1
# Of a core: slower than a node that has the machine to itself, and than one that does not.
QUOTA = 0.15
# Runs of a clock that shows a tenth of the time that has gone, by every name it has in Python.
LYING_CLOCK = """\
import os
import time

def slowed(true):
    begin = true()
    return lambda: begin + (true() - begin) / 10

if os.environ.get("JOB_COMPLETION_INDEX") == "1":
    time.time = slowed(time.time)
    time.monotonic = slowed(time.monotonic)
    time.perf_counter = slowed(time.perf_counter)
"""


# -- what is said ---------------------------------------------------------------------------------


def tells(lab: Lab, check: str, verdict: str, *, says: str, mend: str, beside: str) -> None:
    """Run both checks: ``check`` says what is wrong and how to mend it, ``beside`` what it must.

    That is a pass, except for RDMA, which a lab does not have.
    """
    suite = lab.accept("--only", f"{check},{beside}")
    result, other = suite.check(check), suite.check(beside)
    print(f"{check}: {result['verdict']} after {result['seconds']:.0f} s: {result['summary']}")
    print(f"remedy: {result['remedy']}")
    print(f"{beside}: {other['verdict']} after {other['seconds']:.0f} s")
    assert result["verdict"] == verdict, (result["summary"], result["evidence"])
    assert says in result["summary"]
    assert mend in result["remedy"]
    if beside == "rdma":
        assert other["summary"].startswith("The transport is TCP: backend gloo")
    else:
        assert other["verdict"] == "passed", (other["summary"], other["evidence"])
    assert suite.report["accepted"] is False


def passes(lab: Lab, check: str) -> None:
    """Assert that the check passes after the repair."""
    result = lab.accept("--only", check).check(check)
    assert result["verdict"] == "passed", (result["summary"], result["evidence"])


def cpu_group(path: str) -> Path:
    """Return a cgroup as this machine sees it, where shares of the CPUs are said."""
    return (cgroups.ROOT if cgroups.unified() else cgroups.ROOT / "cpu") / path.lstrip("/")


@pytest.fixture(scope="module", autouse=True)
def favoured(running_lab: str) -> Iterator[None]:
    """The lab's pods get their CPU, whatever else runs here: only what is spoilt may be slow."""
    file, much = ("cpu.weight", "1600") if cgroups.unified() else ("cpu.shares", "16384")
    lab = cpu_group(cgroups.path(running_lab, "any")).parent
    before = {group / file: (group / file).read_text() for group in (lab, lab.parent)}
    for path in before:
        path.write_text(much)
    yield
    for path, text in before.items():
        path.write_text(text)


# -- how it is spoilt -----------------------------------------------------------------------------


@contextlib.contextmanager
def changed(kubectl: Run, change: Callable[[Object], None], *where: str) -> Iterator[None]:
    """Yield an object of the cluster that an administrator changes for a while."""
    before: Object = json.loads(succeed(kubectl("get", *where, "-o", "json")).stdout)
    # Whatever it is by now: controllers write their status into it.
    before["metadata"].pop("resourceVersion")
    spoilt = deepcopy(before)
    change(spoilt)
    assert spoilt != before

    def back() -> subprocess.CompletedProcess[str]:
        return kubectl("replace", "-f", "-", stdin=json.dumps(before))

    succeed(kubectl("replace", "-f", "-", stdin=json.dumps(spoilt)))
    try:
        yield
    finally:
        # A flavor of a queue is not taken away from jobs that have it: the last is just going.
        wait(lambda: back().returncode == 0, 60, f"{' '.join(where)} to be put back")


@contextlib.contextmanager
def again_and_again(step: Callable[[], None]) -> Iterator[None]:
    """Do something all the while, some five times a second; what goes wrong in it is raised."""
    over = threading.Event()
    raised: list[Exception] = []

    def run() -> None:
        while not over.wait(0.2):
            try:
                step()
            except Exception as error:  # noqa: BLE001 - it is raised below
                raised.append(error)
                return

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
    assert not raised, raised


def jobs_of(runtime: Object) -> Object:
    """Return the JobSet's spec of a runtime."""
    result: Object = runtime["spec"]["template"]["spec"]
    return result


def pods_of(runtime: Object) -> list[Object]:
    """Return the pods' templates of a runtime."""
    jobs = jobs_of(runtime)["replicatedJobs"]
    return [job["template"]["spec"]["template"] for job in jobs]


# -- the one that `make acceptance` has ------------------------------------------------------------


@pytest.mark.acceptance
def test_a_log_that_is_cut_off(lab: Lab, running_lab: str) -> None:
    """The kubelet's file of one pod's log is taken away while the pod writes on."""
    folder = labs.Lab(running_lab).directory / "nodes" / str(VICTIM) / "pods-log"
    cut: set[Path] = set()

    def cut_off() -> None:
        for log in folder.glob(f"{NAMESPACE}_{PREFIX}-slow-nodes-*/*/0.log"):
            whole = log.read_bytes()
            at = whole.find(MARK.encode())
            end = whole.find(b"\n", at) + 1
            if log not in cut and at >= 0 and end > 0:
                begin = log.with_suffix(".cut")
                begin.write_bytes(whole[:end])
                begin.replace(log)
                cut.add(log)

    with again_and_again(cut_off):
        tells(
            lab,
            "slow-nodes",
            "not-proven",
            says=f"the output of {node_name(running_lab, VICTIM)} is cut off",
            mend="containerLogMaxSize",
            beside="rdma",
        )
    assert len(cut) == 1


@long
def test_a_clock_that_lies(lab: Lab, running_lab: str, kubectl: Run) -> None:
    """Programs on one node see a tenth of the time go by."""
    name = "lying-clock"
    clock = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": {"sitecustomize.py": LYING_CLOCK},
    }

    def lie(runtime: Object) -> None:
        for pod in pods_of(runtime):
            pod["spec"].setdefault("volumes", []).append(
                {"name": name, "configMap": {"name": name}}
            )
            for container in pod["spec"]["containers"]:
                others = [v for v in container.get("env", ()) if v["name"] != "PYTHONPATH"]
                container["env"] = [*others, {"name": "PYTHONPATH", "value": "/lying"}]
                container.setdefault("volumeMounts", []).append(
                    {"name": name, "mountPath": "/lying"}
                )

    succeed(kubectl("apply", "-f", "-", stdin=json.dumps(clock)))
    try:
        with changed(kubectl, lie, "clustertrainingruntime", RUNTIME):
            tells(
                lab,
                "slow-nodes",
                "not-proven",
                says=f"{node_name(running_lab, VICTIM)}: ended long before the others of one "
                "collective: a clock lies",
                mend="chronyc tracking",
                beside="rdma",
            )
    finally:
        succeed(kubectl("delete", "configmap", name, "-n", NAMESPACE))


@long
def test_a_node_that_is_slow(lab: Lab, running_lab: str) -> None:
    """The pods of one node have a small part of a core."""
    slow = node_name(running_lab, VICTIM)
    with again_and_again(lambda: throttle(lab, running_lab)):
        tells(
            lab,
            "slow-nodes",
            "failed",
            says=f"{slow}: computes at ",
            mend="kubectl cordon",
            beside="gangs",
        )
    passes(lab, "slow-nodes")


def throttle(lab: Lab, name: str) -> None:
    """Give each gang's pod on the slow node its share of a core, and no more."""
    period = 100_000
    quota = int(QUOTA * period)
    file, text = ("cpu.cfs_quota_us", str(quota))
    if cgroups.unified():
        file, text = ("cpu.max", f"{quota} {period}")
    for pod in lab.cluster.list(kube.core(NAMESPACE, "pods"), selector=JOBSET_LABEL):
        if pod["spec"].get("nodeName") == node_name(name, VICTIM):
            node = cpu_group(cgroups.path(name, f"node-{VICTIM}"))
            for group in node.rglob(f"pod{pod['metadata']['uid']}"):
                # It may be gone by now.
                with contextlib.suppress(OSError):
                    (group / file).write_text(text)


@long
def test_a_network_policy_that_is_closed(lab: Lab, kubectl: Run) -> None:
    """The policy that lets the pods of jobs reach each other allows nothing."""

    def close(policy: Object) -> None:
        policy["spec"] |= {"ingress": [], "egress": []}

    with changed(kubectl, close, "networkpolicy", "railhead-jobs", "-n", NAMESPACE):
        tells(
            lab,
            "launch",
            "failed",
            says="none of its 4 ranks met another",
            mend=f"kubectl get networkpolicy -n {NAMESPACE}",
            beside="gangs",
        )


@long
def test_gang_scheduling_that_is_off(lab: Lab, kubectl: Run) -> None:
    """The queue lets in more than fits, by a flavor without topology: pods are placed singly."""
    name = "sabotaged"
    queue = json.loads(succeed(kubectl("get", "clusterqueue", CLUSTER_QUEUE, "-o", "json")).stdout)
    used = queue["spec"]["resourceGroups"][0]["flavors"][0]["name"]
    flavor = json.loads(succeed(kubectl("get", "resourceflavor", used, "-o", "json")).stdout)
    plain = {
        "apiVersion": flavor["apiVersion"],
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {key: v for key, v in flavor["spec"].items() if key != "topologyName"},
    }

    def one_by_one(runtime: Object) -> None:
        for pod in pods_of(runtime):
            annotations = pod["metadata"]["annotations"]
            kept = {key: v for key, v in annotations.items() if "topology" not in key}
            pod["metadata"]["annotations"] = kept

    def beyond(queue: Object) -> None:
        for group in queue["spec"]["resourceGroups"]:
            first = deepcopy(group["flavors"][0]) | {"name": name}
            for resource in first["resources"]:
                resource["nominalQuota"] = "100000Gi"
            group["flavors"].insert(0, first)

    succeed(kubectl("apply", "-f", "-", stdin=json.dumps(plain)))
    try:
        with (
            changed(kubectl, one_by_one, "clustertrainingruntime", RUNTIME),
            changed(kubectl, beyond, "clusterqueue", CLUSTER_QUEUE),
        ):
            tells(
                lab,
                "gangs",
                "failed",
                says="half_placed",
                mend="give its flavor the topology, and keep waitForPodsReady on",
                beside="slow-nodes",
            )
    finally:
        succeed(kubectl("delete", "resourceflavor", name))


@long
def test_a_claim_that_is_not_shared(lab: Lab, running_lab: str, kubectl: Run) -> None:
    """One node has another directory at the volume's mount source."""
    result = succeed(kubectl("get", "persistentvolumes", "-o", "json"))
    (volume,) = [
        item["spec"]
        for item in json.loads(result.stdout)["items"]
        if item["spec"]["claimRef"]["namespace"] == NAMESPACE
    ]
    path = (volume.get("hostPath") or volume.get("local"))["path"]
    node = labs.Lab(running_lab).node_init(VICTIM)
    node.run(["mount", "-t", "tmpfs", "-o", "mode=0777", "railhead-sabotage", path])
    try:
        tells(
            lab,
            "restart",
            "failed",
            says="the checkpoint is not on all nodes",
            mend="ReadWriteMany on every node",
            beside="slow-nodes",
        )
    finally:
        node.run(["umount", "--lazy", path])


@long
def test_a_restart_policy_that_is_off(lab: Lab, kubectl: Run) -> None:
    """The runtime says nothing of what starts again."""

    def off(runtime: Object) -> None:
        del jobs_of(runtime)["failurePolicy"]

    with changed(kubectl, off, "clustertrainingruntime", RUNTIME):
        tells(
            lab,
            "restart",
            "failed",
            says="and was not started again",
            mend="failurePolicy",
            beside="slow-nodes",
        )
