"""Every check before anything is created. Each says what it read; one that could not says so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from railhead.base.errors import RefusedError
from railhead.base.finding import Finding, checks_in
from railhead.contract import ClusterContract
from railhead.kube import client as kube
from railhead.launch import checks
from railhead.launch.apis import OF_ROLES
from railhead.launch.asked import Asked
from railhead.launch.plan import Plan


def preflight(
    cluster: kube.Cluster, plan: Plan, contract: ClusterContract, *, api: str | None = None
) -> tuple[Finding, ...]:
    """Run every check, all at once: what takes time is the way to the cluster and back.

    Args:
        cluster: which.
        plan: the job's.
        contract: the cluster's.
        api: the kind of job that it is written as; None for what launch submits.

    Raises:
        RefusedError: one or more failed; the message names all of them.
    """
    api = api or (OF_ROLES if plan.roles else None)
    asked = Asked(cluster=cluster, plan=plan, contract=contract, api=api).each
    modules = checks_in(checks)
    with ThreadPoolExecutor(max_workers=len(modules)) as pool:
        answers = [[pool.submit(module.check, part) for part in asked] for module in modules]
    results: list[Finding] = []
    for module, answer in zip(modules, answers, strict=True):
        # Roles share a queue, a namespace and more.
        findings = list(dict.fromkeys(f for part in answer for f in part.result()))
        # The least readable answer is heard only where the others have nothing to say.
        if not (
            getattr(module, "UNLESS_OTHERS", False)
            and any(item.passed is False for item in results)
        ):
            results += findings
    failed = [finding for finding in results if finding.passed is False]
    if failed:
        lines = [finding.text for finding in failed]
        head = lines[0] if len(lines) == 1 else f"{len(lines)} reasons not to launch"
        rest = [] if len(lines) == 1 else [f"  {line}" for line in lines]
        remedies = list(dict.fromkeys(finding.remedy for finding in failed if finding.remedy))
        raise RefusedError(
            "\n".join([f"{plan.name}: {head}", *rest]),
            remedy="; ".join([*remedies, "nothing was created"]),
        )
    return tuple(results)
