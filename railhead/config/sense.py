"""Values that are well-formed and mean nothing.

What cannot be meant is a problem (:func:`problems`, :func:`texts`); what may be is a doubt
(:mod:`railhead.config.doubts`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from railhead.base import quantity, secrets
from railhead.base.fields import MIB, MalformedError
from railhead.base.sections import Problem, each, knowing, known, told
from railhead.base.wide import covered, too_wide
from railhead.catalog.switches import SWITCHES
from railhead.catalog.versions import COMBINATIONS, ModuleChart
from railhead.contract import NAMESPACE
from railhead.framework import FRAMEWORKS
from railhead.machines import MACHINES
from railhead.machines.accelerators import ACCELERATORS
from railhead.model import namespaces
from railhead.model.cluster import HOSTNAME_LEVEL, Cluster, Pool, RuntimeConfig
from railhead.platform.base import Platform
from railhead.platform.registry import PLATFORMS

GIB = 1024 * MIB
# A text of the file; a variable's value may be as long as Linux lets one be (MAX_ARG_STRLEN).
_LONGEST, _LONGEST_VALUE = 1024, 128 * 1024 - 256
# Kueue's Topology takes no more (kueue.x-k8s.io_topologies, spec.levels).
_MOST_LEVELS = 16
# Of the node or of the container runtime; a volume there hides what programs need.
_TAKEN_PATHS = (
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr",
    "/var/run",
    # Of images: libfabric and the plugins of AWS' (aws-ofi-nccl), HPC-X and Conda of NVIDIA's.
    "/opt/amazon", "/opt/conda", "/opt/hpcx", "/opt/nvidia",
)  # fmt: skip
_OF_KUBERNETES_ITSELF = "Kubernetes' own"
_OF_KUBERNETES = ("default", "kube-node-lease", "kube-public", "kube-system")
_GATE_NAMESPACE = "railhead-gate"
# The defaults of an image that a stack's variable would take away from every program in it.
_OF_THE_IMAGE = ("HOME", "LD_PRELOAD", "PATH", "PYTHONHOME")
# Which GPUs a process sees is the device plugin's to say, and its launcher's.
_OF_THE_DEVICES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")
# What kubelet puts on a node, where the catalogue says what it must be.
_OS, _ARCHITECTURE = "kubernetes.io/os", "kubernetes.io/arch"
# What NVIDIA's GPU feature discovery puts there (k8s-device-plugin, docs/gpu-feature-discovery).
_GPU_COUNT, _GPU_PRODUCT = "nvidia.com/gpu.count", "nvidia.com/gpu.product"


def texts(raw: Any) -> Iterator[Problem]:
    """Yield what is wrong with any text of a cluster, keys too, whatever its field."""
    yield from _texts(raw, "", 0)


def _texts(value: Any, path: str, depth: int) -> Iterator[Problem]:
    if depth > 32:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            where = f"{path}.{key}" if path else str(key)
            if isinstance(key, str) and (why := _unprintable(key)):
                yield path, f"the key {key!r} {why}"
            yield from _texts(inner, where, depth + 1)
    elif isinstance(value, list):
        for index, (where, inner) in enumerate(each(value, path)):
            if isinstance(inner, str | int | Mapping) and inner in value[:index]:
                yield where, f"is the same as [{value.index(inner)}] of the list; take one away"
            yield from _texts(inner, where, depth + 1)
    elif isinstance(value, str):
        yield from _text(value, path)


def _text(value: str, path: str) -> Iterator[Problem]:
    variable = ".environment." in f".{path}"
    longest = _LONGEST_VALUE if variable else _LONGEST
    if len(value) > longest:
        yield path, f"a text of {len(value)} characters is longer than {longest}"
    elif secrets.token(value):
        yield (
            path,
            "looks like a token, a key or a password, which the state, the contract and every pod "
            "would show: keep it in a Secret of the namespace, and take it out of the file",
        )
    elif not variable and (why := _unprintable(value)):
        yield path, f"{value!r} {why}"
    elif variable and "\0" in value:
        yield path, f"{value!r} has a NUL in it, which no variable can hold"


def _unprintable(text: str) -> str:
    if text != text.strip():
        return "starts or ends with white space; take it away"
    alphabets: set[str] = set()
    # Printable ASCII, which nearly all is, has one alphabet and no such characters.
    for character in "" if text.isascii() and text.isprintable() else text:
        # Control characters, and invisible ones: zero-width, direction marks, soft hyphens.
        if character.isalpha():
            alphabets.add(unicodedata.name(character, "").partition(" ")[0])
        if unicodedata.category(character) in ("Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"):
            return f"has a character that cannot be seen, {character!a}; take it away"
    # Letters that look alike: the text is not what it seems.
    if "LATIN" in alphabets and alphabets & {"CYRILLIC", "GREEK", "FULLWIDTH"}:
        return f"mixes letters of {' and '.join(sorted(alphabets))}, of which some look alike"
    if match := re.search(r"\$[({]|`", text):
        return f"has {match[0]!r} in it; nothing is expanded in a stack's file"
    return ""


def _platform(cluster: Cluster) -> Platform[Any]:
    """Return the cluster's platform.

    Raises:
        MalformedError: it is not known, so nothing can be said of it.
    """
    kind = cluster.platform.kind
    if kind not in PLATFORMS:
        raise MalformedError("platform.kind")
    return PLATFORMS[kind]


def _larger_than_the_node(cluster: Cluster) -> Iterator[Problem]:
    _platform(cluster)
    pools = {name: pool for _, pool, name in knowing(cluster.pools, "pools", lambda p: p.name)}
    for path, runtime, pool in knowing(cluster.runtimes, "runtimes", lambda r: pools.get(r.pool)):
        if pool is not None:
            yield from told(_cpus, path, runtime, pool)
            yield from told(_memory, path, runtime, pool)
        yield from told(_shared_memory, path, runtime)
        yield from told(_disk, path, runtime)


def _charged_by_template(cluster: Cluster) -> Iterator[Problem]:
    """Yield what a Kueue cannot charge that reads gangs in their runtimes' templates alone."""
    if COMBINATIONS[cluster.versions].gang_charge != "template":
        return
    for path, runtime, name in knowing(cluster.runtimes, "runtimes", lambda r: r.framework):
        if runtime.disk:
            yield (
                f"{path}.disk",
                f"the Kueue of {cluster.versions!r} admits no job with such a limit",
            )
        if FRAMEWORKS[name].servers:
            yield (
                f"{path}.framework",
                f"{name!r} has a template for its launcher and one for the other nodes, and the "
                f"Kueue of {cluster.versions!r} charges the whole gang for each of them; take "
                "other versions, or leave the runtime out",
            )


def _more_than_the_machine(cluster: Cluster) -> Iterator[Problem]:
    """Yield schedulable CPUs and memory beyond what a pool's machines have."""
    pools = knowing(
        cluster.pools, "pools", lambda p: (MACHINES[p.instance_type], p.schedulable_resources)
    )
    for path, _, (machine, (cpus, gib)) in pools:
        if machine.vcpus is not None and cpus > machine.vcpus:
            yield f"{path}.schedulable.cpu", f"{cpus} is more than the {machine.vcpus} of a node"
        if machine.memory_gib is not None and gib > machine.memory_gib:
            yield (
                f"{path}.schedulable.memory_gib",
                f"{gib} is more than the {machine.memory_gib} GiB of a node",
            )


def _cpus(path: str, runtime: RuntimeConfig, pool: Pool) -> Iterator[Problem]:
    cpus, _ = pool.schedulable_resources
    if quantity.parse(runtime.cpu) > cpus:
        yield (
            f"{path}.cpu",
            f"{runtime.cpu!r} is more than the {cpus} CPUs that pods can request on a node of "
            f"pool {pool.name!r}, so no job would ever start",
        )


def _memory(path: str, runtime: RuntimeConfig, pool: Pool) -> Iterator[Problem]:
    _, gib = pool.schedulable_resources
    if quantity.parse(runtime.memory) > gib * GIB:
        yield (
            f"{path}.memory",
            f"{runtime.memory!r} is more than the {gib}Gi that pods can request on a node of pool "
            f"{pool.name!r}, so no job would ever start",
        )


def _disk(path: str, runtime: RuntimeConfig) -> Iterator[Problem]:
    disk, scratch = runtime.disk, runtime.scratch
    if disk and scratch and quantity.parse(disk) < quantity.parse(scratch.size):
        yield (
            f"{path}.disk",
            f"{disk!r} is less than the {scratch.size!r} of its scratch, which counts toward it: a "
            "job that used it would be ended",
        )


def _shared_memory(path: str, runtime: RuntimeConfig) -> Iterator[Problem]:
    own = runtime.shared_memory
    if own is None:
        return
    if quantity.parse(own) > quantity.parse(runtime.memory):
        yield (
            f"{path}.shared_memory",
            f"{own!r} is more than the runtime's memory, {runtime.memory!r}, as which it counts: "
            "a job that used it would be killed",
        )
    if quantity.parse(own) <= quantity.RUNTIME_SHM:
        yield (
            f"{path}.shared_memory",
            f"{own!r} is no more than every container has without it, which data loaders and NCCL "
            "exceed; leave it out, or give it more",
        )


def _controllers(cluster: Cluster) -> Iterator[Problem]:
    own = cluster.controllers
    if own is not None and quantity.parse(own.memory) > quantity.parse(own.memory_limit):
        yield (
            "controllers.memory_limit",
            f"{own.memory_limit!r} is less than the {own.memory!r} that they request",
        )


def _namespaces(cluster: Cluster) -> Iterator[Problem]:
    combination = known(lambda: COMBINATIONS[cluster.versions])
    parts = (combination.kueue, combination.jobset, combination.trainer) if combination else ()
    taken = dict.fromkeys(_OF_KUBERNETES, _OF_KUBERNETES_ITSELF)
    taken |= {part.namespace: f"{part.name}'s" for part in parts}
    taken |= dict.fromkeys((NAMESPACE, _GATE_NAMESPACE), "Railhead's own")
    if combination:
        names = known(lambda: cluster.fabric.addons()) or ()  # noqa: PLW0108 - read inside
        taken |= {combination.addon(n).namespace: f"{n}'s" for n in (*names, "gpu-operator")}
    for path, name in namespaces.said(cluster):
        if name in taken or name.startswith("kube-"):
            yield (
                path,
                f"{name!r} is {taken.get(name, _OF_KUBERNETES_ITSELF)}: jobs, their guards and "
                "their network policies need a namespace of their own",
            )
    jobs = [name for _, name in namespaces.said(cluster)]
    own = cluster.watching.namespace
    if own in taken or own in jobs:
        yield (
            "watching.namespace",
            f"{own!r} is {taken.get(own, 'one that jobs run in')}; alerts and what they read have "
            "a namespace of their own",
        )


def _mount_paths(cluster: Cluster) -> Iterator[Problem]:
    claims = knowing(cluster.checkpoints, "checkpoints", lambda claim: claim.mount_path)
    sets = knowing(cluster.datasets, "datasets", lambda one: one.mount_path)
    scratch = (
        (f"{path}.scratch", runtime, own.mount_path)
        for path, runtime, own in knowing(cluster.runtimes, "runtimes", lambda r: r.scratch)
        if own is not None
    )
    for path, _, at in (*claims, *sets, *scratch):
        for taken in _TAKEN_PATHS:
            if at == taken or at.startswith(f"{taken}/"):
                yield (
                    f"{path}.mount_path",
                    f"{at!r} would hide the container's own {taken}; mount it elsewhere, such as "
                    "at /checkpoints",
                )
                break


def _levels(cluster: Cluster) -> Iterator[Problem]:
    if len(cluster.topology) > _MOST_LEVELS:
        yield "topology", f"{len(cluster.topology)} levels; Kueue takes {_MOST_LEVELS}"
    order = _platform(cluster).levels
    last = ""
    for path, _, label in knowing(cluster.topology, "topology", str):
        if label not in order:
            continue
        if last and order.index(label) < order.index(last):
            yield path, f"{label!r} is wider than {last!r} before it; write the widest first"
        last = label


def _of_another_platform(cluster: Cluster) -> Iterator[Problem]:
    """Yield labels that only nodes of another platform have, so that no pod would be placed."""
    kind = cluster.platform.kind
    if not _platform(cluster).knows_labels:
        return
    domains = {
        domain: other.kind
        for other in PLATFORMS.values()
        for domain in other.label_domains
        if other.kind != kind
    }
    for path, label in _labels(cluster):
        domain = label.partition("/")[0] if "/" in label else ""
        for theirs, other in domains.items():
            if domain == theirs or domain.endswith(f".{theirs}"):
                yield path, f"{label!r} is on nodes of platform {other!r} only, not of {kind!r}"


def _labels(cluster: Cluster) -> Iterator[tuple[str, str]]:
    for path, _, label in knowing(cluster.topology, "topology", str):
        yield path, label
    pools = knowing(cluster.pools, "pools", lambda pool: tuple(pool.node_selector))
    for path, _, keys in pools:
        for key in keys:
            yield f"{path}.node_selector.{key}", key


def _versions(cluster: Cluster) -> Iterator[Problem]:
    if _platform(cluster).standing:
        return
    combination = COMBINATIONS[cluster.versions]
    parts = (combination.kueue, combination.jobset, combination.trainer)
    if any(isinstance(part.chart, ModuleChart) for part in parts):
        usable = sorted(
            name
            for name, other in COMBINATIONS.items()
            if not isinstance(other.kueue.chart, ModuleChart)
        )
        yield (
            "versions",
            f"{cluster.versions!r} takes its charts from the lab's own build, and is not for "
            f"platform {cluster.platform.kind!r}; there are: {', '.join(usable)}",
        )


def _tolerations(cluster: Cluster) -> Iterator[Problem]:
    """Yield what the API server refuses (kubernetes, pkg/apis/core/validation, Tolerations)."""
    for path, _, rows in knowing(cluster.pools, "pools", lambda pool: pool.tolerations):
        for where, row in each(rows, f"{path}.tolerations"):
            yield from told(_toleration, where, row)


def _toleration(path: str, row: Any) -> Iterator[Problem]:
    if row.operator == "Exists" and row.value:
        yield f"{path}.value", f"{row.value!r} goes with operator Equal; Exists takes none"
    if row.operator == "Equal" and row.key is None:
        yield f"{path}.key", "is missing, and operator Equal needs it"


def _taints(cluster: Cluster) -> Iterator[Problem]:
    """Yield taints that share key and effect (pkg/apis/core/validation, ValidateNode)."""
    for path, _, rows in knowing(cluster.pools, "pools", lambda p: getattr(p, "taints", ())):
        seen: dict[tuple[str, str], str] = {}
        taints = knowing(rows, f"{path}.taints", lambda row: (row.key, row.effect))
        for where, _, (key, effect) in taints:
            if seen.setdefault((key, effect), where) != where:
                yield where, f"{key!r} {effect} is at {seen[key, effect]} already; keep one"


def _secrets(cluster: Cluster) -> Iterator[Problem]:
    for path, names in _environments(cluster):
        for name, value in names.items():
            where = f"{path}.{name}"
            if value and secrets.CREDENTIAL.search(name):
                yield (
                    where,
                    "is named like a secret, which the state, the contract and every pod would "
                    "show: keep it in a Secret of the namespace, and take it out of the file",
                )
            if name in _OF_THE_IMAGE:
                yield where, "would replace the image's own for every program in it; leave it out"
            if name not in SWITCHES and name.upper() in SWITCHES:
                yield (
                    where,
                    f"is read by nothing, for names know letters apart; {name.upper()} is the "
                    "fabric's to set: leave it out",
                )


def _environments(cluster: Cluster) -> Iterator[tuple[str, Mapping[str, str]]]:
    for path, _, names in knowing(cluster.runtimes, "runtimes", lambda row: dict(row.environment)):
        yield f"{path}.environment", names
    if common := known(lambda: dict(cluster.fabric.environment)):
        yield "fabric.environment", common


def _wiring(cluster: Cluster) -> Iterator[Problem]:
    """Yield variables that must differ by job: one value for all would keep processes apart."""
    reads = knowing(
        cluster.runtimes, "runtimes", lambda r: (FRAMEWORKS[r.framework], r.environment)
    )
    for path, _, (framework, environment) in reads:
        for name in environment:
            where = f"{path}.environment.{name}"
            if name in framework.reserved:
                yield (
                    where,
                    f"is set by {framework.reserved[name]} for each job; one value for all of them "
                    "would keep their processes apart: leave it out",
                )
            elif name in _OF_THE_DEVICES:
                yield where, "would hide GPUs that a job pays for from its processes; leave it out"


def _selectors(cluster: Cluster) -> Iterator[Problem]:
    pools = knowing(cluster.pools, "pools", lambda p: (MACHINES[p.instance_type], p.node_selector))
    for path, pool, (machine, labels) in pools:
        expected = {_OS: "linux", _ARCHITECTURE: machine.architecture}
        expected |= {} if machine.stand_in else {_GPU_COUNT: str(machine.gpus)}
        for key, is_ in expected.items():
            if labels.get(key, is_) != is_:
                yield (
                    f"{path}.node_selector.{key}",
                    f"{labels[key]!r} is on no {machine.name!r}, which has {is_!r}",
                )
        gpu = ACCELERATORS.get(machine.accelerator or "")
        product = labels.get(_GPU_PRODUCT, "")
        if gpu and product and gpu.product.split()[1] not in product:
            yield (
                f"{path}.node_selector.{_GPU_PRODUCT}",
                f"{product!r} is on no {machine.name!r}, whose GPUs are {gpu.product!r}",
            )
        if HOSTNAME_LEVEL in labels and known(lambda: pool.nodes) != 1:  # noqa: B023 - read at once
            yield (
                f"{path}.node_selector.{HOSTNAME_LEVEL}",
                f"{labels[HOSTNAME_LEVEL]!r} is one node, and the pool has several; name a label "
                "that they share",
            )


def _nobody_lives_there(cluster: Cluster) -> Iterator[Problem]:
    for path, network in _platform(cluster).networks(cluster):
        if network.is_loopback or network.is_multicast or network.is_link_local:
            yield path, f"{str(network)!r} is no network that machines or people have addresses of"


def _mirrors(cluster: Cluster) -> Iterator[Problem]:
    for registry, mirror in cluster.registry_mirrors.items():
        host = mirror.partition("/")[0]
        if registry == mirror:
            yield f"registry_mirrors.{registry}", "is its own mirror; leave it out"
        elif host in cluster.registry_mirrors:
            yield (
                f"registry_mirrors.{registry}",
                f"{mirror!r} is at {host!r}, which has a mirror itself, and is asked all the same: "
                "name the last of them",
            )


def _gpu_operator(cluster: Cluster) -> Iterator[Problem]:
    own = cluster.gpu_operator
    if own is not None and own.driver == "host" and own.driver_version is not None:
        yield (
            "gpu_operator.driver_version",
            f"{own.driver_version!r} is of the operator's container, and the driver is the nodes' "
            "own: leave it out, or write `driver: operator`",
        )
    if own is not None and own.driver == "host" and own.driver_environment:
        yield (
            "gpu_operator.driver_environment",
            "is of the operator's container, and the driver is the nodes' own: leave it out, or "
            "write `driver: operator`",
        )
    if own is not None and own.driver == "host" and own.gdrcopy:
        # gpu-operator v26.7.0: its installer is a container of the driver's DaemonSet alone, and
        # the device plugin's entrypoint asks lsmod (assets/state-device-plugin).
        yield (
            "gpu_operator.gdrcopy",
            "the operator brings gdrdrv with its own driver only; where the nodes' image loads it, "
            "as EKS' do since August 2026, pods get it without this: remove it",
        )


def _shared_gpus(cluster: Cluster) -> Iterator[Problem]:
    """Yield quotas with parts of devices, which are whole (Kubernetes, extended resources)."""
    for path, team in each(cluster.teams, "teams"):
        shares = knowing(team.shares, f"{path}.shares", lambda share: share.quota)
        for where, _, quota in shares:
            for name, text in quota.items():
                if "/" in name and quantity.parse(text) % 1:
                    yield f"{where}.quota.{name}", f"{text!r} is no whole number, and devices are"


def _open(cluster: Cluster) -> Iterator[Problem]:
    """Yield networks that let in much of the world, each by itself or all together."""
    endpoint = getattr(cluster.platform, "endpoint", None)
    for field in ("from_cidrs", "authorized_networks"):
        path = f"platform.endpoint.{field}"
        networks = [(where, n) for where, n, _ in knowing(getattr(endpoint, field, ()), path, str)]
        wide = [(where, n) for where, n in networks if too_wide(n)]
        for where, network in wide:
            yield (
                where,
                f"{network!r} is much of the internet; name the networks that may reach the API "
                "server",
            )
        if not wide and too_wide(covered(n for _, n in networks)):
            yield path, "together these are much of the internet; name networks of your own"


def _name_servers(cluster: Cluster) -> Iterator[Problem]:
    path = "network_policy.dns"
    for where, network, _ in knowing(cluster.network_policy.dns, path, str):
        if too_wide(network):
            yield where, f"{network!r} is no name server; name its address, such as 10.0.0.2/32"


_CHECKS: tuple[Callable[[Cluster], Iterator[Problem]], ...] = (
    _larger_than_the_node,
    _charged_by_template,
    _more_than_the_machine,
    _controllers,
    _namespaces,
    _mount_paths,
    _levels,
    _of_another_platform,
    _versions,
    _tolerations,
    _taints,
    _secrets,
    _wiring,
    _selectors,
    _nobody_lives_there,
    _mirrors,
    _gpu_operator,
    _shared_gpus,
    _open,
    _name_servers,
)


def problems(cluster: Cluster) -> Iterator[Problem]:
    """Yield every (path, message) of what cannot be meant, as far as the cluster is well-formed."""
    for check in _CHECKS:
        yield from told(check, cluster)
