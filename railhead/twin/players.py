"""Players: small models of controllers and plugins that cannot be had, each by rows of truth.

Their pods are real: real DaemonSets put them where their selectors and tolerations let them, and a
player does on a node only what its pod there would do.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping
from typing import Any

from railhead.gate.expectation import Expectation
from railhead.gate.state import ANNOTATION, FAILED, LABEL, READY
from railhead.twin import gke
from railhead.twin.world import PLAYER, Body, Look, Player, World, is_ready

NFD = "feature.node.kubernetes.io"
WAIT = "network.nvidia.com/operator.mofed.wait"
_GPU_PARTS = ("driver", "container-toolkit", "device-plugin", "dcgm-exporter")
_OPERATOR_SPACE = "nvidia-network-operator"
_SRIOV = "sriovnetwork.openshift.io"
_SRIOV_API = f"{_SRIOV}/v1"
_ENABLED = f"{_SRIOV}/device-plugin"
_CONFIG_FINALIZER = f"operatorconfig.finalizers.{_SRIOV}"
_IPAM_API = "nv-ipam.nvidia.com/v1alpha1"
_POLICY_API = "mellanox.com/v1alpha1"


def nfd(world: World, look: Look) -> None:
    """Label what a feature discovery's worker sees of the PCI bus, in its chart's words."""
    ruled = bool(world.list("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule"))
    for role in ("nfd-gpu-operator", "nfd-network-operator", "nfd-stock"):
        for name in look.ready(role):
            machine = world.hardware.get(name)
            if machine is None or name not in look.nodes:
                continue
            labels: dict[str, str | None] = {}
            if machine.gpus:
                key = "pci-0302_10de.present" if role == "nfd-stock" else "pci-10de.present"
                labels[f"{NFD}/{key}"] = "true"
            if machine.interfaces and (role == "nfd-gpu-operator" or ruled):
                labels[f"{NFD}/pci-15b3.present"] = "true"
            world.label(look.nodes[name], labels)


def gpu_operator(world: World, look: Look) -> None:
    """Label nodes that feature discovery says have a GPU of NVIDIA's."""
    if not look.ready("gpu-operator"):
        return
    seen = [f"{NFD}/pci-{key}.present" for key in ("10de", "0302_10de", "0300_10de")]
    for node in look.nodes.values():
        if any(node["metadata"]["labels"].get(key) == "true" for key in seen):
            parts = {f"nvidia.com/gpu.deploy.{part}": "true" for part in _GPU_PARTS}
            world.label(node, {"nvidia.com/gpu.present": "true", **parts})


def gpus(world: World, look: Look) -> None:
    """Offer GPUs on nodes with a device plugin, a driver and the container toolkit."""
    plugins = look.ready("gpu-device-plugin")
    drivers, toolkits = look.ready("gpu-driver"), look.ready("gpu-container-toolkit")
    for name, node in look.nodes.items():
        machine = world.hardware.get(name)
        if machine is None or not machine.gpus:
            continue
        works = (
            name in plugins
            and ("gpu-driver" in machine.host or name in drivers)
            and ("container-toolkit" in machine.host or name in toolkits)
        )
        world.offer(node, "nvidia.com/gpu", machine.gpus if works else 0)


def efa(world: World, look: Look) -> None:
    """Offer the EFA interfaces that are attached, where the plugin runs."""
    plugins = look.ready("efa-plugin")
    for name, node in look.nodes.items():
        machine = world.hardware.get(name)
        if machine is not None and machine.efa:
            world.offer(node, "vpc.amazonaws.com/efa", machine.efa if name in plugins else 0)


def network_operator(world: World, look: Look) -> None:
    """Make the DaemonSets of the one NicClusterPolicy, and say how they are."""
    if not look.ready("network-operator"):
        return
    policies = world.list(_POLICY_API, "NicClusterPolicy")
    for policy in policies:
        if policy["metadata"]["name"] != "nic-cluster-policy":
            _state(world, policy, "ignore")
    served = [p for p in policies if p["metadata"]["name"] == "nic-cluster-policy"]
    _mofed_wait(world, look, served[0] if served else None)
    if not served:
        return
    (policy,) = served
    spec = policy["spec"]
    wanted = _operator_parts(spec)
    for name, (role, selector) in wanted.items():
        world.apply(_daemons(policy, name, role, selector, spec))
    sets = {d["metadata"]["name"]: d for d in world.list("apps/v1", "DaemonSet")}
    for name, body in sets.items():
        owners = body["metadata"].get("ownerReferences") or ()
        if name not in wanted and any(o["uid"] == policy["metadata"]["uid"] for o in owners):
            world.delete({"apiVersion": "apps/v1", "kind": "DaemonSet", **body})
    ready = all(_is_rolled_out(sets.get(name)) for name in wanted)
    _state(world, policy, "ready" if ready else "notReady")


def _operator_parts(spec: Mapping[str, Any]) -> dict[str, tuple[str, dict[str, str]]]:
    """Return DaemonSet -> its role and its own node selector."""
    nics = {f"{NFD}/pci-15b3.present": "true"}
    networks = spec.get("secondaryNetwork") or {}
    parts: dict[str, tuple[str, dict[str, str]]] = {}
    if "multus" in networks:
        parts["kube-multus-ds"] = ("multus", {})
    if "cniPlugins" in networks:
        parts["cni-plugins-ds"] = ("cni-plugins", {})
    if "ofedDriver" in spec:
        parts["mofed-ds"] = ("mofed", nics)
    if "rdmaSharedDevicePlugin" in spec:
        parts["rdma-shared-dp-ds"] = ("rdma-plugin", nics | {WAIT: "false"})
    if "sriovDevicePlugin" in spec:
        parts["network-operator-sriov-device-plugin"] = ("host-devices", nics | {WAIT: "false"})
    if "nvIpam" in spec:
        parts["nv-ipam-node"] = ("nv-ipam", {})
    return parts


def _daemons(
    policy: Body, name: str, role: str, selector: Mapping[str, str], spec: Mapping[str, Any]
) -> Body:
    labels = {"app": name, PLAYER: role}
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    pod: Body = {
        "nodeSelector": dict(selector),
        "tolerations": [*tolerations, *(spec.get("tolerations") or [])],
        "containers": [{"name": "main", "image": name}],
    }
    if "nodeAffinity" in spec:
        pod["affinity"] = {"nodeAffinity": spec["nodeAffinity"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": _OPERATOR_SPACE,
            "ownerReferences": [
                {
                    "apiVersion": _POLICY_API,
                    "kind": "NicClusterPolicy",
                    "name": policy["metadata"]["name"],
                    "uid": policy["metadata"]["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _is_rolled_out(body: Mapping[str, Any] | None) -> bool:
    status = (body or {}).get("status") or {}
    wanted = status.get("desiredNumberScheduled", 0)
    return bool(wanted) and wanted == status.get("numberAvailable", 0)


def _state(world: World, policy: Body, state: str) -> None:
    if (policy.get("status") or {}).get("state") != state:
        world.patch(policy, {"status": {"state": state}}, status=True)


def _mofed_wait(world: World, look: Look, policy: Body | None) -> None:
    loads = policy is not None and "ofedDriver" in policy["spec"]
    drivers = {pod["spec"].get("nodeName"): pod for pod in look.of("mofed")}
    for name, node in look.nodes.items():
        if loads:
            if name in drivers:
                ready = is_ready(drivers[name])
                world.label(node, {WAIT: "false" if ready else "true"})
        elif node["metadata"]["labels"].get(f"{NFD}/pci-15b3.present") == "true":
            world.label(node, {WAIT: "true" if name in drivers else "false"})
        else:
            world.label(node, {WAIT: None})


def rdma_shared(world: World, look: Look) -> None:
    """Offer shares where the plugin runs and its selectors match a NIC of the node."""
    policies = world.list(_POLICY_API, "NicClusterPolicy")
    configs = [c for p in policies if (c := p["spec"].get("rdmaSharedDevicePlugin"))]
    if not configs:
        return
    plugins = look.ready("rdma-plugin")
    for entry in json.loads(configs[0]["config"])["configList"]:
        resource = f"{entry.get('resourcePrefix', 'rdma')}/{entry['resourceName']}"
        for name, node in look.nodes.items():
            machine = world.hardware.get(name)
            if machine is None or not machine.interfaces:
                continue
            matches = bool(matching(entry.get("selectors") or {}, machine.interfaces))
            count = entry["rdmaHcaMax"] if name in plugins and matches else 0
            world.offer(node, resource, count)


def matching(selectors: Mapping[str, Any], interfaces: Iterable[str]) -> list[str]:
    """Return the NICs that a plugin's selectors match; all of them are Mellanox's."""
    named = selectors.get("ifNames") or []
    if "15b3" not in (selectors.get("vendors") or ["15b3"]):
        return []
    return [name for name in interfaces if not named or name in named]


def nv_ipam(world: World, look: Look) -> None:
    """Cut a block of each pool for every node that its selector selects."""
    if not look.of("nv-ipam"):
        return
    for pool in world.list(_IPAM_API, "IPPool"):
        had = {
            a["nodeName"]: (a["startIP"], a["endIP"])
            for a in (pool.get("status") or {}).get("allocations") or ()
        }
        nodes = [n for n in sorted(look.nodes) if _selects(pool["spec"], look.nodes[n])]
        blocks = cut(pool["spec"]["subnet"], int(pool["spec"]["perNodeBlockSize"]), nodes, had)
        if blocks != had:
            rows = [{"nodeName": n, "startIP": s, "endIP": e} for n, (s, e) in blocks.items()]
            world.patch(pool, {"status": {"allocations": rows}}, status=True)


def cut(
    subnet: str, size: int, nodes: Iterable[str], had: Mapping[str, tuple[str, str]]
) -> dict[str, tuple[str, str]]:
    """Return node -> its first and last address: old blocks that still fit stay, others are cut.

    Args:
        subnet: the pool's.
        size: addresses of a block.
        nodes: the nodes that get one, in the order of their names.
        had: the blocks that nodes have.
    """
    network = ipaddress.ip_network(subnet, strict=False)
    first = int(network.network_address) + 1
    last = int(network.broadcast_address) - 1
    blocks: dict[str, tuple[str, str]] = {}
    for node in nodes:
        if node not in had:
            continue
        start, end = (int(ipaddress.ip_address(a)) for a in had[node])
        if (
            end - start + 1 == size
            and (start - first) % size == 0
            and first <= start
            and end <= last
        ):
            blocks[node] = had[node]
    taken = {start for start, _ in blocks.values()}
    free = (
        (str(ipaddress.ip_address(start)), str(ipaddress.ip_address(start + size - 1)))
        for start in range(first, last - size + 2, size)
    )
    for node in nodes:
        if node in blocks:
            continue
        block = next((b for b in free if b[0] not in taken), None)
        if block is None:
            break
        blocks[node] = block
    return {node: blocks[node] for node in sorted(blocks)}


def _selects(spec: Mapping[str, Any], node: Body) -> bool:
    terms = (spec.get("nodeSelector") or {}).get("nodeSelectorTerms")
    if not terms:
        return True
    labels = node["metadata"].get("labels") or {}
    return any(
        all(
            labels.get(e["key"]) in (e.get("values") or [])
            if e["operator"] == "In"
            else (e["key"] in labels) == (e["operator"] == "Exists")
            for e in term.get("matchExpressions") or ()
        )
        for term in terms
    )


def sriov(world: World, look: Look) -> None:
    """Run the configuration daemon where it may; offer functions of the chosen NICs."""
    operators = look.ready("sriov-operator")
    if not operators:
        return
    (operator, *_) = operators.values()
    namespace = operator["metadata"]["namespace"]
    prefix = operator["metadata"]["annotations"]["twin.railhead.dev/prefix"]
    configs = world.list(_SRIOV_API, "SriovOperatorConfig")
    config = next((c for c in configs if c["metadata"]["name"] == "default"), None)
    if config is None or config["metadata"].get("deletionTimestamp"):
        if config is not None and config["metadata"].get("finalizers"):
            world.patch(config, {"metadata": {"finalizers": []}})
        return
    if _CONFIG_FINALIZER not in (config["metadata"].get("finalizers") or ()):
        world.patch(config, {"metadata": {"finalizers": [_CONFIG_FINALIZER]}})
    given = config["spec"].get("configDaemonNodeSelector") or {}
    worker = {"kubernetes.io/os": "linux", "node-role.kubernetes.io/worker": ""}
    plugin = (given or {"kubernetes.io/os": "linux"}) | {_ENABLED: "Enabled"}
    for name, role, selector in (
        ("sriov-network-config-daemon", "sriov-daemon", given or worker),
        ("sriov-device-plugin", "sriov-plugin", plugin),
    ):
        world.apply(_sriov_daemons(namespace, name, role, selector))
    policies = world.list(_SRIOV_API, "SriovNetworkNodePolicy")
    _sriov_nodes(world, look, given or worker, policies, prefix)


def _sriov_daemons(namespace: str, name: str, role: str, selector: Mapping[str, str]) -> Body:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name, PLAYER: role}},
                "spec": {
                    "nodeSelector": dict(selector),
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "main", "image": name}],
                },
            },
        },
    }


def _sriov_nodes(
    world: World, look: Look, selector: Mapping[str, str], policies: list[Body], prefix: str
) -> None:
    daemons, plugins = look.ready("sriov-daemon"), look.ready("sriov-plugin")
    for name, node in look.nodes.items():
        machine = world.hardware.get(name)
        labels = node["metadata"]["labels"]
        listed = all(labels.get(key) == value for key, value in selector.items())
        mine = [p for p in policies if listed and _matches(p["spec"]["nodeSelector"], labels)]
        if listed:
            world.label(node, {_ENABLED: "Enabled" if mine else "Disabled"})
        if machine is None:
            continue
        for policy in policies:
            spec = policy["spec"]
            names = spec["nicSelector"].get("pfNames") or machine.interfaces
            chosen = [n for n in machine.interfaces if n in {p.partition("#")[0] for p in names}]
            works = policy in mine and name in daemons and name in plugins
            count = int(spec["numVfs"]) * len(chosen) if works else 0
            if chosen:
                world.offer(node, f"{prefix}/{spec['resourceName']}", count)


def _matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


def provisioners(world: World, look: Look) -> None:
    """Make volumes of claims whose class has a driver that runs."""
    drivers = {
        pod["metadata"]["annotations"]["twin.railhead.dev/driver"]
        for pod in look.of("provisioner")
        if is_ready(pod)
    }
    classes = {c["metadata"]["name"]: c for c in world.list("storage.k8s.io/v1", "StorageClass")}
    for claim in world.list("v1", "PersistentVolumeClaim"):
        storage = classes.get(claim["spec"].get("storageClassName", ""))
        if claim["spec"].get("volumeName") or storage is None:
            continue
        driver = storage["provisioner"]
        if driver not in drivers and not driver.startswith("site."):
            continue
        metadata = claim["metadata"]
        world.apply(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {
                    "name": f"pvc-{metadata['uid']}",
                    "annotations": {"pv.kubernetes.io/provisioned-by": driver},
                },
                "spec": {
                    "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                    "accessModes": claim["spec"]["accessModes"],
                    "storageClassName": storage["metadata"]["name"],
                    "persistentVolumeReclaimPolicy": storage.get("reclaimPolicy", "Delete"),
                    "claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "namespace": metadata["namespace"],
                        "name": metadata["name"],
                        "uid": metadata["uid"],
                    },
                    "csi": {"driver": driver, "volumeHandle": metadata["uid"]},
                },
            }
        )


def gate(world: World, look: Look) -> None:
    """Label nodes as the gate on them would, by what they offer: nothing else can be seen here."""
    gates = [p for p in look.pods if "railhead.dev/gate" in p["metadata"].get("labels", {})]
    watched = {p["spec"]["nodeName"]: p for p in gates if is_ready(p)}
    expected = {
        m["metadata"]["name"]: Expectation.from_json(m["data"]["expectation.json"])
        for m in world.list("v1", "ConfigMap")
        if m["metadata"]["namespace"] == "railhead-gate"
        and m["metadata"]["name"].startswith("expectation-")
    }
    installed = look.running("nccl-plugin")
    for name, node in look.nodes.items():
        pod = watched.get(name)
        if pod is None:
            if node["metadata"]["labels"].get(LABEL):
                world.label(node, {LABEL: None})
            continue
        wanted = expected.get(f"expectation-{pod['metadata']['labels']['railhead.dev/gate']}")
        if wanted is None:
            continue
        offered = node["status"].get("allocatable") or {}
        missing = [r for r, n in wanted.resources.items() if int(offered.get(r, "0")) < n]
        if wanted.plugin and wanted.plugin.version and name not in installed:
            missing.append(f"NCCL's plugin {wanted.plugin.name}")
        verdict = FAILED if missing else READY
        if node["metadata"]["labels"].get(LABEL) != verdict:
            note = f"does not offer {', '.join(missing)}" if missing else ""
            change = {"labels": {LABEL: verdict}, "annotations": {ANNOTATION: note}}
            world.patch(
                {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}},
                {"metadata": change},
            )


PLAYERS: tuple[Player, ...] = (
    Player(
        plays="Node Feature Discovery",
        rows=(
            "metal.nfd.pci.default",
            "metal.nfd.pci.gpuop",
            "metal.nfd.pci.netop",
            "metal.netop.nfd-rule",
        ),
        turn=nfd,
    ),
    Player(plays="GPU operator", rows=("metal.gpuop.present",), turn=gpu_operator),
    Player(
        plays="NVIDIA's device plugin",
        rows=("metal.gpuop.allocatable", "aws.var-al2023-nvidia", "gcp.device-plugin"),
        turn=gpus,
    ),
    Player(
        plays="EFA device plugin",
        rows=("aws.var-efa-count", "aws.efa-plugin-taints", "aws.efa-plugin-affinity"),
        turn=efa,
    ),
    Player(
        plays="network operator",
        rows=(
            "metal.netop.singleton",
            "metal.netop.status",
            "metal.netop.ds-ready",
            "metal.netop.gates",
            "metal.netop.ofed-ds",
            "metal.netop.tolerations",
            "metal.netop.mofed-wait.with-driver",
            "metal.netop.mofed-wait.without-driver",
        ),
        turn=network_operator,
    ),
    Player(
        plays="RDMA shared device plugin",
        rows=("metal.rdmashared.count", "metal.rdmashared.selectors"),
        turn=rdma_shared,
    ),
    Player(
        plays="nv-ipam",
        rows=(
            "metal.nvipam.ippool.order",
            "metal.nvipam.ippool.blocks",
            "metal.nvipam.ippool.dropped",
            "metal.nvipam.ippool.nofree",
        ),
        turn=nv_ipam,
    ),
    Player(
        plays="SR-IOV network operator",
        rows=(
            "metal.sriov.configdaemon.default-selector",
            "metal.sriov.operatorconfig.required",
            "metal.sriov.deviceplugin.label-gate",
            "metal.sriov.resource-prefix",
            "metal.sriov.finalizers",
        ),
        turn=sriov,
    ),
    Player(plays="CSI drivers", rows=("metal.nfs.params",), turn=provisioners),
    Player(
        plays="GKE multi-networking",
        rows=("gcp.multinet-objects", "gcp.multinet-conditions"),
        turn=gke.networks,
    ),
    Player(plays="the node gate", rows=("gcp.plugin-installers",), turn=gate),
)
