"""Reads the objects around a job or a pod, and changes none."""

from __future__ import annotations

import json
from collections.abc import Iterable
from urllib.parse import quote

from railhead import contract as contracts
from railhead.base.errors import InputError, NotFoundError, PrerequisiteError, RailheadError
from railhead.diagnose.objects import ClusterObjects, Object
from railhead.kube import client as kube
from railhead.kube import jobs

POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"
# Exporters that publish a node's NIC and GPU counters, by the labels of their usual charts.
EXPORTERS = "app.kubernetes.io/name in (prometheus-node-exporter,node-exporter,dcgm-exporter)"
COUNTER_NAMES = ("node_infiniband_", "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_ECC_DBE")
MAX_COUNTERS = 2000


def of_job(cluster: kube.Cluster, namespaces: tuple[str, ...], name: str) -> ClusterObjects:
    """Return a job's objects.

    Raises:
        NotFoundError: no namespace has such a job.
    """
    job = jobs.find_job(cluster, namespaces, name)
    namespace = job["metadata"]["namespace"]
    result = ClusterObjects(namespace=namespace, job=job)
    result.pods = _list(
        cluster, result, kube.core(namespace, "pods"), selector=f"{jobs.JOBSET_LABEL}={name}"
    )
    result.workloads = _list(
        cluster,
        result,
        kube.kueue(namespace, "workloads"),
        selector=f"{jobs.UID_LABEL}={job['metadata']['uid']}",
    )
    return _around(cluster, result)


def of_pod(cluster: kube.Cluster, namespaces: tuple[str, ...], name: str) -> ClusterObjects:
    """Return a pod's objects, and those of the pods that share its JobSet.

    Raises:
        NotFoundError: no namespace has such a pod.
    """
    for namespace in namespaces:
        pod = cluster.find(kube.core(namespace, "pods", name))
        if pod is None:
            continue
        result = ClusterObjects(namespace=namespace, pods=[pod])
        group = (pod["metadata"].get("labels") or {}).get(jobs.JOBSET_LABEL)
        if group:
            result.pods = _list(
                cluster,
                result,
                kube.core(namespace, "pods"),
                selector=f"{jobs.JOBSET_LABEL}={group}",
            ) or [pod]
        return _around(cluster, result)
    raise NotFoundError(
        f"no pod is called {name!r} in namespace {', '.join(namespaces)}",
        remedy="name its namespace with --namespace",
    )


def _around(cluster: kube.Cluster, found: ClusterObjects) -> ClusterObjects:
    found.policies = _list(cluster, found, POLICIES.format(quote(found.namespace, safe="")))
    found.events = _events(cluster, found)
    machines = sorted(
        {
            str(pod["spec"]["nodeName"])
            for pod in found.pods
            if (pod.get("spec") or {}).get("nodeName")
        }
    )
    for machine in machines:
        node = _one(cluster, found, f"/api/v1/nodes/{quote(machine, safe='')}")
        if node is not None:
            found.nodes.append(node)
    found.contract = _contract(cluster, found)
    if (promised := _promised(found.contract)) is not None:
        found.devices = list(promised.device_resources)
        found.networks = [network.name for network in promised.fabric.networks]
    found.counters = _counters(cluster, found, frozenset(machines))
    return found


def _complain(found: ClusterObjects, what: str, error: RailheadError) -> None:
    found.unreadable.append(f"{what}: {error.problem}")


def _list(
    cluster: kube.Cluster, found: ClusterObjects, path: str, *, selector: str = ""
) -> list[Object]:
    """Return a collection; if it is forbidden or not installed, record that and return nothing."""
    try:
        return cluster.list(path, selector=selector)
    except kube.ApiError as error:
        if error.status not in (400, 403, 404, 405):
            raise
        if error.status != 404:
            _complain(found, path.rpartition("/")[2], error)
        return []


def _one(cluster: kube.Cluster, found: ClusterObjects, path: str) -> Object | None:
    try:
        return cluster.find(path)
    except kube.ApiError as error:
        if error.status != 403:
            raise
        _complain(found, path.rpartition("/")[2], error)
        return None


def _events(cluster: kube.Cluster, found: ClusterObjects) -> list[Object]:
    """Return the namespace's events about the pods and the job."""
    names = {pod["metadata"]["name"] for pod in found.pods}
    if found.job is not None:
        names.add(found.job["metadata"]["name"])
    names |= {workload["metadata"]["name"] for workload in found.workloads}
    events = _list(cluster, found, kube.core(found.namespace, "events"))
    return [
        event
        for event in events
        if (event.get("involvedObject") or event.get("regarding") or {}).get("name") in names
    ]


def _contract(cluster: kube.Cluster, found: ClusterObjects) -> Object | None:
    path = kube.core(contracts.NAMESPACE, "configmaps", contracts.CONFIG_MAP)
    held = _one(cluster, found, path)
    text = ((held or {}).get("data") or {}).get(contracts.KEY)
    try:
        value = json.loads(text) if text else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _promised(contract: Object | None) -> contracts.ClusterContract | None:
    """Return the contract, parsed; None without one that this Railhead can read."""
    try:
        return contracts.ClusterContract.from_data(contract, where="the contract")
    except InputError:
        return None


def _counters(
    cluster: kube.Cluster, found: ClusterObjects, machines: frozenset[str]
) -> dict[str, list[str]]:
    """Return link, port and Xid counters of the job's nodes, where exporters run."""
    counters: dict[str, list[str]] = {}
    for pod in _list(cluster, found, "/api/v1/pods", selector=EXPORTERS):
        machine = str((pod.get("spec") or {}).get("nodeName") or "")
        port = _port(pod)
        if machine not in machines or port is None:
            continue
        metadata = pod["metadata"]
        path = kube.core(metadata["namespace"], "pods", f"{metadata['name']}:{port}")
        try:
            text = cluster.text(f"{path}/proxy/metrics")
        except (kube.ApiError, PrerequisiteError) as error:
            _complain(found, f"counters of {machine}", error)
            continue
        lines = [line for line in text.splitlines() if line.startswith(COUNTER_NAMES)]
        counters.setdefault(machine, []).extend(lines[:MAX_COUNTERS])
    return counters


def _port(pod: Object) -> int | None:
    ports: Iterable[Object] = (
        port
        for container in (pod.get("spec") or {}).get("containers") or []
        for port in container.get("ports") or []
    )
    for port in ports:
        if isinstance(port.get("containerPort"), int):
            return int(port["containerPort"])
    return None
