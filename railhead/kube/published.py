"""The contract and the runtimes that the stack published in the cluster."""

from __future__ import annotations

from railhead import contract as contracts
from railhead.base.errors import PrerequisiteError
from railhead.base.names import TRAINER_CONTAINER
from railhead.contract import ClusterContract
from railhead.kube import client as kube

WHERE = f"ConfigMap {contracts.NAMESPACE}/{contracts.CONFIG_MAP}"


def read_contract(cluster: kube.Cluster) -> ClusterContract:
    """Return the contract that the cluster's stack published.

    Raises:
        PrerequisiteError: it does not exist, or may not be read.
        InputError: it is not one that this Railhead reads.
    """
    contract = find_contract(cluster)
    if contract is None:
        raise PrerequisiteError(
            f"{WHERE} is not in the cluster {cluster.server} ({cluster.target.why})",
            remedy="is this the right cluster? its stack is deployed with `pulumi up`; where it is "
            "being destroyed, say where jobs are with --namespace",
        )
    return contract


def find_contract(cluster: kube.Cluster) -> ClusterContract | None:
    """Return the contract, or None before a stack publishes one; raises as read_contract does."""
    path = kube.core(contracts.NAMESPACE, "configmaps", contracts.CONFIG_MAP)
    try:
        config_map = cluster.find(path)
    except kube.ApiError as error:
        if error.status != 403:
            raise
        raise PrerequisiteError(
            f"{WHERE} may not be read: {error.message}",
            remedy="ask the platform team; the stack lets every authenticated user read it",
        ) from None
    if config_map is None:
        return None
    text = (config_map.get("data") or {}).get(contracts.KEY)
    if text is None:
        keys = ", ".join(config_map.get("data") or {})
        raise PrerequisiteError(
            f"{WHERE} has no key {contracts.KEY!r}; it has: {keys}",
            remedy="run `pulumi up` on the cluster's stack again; it rewrites the contract",
        )
    return ClusterContract.from_json(text, where=WHERE)


def process_prefix(cluster: kube.Cluster, runtime: str) -> str | None:
    """Return the prefix of a process' log lines; None for a runtime that is not the stack's."""
    contract = find_contract(cluster)
    known = {r.name: r.process_prefix for r in contract.runtimes} if contract else {}
    return known.get(runtime)


def container_of(cluster: kube.Cluster, runtime: str) -> str:
    """Return the trainer's container in a runtime's pods; Trainer's name in a foreign runtime."""
    contract = find_contract(cluster)
    known = {r.name: r.container for r in contract.runtimes} if contract else {}
    return known.get(runtime, TRAINER_CONTAINER)


def namespaces(cluster: kube.Cluster, namespace: str | None) -> tuple[str, ...]:
    """Return the named namespace, else every training namespace of the contract."""
    if namespace:
        return (namespace,)
    contract = read_contract(cluster)
    queues = tuple(queue.namespace for queue in contract.queues)
    return tuple(dict.fromkeys((*queues, *contract.namespaces)))
