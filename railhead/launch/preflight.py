"""Checks before anything is created. Each says what it read; one that could not be made says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from railhead import contract as contracts
from railhead.base.errors import PrerequisiteError, RefusedError
from railhead.base.quantity import parse, show
from railhead.contract import ClusterContract
from railhead.kube import client as kube
from railhead.kube import nodes
from railhead.launch import render
from railhead.launch.plan import Plan

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check's outcome. ``passed`` is None when it could not be made."""

    name: str
    passed: bool | None
    text: str
    remedy: str = ""


def read_contract(cluster: kube.Cluster) -> ClusterContract:
    """The contract that the cluster's stack published.

    Raises:
        PrerequisiteError: there is none, or it may not be read.
        InputError: it is not one that this Railhead reads.
    """
    path = kube.core(contracts.NAMESPACE, "configmaps", contracts.CONFIG_MAP)
    where = f"ConfigMap {contracts.NAMESPACE}/{contracts.CONFIG_MAP}"
    try:
        found = cluster.find(path)
    except kube.ApiError as error:
        if error.status != 403:
            raise
        raise PrerequisiteError(
            f"{where} may not be read: {error.message}",
            remedy="ask the platform team; the stack lets every authenticated user read it",
        ) from None
    if found is None:
        raise PrerequisiteError(
            f"{where} is not in the cluster {cluster.server} ({cluster.target.why})",
            remedy="is this the right cluster? its stack is deployed with `pulumi up`",
        )
    text = (found.get("data") or {}).get(contracts.KEY)
    if text is None:
        raise PrerequisiteError(
            f"{where} has no key {contracts.KEY!r}; it has: {', '.join(found.get('data') or {})}",
            remedy="run `pulumi up` on the cluster's stack again; it rewrites the contract",
        )
    return ClusterContract.from_json(text, where=where)


def read_runtime(cluster: kube.Cluster, name: str) -> Object:
    """The ClusterTrainingRuntime called ``name``.

    Raises:
        PrerequisiteError: the contract promises it and the cluster does not have it, or it may
            not be read.
    """
    try:
        found = cluster.find(kube.training_runtime(name))
    except kube.ApiError as error:
        if error.status != 403:
            raise
        raise PrerequisiteError(
            f"ClusterTrainingRuntime {name!r} may not be read: {error.message}",
            remedy="ask the platform team for `get` on clustertrainingruntimes",
        ) from None
    if found is None:
        raise PrerequisiteError(
            f"ClusterTrainingRuntime {name!r} is in the contract but not in the cluster",
            remedy="run `pulumi up` on the cluster's stack again",
        )
    return found


def capacity(plan: Plan, contract: ClusterContract) -> Check:
    """Is there a pool with that many machines, of that many GPUs each?"""
    pools = contract.node_pools
    described = "; ".join(f"{p.name}: {p.nodes} nodes of {p.gpus_per_node} GPUs" for p in pools)
    fitting = [p for p in pools if p.nodes >= plan.nodes and p.gpus_per_node >= plan.gpus_per_node]
    if fitting:
        return Check(
            name="capacity",
            passed=True,
            text=f"pool {fitting[0].name} has {fitting[0].nodes} nodes "
            f"of {fitting[0].gpus_per_node} GPUs",
        )
    gpus_fit = [p for p in pools if p.gpus_per_node >= plan.gpus_per_node]
    if not gpus_fit:
        most = max((p.gpus_per_node for p in pools), default=0)
        return Check(
            name="capacity",
            passed=False,
            text=f"gpus_per_node: {plan.gpus_per_node} is more than any machine has; "
            f"allowed: at most {most} ({described or 'the contract lists no pool'})",
            remedy=f"ask for {most} or fewer a node, on more nodes",
        )
    most = max(p.nodes for p in gpus_fit)
    return Check(
        name="capacity",
        passed=False,
        text=f"nodes: {plan.nodes} is more than any pool has; "
        f"allowed: at most {most} ({described})",
        remedy=f"ask for {most} nodes or fewer, in the job file or with --nodes",
    )


# Platforms whose nodes are there all the time: elsewhere they may come for the job.
STANDING = frozenset({"existing", "lab"})


def pool_nodes(cluster: kube.Cluster, plan: Plan, contract: ClusterContract) -> list[Check]:
    """Do enough live nodes have what the contract promises? Names those that do not."""
    if contract.platform not in STANDING:
        return []
    try:
        live = nodes.live(cluster)
    except kube.ApiError as error:
        if error.status != 403:
            raise
        return [
            Check(name="nodes", passed=None, text=f"nodes may not be listed here: {error.message}")
        ]
    # Pools that are too small by the contract itself are `capacity`'s to name.
    pools = [
        pool.name
        for pool in contract.node_pools
        if pool.gpus_per_node >= plan.gpus_per_node and pool.nodes >= plan.nodes
    ]
    promises = [p for p in nodes.promised(contract) if p.pool in pools]
    verdicts = nodes.verify(promises, live)
    if not verdicts:
        return []
    fitting = [verdict for verdict in verdicts if len(verdict.good) >= plan.nodes]
    if fitting:
        good, promise = fitting[0].good, fitting[0].promise
        text = f"pool {promise.pool}: {len(good)} nodes have what the contract promises"
        return [Check(name="nodes", passed=True, text=text)]
    lines = [line for verdict in verdicts for line in verdict.lines()]
    return [
        Check(
            name="nodes",
            passed=False,
            text=f"{plan.nodes} nodes are needed and no pool has as many that are as the contract "
            f"promises: {'; '.join(lines)}",
            remedy="ask the platform team to mend those nodes (`railhead config verify` lists "
            "them), or take fewer nodes",
        )
    ]


def _existing(
    cluster: kube.Cluster, name: str, path: str, what: str, remedy: str
) -> tuple[Check, Object | None]:
    try:
        found = cluster.find(path)
    except kube.ApiError as error:
        if error.status != 403:
            raise
        return Check(name=name, passed=None, text=f"{what} may not be read"), None
    if found is None:
        return Check(name=name, passed=False, text=f"{what} is not there", remedy=remedy), None
    return Check(name=name, passed=True, text=f"{what} is there"), found


def namespace(cluster: kube.Cluster, plan: Plan) -> Check:
    """Does the queue's namespace exist?"""
    check, _ = _existing(
        cluster,
        "namespace",
        f"/api/v1/namespaces/{plan.namespace}",
        f"namespace {plan.namespace}",
        "run `pulumi up` on the cluster's stack again",
    )
    return check


def namespace_and_queue(cluster: kube.Cluster, plan: Plan) -> list[Check]:
    """Does the namespace exist, with the queue in it? Who sees the queue has seen the namespace."""
    first, rest = namespace(cluster, plan), queue_fits(cluster, plan)
    return rest if first.passed is None and rest[0].passed else [first, *rest]


def quota(queue: Object) -> dict[str, tuple[Decimal, Decimal]]:
    """A ClusterQueue's nominal quota and reserved amount, by resource, over all its flavors."""
    nominal: dict[str, Decimal] = {}
    reserved: dict[str, Decimal] = {}
    for group in (queue.get("spec") or {}).get("resourceGroups") or []:
        for flavor in group.get("flavors") or []:
            for resource in flavor.get("resources") or []:
                name = str(resource["name"])
                nominal[name] = nominal.get(name, Decimal(0)) + parse(resource["nominalQuota"])
    for flavor in (queue.get("status") or {}).get("flavorsReservation") or []:
        for resource in flavor.get("resources") or []:
            name = str(resource["name"])
            reserved[name] = reserved.get(name, Decimal(0)) + parse(resource.get("total", 0))
    return {name: (amount, reserved.get(name, Decimal(0))) for name, amount in nominal.items()}


def queue_fits(cluster: kube.Cluster, plan: Plan) -> list[Check]:
    """Does the queue exist, is it open, and could it ever hold this job?"""
    check, local = _existing(
        cluster,
        "queue",
        kube.kueue(plan.namespace, "localqueues", plan.queue),
        f"queue {plan.namespace}/{plan.queue}",
        "run `pulumi up` on the cluster's stack again",
    )
    if local is None:
        return [check]
    name = str((local.get("spec") or {}).get("clusterQueue") or plan.cluster_queue)
    second, behind = _existing(
        cluster,
        "quota",
        kube.kueue("", "clusterqueues", name),
        f"ClusterQueue {name}",
        "run `pulumi up` on the cluster's stack again",
    )
    if behind is None:
        return [check, second]
    amounts = quota(behind)
    needs = plan.resources.get("requests") or {}
    short = []
    for resource, each in sorted(needs.items()):
        need = parse(each) * plan.nodes
        # A queue in a cohort may borrow; only Kueue can say.
        if resource in amounts and need > amounts[resource][0] and not _borrows(behind):
            short.append(f"{show(need)} {resource} of {show(amounts[resource][0])}")
        elif resource not in amounts and resource == plan.gpu_resource:
            short.append(f"{show(need)} {resource} of none")
    if short:
        return [
            check,
            Check(
                name="quota",
                passed=False,
                text=f"{plan.nodes} nodes need {', '.join(short)} that ClusterQueue {name} has in "
                "all; the job would wait for ever",
                remedy="ask for fewer nodes or GPUs, or name another queue",
            ),
        ]
    return [check, Check(name="quota", passed=True, text=f"ClusterQueue {name} can hold the job")]


def _borrows(queue: Object) -> bool:
    return bool((queue.get("spec") or {}).get("cohortName"))


def claim(cluster: kube.Cluster, plan: Plan) -> list[Check]:
    """Does the checkpoint claim that the runtime mounts exist?"""
    if plan.checkpoint_claim is None:
        return []
    check, _ = _existing(
        cluster,
        "checkpoints",
        kube.core(plan.namespace, "persistentvolumeclaims", plan.checkpoint_claim),
        f"checkpoint claim {plan.namespace}/{plan.checkpoint_claim}",
        "run `pulumi up` on the cluster's stack again",
    )
    return [check]


def name_free(cluster: kube.Cluster, plan: Plan) -> Check:
    """Is the name free, of jobs and of leftovers?"""
    taken = cluster.find(kube.trainjobs(plan.namespace, plan.name))
    if taken is not None:
        if (taken.get("metadata") or {}).get("deletionTimestamp"):
            state = "is still being removed"
        else:
            conditions = (taken.get("status") or {}).get("conditions") or []
            done = [c["type"] for c in conditions if c.get("status") == "True"]
            ended = [c for c in done if c in ("Complete", "Failed")]
            state = f"exists already ({ended[0].lower() if ended else 'not finished'})"
        return Check(
            name="name",
            passed=False,
            text=f"name: a job called {plan.name!r} {state} in namespace {plan.namespace}",
            remedy=f"launch under another name with --name, or remove it first: "
            f"`railhead cancel {plan.name}`",
        )
    other = cluster.find(kube.jobset(plan.namespace, plan.name))
    if other is not None:
        return Check(
            name="name",
            passed=False,
            text=f"name: a JobSet called {plan.name!r} that is no TrainJob's exists already in "
            f"namespace {plan.namespace}",
            remedy="launch under another name with --name",
        )
    if plan.files:
        files = cluster.find(kube.core(plan.namespace, "configmaps", render.files_name(plan.name)))
        labels = ((files or {}).get("metadata") or {}).get("labels") or {}
        if files is not None and labels.get(render.JOB_LABEL) != plan.name:
            return Check(
                name="name",
                passed=False,
                text=f"name: ConfigMap {render.files_name(plan.name)!r} in namespace "
                f"{plan.namespace} is someone else's",
                remedy="launch under another name with --name",
            )
    return Check(name="name", passed=True, text=f"name {plan.name!r} is free")


def admission(cluster: kube.Cluster, plan: Plan) -> Check:
    """Would the cluster's own admission take the job? Asked as a dry run; nothing is stored."""
    try:
        cluster.create(kube.trainjobs(plan.namespace), render.train_job(plan), dry_run=True)
    except kube.ApiError as error:
        if error.status in kube.TRANSIENT:
            raise
        return Check(
            name="admission",
            passed=False,
            text=f"the cluster refuses the job: {error.message}",
            remedy=error.remedy or "the message above names the field",
        )
    return Check(name="admission", passed=True, text="the cluster's admission takes the job")


def preflight(cluster: kube.Cluster, plan: Plan, contract: ClusterContract) -> tuple[Check, ...]:
    """Run every check.

    Raises:
        RefusedError: one or more failed; the message names all of them.
    """
    steps: list[Callable[[], list[Check]]] = [
        lambda: [capacity(plan, contract)],
        lambda: pool_nodes(cluster, plan, contract),
        lambda: namespace_and_queue(cluster, plan),
        lambda: claim(cluster, plan),
        lambda: [name_free(cluster, plan)],
    ]
    checks: list[Check] = []
    for step in steps:
        checks.extend(step())
    # Asked last, and only of a job that makes sense: its answer is the least readable.
    if not any(check.passed is False for check in checks):
        checks.append(admission(cluster, plan))
    failed = [check for check in checks if check.passed is False]
    if failed:
        lines = [check.text for check in failed]
        head = lines[0] if len(lines) == 1 else f"{len(lines)} reasons not to launch"
        rest = [] if len(lines) == 1 else [f"  {line}" for line in lines]
        remedies = list(dict.fromkeys(check.remedy for check in failed if check.remedy))
        raise RefusedError(
            "\n".join([f"{plan.name}: {head}", *rest]),
            remedy="; ".join([*remedies, "nothing was created"]),
        )
    return tuple(checks)
