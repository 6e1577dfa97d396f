"""A node of the lab that is lost under a gang, and what became of the gang.

The node is one more than the stack's, so that it runs no controller, and is gone afterwards.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from railhead.accept import discover
from railhead.accept.checks.restart import EVERY, train
from railhead.accept.losing import OUT_OF_SERVICE
from railhead.accept.site import Testbed
from railhead.accept.training import Harm, Trained, broken, losses, unbroken
from railhead.kube import client as kube
from railhead.kube.client import Cluster, choose_target
from railhead.kube.conditions import holds
from railhead.kube.nodes import NODES
from railhead.lab.cluster import Lab
from tests.lab.conftest import LAB, PATIENCE, Run, railhead, succeed
from tests.lab.contests import fresh_nodes, lab_status
from tests.lab.jobs import NAMESPACE, wait

# What docs/teams.md tells who has no cloud that deletes the nodes of machines that are gone.
TAINT = f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute"


@dataclass(frozen=True, kw_only=True)
class Ground:
    """A lab with a node to lose: ``spare`` holds the gang's other place once that is lost."""

    site: Testbed
    kubectl: Run
    kept: str
    spare: str
    lost: str

    def ready(self, node: str) -> bool:
        """Return whether the API server has the node as ready; a deleted node is not."""
        return holds(self.site.cluster.find(f"{NODES}/{node}"), "Ready")

    def taint(self) -> None:
        """Taint the node by hand: no controller knows that the machine is off."""
        succeed(self.kubectl("taint", "nodes", self.lost, TAINT))

    def mend(self) -> None:
        """Restart the services of the lost node, once its pods are to end and cannot."""
        wait(self._ending, 200, "its pods to be deleted")
        self.start()

    def start(self) -> None:
        """Restart the services of the lost node, as a machine does at boot."""
        succeed(railhead("lab", "up", "--name", LAB))

    def _ending(self) -> bool:
        pods = self.site.cluster.list(kube.core(NAMESPACE, "pods"))
        there = [pod for pod in pods if pod["spec"].get("nodeName") == self.lost]
        return any("deletionTimestamp" in pod["metadata"] for pod in there)

    def lose(self, then: Callable[[], None], part: str = "") -> Trained:
        """Train on the node that is kept and the one that is lost; ``then`` is the only help.

        ``part`` is what ends of it; all of it where none is named.
        """
        self.kubectl("cordon", self.spare)
        role = self.lost.removeprefix(f"{LAB}-") + (part and f"/{part}")
        (pid,) = (c["pid"] for c in lab_status(LAB)["components"] if c["role"] == role)
        facts = replace(
            self.site.facts, may_lose=(self.lost,), lose_with=("sh", "-c", f"kill -9 {pid}")
        )

        def helping() -> None:
            wait(lambda: not self.ready(self.lost), 200, f"{self.lost} to be lost")
            self.kubectl("uncordon", self.spare)
            then()

        helper = threading.Thread(target=helping)
        helper.start()
        try:
            return train(replace(self.site, facts=facts), (Harm(kind="node", step=EVERY + 2),))
        finally:
            helper.join()

    def curve(self) -> dict[int, str]:
        """Return the losses of a run that nobody touches."""
        return losses(unbroken(train(self.site, ())).attempts)


@contextmanager
def one_more_node(kubeconfig: Path, kubectl: Run, folder: Path, *words: str) -> Iterator[Ground]:
    """Yield a lab whose stack is up gets a node to lose, until the context ends.

    ``words`` are more of what `railhead lab up` takes.
    """
    cluster = Cluster(choose_target(kubeconfig=kubeconfig))
    lab, facts = Lab(LAB), discover.facts(cluster, quick=True)
    spec = lab.require()
    (lost,) = fresh_nodes(LAB, 1, *words)
    site = Testbed(facts=facts, cluster=cluster, folder=folder, say=print, timeout=900 * PATIENCE)
    kept, spare = facts.real
    result = Ground(site=site, kubectl=kubectl, kept=kept, spare=spare, lost=lost)
    wait(lambda: result.ready(lost), 60, f"{lost} to be ready")
    try:
        yield result
    finally:
        kubectl("uncordon", spare)
        for row in lab_status(LAB)["components"]:
            if row["role"] == lost.removeprefix(f"{LAB}-") and row["pid"]:
                os.kill(row["pid"], 9)
        kubectl("delete", "node", lost)
        # Other tests have the lab that they were given.
        (lab.directory / "lab.json").write_text(spec.model_dump_json(indent=1))
        cluster.close()


def judge(
    ground: Ground, job: Trained, curve: dict[int, str], after: str, of: str = "all of it"
) -> None:
    """Assert that the gang was recreated once, with the losses of an unbroken run."""
    shown = broken(job, curve)
    assert (shown.wrong, shown.lacking) == ([], [])
    assert job.lost is not None
    assert job.lost.after == after
    assert len(shown.attempts) == 2
    assert {row.node for row in job.rows} - {ground.kept, ground.spare, ""} == {ground.lost}
    (came,) = shown.came
    assert came.lost == 2
    load = os.getloadavg()[0]
    print(f"| {of} of a node | {after} | {came.lost} | {came.seconds:.0f} s, load {load:.0f} | 2 |")
