"""Finds what an edit does to jobs that it does not end: reported, not refused."""

from __future__ import annotations

from collections.abc import Iterator

from railhead.base.quantity import parse
from railhead.config.edits.below import changes
from railhead.contract import ClusterContract
from railhead.fabric.sriov import OTHERS


def doubts(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    """Yield one sentence each."""
    for finds in _ROWS:
        yield from finds(before, after)


def _unsaid(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    if after.made.cluster.fixed and not before.made.cluster.fixed:
        yield (
            "an older Railhead made this stack last: what its nodes and file systems were made "
            "with is not known, and not compared; deletion protection holds them"
        )


def _below(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    if moves := changes(before.made.system, after.made.system):
        yield (
            f"system pool: its nodes are replaced ({', '.join(moves)}): no job is admitted, and no "
            "gang started again, while the controllers move"
        )
    if before.made.protected and after.made.protected is False:
        yield (
            "deletion_protection: nothing but this comparison keeps the cluster, its pools and its "
            "file systems from the edits that follow"
        )


def _fewer(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    """Yield pools that lose quota, and maybe nodes with jobs, by a smaller number."""
    now = {pool.name: pool for pool in after.node_pools}
    for pool in before.node_pools:
        new = now.get(pool.name, pool)
        if new.nodes < pool.nodes:
            yield (
                f"pool {pool.name}: {new.nodes} nodes in place of {pool.nodes}: so much less "
                "quota; where nodes are removed with it, the jobs on them end"
            )
        elif less := [
            name
            for name, had in pool.capacity.items()
            if parse(new.capacity.get(name, "0")) < parse(had)
        ]:
            yield (
                f"pool {pool.name}: each node counts for less {', '.join(less)}: so much less "
                "quota, and jobs from before may no longer fit"
            )


def _shares(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    now = {team.name: team.shares for team in after.teams}
    for team in before.teams:
        for pool, nodes in team.shares.items():
            if (new := now.get(team.name, {}).get(pool, nodes)) < nodes:
                yield (
                    f"team {team.name}: is promised {new:g} nodes of {pool} in place of {nodes:g}: "
                    "what it runs beyond them may be ended when others ask for theirs"
                )


def _held(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    """Yield runtimes whose deletion waits for jobs that name them, ended ones too.

    Trainer keeps one by a finalizer (pkg/constants, `trainer.kubeflow.org/resource-in-use`).
    """
    there = {runtime.name for runtime in after.runtimes}
    for runtime in before.runtimes:
        if runtime.name not in there:
            yield (
                f"runtime {runtime.name}: goes once no TrainJob names it, ended ones too, and "
                "`pulumi up` waits for that: delete those jobs first, or keep the runtime"
            )


# Of a suspended job's pods JobSet lets these change (v0.10.1, pkg/webhooks/jobset_webhook.go,
# ValidateUpdate).
_PLACING = frozenset({"nodeSelector", "tolerations", "schedulingGates"})
# Those of an admitted job Kueue compares (v0.16.2, pkg/util/equality/podset.go).
_ADMITTED = frozenset({"containers", "initContainers"})


def _pods(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    """Yield runtimes whose pods change below jobs that have not ended.

    Kueue and Trainer read a job's runtime as it is now: Kueue deletes the Workload of a job that
    differs from it (pkg/controller/jobframework/reconciler.go, ensureOneWorkload), and Trainer
    cannot change the JobSet of one that waits (v2.1.0, pkg/runtime/framework/plugins/jobset).
    """
    now = {runtime.name: runtime.pod.get("spec") or {} for runtime in after.runtimes}
    for runtime in before.runtimes:
        was = runtime.pod.get("spec") or {}
        new = now.get(runtime.name, was)
        moved = {key for key in {*was, *new} if was.get(key) != new.get(key)} - _PLACING
        if was and moved:
            lost = ", and those that run lose their admission while their pods go on"
            yield (
                f"runtime {runtime.name}: its pods change: TrainJobs of it that wait get none"
                f"{lost if moved & _ADMITTED else ''}: let them end first, or `railhead restart` "
                "each afterwards"
            )


def _kept(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    """Yield another time that finished jobs' pods stay, which is part of each JobSet's Jobs.

    JobSet lets nothing of them change but what places pods (:data:`_PLACING`), not even together
    with ``suspend``, and Kueue waits for a preempted TrainJob's pods to be gone (v0.16.2,
    pkg/controller/jobs/trainjob/trainjob_controller.go, Stop).
    """
    was, new = before.made.finished_days, after.made.finished_days
    if new != was:
        yield (
            f"finished_days: {new or 'null'} in place of {was or 'null'}: TrainJobs that wait get "
            "no pods, and those that run cannot be preempted: let them end first, or `railhead "
            "restart` each afterwards"
        )


def _mounts(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    """Yield changed mounts: jobs would resume from nothing. Lost claims are reported elsewhere."""
    now = {runtime.name: runtime for runtime in after.runtimes}
    there = {claim.claim for claim in after.checkpoints}
    for runtime in before.runtimes:
        was = runtime.checkpoint
        new = now[runtime.name].checkpoint if runtime.name in now else was
        if was and new != was and was.claim in there:
            mounts = f"{new.claim} at {new.path}" if new else "nothing"
            yield (
                f"runtime {runtime.name}: mounts {mounts} in place of {was.claim} at {was.path}: "
                "jobs that are launched again do not find their checkpoints there"
            )


def _lustre(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    """Yield a first Lustre file system on GKE, whose kernel module the nodes there do not take.

    GKE lets nodes load it that it makes once the driver is on (lustre-csi-driver v0.6.9,
    pkg/kmod_installer: insmod, "operation not permitted").
    """
    # Of Lustre only GKE's driver has a name of the file system, by which nodes tell two apart.
    had, has = (
        [name for name, row in side.made.storage.items() if row.fixed.get("filesystem")]
        for side in (before, after)
    )
    if has and not had and before.made.cluster.fixed:
        pools = ", ".join(pool.name for pool in before.node_pools)
        yield (
            f"storage {has[0]}: the nodes there do not load Lustre's kernel module, and pods that "
            "mount it wait on them for ever: let GKE recreate the nodes once their jobs have ended "
            "(`gcloud container clusters upgrade NAME --location LOCATION --node-pool POOL`): "
            f"system, {pools}"
        )


def _operator_config(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    """Yield a configuration of others' SR-IOV operator that an older Railhead made.

    `up` would delete it, and the operator does nothing without one (sriov-network-operator v1.6.0,
    sriovnetworknodepolicy_controller.go).
    """
    was, now = (
        any(OTHERS in pool.fixed for pool in side.made.pools.values()) for side in (before, after)
    )
    if now and not was and before.fabric.mode == after.fabric.mode:
        yield (
            "fabric: the SR-IOV operator is others', and so is its SriovOperatorConfig now: if "
            "`pulumi stack --show-urns` lists one, `pulumi state delete` its URN before `up`, "
            "which would delete it otherwise; the operator does nothing without one"
        )


def _datasets(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    now = {(row.namespace, row.claim) for row in after.datasets}
    for row in before.datasets:
        if (row.namespace, row.claim) not in now and row.namespace in after.namespaces:
            yield (
                f"data set {row.namespace}/{row.claim}: its claim stays in the cluster without the "
                "stack, and keeps its volume from any other claim"
            )


def _priorities(before: ClusterContract, after: ClusterContract) -> Iterator[str]:
    if gone := [name for name in before.priorities if name not in after.priorities]:
        yield (
            f"priorities {', '.join(gone)}: jobs that name them are not admitted again once their "
            "gang starts again"
        )


_ROWS = (
    _unsaid,
    _below,
    _fewer,
    _shares,
    _held,
    _pods,
    _kept,
    _mounts,
    _lustre,
    _operator_config,
    _datasets,
    _priorities,
)
