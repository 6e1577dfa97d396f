"""Jobs in a twin: launched by a researcher's own command, and looked at pod by pod."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railhead.base.examples import example
from railhead.contract import ClusterContract, NodePool, Queue, Runtime
from railhead.framework import FRAMEWORKS
from railhead.kube.errors import ApiError
from railhead.lab.engine.provider.client import KubeClient
from railhead.twin import addresses
from railhead.twin.plane import ENDS
from railhead.twin.steps import FailedError
from railhead.twin.twin import Twin
from railhead.twin.world import SRIOV_DAEMON, Look, is_ready

NETWORKS = "k8s.v1.cni.cncf.io/networks"
_GKE_INTERFACES = "networking.gke.io/interfaces"
_GKE_DEVICES = "devices.gke.io/container."
_FUSE, _FUSE_SIDECAR = "gcsfuse.csi.storage.gke.io", "gke-gcsfuse/volumes"
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
#: CNI's plugins -> the role of the pods that put them on their nodes.
_PUT_BY: Mapping[str, str] = {
    **dict.fromkeys(("host-device", "host-local", "macvlan", "sbr", "tuning"), "cni-plugins"),
    **dict.fromkeys(("ib-sriov", "rdma", "sriov"), SRIOV_DAEMON),
    "ipoib": "ipoib-cni",
    "nv-ipam": "nv-ipam",
}
#: The rows of truth that the look at a job's networks follows.
ROWS: tuple[str, ...] = (
    "metal.multus.failure",
    "metal.cni.plugins",
    "metal.cni.master",
    "metal.nvipam.ippool.nofree",
    "gcp.multinet-pod",
    "gcp.nri-injector",
    "gcp.gcsfuse-inject",
    "gcp.one-handle",
)
_RUN_S, _END_S = 90.0, 60.0
_LONGEST = 300


@dataclass(frozen=True, kw_only=True)
class Example:
    """A documented job on a runtime and a queue of the stack.

    Args:
        file: the job's file.
        runtime: the runtime.
        queue: the queue that it is submitted to.
        pool: the pool that the runtime's pods run on.
        claims: further claims of the namespace, which the job mounts too.
    """

    file: Path
    runtime: Runtime
    queue: Queue
    pool: NodePool
    claims: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """File, runtime and queue, for people."""
        return f"{self.file.name} on {self.runtime.name} in {self.queue.name}"

    @property
    def sets(self) -> list[str]:
        """Fields of the job file that are the stack's."""
        mounts = [f"mounts./claims/{claim}={claim}" for claim in self.claims]
        return [f"runtime={self.runtime.name}", f"queue={self.queue.name}", *mounts]


def examples(contract: ClusterContract) -> Iterator[Example]:
    """Yield each runtime's example on each queue that reaches its pool.

    A runtime that carries other frameworks runs JAX's. Another whose framework has none runs
    torch's: what is looked at is where its pods come to.
    """
    for runtime in contract.runtimes:
        own = FRAMEWORKS.get(runtime.framework)
        file = example("jax" if own and own.carries else runtime.framework)
        pool = contract.pool(runtime)
        for queue in contract.queues:
            if not queue.pools or pool.name in queue.pools:
                claims = tuple(_more_claims(contract, runtime, queue.namespace))
                yield Example(file=file, runtime=runtime, queue=queue, pool=pool, claims=claims)


def _more_claims(contract: ClusterContract, runtime: Runtime, namespace: str) -> Iterator[str]:
    """Yield the claims that a pod may mount beside its runtime's: one of a file system."""
    there = [c for c in contract.checkpoints if c.namespace == namespace]
    mounted = {runtime.checkpoint.claim} if runtime.checkpoint else set()
    taken = {c.file_system for c in there if c.claim in mounted and c.file_system}
    for claim in there:
        if claim.claim not in mounted and claim.file_system not in taken:
            taken |= {claim.file_system} if claim.file_system else set()
            yield claim.claim


def launch(twin: Twin, example: Example, name: str, nodes: int) -> None:
    """Submit a job by `railhead launch`.

    Raises:
        FailedError: the command refused it.
    """
    ran = twin.railhead(
        *("launch", str(example.file), "--name", name, "--nodes", str(nodes)),
        *(word for field in example.sets for word in ("--set", field)),
    )
    if ran.status:
        raise FailedError(f"`railhead launch` refused it: {_last(ran.text)}")


def runs(twin: Twin, example: Example, name: str, nodes: int) -> list[Mapping[str, Any]]:
    """Wait until every pod of a job runs; return the pods.

    Raises:
        FailedError: they do not within a minute; says where the job hangs.
    """
    deadline = time.monotonic() + _RUN_S
    while True:
        pods = pods_of(twin.client, example.queue.namespace, name)
        if len(pods) == nodes and all(is_ready(pod) for pod in pods):
            return pods
        if time.monotonic() > deadline:
            raise FailedError(why(twin, example, name, pods, nodes))
        time.sleep(0.3)


def pods_of(client: KubeClient, namespace: str, name: str) -> list[Mapping[str, Any]]:
    """Return the pods of a job that are not on their way out."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    query = {"labelSelector": f"jobset.sigs.k8s.io/jobset-name={name}"}
    items = client.request("GET", path, query=query).body["items"] or []
    return [
        pod
        for pod in items
        if not pod["metadata"].get("deletionTimestamp")
        and pod["status"].get("phase") not in ("Failed", "Succeeded")
    ]


def why(
    twin: Twin, example: Example, name: str, pods: Sequence[Mapping[str, Any]], nodes: int
) -> str:
    """Return where a job hangs: at its queue, at the scheduler or at its node."""
    pending = [p for p in pods if not p["spec"].get("nodeName")]
    if pods:
        messages = {
            c["message"]
            for p in pending
            for c in p["status"].get("conditions") or ()
            if c["type"] == "PodScheduled" and c.get("message")
        }
        about = f": {min(messages)}" if messages else ""
        placed = len(pods) - len(pending)
        return f"{placed} of {nodes} pods have a node after {_RUN_S:.0f} s{about}"
    ran = twin.railhead("status", name, "-n", example.queue.namespace, "--json")
    detail = _last(ran.text)
    if ran.text.strip().startswith("{"):
        detail = str(json.loads(ran.text).get("detail"))
    return f"no pod after {_RUN_S:.0f} s: {detail}"


def end(twin: Twin, example: Example, name: str) -> None:
    """Let a job's pods end well, and wait until `railhead status` reports it.

    Raises:
        FailedError: it is not reported as completed.
    """
    for pod in pods_of(twin.client, example.queue.namespace, name):
        path = f"/api/v1/namespaces/{example.queue.namespace}/pods/{pod['metadata']['name']}"
        change = {"metadata": {"annotations": {ENDS: "0"}}}
        twin.client.request("PATCH", path, body=change, content_type="application/merge-patch+json")
    deadline = time.monotonic() + _END_S
    phase = ""
    while time.monotonic() < deadline:
        ran = twin.railhead("status", name, "-n", example.queue.namespace, "--json")
        phase = str(json.loads(ran.text).get("phase")) if ran.status == 0 else _last(ran.text)
        if phase == "completed":
            return
        time.sleep(0.5)
    raise FailedError(f"`railhead status` reports {phase!r} {_END_S:.0f} s after its pods ended")


def cancel(twin: Twin, example: Example, name: str) -> None:
    """Cancel a job, whatever it does."""
    twin.railhead("cancel", name, "-n", example.queue.namespace)


def placed(
    twin: Twin, contract: ClusterContract, example: Example, pods: Sequence[Mapping[str, Any]]
) -> None:
    """Check that each pod is where it may be, with its devices, its networks and its claims.

    Raises:
        FailedError: one is not; names the pod, the node and what is lacking.
    """
    look = twin.world.look()
    pool = example.pool
    multus = set(look.ready("multus"))
    allocations = _blocks(twin)
    networks = {
        (n["metadata"]["namespace"], n["metadata"]["name"]): n
        for n in twin.world.list("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition")
    }
    on: dict[str, int] = {}
    for pod in pods:
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        labels = look.nodes[node]["metadata"]["labels"]
        wrong = [k for k, v in pool.node_selector.items() if labels.get(k) != v]
        if wrong:
            raise FailedError(f"{name} is on {node}, which has no label {wrong[0]} of the pool")
        on[node] = on.get(node, 0) + 1
        _devices(pod, example.runtime)
        asked = pod["metadata"].get("annotations", {}).get(NETWORKS, "")
        if asked and contract.platform == "existing" and node not in multus:
            raise FailedError(f"{name} asks for networks, and no Multus runs on {node}")
        for network in _named(asked):
            config = _network(network, pod, networks, allocations, on[node])
            if contract.platform == "existing":
                _on_node(network, config, look, node, twin.world.hardware[node].interfaces)
        if contract.platform == "gcp":
            _gke(pod, look)
    _claims(twin, pods, look.pods)


def _devices(pod: Mapping[str, Any], runtime: Runtime) -> None:
    asked = _asked(pod)
    lacking = [resource for resource in runtime.devices if resource not in asked]
    if lacking:
        raise FailedError(f"{pod['metadata']['name']} asks for no {lacking[0]}")


def _asked(pod: Mapping[str, Any]) -> set[str]:
    return {
        resource
        for container in pod["spec"]["containers"]
        for resource in container.get("resources", {}).get("requests", {})
    }


_Blocks = Mapping[tuple[str, str], Mapping[str, int]]


def _blocks(twin: Twin) -> _Blocks:
    """Return kind and name of a pool of addresses -> node -> how many it has."""

    def rows(pool: Mapping[str, Any]) -> list[Mapping[str, str]]:
        return (pool.get("status") or {}).get("allocations") or []

    blocks = {
        ("ippool", pool["metadata"]["name"]): {
            r["nodeName"]: addresses.room(pool["spec"], r["startIP"], r["endIP"])
            for r in rows(pool)
        }
        for pool in twin.world.list(addresses.API, "IPPool")
    }
    return blocks | {
        ("cidrpool", pool["metadata"]["name"]): {
            r["nodeName"]: addresses.part_room(pool["spec"], r["prefix"], r.get("gateway", ""))
            for r in rows(pool)
        }
        for pool in twin.world.list(addresses.API, "CIDRPool")
    }


def _named(annotation: str) -> list[str]:
    """Return the networks that Multus' annotation names, as ``namespace/name`` or ``name``."""
    if annotation.startswith("["):
        rows = json.loads(annotation)
        return [f"{r['namespace']}/{r['name']}" if "namespace" in r else r["name"] for r in rows]
    return [part.strip().partition("@")[0] for part in annotation.split(",") if part.strip()]


def _network(
    network: str,
    pod: Mapping[str, Any],
    networks: Mapping[tuple[str, str], Mapping[str, Any]],
    blocks: _Blocks,
    pods_there: int,
) -> Mapping[str, Any]:
    """Check what Multus and the address plugin would do for a pod's network; return its config."""
    metadata = pod["metadata"]
    node = pod["spec"]["nodeName"]
    namespace, _, name = network.rpartition("/")
    attachment = networks.get((namespace or metadata["namespace"], name))
    if attachment is None:
        raise FailedError(
            f"{metadata['name']} asks for network {network}, which is not in namespace "
            f"{namespace or metadata['namespace']}"
        )
    resource = (attachment["metadata"].get("annotations") or {}).get(RESOURCE)
    if resource and resource not in _asked(pod):
        raise FailedError(
            f"network {network} needs {resource}, and {metadata['name']} asks for none"
        )
    config: Mapping[str, Any] = json.loads(attachment["spec"].get("config") or "{}")
    for plugin in config.get("plugins", [config]):
        ipam = plugin.get("ipam") or {}
        if ipam.get("type") != "nv-ipam":
            continue
        pool = ipam.get("poolName", name)
        room = blocks.get((ipam.get("poolType", "ippool"), pool), {}).get(node, 0)
        if room < pods_there:
            raise FailedError(
                f"pool {pool} has {room} addresses on {node}, and {pods_there} pods of the job "
                "need one each"
            )
    return config


def _on_node(
    network: str, config: Mapping[str, Any], look: Look, node: str, interfaces: Sequence[str]
) -> None:
    """Check that a node has the CNI plugins of a network, and the interface that it is made on."""
    for plugin in config.get("plugins", [config]):
        for kind in filter(None, (plugin.get("type"), (plugin.get("ipam") or {}).get("type"))):
            if node not in look.ready(_PUT_BY.get(kind, "")):
                raise FailedError(
                    f"network {network} needs CNI's plugin {kind}, which nothing puts on {node}"
                )
        master = plugin.get("master")
        if master and master not in interfaces:
            raise FailedError(f"network {network} is on {master}, which {node} does not have")


def _gke(pod: Mapping[str, Any], look: Look) -> None:
    """Check what GKE's webhook and the device injector would do for a pod's annotations."""
    metadata, node = pod["metadata"], pod["spec"]["nodeName"]
    annotations = metadata.get("annotations") or {}
    offered = look.nodes[node]["status"].get("allocatable") or {}
    for row in json.loads(annotations.get(_GKE_INTERFACES, "[]")):
        resource = f"networking.gke.io.networks/{row['network']}.IP"
        if row["network"] != "default" and resource not in offered:
            raise FailedError(
                f"{metadata['name']} asks for network {row['network']}, in which {node} has no NIC"
            )
    containers = {
        c["name"] for kind in ("containers", "initContainers") for c in pod["spec"].get(kind) or ()
    }
    for key in annotations:
        prefix, _, container = key.partition(_GKE_DEVICES)
        if prefix or not container:
            continue
        if container not in containers:
            raise FailedError(
                f"{metadata['name']} has no container {container}, for which is {key}"
            )
        if node not in look.running("nri-device-injector"):
            raise FailedError(f"no injector of devices runs on {node}, for {key}")


def _claims(
    twin: Twin, pods: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]
) -> None:
    """Check that each claim is bound, and that its driver runs on the node."""
    drivers = {
        (p["metadata"]["annotations"]["twin.railhead.dev/driver"], p["spec"].get("nodeName"))
        for p in others
        if p["metadata"]["labels"].get("twin.railhead.dev/player") == "mounter" and is_ready(p)
    }
    for pod in pods:
        metadata, node = pod["metadata"], pod["spec"]["nodeName"]
        mounted: dict[tuple[Any, Any], str] = {}
        for volume in pod["spec"].get("volumes") or ():
            if "persistentVolumeClaim" not in volume:
                continue
            name = volume["persistentVolumeClaim"]["claimName"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{name}"
            try:
                claim = twin.client.request("GET", path).body
            except ApiError as error:
                raise FailedError(f"{metadata['name']} mounts claim {name}: {error}") from None
            if claim["status"].get("phase") != "Bound":
                raise FailedError(f"claim {name} of {metadata['name']} is not bound")
            path = f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}"
            source = twin.client.request("GET", path).body["spec"].get("csi") or {}
            driver = source.get("driver")
            if driver and not driver.startswith("site.") and (driver, node) not in drivers:
                raise FailedError(f"claim {name} needs {driver}, which does not run on {node}")
            if driver == _FUSE and metadata.get("annotations", {}).get(_FUSE_SIDECAR) != "true":
                raise FailedError(
                    f"claim {name} is a bucket, and {metadata['name']} gets no sidecar that mounts "
                    f"it: it has no annotation {_FUSE_SIDECAR}"
                )
            handle = (driver, source.get("volumeHandle"))
            if driver and mounted.setdefault(handle, name) != name:
                raise FailedError(
                    f"claims {mounted[handle]} and {name} of {metadata['name']} are one volume of "
                    f"{driver}: its kubelet mounts neither"
                )


def _last(text: str) -> str:
    """Return the error of a command, or its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:")]
    text = (errors or lines or ["no output"])[-1].removeprefix("error: ")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
