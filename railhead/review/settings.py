"""Settings of a stack whose change loses something that no single resource shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from railhead.review.judged import Judged
from railhead.review.model import Level, Loss
from railhead.review.rows import came, less, lost, lowered, more, parts, short, swapped
from railhead.review.words import words

_PAID = ("capacity-block", "reservation", "reservation-group")
_TAKEN_BACK = ("flex-start", "spot")
_MEANWHILE = "every job, while GPUs are away"
_PREEMPTED = "running jobs are stopped for others by another rule"
_BORROWERS = "who runs on what others want"
_NICS = "NICs of every node are set up again, which ends the jobs there"
_UNPROVEN = "nodes need not prove it any more: jobs run where the fabric is slow or lost"


def _off(was: Any, now: Any) -> bool:
    return was != now and (now is False or now == "none")


def _on(was: Any, now: Any) -> bool:
    return was is not True and now is True


def _sooner(was: Any, now: Any) -> bool:
    """Return whether a limit came or fell; None is no limit."""
    return now is not None and (was is None or now < was)


def _later(was: Any, now: Any) -> bool:
    """Return whether a limit went or rose; None is no limit."""
    return was is not None and (now is None or now > was)


def _deletes(_: Any, now: Any) -> bool:
    return isinstance(now, Mapping) and bool(now.get("delete"))


def _other(was: Any, now: Any) -> bool:
    return was is not None and was != now


def _other_repository(was: Any, now: Any) -> bool:
    names = [str(image).partition("@")[0].rpartition("/") for image in (was, now)]
    return len({(path, name.partition(":")[0]) for path, _, name in names}) > 1


@dataclass(frozen=True)
class Setting:
    """A field, as a pattern of its path, and what its change means when ``when`` holds."""

    path: str
    when: Callable[[Any, Any], bool]
    level: Level
    loss: Loss
    says: str
    who: str = ""


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "requeue.limit",
        _sooner,
        "ask",
        "jobs",
        "a gang that did not start {now} times is not tried again until a person reactivates it",
        "whose job waits for a node or an image",
    ),
    Setting(
        "runtimes*.restarts.gang",
        less,
        "ask",
        "jobs",
        "a run ends for good after {now} failures, in place of {was}",
        "long runs",
    ),
    Setting(
        "runtimes*.logs",
        lambda was, now: was == "kept" and now != was,
        "ask",
        "jobs",
        "the output of jobs goes with their pods, and is no longer kept on the claim",
        "who asks why a run failed",
    ),
    Setting("finished_days", _sooner, "ask", "jobs", "finished jobs' pods go after {now} days"),
    Setting(
        "checkpoints*.retention",
        _deletes,
        "ask",
        "data",
        "deletes checkpoints every night: {now}",
        "who resumes from an older one",
    ),
    Setting(
        "checkpoints*.retention.delete",
        lambda was, now: was is False and now is True,
        "ask",
        "data",
        "deletes checkpoints every night, and no longer only lists them",
        "who resumes from an older one",
    ),
    Setting(
        "checkpoints*.retention.[dk]*",
        lowered,
        "ask",
        "data",
        "deletes more checkpoints: {now} in place of {was}",
        "who resumes from an older one",
    ),
    Setting(
        "queueing.end_lost_pods",
        _on,
        "ask",
        "data",
        "a node that is cut off may write checkpoints beside the gang that took its place",
        "runs that overwrite their checkpoint in place",
    ),
    Setting(
        "queueing.end_lost_pods",
        _off,
        "ask",
        "jobs",
        "pods on a lost node stay until a person deletes them, and their gang hangs meanwhile",
        "runs whose node is lost at night",
    ),
    Setting(
        "pools*.schedulable*",
        more,
        "ask",
        "quota",
        "jobs are promised {now} of each node, in place of {was}: where nodes have less, gangs are "
        "admitted and never start (`railhead config verify` compares)",
        "everyone who waits behind them",
    ),
    Setting(
        "pools*.kind",
        lambda was, now: was in _PAID and now in _TAKEN_BACK,
        "refuse",
        "capacity",
        "the {was} is not used any more, and is paid for; machines are {now}: the cloud takes "
        "them back at any time, with the jobs on them",
        "who pays, and every job there",
    ),
    Setting(
        "pools*.kind",
        lambda was, now: was in _PAID and now != was,
        "refuse",
        "capacity",
        "the {was} is not used any more, and is paid for",
        "who pays",
    ),
    Setting(
        "pools*.kind",
        lambda _, now: now in _TAKEN_BACK,
        "ask",
        "jobs",
        "machines are {now}: the cloud takes them back at any time, with the jobs on them",
        "every job there",
    ),
    Setting(
        "pools*.purchase.id",
        swapped,
        "ask",
        "capacity",
        "{was} is not used any more: is it let go?",
        "who pays",
    ),
    Setting(
        "pools*.capacity.name",
        swapped,
        "ask",
        "capacity",
        "{was} is not used any more: is it let go?",
        "who pays",
    ),
    Setting(
        "pools*.capacity.max_run_seconds",
        less,
        "ask",
        "jobs",
        "nodes end after {now} s, not {was} s, with the jobs on them",
        "jobs that take longer",
    ),
    Setting("gate", lambda _, now: now is None, "ask", "guards", _UNPROVEN, "slow jobs"),
    Setting("gate.*", _off, "ask", "guards", _UNPROVEN, "slow jobs"),
    Setting(
        "gpu_operator.dcgm_exporter",
        _off,
        "ask",
        "guards",
        "errors and throttling of GPUs are not measured any more: no alert speaks of them",
        "nobody, until a run dies of it",
    ),
    Setting(
        "watching.sources",
        lost,
        "ask",
        "guards",
        "alerts that need what is no longer scraped are left out: {was} -> {now}",
        "nobody, until it would have warned",
    ),
    Setting("gpu_operator.mig", _other, "ask", "jobs", "GPUs are partitioned: {was} -> {now}"),
    *(
        Setting(
            f"gpu_operator.{field}",
            swapped,
            "ask",
            "jobs",
            f"{what}: {{was}} -> {{now}}",
            _MEANWHILE,
        )
        for field, what in (
            ("driver", "another one loads the driver"),
            ("toolkit", "another one brings the container toolkit"),
            ("gpudirect", "NICs reach the memory of GPUs otherwise"),
            ("allocation", "GPUs are handed out otherwise"),
        )
    ),
    Setting(
        "gpu_operator.driver_version",
        lambda was, now: now is not None and now != was,
        "ask",
        "jobs",
        "the driver is replaced on every node: {was} -> {now}",
        _MEANWHILE,
    ),
    Setting(
        "runtimes*.image",
        _other_repository,
        "ask",
        "network",
        "{now} in place of {was}: jobs train over TCP if it lacks what the fabric needs in an "
        "image (on EFA libfabric and aws-ofi-nccl; NCCL everywhere)",
        "slow jobs",
    ),
    Setting(
        "ready_timeout_seconds",
        less,
        "ask",
        "jobs",
        "a gang of which a pod is not ready after {now} s goes back to wait, not after {was} s",
        "whose image is large, or whose volume mounts slowly",
    ),
    Setting(
        "requeue.recovery_seconds",
        lambda _, now: now == 0,
        "ask",
        "quota",
        "a gang that lacks a pod keeps its quota for ever",
        "everyone who waits behind it",
    ),
    Setting(
        "requeue.recovery_seconds",
        _sooner,
        "ask",
        "jobs",
        "a gang that lacks a pod for {now} s loses its place: restarts take that long",
        "long runs",
    ),
    Setting(
        "teams*.preemption.reclaim",
        lambda _, now: now is not None and now != "any",
        "ask",
        "quota",
        "its share is no promise any more: what others borrowed comes back when their jobs end by "
        "themselves, or have a lower priority ({was} -> {now})",
        "the team, whose jobs wait",
    ),
    Setting(
        "teams*.preemption.within",
        lambda was, now: now == "never" and now != was,
        "ask",
        "quota",
        "its urgent jobs wait for its others to end ({was} -> {now})",
        "who submits with a higher priority",
    ),
    Setting(
        "teams*.preemption.within",
        lambda was, now: now == "lower-or-newer-equal" and now != was,
        "ask",
        "quota",
        "its running jobs are stopped for older ones of the same priority ({was} -> {now})",
        "who runs beside an older job that waits",
    ),
    Setting(
        "teams*.preemption.*",
        swapped,
        "ask",
        "quota",
        f"{_PREEMPTED}: {{was}} -> {{now}}",
        _BORROWERS,
    ),
    Setting(
        "teams*.order",
        lambda was, now: now == "best-effort" and now != was,
        "ask",
        "quota",
        "small jobs start past a large one that does not fit yet, which may wait for ever "
        "({was} -> {now})",
        "who waits for many nodes at once",
    ),
    Setting(
        "teams*.order",
        swapped,
        "ask",
        "quota",
        "no job starts before the team's first, and nodes that it waits for stand idle "
        "({was} -> {now})",
        "the team",
    ),
    Setting(
        "teams*.priority",
        swapped,
        "ask",
        "quota",
        "jobs that name no priority are {now} from now on, not {was}: they make room for other "
        "jobs, and are made room for",
        "who runs or waits beside them",
    ),
    Setting("teams*.weight", less, "ask", "quota", "gets less of what is unused: {was} -> {now}"),
    Setting("teams*.shares*.borrow", _sooner, "ask", "quota", "may borrow {now} nodes, not {was}"),
    Setting("teams*.shares*.lend", _sooner, "ask", "quota", "lends {now} nodes, not {was}"),
    Setting(
        "teams*.shares*.borrow",
        _later,
        "ask",
        "quota",
        "may borrow more nodes of what others leave unused: limit {was} -> {now}",
        _BORROWERS,
    ),
    Setting(
        "teams*.shares*.lend",
        _later,
        "ask",
        "quota",
        "lends more of its nodes, which come back as others' jobs end or are stopped: limit {was} "
        "-> {now}",
        "the team",
    ),
    Setting(
        "fair.sharing", swapped, "ask", "quota", f"{_PREEMPTED}: {{was}} -> {{now}}", _BORROWERS
    ),
    Setting("default_queue", _off, "ask", "jobs", "jobs that name no queue are not admitted"),
    Setting("pod_groups", _off, "ask", "jobs", "pods without a job are not admitted any more"),
    Setting(
        "network_policy.ingress_namespaces",
        came,
        "ask",
        "network",
        "pods of other namespaces reach every port of jobs: {was} -> {now}",
    ),
    Setting(
        "access.exec",
        lambda was, now: was == "nobody" or now == "researchers",
        "ask",
        "rights",
        "more people open shells in jobs: {now} in place of {was}",
    ),
    *(
        Setting(path, more, "ask", "guards", "alerts come later: {was} -> {now}", "slow runs")
        for path in ("watching.checkpoint_minutes", "watching.off_fabric_megabytes")
    ),
    Setting(
        "fabric.sriov.drain",
        _off,
        "ask",
        "jobs",
        "nodes are not drained before their NICs change: all change at once, under running jobs",
        "every job there, at the next change of functions or firmware",
    ),
    *(
        Setting(f"fabric.sriov.{field}", swapped, "ask", "jobs", f"{_NICS}: {{was}} -> {{now}}")
        for field in ("vfs", "rdma_mode", "firmware")
    ),
    Setting(
        "fabric.sriov.max_unavailable",
        more,
        "ask",
        "jobs",
        "{now} nodes at once, not {was}, are drained when their NICs change: jobs on them end",
        "every job there, at the next change of functions or firmware",
    ),
    Setting(
        "fabric.network_operator.ofed.upgrade",
        lambda was, now: now == "rolling" and now != was,
        "ask",
        "jobs",
        "a new version of the NICs' driver is rolled over the nodes by itself, and ends the jobs "
        "there",
        "every job there, at the next upgrade",
    ),
    Setting(
        "fabric.network_operator.ofed.*",
        swapped,
        "ask",
        "jobs",
        "drivers of NICs are replaced otherwise, with the jobs on their nodes: {was} -> {now}",
    ),
    Setting(
        "fabric.lock_memory",
        _off,
        "ask",
        "network",
        "pods may not lock memory (IPC_LOCK): NCCL cannot register any with the NICs",
        "every job",
    ),
    Setting(
        "fabric.install",
        _off,
        "ask",
        "network",
        "the stack no longer puts the fabric's plugin on nodes: without another one jobs use TCP",
        "jobs on new nodes",
    ),
    Setting("fabric.nccl_net", _other, "ask", "network", "NCCL uses {now} in place of {was}"),
    Setting(
        "watching.checkpoints",
        _off,
        "ask",
        "guards",
        "nothing measures how old the newest checkpoint of a run is",
        "nobody, until a run has to resume",
    ),
    *(
        Setting(
            f"platform.system_pool.{field}",
            less,
            "ask",
            "jobs",
            "controllers have {now} nodes, not {was}: while one is lost or upgraded, nothing is "
            "admitted or started again if the rest have no room for them",
            "every job that waits or restarts then",
        )
        for field in ("nodes", "min_nodes", "max_nodes")
    ),
    Setting(
        "platform.network.nat",
        lambda was, now: now == "single" and now != was,
        "ask",
        "network",
        "all zones go out by one gateway: with its zone, nodes of every other lose their way out",
        "every job, on the day when that zone is away",
    ),
    # Switches that no row above speaks of.
    Setting(
        "*", lambda was, now: was is True and now is False, "ask", "jobs", "is switched off{words}"
    ),
)


def _differing(key: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield what differs; a section that comes or goes is one, and so is each of its fields.

    Elements of a list, such as pools, are whole: other rules say what a new or lost one means.
    """
    for path, was, now in parts(key, before, after):
        yield path, was, now
        if None in (was, now) and isinstance(was or now, Mapping) and not path.endswith("]"):
            yield from _differing(path, was or {}, now or {})


def settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Judged]]:
    """Yield (path, verdict) on what differs in a stack, by its file or by another default."""
    platform = str((after.get("platform") or {}).get("kind"))
    for key in sorted({*before, *after}):
        for path, was, now in _differing(key, before.get(key), after.get(key)):
            for row in SETTINGS:
                if fnmatchcase(path, row.path) and row.when(was, now):
                    about = words(platform, path) if "{words}" in row.says else ""
                    about = f": *{about}*" if about else ""
                    text = row.says.format(was=short(was), now=short(now), words=about)
                    yield path, Judged(row.level, row.loss, text, row.who)
                    break
    yield from _unused(before, after)


def _unused(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Judged]]:
    """Yield paid nodes that a pool no longer takes, though it still has what was bought."""
    known = {pool.get("name"): pool for pool in before.get("pools") or ()}
    for pool in after.get("pools") or ():
        bought = pool.get("purchase") or pool.get("capacity") or {}
        was, now = known.get(pool.get("name"), {}).get("nodes"), pool.get("nodes")
        if bought.get("kind") in _PAID and less(was, now):
            text = f"{was - now} of the {was} nodes of its {bought['kind']} are paid for and empty"
            yield f"pools[{pool['name']}].nodes", Judged("ask", "capacity", text, "who pays")
