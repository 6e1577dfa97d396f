"""Observations from the objects around a job, which its logs do not show. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from railhead.base.names import TRAINER_CONTAINER
from railhead.base.quantity import parse
from railhead.base.selectors import matches
from railhead.diagnose.model import Proof
from railhead.diagnose.objects import ClusterObjects, Object

Seen = dict[str, tuple[Proof, ...]]

NETWORKS = "k8s.v1.cni.cncf.io/networks"
EFA = "vpc.amazonaws.com/efa"
RDMA_RESOURCE = re.compile(r"^rdma/|/(?:efa|hostdev|sriov|roce|ib|rdma)[\w.-]*$|rdma|infiniband")
MESH_CONTAINERS = frozenset(
    {"istio-proxy", "linkerd-proxy", "envoy", "kuma-sidecar", "consul-dataplane"}
)
DAEMONS = re.compile(r"tcpx|tcpxo|rxdm|tcpgpudmarxd")
SMALL_SHM = 1 << 30
# A gang's pods never end in the same second; this much later one of them was first.
LATER_SECONDS = 5.0
EVENT_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("event-failed-scheduling", re.compile(r"^FailedScheduling$")),
    ("event-failed-mount", re.compile(r"^(FailedMount|FailedAttachVolume)$")),
    (
        "event-network",
        re.compile(r"^(NetworkNotReady|FailedCreatePodSandBox|FailedPodSandBoxStatus)$"),
    ),
    ("event-image-pull", re.compile(r"^(ErrImagePull|ImagePullBackOff|InspectFailed)$")),
    ("event-evicted", re.compile(r"^(Evicted|Preempted|TaintManagerEviction|NodeNotReady)$")),
)
BAD_CONDITION = re.compile(r"(?i)(?:link|nic|hca|ib|infiniband|rdma|roce|fabric|nvlink)\w*")
COUNTER = re.compile(
    r"^node_infiniband_(?P<name>symbol_error|link_downed|link_error_recovery|port_receive_errors|"
    r"port_rcv_errors|local_link_integrity_errors)\w*\{(?P<labels>[^}]*)\} (?P<value>[\d.e+]+)"
)
XID = re.compile(r"^DCGM_FI_DEV_XID_ERRORS\{[^}]*\} (?P<value>[1-9]\d*)")
LOW_PORTS = 1024
HIGH_PORT = 65535


class _Seen:
    def __init__(self) -> None:
        self._found: dict[str, list[Proof]] = {}

    def add(self, kind: str, where: str, text: str) -> None:
        self._found.setdefault(kind, []).append(Proof(id=kind, where=where, text=text[:400]))

    def freeze(self) -> Seen:
        return {kind: tuple(proofs) for kind, proofs in self._found.items()}


def observe(objects: ClusterObjects) -> Seen:
    """Return every observation that the objects support."""
    seen = _Seen()
    trainers = [(pod, container) for pod in objects.pods for container in _trainers(pod)]
    for pod, container in trainers[:1]:
        # The pods of a gang come from one template: the first speaks for all.
        _devices(objects, pod, container, seen)
        _volumes(pod, container, seen)
        _security(pod, container, seen)
        _networks(objects, pod, seen)
    _containers(objects, seen)
    _order(objects, seen)
    _events(objects, seen)
    _nodes(objects, seen)
    _queue(objects, seen)
    _count(objects, seen)
    _policies(objects, seen)
    _counters(objects, seen)
    return seen.freeze()


def _name(held: Object) -> str:
    return str((held.get("metadata") or {}).get("name") or "?")


def _list(held: Any, key: str) -> list[Object]:
    value = (held or {}).get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _map(held: Any, key: str) -> Mapping[str, Any]:
    value = (held or {}).get(key)
    return value if isinstance(value, dict) else {}


def _requests(container: Object) -> dict[str, str]:
    resources = _map(container, "resources")
    return {**_map(resources, "requests"), **_map(resources, "limits")}


def _trainers(pod: Object) -> list[Object]:
    """Return the containers that train: those with a GPU, else Railhead's own, else the first."""
    containers = _list(pod.get("spec"), "containers")
    with_gpu = [c for c in containers if any(name.endswith("/gpu") for name in _requests(c))]
    named = [c for c in containers if c.get("name") == TRAINER_CONTAINER]
    return with_gpu or named or containers[:1]


def _privileged(container: Object) -> bool:
    return _map(container, "securityContext").get("privileged") is True


def _wanted(objects: ClusterObjects) -> set[str]:
    """Return the RDMA resources that a training pod has to request in this cluster."""
    if objects.devices:
        return set(objects.devices)
    offered: set[str] = set()
    for node in objects.nodes:
        for name, amount in _map(node.get("status"), "allocatable").items():
            if RDMA_RESOURCE.search(name) and _amount(amount) > 0:
                offered.add(name)
    return offered


def _amount(value: Any) -> float:
    try:
        return float(parse(str(value)))
    except ValueError:
        return 0.0


def _devices(objects: ClusterObjects, pod: Object, container: Object, seen: _Seen) -> None:
    wanted = _wanted(objects)
    if not wanted or _privileged(container):
        return
    requests = _requests(container)
    if wanted & requests.keys():
        return
    text = (
        f"container {container.get('name')} requests {', '.join(requests) or 'nothing'}; the "
        f"fabric's device is {', '.join(sorted(wanted))}"
    )
    seen.add("pod-no-rdma-request", f"pod/{_name(pod)}", text)
    if EFA in wanted:
        seen.add("pod-no-efa-request", f"pod/{_name(pod)}", text)


def _volumes(pod: Object, container: Object, seen: _Seen) -> None:
    where = f"pod/{_name(pod)}"
    volumes = {str(volume.get("name")): volume for volume in _list(pod.get("spec"), "volumes")}
    for volume in volumes.values():
        path = str(_map(volume, "hostPath").get("path") or "")
        if path.startswith("/dev/infiniband") and not _privileged(container):
            seen.add(
                "pod-dev-infiniband-host-path",
                where,
                f"volume {volume.get('name')}: hostPath {path}",
            )
    shm = [
        volumes.get(str(mount.get("name")), {})
        for mount in _list(container, "volumeMounts")
        if str(mount.get("mountPath")).rstrip("/") == "/dev/shm"  # noqa: S108 - a pod's path
    ]
    if not shm and not _map(pod, "spec").get("hostIPC"):
        seen.add(
            "pod-no-shm", where, f"container {container.get('name')} mounts nothing at /dev/shm"
        )
    for volume in shm:
        limit = _map(volume, "emptyDir").get("sizeLimit")
        if limit is not None and _amount(limit) < SMALL_SHM:
            seen.add("pod-small-shm", where, f"volume {volume.get('name')}: sizeLimit {limit}")


def _security(pod: Object, container: Object, seen: _Seen) -> None:
    where = f"pod/{_name(pod)}"
    if _map(pod, "spec").get("hostNetwork") is True:
        seen.add("pod-host-network", where, "hostNetwork: true")
    capabilities = _map(_map(container, "securityContext"), "capabilities").get("add") or []
    if not _privileged(container) and not {"IPC_LOCK", "ALL"} & set(map(str, capabilities)):
        seen.add(
            "pod-no-ipc-lock",
            where,
            f"container {container.get('name')} adds {', '.join(map(str, capabilities)) or 'no'} "
            "capability",
        )


def _networks(objects: ClusterObjects, pod: Object, seen: _Seen) -> None:
    annotation = str(_map(pod.get("metadata"), "annotations").get(NETWORKS) or "")
    missing = [name for name in objects.networks if name not in annotation]
    if missing and _map(pod, "spec").get("hostNetwork") is not True:
        seen.add(
            "pod-no-rail-networks",
            f"pod/{_name(pod)}",
            f"annotation {NETWORKS}: {annotation or 'none'}; the fabric's networks are "
            f"{', '.join(objects.networks)}",
        )


def _statuses(pod: Object) -> Iterator[Object]:
    for key in ("containerStatuses", "initContainerStatuses"):
        yield from _list(pod.get("status"), key)


def _runs(status: Object) -> bool:
    return "running" in (status.get("state") or {})


def _ended(status: Object) -> Mapping[str, Any]:
    return _map(status.get("state"), "terminated")


def _containers(objects: ClusterObjects, seen: _Seen) -> None:
    for pod in objects.pods:
        where = f"pod/{_name(pod)}"
        running = False
        for status in _statuses(pod):
            name = str(status.get("name"))
            last = _map(status.get("lastState"), "terminated")
            for ended in (_ended(status), last):
                if ended.get("reason") == "OOMKilled":
                    seen.add("pod-oom-killed", where, f"container {name}: OOMKilled")
            waiting = str(_map(status.get("state"), "waiting").get("reason") or "")
            if waiting == "CrashLoopBackOff":
                seen.add("event-crash-loop", where, f"container {name}: {waiting}")
            elif waiting in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName"):
                message = _map(status.get("state"), "waiting").get("message")
                seen.add("event-image-pull", where, f"container {name}: {waiting}: {message}")
            running |= _runs(status) and not DAEMONS.search(name)
        for status in _statuses(pod):
            if DAEMONS.search(str(status.get("name"))) and _ended(status) and running:
                code = _ended(status).get("exitCode")
                seen.add("daemon-ended", where, f"container {status.get('name')} exited {code}")
        for container in _list(pod.get("spec"), "containers"):
            if container.get("name") in MESH_CONTAINERS:
                seen.add("pod-mesh-sidecar", where, f"container {container.get('name')}")


def _when(ended: Mapping[str, Any]) -> datetime | None:
    try:
        return datetime.fromisoformat(str(ended.get("finishedAt")))
    except ValueError:
        return None


def _order(objects: ClusterObjects, seen: _Seen) -> None:
    """Observe the one pod that ended with an error while others kept running, if there is one."""
    failures: list[tuple[datetime, str, str]] = []
    others: list[datetime] = []
    still = 0
    for pod in objects.pods:
        names = {container.get("name") for container in _trainers(pod)}
        for status in _statuses(pod):
            if status.get("name") not in names:
                continue
            ended = _ended(status) or _map(status.get("lastState"), "terminated")
            when = _when(ended) if ended else None
            if not ended:
                still += _runs(status)
            elif when is not None and ended.get("exitCode") not in (0, None):
                text = f"exited {ended.get('exitCode')} ({ended.get('reason')}) at {when:%H:%M:%S}"
                failures.append((when, _name(pod), text))
            elif when is not None:
                others.append(when)
    failures.sort()
    if not failures or len(failures) + len(others) + still < 2:
        return
    first = failures[0]
    later = [when for when, _, _ in failures[1:]] + others
    alone = all((when - first[0]).total_seconds() >= LATER_SECONDS for when in later)
    if alone and (later or still):
        seen.add("pod-ended-early", f"pod/{first[1]}", f"{first[2]}, before all others")


def _events(objects: ClusterObjects, seen: _Seen) -> None:
    for event in objects.events:
        if event.get("type") == "Normal":
            continue
        reason, message = str(event.get("reason") or ""), str(event.get("message") or "")
        about = _map(event, "involvedObject") or _map(event, "regarding")
        where = f"{str(about.get('kind') or 'object').lower()}/{about.get('name')}"
        for kind, pattern in EVENT_KINDS:
            if pattern.match(reason):
                seen.add(kind, where, f"{reason}: {message}")
        if reason == "Failed" and "image" in message.lower():
            seen.add("event-image-pull", where, f"{reason}: {message}")
        elif reason == "BackOff" and "restarting failed container" in message:
            seen.add("event-crash-loop", where, f"{reason}: {message}")
        elif "OOMKill" in reason or "OOMKill" in message:
            seen.add("pod-oom-killed", where, f"{reason}: {message}")


def _nodes(objects: ClusterObjects, seen: _Seen) -> None:
    wanted = _wanted(objects)
    tolerated = {
        str(toleration.get("key"))
        for pod in objects.pods
        for toleration in _list(pod.get("spec"), "tolerations")
    }
    for node in objects.nodes:
        where = f"node/{_name(node)}"
        status = _map(node, "status")
        for condition in _list(node.get("status"), "conditions"):
            _condition(condition, where, seen)
        for taint in _list(node.get("spec"), "taints"):
            if taint.get("effect") in ("NoSchedule", "NoExecute"):
                key = str(taint.get("key"))
                if key not in tolerated and not key.endswith("/gpu"):
                    seen.add("node-tainted", where, f"{key}:{taint.get('effect')}")
        capacity, allocatable = _map(status, "capacity"), _map(status, "allocatable")
        for name in wanted & capacity.keys():
            if _amount(allocatable.get(name)) == 0:
                seen.add("node-rdma-zero", where, f"{name}: 0 of {capacity[name]} healthy")
        for name in capacity:
            if name.endswith("/gpu") and _amount(allocatable.get(name)) < _amount(capacity[name]):
                seen.add(
                    "node-gpu-unhealthy",
                    where,
                    f"{name}: {allocatable.get(name)} of {capacity[name]} healthy",
                )


def _condition(condition: Object, where: str, seen: _Seen) -> None:
    kind, state_now = str(condition.get("type")), condition.get("status")
    text = f"{kind}={state_now}: {condition.get('reason')}: {condition.get('message')}"
    if kind == "Ready":
        if state_now != "True":
            seen.add("node-not-ready", where, text)
        return
    # Problem detectors set True for a problem; gates and operators name what is healthy.
    healthy = kind.endswith(("Healthy", "Ready", "Up", "OK", "Passed"))
    if BAD_CONDITION.search(kind) and state_now == ("False" if healthy else "True"):
        seen.add("node-link-condition", where, text)


def _queue(objects: ClusterObjects, seen: _Seen) -> None:
    for workload in objects.workloads:
        for condition in _list(workload.get("status"), "conditions"):
            if condition.get("type") == "QuotaReserved" and condition.get("status") == "False":
                seen.add(
                    "kueue-not-admitted",
                    f"workload/{_name(workload)}",
                    f"QuotaReserved=False: {condition.get('message')}",
                )


def _count(objects: ClusterObjects, seen: _Seen) -> None:
    spec = _map(objects.job, "spec")
    wanted = _map(spec, "trainer").get("numNodes")
    if not isinstance(wanted, int) or spec.get("suspend"):
        return
    conditions = {
        str(c.get("type")): c.get("status")
        for c in _list(_map(objects.job, "status"), "conditions")
    }
    if "True" in (conditions.get("Complete"), conditions.get("Failed")):
        return
    running = [pod for pod in objects.pods if _map(pod, "status").get("phase") == "Running"]
    if len(running) < wanted and objects.pods:
        seen.add(
            "pods-missing",
            f"job/{_name(objects.job or {})}",
            f"{len(running)} of {wanted} pods run",
        )


def _all_ports(rule: Object) -> bool:
    ports = _list(rule, "ports")
    if not rule.get("ports"):
        return True
    for port in ports:
        if port.get("protocol", "TCP") != "TCP":
            continue
        first, last = port.get("port"), port.get("endPort")
        if first is None:
            return True
        ends = (first, last) if isinstance(first, int) and isinstance(last, int) else (1, 0)
        if ends[0] <= LOW_PORTS and ends[1] >= HIGH_PORT:
            return True
    return False


def _is_peer(peer: Object, namespace: str, labels: Mapping[str, Any]) -> bool:
    if "ipBlock" in peer:
        return _map(peer, "ipBlock").get("cidr") in ("0.0.0.0/0", "::/0")
    spaces = peer.get("namespaceSelector")
    if spaces is not None and not matches(
        spaces, {"kubernetes.io/metadata.name": namespace, "name": namespace}
    ):
        return False
    pods = peer.get("podSelector")
    return pods is None or matches(pods, labels)


def _allows(rules: Iterable[Object], key: str, namespace: str, labels: Mapping[str, Any]) -> bool:
    for rule in rules:
        peers = _list(rule, key)
        reaches = not rule.get(key) or any(_is_peer(peer, namespace, labels) for peer in peers)
        if reaches and _all_ports(rule):
            return True
    return False


def _applies(policy: Object, kind: str) -> bool:
    spec = _map(policy, "spec")
    types = spec.get("policyTypes")
    if isinstance(types, list) and types:
        return kind in types
    return kind == "Ingress" or bool(spec.get("egress"))


def _policies(objects: ClusterObjects, seen: _Seen) -> None:
    """Observe policies that keep the job's pods from reaching each other on every TCP port."""
    if len(objects.pods) < 2:
        return
    labels = _map(objects.pods[0].get("metadata"), "labels")
    check: tuple[tuple[str, str, Callable[[Object], list[Object]]], ...] = (
        ("Ingress", "from", lambda policy: _list(policy.get("spec"), "ingress")),
        ("Egress", "to", lambda policy: _list(policy.get("spec"), "egress")),
    )
    for kind, key, rules_of in check:
        selecting = [
            policy
            for policy in objects.policies
            if _applies(policy, kind) and matches(_map(policy.get("spec"), "podSelector"), labels)
        ]
        if not selecting:
            continue
        rules = [rule for policy in selecting for rule in rules_of(policy)]
        if not _allows(rules, key, objects.namespace, labels):
            names = ", ".join(_name(policy) for policy in selecting)
            seen.add(
                "netpol-blocks-peers",
                f"networkpolicy/{_name(selecting[0])}",
                f"{kind}: no rule of {names} lets the job's pods reach each other on every TCP "
                "port",
            )


def _counters(objects: ClusterObjects, seen: _Seen) -> None:
    for node, lines in objects.counters.items():
        for line in lines:
            if (match := COUNTER.match(line)) and float(match["value"]) > 0:
                seen.add("link-counters", f"node/{node}", line)
            elif XID.match(line):
                seen.add("node-xid", f"node/{node}", line)
