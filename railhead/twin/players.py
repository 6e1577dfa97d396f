"""Players: small models of controllers and plugins that cannot be had, each by rows of truth.

Their pods are real: real DaemonSets put them where their selectors and tolerations let them, and a
player does on a node only what its pod there would do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from railhead.gate.expectation import Expectation
from railhead.gate.state import ANNOTATION, FAILED, LABEL, READY
from railhead.twin import addresses, gke
from railhead.twin.addresses import OPERATOR_SPACE
from railhead.twin.truth import Node
from railhead.twin.world import (
    PLAYER,
    SRIOV_DAEMON,
    SRIOV_PLUGIN,
    Body,
    Look,
    Player,
    World,
    is_ready,
)

NFD = "feature.node.kubernetes.io"
WAIT = "network.nvidia.com/operator.mofed.wait"
_GPU_PARTS = ("driver", "container-toolkit", "device-plugin", "dcgm-exporter")
_SRIOV_API = "sriovnetwork.openshift.io/v1"
_NFD_API = "nfd.k8s-sigs.io/v1alpha1"
_NICS = "twin.railhead.dev/nics"
_NFS = "nfs.csi.k8s.io"
_POLICY_API = "mellanox.com/v1alpha1"


def nfd(world: World, look: Look) -> None:
    """Write what a feature discovery's worker finds on the PCI bus; its master does the rest."""
    workers = look.ready("nfd-worker")
    there = {f["metadata"]["name"] for f in world.list(_NFD_API, "NodeFeature")} if workers else ()
    settings: dict[str, Any] = {}
    for name, pod in workers.items():
        machine = world.hardware.get(name)
        if machine is None or name not in look.nodes:
            continue
        namespace = pod["metadata"]["namespace"]
        if namespace not in settings:
            (mounted,) = (v for v in pod["spec"]["volumes"] if v["name"] == "nfd-worker-conf")
            config = world.read("v1", "ConfigMap", namespace, mounted["configMap"]["name"])
            text = config["data"]["nfd-worker.conf"] if config else ""
            sources = (yaml.safe_load(text) or {}).get("sources") or {}
            settings[namespace] = sources.get("pci") or {}
        world.apply(_feature(name, pod, machine, settings[namespace]), again=name not in there)


def _feature(name: str, pod: Body, machine: Node, settings: Mapping[str, Any]) -> Body:
    """Return a worker's NodeFeature; each device has its class as sysfs has it."""
    devices = [{"class": "0302", "vendor": "10de"}] * machine.gpus
    network = "0207" if machine.link == "infiniband" else "0200"
    devices += [{"class": network, "vendor": "15b3", "sriov_totalvfs": "16"}] * len(
        machine.interfaces
    )
    fields = settings.get("deviceLabelFields") or ["class", "vendor"]
    wanted = tuple(settings.get("deviceClassWhitelist") or ("03", "0b40", "12"))
    labels: dict[str, str] = {}
    for device in devices:
        if device["class"].startswith(wanted):
            key = "_".join(device[field] for field in ("class", "vendor") if field in fields)
            labels[f"{NFD}/pci-{key}.present"] = "true"
            if "sriov_totalvfs" in device:
                labels[f"{NFD}/pci-{key}.sriov.capable"] = "true"
    owners = [{**o, "blockOwnerDeletion": False} for o in pod["metadata"]["ownerReferences"]]
    own = {key: pod["metadata"][key] for key in ("name", "uid")}
    return {
        "apiVersion": _NFD_API,
        "kind": "NodeFeature",
        "metadata": {
            "name": name,
            "namespace": pod["metadata"]["namespace"],
            "labels": {"nfd.node.kubernetes.io/node-name": name},
            "ownerReferences": [*owners, {"apiVersion": "v1", "kind": "Pod", **own}],
        },
        "spec": {
            "features": {
                "flags": {},
                "attributes": {},
                "instances": {"pci.device": {"elements": [{"attributes": d} for d in devices]}},
            },
            "labels": labels,
        },
    }


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
    if "ipoib" in networks:
        parts["kube-ipoib-cni-ds"] = ("ipoib-cni", {})
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
            "namespace": OPERATOR_SPACE,
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
    counts = (status.get("numberAvailable", 0), status.get("updatedNumberScheduled", 0))
    return bool(wanted) and counts == (wanted, wanted)


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
    entries = json.loads(configs[0]["config"])["configList"]
    runs = shares_are_valid(entries)
    for entry in entries:
        resource = f"{entry.get('resourcePrefix', 'rdma')}/{entry['resourceName']}"
        for name, node in look.nodes.items():
            machine = world.hardware.get(name)
            if machine is None or not machine.interfaces:
                continue
            wanted = entry.get("selectors") or {"ifNames": entry.get("devices")}
            matches = runs and name in plugins and matching(wanted, machine)
            world.offer(node, resource, entry["rdmaHcaMax"] if matches else 0)


def host_devices(world: World, look: Look) -> None:
    """Offer whole NICs where the network operator's SR-IOV device plugin runs."""
    plugins = look.ready("host-devices")
    policies = world.list(_POLICY_API, "NicClusterPolicy") if plugins else ()
    for config in [c for p in policies if (c := p["spec"].get("sriovDevicePlugin"))]:
        for entry in json.loads(config["config"])["resourceList"]:
            selectors = entry.get("selectors") or {}
            for name, node in look.nodes.items():
                machine = world.hardware.get(name)
                if machine is None or not machine.interfaces:
                    continue
                # The site says which addresses its nodes have; a node has one of each rail's.
                count = 1 if selectors.get("pciAddresses") else len(matching(selectors, machine))
                resource = f"{entry.get('resourcePrefix', 'intel.com')}/{entry['resourceName']}"
                world.offer(node, resource, count if name in plugins else 0)


def shares_are_valid(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the plugin takes its configuration; else it ends on every node."""
    names = [entry["resourceName"] for entry in entries]
    return (
        bool(names)
        and len(set(names)) == len(names)
        and all(re.fullmatch(r"[a-zA-Z0-9_]+", name) for name in names)
        and all(int(entry["rdmaHcaMax"]) >= 0 for entry in entries)
        and all(bool(e.get("selectors")) != bool(e.get("devices")) for e in entries)
    )


def matching(selectors: Mapping[str, Any], machine: Node) -> list[str]:
    """Return the NICs that a plugin's selectors match, by both plugins' names of selectors."""
    own = {"vendors": "15b3", "drivers": "mlx5_core", "linkTypes": machine.link}
    if any(value not in (selectors.get(key) or [value]) for key, value in own.items()):
        return []
    named = selectors.get("ifNames") or selectors.get("pfNames") or machine.interfaces
    return [nic for nic in machine.interfaces if nic in {n.partition("#")[0] for n in named}]


def sriov(world: World, look: Look) -> None:
    """Find a node's NICs, make the functions that its state asks for, and offer those selected."""
    daemons, plugins = look.ready(SRIOV_DAEMON), look.ready(SRIOV_PLUGIN)
    states = world.list(_SRIOV_API, "SriovNetworkNodeState") if daemons else []
    config: Body = {}
    for plugin in list(plugins.values())[:1]:
        namespace = plugin["metadata"]["namespace"]
        config = world.read("v1", "ConfigMap", namespace, "device-plugin-config") or {}
    offers: dict[str, dict[str, int]] = {}
    for state in states:
        name = state["metadata"]["name"]
        machine = world.hardware.get(name)
        if machine is None or name not in look.nodes:
            continue
        functions: dict[str, int] = {}
        if name in daemons:
            functions = _functions(world, state, machine)
            # The operator looks at states when labels of a node change, else in five minutes
            # (v1.6.0, controllers/sriovnetworknodepolicy_controller.go, SetupWithManager).
            world.label(look.nodes[name], {_NICS: str(len(functions))})
        entries = json.loads((config.get("data") or {}).get(name, "{}")).get("resourceList") or ()
        for entry in entries:
            chosen = matching(entry.get("selectors") or {}, machine)
            count = sum(functions.get(pf, 0) for pf in chosen) if name in plugins else 0
            prefix = _argument(next(iter(plugins.values())), "--resource-prefix")
            offers.setdefault(name, {})[f"{prefix}/{entry['resourceName']}"] = count
    for name, node in look.nodes.items():
        now, known = offers.get(name, {}), world.functions.setdefault(name, set())
        known.update(now)
        for resource in sorted(known):
            # What a plugin no longer serves is not to be had (kubernetes v1.35.8, pkg/kubelet/cm/
            # devicemanager/manager.go, GetCapacity).
            world.offer(node, resource, now.get(resource, 0))


def _functions(world: World, state: Body, machine: Node) -> dict[str, int]:
    """Return NIC -> its virtual functions, as its node's daemon has made and reported them."""
    asked = {i["name"]: int(i["numVfs"]) for i in state["spec"].get("interfaces") or ()}
    made = {name: asked.get(name, 0) for name in machine.interfaces}
    status = state.get("status") or {}
    reported = {i["name"]: i.get("numVfs", 0) for i in status.get("interfaces") or ()}
    if reported != made or status.get("syncStatus") != "Succeeded":
        rows = [
            {
                "name": name,
                "pciAddress": f"0000:{number + 16:02x}:00.0",
                "driver": "mlx5_core",
                "vendor": "15b3",
                "linkType": "IB" if machine.link == "infiniband" else "ETH",
                "deviceID": "1021",
                "totalvfs": 16,
                "numVfs": count,
            }
            for number, (name, count) in enumerate(made.items())
        ]
        change = {"status": {"interfaces": rows, "syncStatus": "Succeeded"}}
        world.patch(state, change, status=True)
    return made


def _argument(pod: Body, name: str) -> str:
    words = pod["spec"]["containers"][0]["args"]
    return next(str(word).partition("=")[2] for word in words if word.startswith(f"{name}="))


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
        if driver == _NFS and not nfs_takes(storage.get("parameters") or {}):
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


def nfs_takes(parameters: Mapping[str, str]) -> bool:
    """Return whether NFS' driver makes volumes of a class with these parameters."""
    # kubernetes-csi's provisioner adds the names of claim and volume.
    own = {k.lower(): v for k, v in parameters.items() if not k.startswith("csi.storage.k8s.io/")}
    paths = f"{own.get('share', '')}/{own.get('subdir', '')}"
    return (
        own.keys() <= {"server", "share", "subdir", "ondelete", "mountpermissions"}
        and bool(own.get("server"))
        and ".." not in paths.split("/")
        and own.get("ondelete", "").lower() in ("", "delete", "retain", "archive")
        and re.fullmatch("[0-7]*", own.get("mountpermissions", "")) is not None
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
        plays="Node Feature Discovery's worker",
        rows=("metal.nfd.pci", "metal.nfd.owner"),
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
        rows=("metal.rdmashared.count", "metal.rdmashared.config", "metal.rdmashared.selectors"),
        turn=rdma_shared,
    ),
    Player(
        plays="network operator's SR-IOV device plugin",
        rows=("metal.netop.hostdevices",),
        turn=host_devices,
    ),
    Player(
        plays="nv-ipam",
        rows=(
            "metal.nvipam.cidrpool",
            "metal.nvipam.ippool.namespace",
            "metal.nvipam.ippool.invalid",
            "metal.nvipam.ippool.order",
            "metal.nvipam.ippool.blocks",
            "metal.nvipam.ippool.dropped",
            "metal.nvipam.ippool.nofree",
        ),
        turn=addresses.nv_ipam,
    ),
    Player(
        plays="SR-IOV configuration daemon and device plugin",
        rows=("metal.sriov.daemon", "metal.sriov.deviceplugin"),
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
