"""Questions to a cluster that is there: its nodes, what runs on them, and what others installed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from railhead.base.errors import PrerequisiteError, RefusedError
from railhead.base.finding import Finding
from railhead.base.names import TRAINING_LABEL
from railhead.catalog.versions import COMBINATIONS, Controller, Part
from railhead.config.live import MANAGED, described, require_own, target
from railhead.config.served import addons, claims_devices, unserved
from railhead.kube import nodes
from railhead.kube.errors import ApiError
from railhead.kube.published import find_contract
from railhead.machines import MACHINES
from railhead.model.node_paths import KUBELET
from railhead.platform.existing.model import ExistingCluster
from railhead.platform.registry import platform_of
from railhead.preflight.check import Asker, failed, ok, unknown
from railhead.preflight.reading import Kubernetes

Object = Mapping[str, Any]

# How a distribution's kubelet ends its version (rke2, k3s and k0s, their releases); kubeadm's and
# a managed cluster's end otherwise or not at all.
_SUFFIXES = {"rke2": "+rke2", "k3s": "+k3s", "k0s": "+k0s"}
# Its connection to a driver is dead once idle (kubernetes #133934, mended in 1.34.2). Clouds' own
# builds, whose versions end otherwise, may have the mend.
_DEAF = re.compile(r"v1\.34\.[01](\+.*)?")
# canonical/microk8s: on each of its nodes.
_MICROK8S = "microk8s.io/cluster"
# Those that give a pod its devices by CDI; OKE's nodes run CRI-O.
_RUNTIMES = ("containerd://", "cri-o://")
# The oldest of each that takes devices by CDI from kubelet (kubernetes #126435; gpu-operator
# v26.7.0 has CDI on).
_CDI = {"containerd": (1, 7, 2), "cri-o": (1, 30, 0)}
# The oldest that reads CDI 0.7 (NVIDIA/cloud-native-docs 52dcb7b, container-toolkit/
# release-notes.md, 1.19.1), in which only a GPU with a device of a group's is described, as
# nvidia_drm makes them (nvidia-container-toolkit d34b304, pkg/nvcdi/spec/set-minimum-version.go and
# internal/edits/device.go: getAdditionalGIDs). The operator's driver does not load that module
# (gpu-driver-container 06a208c, ubuntu24.04/nvidia-driver).
_CDI_OF_GROUPS = {"containerd": (1, 7, 16)}
_VERSION = re.compile(r"(containerd|cri-o)://v?(\d+)\.(\d+)\.(\d+)")
# What modes need, and the stack's own plugins may bring; of others the platform's bring devices.
_BROUGHT = ("multus", "operator", "nic-claims")
# gpu-feature-discovery's label of the loaded driver.
_DRIVER = "nvidia.com/cuda.driver-version.full"
# What Node Feature Discovery reads of a node (nfd v0.18, api/nfd/v1alpha1 and source/kernel).
_FEATURES = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeatures"
_NODE_NAME = "nfd.node.kubernetes.io/node-name"
_MODULES = "kernel.loadedmodule"
_SWITCHES = ("mlx5_ib", "ib_umad")
# Modules that hold the host's driver where that of a container is to replace it, by the variable
# by which the container unloads them (doca-driver-build v26.4.1, entrypoint.sh).
_HOLDING = {
    "UNLOAD_STORAGE_MODULES": "ib_isert ib_srpt nvme_rdma nvmet_rdma rpcrdma xprtrdma",
    "UNLOAD_THIRD_PARTY_RDMA_MODULES": "bnxt_re efa erdma iw_cxgb4 hfi1 hns_roce ionic_rdma irdma "
    "ib_qib mana_ib ocrdma qedr rdma_rxe siw vmw_pvrdma",
}
# The part of `osImage` that chooses the container of the GPUs' driver: on Ubuntu the minor counts,
# on Red Hat's and its kin it does not (gpu-operator v26.7.0, state_manager.go: getGPUNodeOSInfo).
_SYSTEM = re.compile(r"Ubuntu \d+\.\d+|\D+\d+")
# Labels of Node Feature Discovery that operators wait for. Any one of the first (gpu-operator
# v26.7.0, controllers/state_manager.go: gpuNodeLabels), and each of the others (getGPUNodeOSInfo
# there; network-operator v26.4.1, pkg/nodeinfo/node_info.go and manifests/state-ofed-driver).
_FEATURE = "feature.node.kubernetes.io/"
_GPU_LABELS = tuple(f"{_FEATURE}pci-{name}.present" for name in ("10de", "0302_10de", "0300_10de"))
_SYSTEM_LABELS = tuple(f"{_FEATURE}system-os_release.{name}" for name in ("ID", "VERSION_ID"))
_KERNEL_LABEL = f"{_FEATURE}kernel-version.full"
# With ``false`` the GPU operator puts nothing on a node (state_manager.go, commonOperandsLabelKey).
_OPERANDS = "nvidia.com/gpu.deploy.operands"
_GPU = "nvidia.com/gpu"
# Anywhere in a providerID: by these the SR-IOV operator takes a node for a virtual machine
# (Mellanox/sriov-network-operator 553d46a, pkg/vars: GetPlatformType).
_VIRTUAL = ("openstack", "aws")
_GROUPS = {
    "kueue": "kueue.x-k8s.io",
    "jobset": "jobset.x-k8s.io",
    "kubeflow-trainer": "trainer.kubeflow.org",
}
_NFD_GROUP = "nfd.k8s-sigs.io"
_RELEASE = "meta.helm.sh/release-"


@contextmanager
def opened(cluster: ExistingCluster) -> Iterator[Kubernetes]:
    """Yield a client of a stack's cluster.

    Raises:
        PrerequisiteError: there is no kubeconfig, or the cluster does not answer or lets nobody in.
    """
    with closing(Kubernetes(target(cluster))) as client:
        try:
            nodes.live_minor(client)
        except ApiError as error:
            raise PrerequisiteError(error.problem, remedy=error.remedy) from None
        yield client


def identity(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Ask whether it is the stack's cluster, and whether a stack is up in it."""
    try:
        require_own(cluster, client)
    except RefusedError as error:
        yield failed(error.problem, error.remedy)
    there = find_contract(client)
    if there is None:
        yield ok(f"no stack is up in {client.server}")
    else:
        yield failed(
            f"the stack {there.cluster} is up in {client.server} already",
            "`railhead config verify` and `railhead drift` are for a stack that is up",
        )


def kubernetes(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Compare the API server's minor with what the stack's versions serve, and kubelets' releases.

    Kubelets matter where pods claim devices.
    """
    minor = nodes.live_minor(client)
    if wrong := unserved(cluster, minor):
        yield failed(wrong)
    else:
        yield ok(f"Kubernetes {minor} is served by versions {cluster.versions!r}")
    deaf = [node for node in _members(client, cluster) if _DEAF.fullmatch(_kubelet_version(node))]
    if deaf and claims_devices(cluster):
        yield failed(
            f"{_named(deaf)}: kubelet {_kubelet_version(deaf[0])} no longer reaches a driver of "
            "claimed devices (DRA) that it left alone for 30 minutes: pods then neither start nor "
            "end",
            "upgrade kubelets to 1.34.2 or newer",
        )


def pools(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Compare the nodes with the pools."""
    for pool in nodes.verify(described(cluster), nodes.live(client)):
        if lines := pool.lines():
            yield failed("; ".join(lines))
        else:
            yield ok(f"pool {pool.promise.pool}: {len(pool.nodes)} nodes, as promised")


def controllers(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:  # noqa: ARG001
    """Look for nodes that take the controllers' pods, which tolerate no taint."""
    every = nodes.live(client)
    free = [node for node in every if not any(map(_keeps_out, node["spec"].get("taints") or ()))]
    if free:
        yield ok(f"{len(free)} of {len(every)} nodes take pods that tolerate no taint")
    else:
        yield failed(
            f"each of {len(every)} nodes has a taint, so the controllers' pods get no node"
        )


def _keeps_out(taint: Object) -> bool:
    return bool(taint["effect"] != "PreferNoSchedule")


def _in_pools(node: Object, cluster: ExistingCluster) -> bool:
    labels = _labels(node).items()
    return any(pool.node_selector.items() <= labels for pool in cluster.pools)


def _members(client: Kubernetes, cluster: ExistingCluster) -> list[Object]:
    """Return the nodes of the stack's pools."""
    return [node for node in nodes.live(client) if _in_pools(node, cluster)]


def _with_gpus(client: Kubernetes, cluster: ExistingCluster) -> list[Object]:
    """Return the nodes of the pools, and others on which the GPU operator would find GPUs."""
    return [
        node
        for node in nodes.live(client)
        if _in_pools(node, cluster)
        or set(_GPU_LABELS) & _labels(node).keys()
        or _allocatable(node).get(_GPU, "0") != "0"
    ]


def _named(members: list[Object]) -> str:
    names = [str(node["metadata"]["name"]) for node in members]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def _grouped(members: list[Object], kind: Callable[[Object], str]) -> dict[str, list[Object]]:
    groups: dict[str, list[Object]] = {}
    for node in members:
        groups.setdefault(kind(node), []).append(node)
    return groups


def _listed(groups: Mapping[str, list[Object]]) -> str:
    return "; ".join(f"{name}: {_named(having)}" for name, having in sorted(groups.items()))


def distribution(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Compare the nodes' kubelets with the stack's distribution."""
    chosen = cluster.platform.distribution
    others: dict[str, list[Object]] = {}
    members = _members(client, cluster)
    for node in members:
        if (name := _distribution(node)) != chosen:
            others.setdefault(name, []).append(node)
    for name, wrong in others.items():
        yield failed(f"{_named(wrong)}: kubelet is of {name}, and platform.distribution {chosen!r}")
    if members and not others:
        yield ok(f"{len(members)} kubelets are of {chosen}, as far as their versions tell")


def _distribution(node: Object) -> str:
    if _MICROK8S in (node["metadata"].get("labels") or {}):
        return "microk8s"
    return next(
        (name for name, end in _SUFFIXES.items() if end in _kubelet_version(node)), "kubeadm"
    )


def _kubelet_version(node: Object) -> str:
    return str(node["status"]["nodeInfo"]["kubeletVersion"])


def kubelet(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Compare kubelet's directory with the one that DaemonSets of the cluster mount.

    Any CSI driver's node plugin and device plugin mounts a directory below it.
    """
    paths = platform_of(cluster).node_paths(cluster)
    own = paths.kubelet
    # MicroK8s' own is behind a link from the usual one: either is right.
    right = {own, KUBELET} if paths.linked else {own}
    used: dict[str, list[str]] = {}
    for item in client.list("/apis/apps/v1/daemonsets"):
        for volume in item["spec"]["template"]["spec"].get("volumes") or ():
            path = str((volume.get("hostPath") or {}).get("path", ""))
            for below in ("/plugins", "/pods", "/device-plugins"):
                if "kubelet" in path and below in path:
                    used.setdefault(path.partition(below)[0], []).append(item["metadata"]["name"])
    for path, names in sorted(used.items()):
        users = ", ".join(sorted(set(names)))
        if path in right:
            yield ok(f"{users} mount {path}")
        else:
            yield failed(f"{users} mount {path}, and the stack takes kubelet to be in {own}")
    if not used:
        yield unknown("no DaemonSet mounts kubelet's directory, which its API does not tell")


def runtime(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Look for a runtime that gives pods their GPUs, of one kind where an operator sets it up."""
    own = cluster.gpu_operator
    host = own is not None and own.toolkit == "host"
    brought = own is not None and not host
    toolkit = platform_of(cluster).node_paths(cluster).toolkit if brought else {}
    reads_file = toolkit.get("RUNTIME_CONFIG_SOURCE") == "file"
    for version, having in sorted(_grouped(_members(client, cluster), _runtime).items()):
        if not version.startswith(_RUNTIMES):
            yield failed(f"{_named(having)}: the runtime is {version}, not containerd or CRI-O")
        elif own is not None and _older(version, _CDI):
            yield failed(
                f"{_named(having)}: {version} is too old for what the GPU operator's device plugin "
                "writes of GPUs (CDI): pods that ask for one would not start",
                "move the nodes to containerd 1.7.16 or newer, or to CRI-O 1.30 or newer",
            )
        elif own is not None and own.driver == "host" and _older(version, _CDI_OF_GROUPS):
            yield unknown(
                f"{_named(having)}: {version} reads no CDI 0.7, in which the GPU operator's device "
                "plugin writes of GPUs where nvidia_drm is loaded: pods that ask for one would not "
                "start there",
                "move the nodes to containerd 1.7.16 or newer, or see that none loads nvidia_drm",
            )
        elif toolkit and version.startswith("cri-o://"):
            yield failed(
                f"{_named(having)}: the GPU operator's toolkit is set up for containerd, and "
                f"{version} would not start again",
                "install the toolkit in the nodes' images (`gpu_operator.toolkit: host`)",
            )
        # Where a file names runtimes its decoder forgets the default, runc (containerd v1.7.30,
        # vendor/github.com/pelletier/go-toml, valueFromTree); the toolkit's names config.toml's
        # and its own.
        elif reads_file and version.startswith("containerd://1."):
            yield unknown(
                f"{_named(having)}: under the GPU operator's toolkit {version} keeps the runtime "
                "runc only where its config.toml names it, which its API does not tell: else the "
                "node is not ready",
                'in config.toml `[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]`, '
                'with `runtime_type = "io.containerd.runc.v2"`',
            )
        elif host and version.startswith("containerd://1."):
            yield unknown(
                f"{_named(having)}: {version} has CDI off by default, and tells nobody whether it "
                "was turned on",
                "`enable_cdi = true` in its configuration, and a restart",
            )
        else:
            yield ok(f"{len(having)} nodes run {version}")
    kinds = _grouped(_with_gpus(client, cluster), lambda node: _runtime(node).partition(":")[0])
    if own is not None and not host and len(kinds) > 1:
        yield failed(
            "the GPU operator's toolkit is for one runtime, and nodes of another offer no GPU: "
            + _listed(kinds),
            "give all nodes with GPUs one, or install the toolkit in their images "
            "(`gpu_operator.toolkit: host`)",
        )


def _runtime(node: Object) -> str:
    return str(node["status"]["nodeInfo"]["containerRuntimeVersion"])


def _older(version: str, oldest: Mapping[str, tuple[int, ...]]) -> bool:
    match = _VERSION.match(version)
    if match is None or match[1] not in oldest:
        return False
    return tuple(map(int, match.groups()[1:])) < oldest[match[1]]


def driver(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Look for the driver that the host is to bring."""
    if cluster.gpu_operator is None or cluster.gpu_operator.driver != "host":
        return
    members = _members(client, cluster)
    having = [n for n in members if _DRIVER in (n["metadata"].get("labels") or {})]
    if not having:
        yield unknown(f"no node has the label {_DRIVER}, and a driver is seen by nothing else")
        return
    versions = sorted({n["metadata"]["labels"][_DRIVER] for n in having})
    lacking = [node for node in members if node not in having]
    if lacking:
        yield failed(f"{_named(lacking)}: without the driver that the others have")
    else:
        yield ok(f"{len(having)} nodes have driver {', '.join(versions)}")


def system(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Compare the nodes' systems, where the operator takes one node's for that of all."""
    if cluster.gpu_operator is None or cluster.gpu_operator.driver != "operator":
        return
    systems = _grouped(_with_gpus(client, cluster), _release)
    those = _listed(systems)
    if len(systems) > 1:
        yield failed(
            f"the GPUs' driver would load on nodes of one system alone, and these differ: {those}"
        )
    else:
        yield ok(f"all nodes with GPUs run one system: {those}")


def _release(node: Object) -> str:
    image = str(node["status"]["nodeInfo"]["osImage"])
    match = _SYSTEM.match(image)
    return match[0] if match else image


def labels(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Look for the labels that operators wait for, and for the one that keeps an operator off."""
    members = _members(client, cluster)
    findings = [*_operands_off(members, cluster), *_missing_labels(client, members, cluster)]
    yield from findings or [ok(f"{len(members)} nodes have the labels that operators wait for")]


def _labels(node: Object) -> Object:
    result: Object = node["metadata"].get("labels") or {}
    return result


def _operands_off(members: list[Object], cluster: ExistingCluster) -> Iterator[Finding]:
    off = [node for node in members if _labels(node).get(_OPERANDS) == "false"]
    if off and cluster.gpu_operator is not None:
        yield failed(
            f"{_named(off)}: with {_OPERANDS}=false, by which the GPU operator brings nothing",
            f"`kubectl label nodes NODE {_OPERANDS}-`",
        )


def _missing_labels(
    client: Kubernetes, members: list[Object], cluster: ExistingCluster
) -> Iterator[Finding]:
    """Yield what the cluster's own Node Feature Discovery lacks, where the stack counts on it."""
    gpus, network = cluster.gpu_operator, cluster.fabric.nic_operator
    # Beside the network operator the GPU operator's own never runs.
    operator = network or gpus
    if operator is None or operator.nfd != "existing":
        return
    if _NFD_GROUP not in {group["name"] for group in client.get("/apis")["groups"]}:
        yield failed(f"Node Feature Discovery does not run here: nobody serves {_NFD_GROUP}")
        return
    nics = network is not None and network.loads_driver
    # Of several labels a node needs any one.
    for keys in (
        *((_GPU_LABELS,) if gpus is not None else ()),
        *((key,) for key in _SYSTEM_LABELS if nics or gpus is not None),
        *(((_KERNEL_LABEL,),) if nics else ()),
    ):
        if lacking := [node for node in members if not set(keys) & _labels(node).keys()]:
            yield failed(f"{_named(lacking)}: without the label {' or '.join(keys)}")


def modules(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Look for the NICs' kernel module, as Node Feature Discovery read it."""
    if cluster.fabric.kind not in ("infiniband", "roce"):
        return
    try:
        features = client.list(_FEATURES)
    except ApiError as error:
        if not error.not_found:
            raise
        features = []
    loaded = {
        item["metadata"]["labels"][_NODE_NAME]: item["spec"]["features"]["flags"]
        for item in features
        if _NODE_NAME in (item["metadata"].get("labels") or {})
        and _MODULES in ((item["spec"].get("features") or {}).get("flags") or {})
    }
    if not loaded:
        yield unknown("Node Feature Discovery does not run here, and modules are seen by no other")
        return
    for node in _members(client, cluster):
        name = node["metadata"]["name"]
        elements = loaded.get(name, {}).get(_MODULES, {}).get("elements") or {}
        lacking = [module for module in _SWITCHES if module not in elements]
        if "mlx5_core" not in elements:
            yield failed(f"{name}: the module mlx5_core is not loaded")
        elif held := list(_holding_modules(name, elements, cluster)):
            yield from held
        elif lacking and _behind_switches(node, cluster):
            yield failed(
                f"{name}: {' and '.join(lacking)} not loaded, through which Fabric Manager reaches "
                "NVSwitches of this generation: no CUDA program would start"
            )
        elif cluster.gpu_operator and cluster.gpu_operator.gpudirect == "peermem":
            yield _peermem(name, elements, cluster)
        else:
            yield ok(f"{name}: mlx5_core is loaded")


def _holding_modules(name: str, elements: Object, cluster: ExistingCluster) -> Iterator[Finding]:
    """Yield the modules that keep a driver in a container from replacing the host's."""
    ofed = getattr(cluster.fabric.nic_operator, "ofed", None)
    if ofed is None:
        return
    for variable, holding in _HOLDING.items():
        loaded = [module for module in holding.split() if module in elements]
        if loaded and ofed.environment.get(variable) != "true":
            yield failed(
                f"{name}: {', '.join(loaded)} loaded, which hold the host's driver: that of `ofed` "
                "would not load",
                f"`ofed.environment: {{{variable}: 'true'}}` unloads them; or blacklist them",
            )


def _behind_switches(node: Object, cluster: ExistingCluster) -> bool:
    """Return whether a node's NVSwitches are on an InfiniBand whose driver is the host's.

    A driver in a container brings the modules, and that of the GPUs waits for it.
    """
    network = cluster.fabric.nic_operator
    if network is not None and network.loads_driver:
        return False
    labels = node["metadata"].get("labels") or {}
    return any(
        MACHINES[pool.instance_type].switches_behind_infiniband
        for pool in cluster.pools
        if pool.node_selector.items() <= labels.items()
    )


def _peermem(name: str, elements: Object, cluster: ExistingCluster) -> Finding:
    by_host = cluster.gpu_operator is not None and cluster.gpu_operator.driver == "host"
    if by_host and "nvidia_peermem" not in elements:
        return failed(f"{name}: nvidia_peermem is not loaded, which gpudirect: peermem needs")
    return ok(f"{name}: mlx5_core is loaded")


def functions(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Look for nodes that the SR-IOV operator would take for virtual machines."""
    if "sriov" not in cluster.fabric.row.operators:
        return
    members = _members(client, cluster)
    virtual = [node for node in members if any(cloud in _provider(node) for cloud in _VIRTUAL)]
    if virtual:
        yield failed(
            f"{_named(virtual)}: with a providerID that has {' or '.join(_VIRTUAL)}, by which the "
            "SR-IOV operator takes a node for a virtual machine: it would make no function there"
        )
    else:
        yield ok(f"{len(members)} nodes are machines to the SR-IOV operator")


def _provider(node: Object) -> str:
    return str((node.get("spec") or {}).get("providerID") or "").lower()


def operators(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Look for operators of others that the stack would install as well."""
    wanted = releases(cluster)
    served = {group["name"] for group in client.get("/apis")["groups"]}
    taken = sorted(served & wanted.keys())
    if not taken:
        yield ok(f"nobody serves {', '.join(sorted(wanted))}")
        return
    definitions = client.list("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    for group in taken:
        owners = {_owner(item) for item in definitions if item["spec"]["group"] == group}
        yield failed(
            f"{group} is served already, by {', '.join(sorted(owners)) or 'an aggregated API'}; "
            f"the stack installs {wanted[group]}"
        )


def _owner(item: Object) -> str:
    notes = item["metadata"].get("annotations") or {}
    name, namespace = notes.get(f"{_RELEASE}name"), notes.get(f"{_RELEASE}namespace")
    return f"release {namespace}/{name}" if name else f"definition {item['metadata']['name']}"


def releases(cluster: ExistingCluster) -> dict[str, str]:
    """Return API group -> the release of the stack that brings it."""
    combination, brings = COMBINATIONS[cluster.versions], {}
    for controller in combination.controllers:
        if controller.name != "kueue" or cluster.queueing.scheduler == "kueue":
            brings[_GROUPS[controller.name]] = controller.name
    parts: dict[str, Controller | Part] = {
        name: combination.addon(name) for name in addons(cluster)
    }
    network = getattr(cluster.fabric, "network_operator", None)
    if network is not None and "sriov" in cluster.fabric.row.operators:
        # Its chart is within the network operator's.
        parts["sriov-network-operator"] = combination.parts["sriov-network-operator"]
    for name, part in parts.items():
        for kind in part.crds:
            brings[kind.partition(".")[2].partition("/")[0]] = name
    if any(part is not None and part.nfd == "operator" for part in (cluster.gpu_operator, network)):
        brings[_NFD_GROUP] = "node-feature-discovery"
    return brings


def storage(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Look for the storage classes of claims, and for those that the stack is to make."""
    there = {
        item["metadata"]["name"] for item in client.list("/apis/storage.k8s.io/v1/storageclasses")
    }
    nfs = cluster.platform.nfs
    made = {row.name for row in nfs.classes} if nfs else set()
    named = {claim.storage_class for claim in cluster.checkpoints}
    for name in sorted(made & there):
        yield failed(f"storage class {name} is there already, and the stack makes it")
    for name in sorted(named - made - there):
        have = ", ".join(sorted(there)) or "none"
        yield failed(f"there is no storage class {name}, which claims name; there are: {have}")
    for name in sorted(named & there - made):
        yield ok(f"storage class {name} is there")


def devices(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Look for plugins of others: none for what the stack hands out, one for what it does not."""
    members = _members(client, cluster)
    wrong = False
    for resource, ours in dict(_handed_out(cluster)).items():
        # Kubelet lists 0 for minutes after a plugin is gone.
        having = [n for n in members if _allocatable(n).get(resource, "0") != "0"]
        if ours and having:
            wrong = True
            yield failed(
                f"{_named(having)}: {resource} is there already, and the stack's plugin would be "
                "the second"
            )
        elif not ours and (lacking := [node for node in members if node not in having]):
            wrong = True
            yield failed(f"{_named(lacking)}: no {resource}, which nothing of the stack brings")
    if not wrong:
        yield ok(f"{len(members)} nodes have the devices of others, and none of the stack's")


def _allocatable(node: Object) -> Object:
    result: Object = node["status"].get("allocatable") or {}
    return result


def _handed_out(cluster: ExistingCluster) -> Iterator[tuple[str, bool]]:
    """Yield each resource that pods request, and whether a plugin of the stack's hands it out."""
    fabric = cluster.fabric
    for pool in cluster.pools:
        machine = MACHINES[pool.instance_type]
        yield machine.gpu_resource, cluster.gpu_operator is not None
        if fabric.addons() or fabric.row.needs not in _BROUGHT:
            names = fabric.pod_devices(len(machine.nics))
            yield from dict.fromkeys(names, bool(fabric.addons())).items()


def webhooks(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:  # noqa: ARG001
    """Look for webhooks of others that no pod gets past, or that may refuse the stack's."""
    judges = [(name, hook) for name, hook in _hooks(client) if _judges_pods(hook)]
    for name, hook in judges:
        if not _answers(client, hook):
            yield failed(
                f"{name} must pass every pod, and nothing answers for it: no pod starts",
                "repair its service, or delete its configuration",
            )
    if judges:
        named = ", ".join(name for name, _ in judges)
        yield unknown(f"pods must pass {named}; whether the stack's do is seen by `up` alone")
    else:
        yield ok("no webhook of others must pass the stack's pods")


def _hooks(client: Kubernetes) -> Iterator[tuple[str, Object]]:
    """Yield every webhook of admission with its name for people."""
    for kind in ("mutating", "validating"):
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
        for item in client.list(path):
            for hook in item.get("webhooks") or ():
                yield f"{item['metadata']['name']}/{hook['name']}", hook


def _judges_pods(hook: Object) -> bool:
    return hook.get("failurePolicy", "Fail") == "Fail" and any(
        {"*", "CREATE"} & set(rule.get("operations") or ())
        and {"*", ""} & set(rule.get("apiGroups") or ())
        and {"*", "*/*", "pods"} & set(rule.get("resources") or ())
        for rule in hook.get("rules") or ()
    )


def _answers(client: Kubernetes, hook: Object) -> bool:
    service = hook["clientConfig"].get("service")
    if service is None:
        return True
    slices = client.list(
        f"/apis/discovery.k8s.io/v1/namespaces/{service['namespace']}/endpointslices",
        selector=f"kubernetes.io/service-name={service['name']}",
    )
    return any(
        (endpoint.get("conditions") or {}).get("ready") is not False
        for item in slices
        for endpoint in item.get("endpoints") or ()
    )


def names(client: Kubernetes, cluster: ExistingCluster) -> Iterator[Finding]:
    """Look for namespaces of others that have a name of the stack's."""
    there = {item["metadata"]["name"]: item for item in client.list("/api/v1/namespaces")}
    wanted = {c.namespace for c in COMBINATIONS[cluster.versions].controllers}
    taken = sorted(wanted & there.keys())
    for name in cluster.training_namespaces:
        labels = (there.get(name, {}).get("metadata") or {}).get("labels") or {}
        # Those that an earlier stack left for their claims are taken over.
        if name in there and not (MANAGED in labels and TRAINING_LABEL in labels):
            taken.append(name)
    for name in taken:
        yield failed(f"namespace {name} is there already")
    if not taken:
        yield ok(f"none of {len(wanted) + len(cluster.training_namespaces)} namespaces is there")


ASKER = Asker(
    opened=opened,
    checks={
        "identity": identity,
        "kubernetes": kubernetes,
        "pools": pools,
        "controllers": controllers,
        "distribution": distribution,
        "kubelet": kubelet,
        "runtime": runtime,
        "driver": driver,
        "system": system,
        "labels": labels,
        "modules": modules,
        "functions": functions,
        "operators": operators,
        "devices": devices,
        "storage": storage,
        "webhooks": webhooks,
        "names": names,
    },
)
