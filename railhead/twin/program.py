"""The steps of a stack's rehearsal, in the order in which operators and researchers meet them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from railhead.contract import ClusterContract
from railhead.gate.state import ANNOTATION, LABEL, READY
from railhead.model.cluster import Cluster
from railhead.resolve.cluster import resolve
from railhead.twin import jobs, machines
from railhead.twin.edits import EDITS, Edit
from railhead.twin.jobs import Example
from railhead.twin.steps import FailedError, SkippedError, Step
from railhead.twin.twin import Ran, Twin
from railhead.twin.world import is_ready

#: A purchase that begins on a day to come.
BLOCK = "capacity-block"
#: How long each command of the engine may take here; a cluster of real machines has its hours.
UP_S, AGAIN_S, DESTROY_S, EDIT_S, REFUSED_S = 300.0, 120.0, 300.0, 180.0, 120.0
_GATE_S, _BACK_S = 45.0, 150.0
UP, AGAIN, CAPACITY, NODES, DESTROY = "up", "up-again", "capacity", "nodes", "destroy"
#: What the guard of a namespace's jobs says of one (railhead.resolve.ending).
_RUNS = "has not ended"
#: Steps that run whatever is asked for: without them no other makes sense.
NEEDED = frozenset({UP, CAPACITY})


def names(cluster: Cluster) -> list[str]:
    """Return the names of a stack's steps, which it has before there is a twin."""
    return [step.name for step in Program(cast("Twin", SimpleNamespace(cluster=cluster))).steps()]


@dataclass
class Program:
    """The steps of one twin.

    Args:
        twin: where they happen.
        progress: called with a line on what goes on.
    """

    twin: Twin
    progress: Callable[[str], None] = lambda _: None
    _steady: tuple[Example, dict[str, str]] | None = None
    _launched: int = field(default=0)

    @property
    def contract(self) -> ClusterContract:
        """The stack's contract."""
        return resolve(self.twin.cluster).contract

    def steps(self) -> Iterator[Step]:
        """Yield every step."""
        contract = self.contract
        mine = list(jobs.examples(contract))
        yield Step(name=UP, does="the first `pulumi up`", run=self.up)
        yield Step(name=AGAIN, does="`pulumi up` again changes nothing", run=self.again)
        if self._later():
            yield Step(
                name=CAPACITY,
                does="the capacity that is bought for later begins",
                run=self.capacity,
            )
        yield Step(name=NODES, does="every node proves itself to the gate", run=self.nodes)
        for example in mine:
            yield Step(
                name=f"job:{example.runtime.name}:{example.queue.name}",
                does=example.title,
                run=partial(self.job, example),
            )
        if mine:
            yield Step(
                name="gang",
                does="a gang of all nodes that its queue may take",
                run=partial(self.gang, mine[0]),
            )
            yield Step(
                name="node-lost",
                does="a node goes under a gang, which runs again without it",
                run=partial(self.node_lost, mine[0]),
            )
        for edit in EDITS:
            yield Step(
                name=f"edit:{edit.name}",
                does=edit.does,
                run=partial(self.edit, edit, mine),
            )
        if mine:
            yield Step(
                name="destroy-refused",
                does="`pulumi destroy` is refused while a job runs",
                run=partial(self.refused, mine),
            )
        yield Step(name=DESTROY, does="`pulumi destroy` to the end", run=self.destroy)

    # -- the stack --------------------------------------------------------------------------------

    def up(self) -> str:
        """Make the stack."""
        ran = self._engine("up", "--yes", "--skip-preview", limit_s=UP_S)
        return f"{_count(ran)} resources"

    def again(self) -> str:
        """Make it once more."""
        ran = self.twin.engine(
            "up",
            "--yes",
            "--skip-preview",
            "--expect-no-changes",
            limit_s=AGAIN_S,
            progress=self.progress,
        )
        if ran.status:
            raise FailedError(f"a second `up` is not without change: {_why(ran)}")
        return "no change"

    def capacity(self) -> str:
        """Start the nodes of capacity blocks, as their operator does when they begin."""
        for pool in self._later():
            self.twin.scale(f"{self.twin.cluster.name}-{pool.name}", pool.nodes)
        deadline = time.monotonic() + _GATE_S
        wanted = sum(pool.nodes for pool in self._later())
        while sum(bool(m.gpus) for m in self.twin.world.hardware.values()) < wanted:
            if time.monotonic() > deadline:
                raise FailedError(f"{wanted} nodes do not join within {_GATE_S:.0f} s")
            time.sleep(0.2)
        return f"{wanted} nodes"

    def _later(self) -> list[Any]:
        """Return the pools that have no node at first."""
        pools: list[Any] = list(self.twin.cluster.pools)
        return [p for p in pools if getattr(getattr(p, "purchase", None), "kind", "") == BLOCK]

    def nodes(self) -> str:
        """Wait until each node that is there offers its pool's devices and has passed the gate."""
        deadline = time.monotonic() + _GATE_S
        while True:
            look = self.twin.world.look()
            gated = [n for n, m in self.twin.world.hardware.items() if m.gpus]
            if not gated:
                raise SkippedError("no node with GPUs is there yet")
            open_ = {name: why for name in gated if (why := self._lacks(look.nodes[name]))}
            if not open_:
                return f"{len(gated)} nodes"
            if time.monotonic() > deadline:
                name, why = min(open_.items())
                raise FailedError(
                    f"{len(open_)} of {len(gated)} nodes are not as their pool promises; "
                    f"{name}: {why}{self._nowhere()}"
                )
            time.sleep(0.5)

    def _lacks(self, node: Mapping[str, Any]) -> str:
        """Return what a node lacks of its pool's promise; nothing if it lacks nothing."""
        labels, offered = node["metadata"]["labels"], node["status"].get("allocatable") or {}
        for pool in self.contract.node_pools:
            if any(labels.get(key) != value for key, value in pool.node_selector.items()):
                continue
            promised = {r: n for r, n in pool.capacity.items() if "/" in r}
            short = [r for r, n in promised.items() if int(offered.get(r, "0")) < int(n)]
            if short:
                return f"does not offer {', '.join(short)}"
        if labels.get(LABEL) == READY:
            return ""
        return str(
            node["metadata"].get("annotations", {}).get(ANNOTATION) or "no gate speaks of it"
        )

    def _nowhere(self) -> str:
        """Return the DaemonSets that no node is for, which nothing else reports."""
        rows = [
            f"{body['metadata']['name']}, which selects "
            f"{body['spec']['template']['spec'].get('nodeSelector') or 'by its affinity'}"
            for body in self.twin.world.list("apps/v1", "DaemonSet")
            if not (body.get("status") or {}).get("desiredNumberScheduled")
        ]
        return f"; these DaemonSets have no node: {'; '.join(rows)}" if rows else ""

    def refused(self, mine: Sequence[Example]) -> str:
        """Try to take it all away under a job, which then ends and goes with the stack."""
        self._steady = self._steady or self._begin_steady(mine)
        if self._steady is None:
            raise SkippedError("no node is there before a job waits for one")
        ran = self.twin.engine(
            "destroy", "--yes", "--skip-preview", limit_s=REFUSED_S, progress=self.progress
        )
        gone = ran.operations.get("delete", 0)
        # Owners of jobs in namespaces that have none running.
        others = len(self.twin.cluster.training_namespaces) - 1
        if gone > others or not ran.status or _RUNS not in ran.text:
            raise FailedError(f"with a job `destroy` took {gone} resources away: {_why(ran)}")
        self._untouched()
        jobs.end(self.twin, self._steady[0], "steady")
        self._steady = None
        return f"{gone} deleted"

    def destroy(self) -> str:
        """Take it all away, claims kept."""
        self._end_steady()
        self._unprotected()
        ran = self._engine("destroy", "--yes", "--skip-preview", limit_s=DESTROY_S)
        left = [
            n["metadata"]["name"]
            for n in self.twin.world.list("v1", "Namespace")
            if n["metadata"].get("deletionTimestamp")
        ]
        if left:
            raise FailedError(f"namespaces stay behind in Terminating: {', '.join(left)}")
        return f"{_count(ran)} resources"

    def _unprotected(self) -> None:
        """Do what the documentation says before a protected stack goes."""
        platform: Any = self.twin.cluster.platform
        if not getattr(platform, "deletion_protection", False):
            return

        def off(section: dict[str, Any]) -> None:
            section["platform"]["deletion_protection"] = False

        self.twin.change(off)
        self._engine("up", "--yes", "--skip-preview", limit_s=EDIT_S)

    # -- jobs -------------------------------------------------------------------------------------

    def job(self, example: Example) -> str:
        """Run a job of two nodes to its end.

        Where nodes come for a job it runs twice: whether they have topology labels is disputed.
        """
        self._takes_nodes(example)
        on = [self._job(example) for _ in range(2 if self._queued(example) else 1)]
        return "; ".join(on)

    def _job(self, example: Example) -> str:
        least = example.runtime.only_nodes or min(2, example.pool.nodes)
        name = self._name()
        jobs.launch(self.twin, example, name, least)
        try:
            pods = jobs.runs(self.twin, example, name, least)
            jobs.placed(self.twin, self.contract, example, pods)
            jobs.end(self.twin, example, name)
        finally:
            jobs.cancel(self.twin, example, name)
        return f"{least} nodes: {', '.join(sorted(p['spec']['nodeName'] for p in pods))}"

    def gang(self, example: Example) -> str:
        """Run a gang as large as its queue may be."""
        self._takes_nodes(example)
        nodes = example.runtime.max_nodes or example.pool.nodes
        nodes = min(nodes, self._most(example))
        name = self._name()
        jobs.launch(self.twin, example, name, nodes)
        try:
            pods = jobs.runs(self.twin, example, name, nodes)
            jobs.placed(self.twin, self.contract, example, pods)
        finally:
            jobs.cancel(self.twin, example, name)
        return f"{nodes} nodes"

    def node_lost(self, example: Example) -> str:
        """Take a node away under a gang of two."""
        self._takes_nodes(example)
        if example.pool.nodes < 3:
            raise SkippedError("the pool has no node to spare")
        name = self._name()
        jobs.launch(self.twin, example, name, 2)
        try:
            pods = jobs.runs(self.twin, example, name, 2)
            lost = pods[0]["spec"]["nodeName"]
            machine = self.twin.world.hardware[lost]
            self.twin.remove(lost)
            deadline = time.monotonic() + _BACK_S
            while True:
                now = jobs.pods_of(self.twin.client, example.queue.namespace, name)
                on = {p["spec"].get("nodeName") for p in now if is_ready(p)}
                if len(now) == 2 and len(on) == 2 and lost not in on:
                    break
                if time.monotonic() > deadline:
                    raise FailedError(
                        f"{lost} went {_BACK_S:.0f} s ago, and the job does not run on others: "
                        f"{jobs.why(self.twin, example, name, now, 2)}"
                    )
                time.sleep(0.3)
            self.twin.add(machine)
        finally:
            jobs.cancel(self.twin, example, name)
        return f"{lost} went; the gang is on {', '.join(sorted(str(n) for n in on))}"

    def _most(self, example: Example) -> int:
        """Return the nodes of a gang's pool that are there and that its team may have."""
        there = sum(1 for machine in self.twin.world.hardware.values() if machine.gpus)
        for team in self.twin.cluster.teams:
            if team.name == example.queue.team:
                for share in team.shares:
                    if share.pool == example.pool.name:
                        others = example.pool.nodes - share.nodes
                        lent = share.borrow if share.borrow is not None else others
                        idle = sum(
                            (s.lend if s.lend is not None else s.nodes)
                            for other in self.twin.cluster.teams
                            if other.name != team.name
                            for s in other.shares
                            if s.pool == share.pool
                        )
                        there = min(there, share.nodes + min(lent, idle))
        return there

    def _takes_nodes(self, example: Example) -> None:
        there = [m for m in self.twin.world.hardware.values() if self._is_of(m.labels, example)]
        if not there and not self._queued(example):
            raise SkippedError(f"pool {example.pool.name} has no node before a job waits for one")

    def _queued(self, example: Example) -> bool:
        """Return whether the nodes of an example's pool come for a job that waits for them."""
        pools: list[Any] = list(self.twin.cluster.pools)
        mine = next((p for p in pools if p.name == example.pool.name), None)
        return bool(getattr(getattr(mine, "capacity", None), "queued", False))

    @staticmethod
    def _is_of(labels: Mapping[str, str], example: Example) -> bool:
        return all(labels.get(k) == v for k, v in example.pool.node_selector.items())

    def _name(self) -> str:
        self._launched += 1
        return f"rehearsal-{self._launched}"

    # -- edits ------------------------------------------------------------------------------------

    def edit(self, edit: Edit, mine: Sequence[Example]) -> str:
        """Make an edit, `up`, and see that a job that ran before runs on untouched."""
        if mine and self._steady is None:
            # Without a job that runs, which is a failure of its own, the edit is made all the same.
            with contextlib.suppress(FailedError):
                self._steady = self._begin_steady(mine)
        before = self.twin.laid.stack_file.read_text()
        cluster = self.twin.cluster
        try:
            self.twin.change(edit.change)
            if edit.nodes:
                self._site_follows()
            ran = self._engine("up", "--yes", "--skip-preview", limit_s=EDIT_S)
        except BaseException:
            self.twin.laid.stack_file.write_text(before)
            self.twin.cluster = cluster
            raise
        rows = self.twin.cluster.removals
        if edit.keeps_jobs and not any(row.kind == "pool" and "jobs" in row.loses for row in rows):
            self._untouched()
        else:
            self._end_steady()
        return (
            ", ".join(f"{count} {word}" for word, count in ran.operations.items() if word != "same")
            or "no change"
        )

    def _begin_steady(self, mine: Sequence[Example]) -> tuple[Example, dict[str, str]] | None:
        # Without the claims that an edit may drop below it.
        example = replace(mine[0], claims=())
        try:
            self._takes_nodes(example)
        except SkippedError:
            return None
        nodes = example.runtime.only_nodes or min(2, example.pool.nodes)
        jobs.launch(self.twin, example, "steady", nodes)
        try:
            pods = jobs.runs(self.twin, example, "steady", nodes)
        except FailedError:
            jobs.cancel(self.twin, example, "steady")
            raise
        return example, {p["metadata"]["uid"]: p["metadata"]["name"] for p in pods}

    def _end_steady(self) -> None:
        if self._steady is not None:
            jobs.cancel(self.twin, self._steady[0], "steady")
            self._steady = None

    def _untouched(self) -> None:
        if self._steady is None:
            return
        example, before = self._steady
        now = {
            p["metadata"]["uid"]
            for p in jobs.pods_of(self.twin.client, example.queue.namespace, "steady")
        }
        if lost := [name for uid, name in before.items() if uid not in now]:
            self._end_steady()
            raise FailedError(f"the edit ended a running job: its pod {lost[0]} is gone")

    def _site_follows(self) -> None:
        """Add or take nodes before the stack's file says so, as documentation asks operators to."""
        pool = self.twin.cluster.pools[0]
        if self.twin.cluster.platform.kind == "aws":
            self.twin.scale(f"{self.twin.cluster.name}-{pool.name}", pool.nodes)
        if self.twin.cluster.platform.kind != "existing":
            return
        wanted = {node.name: node for node in machines.standing(self.twin.cluster)}
        there = set(self.twin.world.hardware)
        for name in sorted(set(wanted) - there):
            self.twin.add(wanted[name])
        for name in sorted(there - set(wanted)):
            self.twin.remove(name)

    def _engine(self, *arguments: str, limit_s: float) -> Ran:
        ran = self.twin.engine(*arguments, limit_s=limit_s, progress=self.progress)
        if ran.status:
            raise FailedError(f"`pulumi {arguments[0]}` failed: {_why(ran)}")
        return ran


def _count(ran: Ran) -> int:
    return sum(count for word, count in ran.operations.items() if word != "same")


def _why(ran: Ran) -> str:
    """Return the engine's errors, or what it waited for."""
    if ran.waiting:
        return (
            f"after {ran.seconds:.0f} s it still waited for: {'; '.join(ran.waiting[:4])}"
            f"{' and others' if len(ran.waiting) > 4 else ''}"
        )
    errors = [e for e in ran.errors if not e.endswith(("update failed", "preview failed"))]
    if errors:
        return " | ".join(" ".join(error.split())[:600] for error in errors[:3])
    return " ".join(ran.text.split())[-600:]
