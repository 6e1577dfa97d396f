"""Brings a lab up, shows its status, and removes it without a trace.

Everything that runs is a child of one init in namespaces of its own (`labagent init`), and each
node is another such init inside. `up` only ever adds what is not there, so it is also how a lab
recovers; `down` ends the one init, and the kernel takes the rest with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import tomli_w
import yaml
from pydantic import ValidationError

from railhead.base import paths
from railhead.base.errors import InputError, NotFoundError, RailheadError, TimedOutError
from railhead.lab import bootstrap, cgroups, preflight, services
from railhead.lab import spec as addresses
from railhead.lab.artifacts import Artifacts, clone_template, import_archive
from railhead.lab.pki import Authority, Pair, signing_key
from railhead.lab.processes import children, descendants, inner_pid, pss_mib
from railhead.lab.services import Service
from railhead.lab.spec import INSIDE_CACHE, INSIDE_LAB, LabSpec, inside, node_address, node_name
from railhead.lab.supervisor import Init, boot, kill_and_wait, wait_for_init

# The training namespace of the stack `lab`.
JOBS_NAMESPACE = "training"

RAIL_MTU = 9000


class Reporter(Protocol):
    """A receiver of the progress of `up`."""

    def phase(self, name: str) -> contextlib.AbstractContextManager[None]:
        """Return a step that takes noticeable time; ends with its duration."""
        ...


@dataclass(frozen=True, kw_only=True)
class Component:
    """One process of a lab, as `status` shows it. ``memory_mib`` is its proportional set size."""

    role: str
    running: bool
    pid: int | None
    memory_mib: float
    exit_code: int | None


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node as the API server sees it; ``allocatable`` holds the device resources only."""

    name: str
    ready: bool
    simulated: bool
    allocatable: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Status:
    """The state of a lab. ``memory_mib`` counts every process in it, pods included."""

    name: str
    state: str
    init_pid: int | None
    api_port: int | None
    kubeconfig: str
    components: tuple[Component, ...]
    nodes: tuple[Node, ...]
    memory_mib: float
    up_seconds: Mapping[str, float]


class Lab:
    """One lab by name, running or not."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.directory = paths.lab_dir(name)
        self.init = Init(self.directory / "run" / "init.sock")

    # -- what there is ---------------------------------------------------------------------------

    def spec(self) -> LabSpec | None:
        """Return the specification of the lab, or None when it does not exist."""
        file = self.directory / "lab.json"
        try:
            return LabSpec.model_validate_json(file.read_text())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise InputError(
                f"{file} is not readable as a lab: {error.errors()[0]['msg']}",
                remedy=f"run `railhead lab down --name {self.name}` and `up` again",
            ) from None

    def require(self) -> LabSpec:
        """Return the spec of a lab that exists; raises NotFoundError that lists those that do."""
        if spec := self.spec():
            return spec
        known = ", ".join(names()) or "none"
        raise NotFoundError(
            f"there is no lab {self.name!r}; labs on this machine: {known}",
            remedy=f"run `railhead lab up --name {self.name}`",
        )

    def node_init(self, index: int) -> Init:
        """Return the init of one node."""
        return Init(self.directory / "run" / f"node-{index}.sock")

    # -- up --------------------------------------------------------------------------------------

    def up(
        self,
        wanted: LabSpec,
        artifacts: Artifacts,
        reporter: Reporter,
        *,
        listener: socket.socket | None,
    ) -> dict[str, float]:
        """Bring the lab to ``wanted``; return the seconds that each phase took.

        What runs already stays as it is. ``listener`` is the host's loopback socket for the API
        server; None when the lab's gateway holds it already. Raises RailheadError when it
        fails.
        """
        seconds: dict[str, float] = {}

        @contextlib.contextmanager
        def phase(name: str) -> Iterator[None]:
            started = time.monotonic()
            with reporter.phase(name):
                yield
            seconds[name] = round(time.monotonic() - started, 2)

        started = time.monotonic()
        bin_dir = inside(artifacts.bin_dir, self.name)
        with phase("namespaces, certificates"):
            self._prepare(wanted)
            init = self._ensure_init(artifacts)
            self._ensure_services(init, [services.etcd(bin_dir), services.api_server(bin_dir)])
            if listener is not None:
                self._start_gateway(init, bin_dir, listener)
        with phase("node file systems, containerd"):
            with ThreadPoolExecutor(max_workers=2) as pool:
                list(pool.map(lambda i: self._ensure_node(i, wanted), range(wanted.nodes)))
            self._ensure_routes(wanted)
        with phase("API server"):
            self._wait_for_api()
        with phase("cluster services"):
            self.apply(artifacts, bootstrap.objects(network_crd=_network_crd(artifacts)))
            self._ensure_services(
                init,
                [
                    services.controller_manager(bin_dir),
                    services.scheduler(bin_dir),
                    services.coredns(bin_dir),
                    services.volume_provisioner(bin_dir),
                ],
            )
            enforced = preflight.has_ip_sets()
            for index in range(wanted.nodes):
                of_node = [
                    services.kubelet(bin_dir, wanted, index),
                    services.kube_proxy(bin_dir, index),
                    services.device_plugin(bin_dir, wanted, index),
                ]
                if enforced:
                    of_node.append(services.network_policy(bin_dir, wanted, index))
                self._ensure_services(self.node_init(index), of_node)
        with phase("nodes ready"):
            self._wait_for_nodes(wanted)
        if wanted.simulated_nodes:
            with phase(f"{wanted.simulated_nodes} simulated nodes"):
                self._ensure_simulated(init, wanted, artifacts)
        seconds["total"] = round(time.monotonic() - started, 2)
        _write(self.directory / "up.json", json.dumps(seconds))
        return seconds

    def _prepare(self, spec: LabSpec) -> None:
        """Write the lab's files that are missing: spec, credentials, configuration."""
        for part in (
            "run",
            "pki",
            "kubeconfigs",
            "config",
            "logs",
            "shared",
            "rail-ipam",
            "pulumi",
        ):
            (self.directory / part).mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o700)
        # Volumes are for pods of any user; the lab's own directory above keeps the host out.
        (self.directory / "shared").chmod(0o755)
        _write(self.directory / "lab.json", spec.model_dump_json(indent=1))
        if not (self.directory / "identity").exists():
            _write(self.directory / "identity", str(uuid.uuid4()))
        self._credentials(spec)
        config = self.directory / "config"
        _write(config / "Corefile", services.COREFILE)
        _write(config / "resolv.conf", "# the lab reaches nothing outside itself\n", mode=0o644)
        _write(config / "volume-provisioner.json", json.dumps(services.volume_provisioner_config()))
        _write(config / "volume-helper-pod.json", json.dumps(bootstrap.helper_pod()))
        for index in range(spec.nodes):
            self._node_files(spec, index)

    def _credentials(self, spec: LabSpec) -> None:
        directory = self.directory / "pki"
        authority = Authority(directory, "ca")
        front = Authority(directory, "front-proxy-ca")
        front.issue("front-proxy-client", common_name="front-proxy-client")
        signing_key(directory, "service-account")
        authority.issue(
            "apiserver",
            common_name="kube-apiserver",
            hosts=(
                "127.0.0.1",
                "localhost",
                addresses.CONTROL_ADDRESS,
                addresses.API_SERVICE_ADDRESS,
                "kubernetes",
                "kubernetes.default",
                "kubernetes.default.svc",
                f"kubernetes.default.svc.{addresses.CLUSTER_DOMAIN}",
            ),
        )
        authority.issue(
            "apiserver-kubelet", common_name="kube-apiserver-kubelet", organization="system:masters"
        )
        users = {
            "kube-controller-manager": ("system:kube-controller-manager", ""),
            "kube-scheduler": ("system:kube-scheduler", ""),
            "kube-proxy": ("system:kube-proxy", ""),
            "coredns": ("railhead:coredns", ""),
            "multus": ("railhead:multus", ""),
            "netpol": ("railhead:netpol", ""),
            "volume-provisioner": ("railhead:volume-provisioner", ""),
            "kwok": ("railhead:kwok", ""),
            "admin": ("railhead:admin", "system:masters"),
        }
        inner = f"https://{addresses.CONTROL_ADDRESS}:{addresses.API_PORT}"
        for name, (user, group) in users.items():
            pair = authority.issue(name, common_name=user, organization=group)
            self._kubeconfig(name, authority.pair, pair, inner)
        for index, node in enumerate(spec.node_names()):
            pair = authority.issue(
                f"kubelet-{node}",
                common_name=f"system:node:{node}",
                organization="system:nodes",
                hosts=(node, node_address(index)),
            )
            self._kubeconfig(f"kubelet-{node}", authority.pair, pair, inner)
        admin = Pair(certificate=directory / "admin.crt", key=directory / "admin.key")
        outer = _kubeconfig(
            f"railhead-{self.name}", f"https://127.0.0.1:{spec.api_port}", authority.pair, admin
        )
        _write(paths.lab_kubeconfig(self.name), yaml.safe_dump(outer))

    def _kubeconfig(self, name: str, authority: Pair, pair: Pair, server: str) -> None:
        _write(
            self.directory / "kubeconfigs" / name,
            yaml.safe_dump(_kubeconfig("lab", server, authority, pair)),
        )

    def _node_files(self, spec: LabSpec, index: int) -> None:
        directory = self.directory / "nodes" / str(index)
        for part in ("kubelet", "containerd", "pods-log", "cni"):
            (directory / part).mkdir(parents=True, exist_ok=True)
        (directory / "cni" / "net.d").mkdir(exist_ok=True)
        _write(
            directory / "cni" / "net.d" / "00-multus.conf", json.dumps(services.cni_config(index))
        )
        _write(
            directory / "containerd.toml",
            tomli_w.dumps(
                services.containerd_config(restrict_oom_score_adj=preflight.lacks_sys_resource())
            ),
        )
        root = cgroups.path(spec.name, f"node-{index}")
        _write(
            directory / "kubelet.json",
            json.dumps(services.kubelet_config(spec, index, cgroup_root=root)),
        )
        _write(directory / "kube-proxy.json", json.dumps(services.kube_proxy_config(spec, index)))

    def _ensure_init(self, artifacts: Artifacts) -> Init:
        """Start the lab's init, with its mounts and bridges, unless it runs; return it."""
        pid = self.init.pid()
        if pid is not None and pid == self._marker():
            return self.init
        # One that an interrupted `up` left half furnished: nothing of that can be made twice.
        if pid is None or kill_and_wait(pid):
            cgroups.remove(self.name)
            boot(
                artifacts.bin_dir / "labagent",
                socket_path=self.init.socket,
                log=self.directory / "logs" / "init.log",
            )
        run = self.init.run
        run(["mount", "-t", "tmpfs", "-o", "mode=0755", "railhead-run", "/run"])
        for source, target in (
            (paths.cache_root(), INSIDE_CACHE),
            (self.directory, INSIDE_LAB),
        ):
            run(["mkdir", "-p", str(target)])
            run(["mount", "--rbind", str(source), str(target)])
        plugins = [str(p) for p in sorted(artifacts.cni_bin_dir.iterdir())]
        plugins.append(inside(artifacts.bin_dir / "multus", self.name))
        run(["mkdir", "-p", str(services.CNI_BIN), services.LAB_TEMPORARY])
        run(["ln", "-sf", "-t", str(services.CNI_BIN), *plugins])
        batch = ["link set lo up"]
        batch += _bridge("cluster0", 1500)
        batch += [f"address replace {addresses.CONTROL_ADDRESS}/24 dev cluster0"]
        for rail in range(8):
            batch += _bridge(f"fabric{rail}", RAIL_MTU)
        self._ip(self.init, batch)
        run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])
        _write(self.directory / "run" / "network", str(self.init.pid()))
        return self.init

    def _marker(self) -> int:
        marker = self.directory / "run" / "network"
        text = marker.read_text() if marker.exists() else ""
        return int(text) if text.isdigit() else -1

    def _ip(self, init: Init, batch: list[str]) -> None:
        init.run(["ip", "-batch", "-"], stdin="\n".join(batch) + "\n")

    def _ensure_node(self, index: int, spec: LabSpec) -> None:
        """Make a node's namespaces, interfaces and mounts, and start containerd in them."""
        node = self.node_init(index)
        directory = self.directory / "nodes" / str(index)
        marker = directory / "mounted"
        if node.pid() is None:
            marker.unlink(missing_ok=True)
            log = self.directory / "logs" / f"node-{index}.init.log"
            socket_inside = INSIDE_LAB / "run" / f"node-{index}.sock"
            self.init.start(
                f"node-{index}",
                [
                    inside(_labagent(self), self.name),
                    "init",
                    "-socket",
                    str(socket_inside),
                ],
                log=inside(log, self.name),
                isolate=True,
            )
            wait_for_init(node, log=log)
        if not marker.exists():
            self._node_network(index, spec, node)
            self._node_mounts(index, spec, node)
            _write(marker, "")
        clone_template(directory / "containerd")
        cgroups.create(self.name, f"node-{index}")
        self._ensure_services(node, [services.containerd(index)])

    def _node_network(self, index: int, spec: LabSpec, node: Init) -> None:
        # Interfaces of a node that died are gone with its namespace, or soon will be.
        existing = self.init.run(["ip", "-o", "link", "show"])
        for name in (f"n{index}", *(f"n{index}r{rail}" for rail in range(8))):
            if f" {name}@" in existing:
                self.init.run(["ip", "link", "delete", name], check=False)
        # Seen from the lab's init, whose numbers `ip link set netns` takes.
        pid = self.init.roles()[f"node-{index}"].pid
        outer = _veth(f"n{index}", "eth0", pid, "cluster0", 1500)
        for rail in range(spec.rails):
            outer += _veth(f"n{index}r{rail}", f"rail{rail}", pid, f"fabric{rail}", RAIL_MTU)
        self._ip(self.init, outer)
        inner = [
            "link set lo up",
            f"address replace {node_address(index)}/24 dev eth0",
            "link set eth0 up",
            f"route replace default via {addresses.CONTROL_ADDRESS}",
        ]
        inner += [f"link set rail{rail} up" for rail in range(spec.rails)]
        self._ip(node, inner)
        node.run(["sysctl", "-qw", "net.ipv4.ip_forward=1"])

    def _ensure_routes(self, spec: LabSpec) -> None:
        """Route pods' subnets through their nodes, on every node and where the API server runs."""
        inits = [(None, self.init), *((i, self.node_init(i)) for i in range(spec.nodes))]
        for index, init in inits:
            self._ip(
                init,
                [
                    f"route replace {addresses.pod_subnet(other)} via {node_address(other)}"
                    for other in range(spec.nodes)
                    if other != index
                ],
            )

    def _node_mounts(self, index: int, spec: LabSpec, node: Init) -> None:
        """Mount the node's own file systems for the state of kubelet, containerd and CNI."""
        run = node.run
        base = services.node_directory(index)
        # The lab's tmpfs on /run holds the cache and the lab; a node's sits beside them.
        run(["mount", "-t", "tmpfs", "-o", "mode=0755", "railhead-var", "/var/lib"])
        run(["mount", "-t", "tmpfs", "-o", "mode=0755", "railhead-log", "/var/log"])
        disk = f"{base}/disk" if spec.disk_mib else base
        if spec.disk_mib:
            size = f"size={spec.disk_mib}m,mode=0755"
            run(["mkdir", "-p", disk])
            run(["mount", "-t", "tmpfs", "-o", size, "railhead-disk", disk])
            run(["mkdir", f"{disk}/kubelet", f"{disk}/pods-log"])
        binds = {
            f"{disk}/kubelet": "/var/lib/kubelet",
            f"{base}/containerd": "/var/lib/containerd",
            f"{base}/cni": "/var/lib/cni",
            f"{disk}/pods-log": "/var/log/pods",
            str(INSIDE_LAB / "shared"): str(addresses.SHARED_VOLUMES),
            str(INSIDE_LAB / "rail-ipam"): str(addresses.RAIL_LEASES),
        }
        # The lab's /run is shared by its nodes; these parts of it are the node's own.
        for name in ("containerd", "netns"):
            run(["mkdir", "-p", f"/run/{name}"])
            run(["mount", "-t", "tmpfs", "-o", "mode=0711", f"railhead-{name}", f"/run/{name}"])
        run(
            [
                "mkdir",
                "-p",
                str(services.CNI_CONFIG),
                services.NODE_TEMPORARY,
                "/var/log/containers",
            ]
        )
        for source, target in binds.items():
            run(["mkdir", "-p", target])
            run(["mount", "--bind", source, target])
        run(["mount", "--bind", f"{base}/cni/net.d", str(services.CNI_CONFIG)])
        # A sysfs shows the interfaces of the namespace that mounted it: the node's must be its own.
        run(["mkdir", "-p", services.NODE_CGROUPS])
        run(["mount", "--rbind", "/sys/fs/cgroup", services.NODE_CGROUPS])
        run(["mount", "-t", "sysfs", "railhead-sys", "/sys"])
        run(["mount", "--rbind", services.NODE_CGROUPS, "/sys/fs/cgroup"])
        # The kubelet needs mounts to propagate to and from its containers.
        run(["mount", "--make-rshared", "/"])
        run(["hostname", node_name(spec.name, index)])

    def _ensure_services(self, init: Init, wanted: list[Service]) -> None:
        running = {role for role, item in init.roles().items() if item.running}
        for service in wanted:
            if service.role in running:
                continue
            init.start(service.role, service.argv, log=service.log, env=service.environment)

    def gateway_runs(self) -> bool:
        """Return whether the lab's own forwarder holds the API server's port of the host."""
        if self.init.pid() is None:
            return False
        gateway = self.init.roles().get("gateway")
        return gateway is not None and gateway.running

    def _start_gateway(self, init: Init, bin_dir: str, listener: socket.socket) -> None:
        service = services.gateway(bin_dir)
        init.start(service.role, service.argv, log=service.log, pass_fds=[listener.fileno()])

    # -- waiting ---------------------------------------------------------------------------------

    def _wait_for_api(self) -> None:
        self._wait_until(
            "the API server to be ready",
            lambda: self.raw("/readyz") == "ok",
            roles=("etcd", "kube-apiserver"),
            timeout=90,
        )

    def _wait_for_nodes(self, spec: LabSpec) -> None:
        self._wait_until(
            f"{spec.nodes} nodes to be Ready with {', '.join(spec.device_resources())}",
            lambda: not unready(spec, self.nodes()),
            roles=("kube-controller-manager", "kube-scheduler"),
            # A kubelet that makes its CSINode before its Node is there tries again until 20 s, then
            # after two minutes more (v1.35, pkg/volume/csi/csi_plugin.go, initializeCSINode).
            timeout=200,
            lacking=lambda: unready(spec, self.nodes()),
        )

    def _wait_until(
        self,
        what: str,
        condition: Callable[[], bool],
        *,
        roles: tuple[str, ...],
        timeout: float,
        lacking: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            known = self.init.roles()
            for role in roles:
                if (item := known.get(role)) is not None and not item.running:
                    raise RailheadError(
                        f"{role} ended with status {item.code}; the end of its log:\n"
                        f"{self.log_tail(role)}",
                        remedy="`railhead lab up` again restarts it; `railhead lab logs "
                        f"{role} --name {self.name}` shows more",
                    )
            if time.monotonic() > deadline:
                raise TimedOutError(
                    "; ".join([f"waited {timeout:g} s for {what}", *lacking()]),
                    remedy=f"look at `railhead lab status --name {self.name}` and "
                    f"`railhead lab logs --name {self.name}`, then `railhead lab up` again",
                )
            time.sleep(0.1)

    # -- asking the API server -------------------------------------------------------------------

    def raw(self, path: str) -> str:
        """Return the answer to a GET as the administrator; empty while nothing answers."""
        import ssl
        import urllib.error
        import urllib.request

        spec = self.require()
        pki = self.directory / "pki"
        try:
            context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
            context.load_cert_chain(str(pki / "admin.crt"), str(pki / "admin.key"))
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
            )
            with opener.open(f"https://127.0.0.1:{spec.api_port}{path}", timeout=10) as answer:
                text: str = answer.read().decode()
                return text
        except (OSError, urllib.error.URLError):
            return ""

    def nodes(self) -> tuple[Node, ...]:
        """Return the cluster's nodes; none while the API server does not answer."""
        text = self.raw("/api/v1/nodes")
        return tuple(_node(item) for item in json.loads(text)["items"]) if text else ()

    def apply(self, artifacts: Artifacts, objects: list[dict[str, Any]]) -> None:
        """Apply objects of the lab's own; raises RailheadError with what the API server says."""
        result = self._kubectl(
            artifacts,
            "apply",
            "--server-side",
            "--force-conflicts",
            "--field-manager=railhead-lab",
            "--filename=-",
            said=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}),
        )
        if result.returncode != 0:
            raise RailheadError(
                f"the lab's own objects were not accepted: {result.stderr.strip()}",
                remedy="run `railhead lab up` again",
            )

    def wait_for_rollout(
        self, artifacts: Artifacts, namespace: str, workloads: Sequence[str], seconds: int = 180
    ) -> None:
        """Wait for ``KIND/NAME`` each to run as it was applied; raises TimedOutError."""
        for workload in workloads:
            status = ("rollout", "status", workload, f"--timeout={seconds}s")
            result = self._kubectl(artifacts, f"--namespace={namespace}", *status)
            if result.returncode != 0:
                raise TimedOutError(
                    f"{workload} in namespace {namespace}: {result.stderr.strip()}",
                    remedy=f"kubectl -n {namespace} describe {workload}, then the command again",
                )

    def _kubectl(
        self, artifacts: Artifacts, *arguments: str, said: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the administrator, with ``said`` on its standard input."""
        return subprocess.run(
            [
                str(artifacts.bin_dir / "kubectl"),
                f"--kubeconfig={paths.lab_kubeconfig(self.name)}",
                *arguments,
            ],
            input=said,
            capture_output=True,
            text=True,
            check=False,
        )

    def _ensure_simulated(self, init: Init, spec: LabSpec, artifacts: Artifacts) -> None:
        from railhead.lab.artifacts import ensure_kwok

        simulation = ensure_kwok()
        self._ensure_services(
            init,
            [
                services.kwok(
                    inside(simulation.binary.parent, self.name),
                    [inside(stage, self.name) for stage in simulation.stages],
                )
            ],
        )
        nodes = bootstrap.simulated_nodes(spec)
        for start in range(0, len(nodes), 500):
            self.apply(artifacts, nodes[start : start + 500])

        def ready() -> bool:
            return sum(n.ready for n in self.nodes() if n.simulated) >= spec.simulated_nodes

        self._wait_until(
            f"{spec.simulated_nodes} simulated nodes to be Ready",
            ready,
            roles=("kwok",),
            timeout=300,
        )

    # -- images ----------------------------------------------------------------------------------

    def load_image(self, archive: Path) -> tuple[str, ...]:
        """Import an archive (OCI layout or `docker save`) on every node; returns the images' names.

        Raises:
            RailheadError: the lab does not run, or containerd does not take the archive.
        """
        sockets = []
        for index in range(self.require().nodes):
            pid = self.node_init(index).pid()
            if pid is None:
                raise RailheadError(
                    f"node {index} of lab {self.name!r} does not run",
                    remedy=f"run `railhead lab up --name {self.name}`",
                )
            # The node's own, seen from the host; what is imported goes through it.
            sockets.append(f"/proc/{pid}/root{services.CONTAINERD_SOCKET}")
        with ThreadPoolExecutor() as pool:
            loaded = list(pool.map(lambda item: import_archive(item, archive), sockets))
        return loaded[0]

    # -- status and down -------------------------------------------------------------------------

    def status(self) -> Status:
        """Return the state of the lab; raise NotFoundError when it does not exist."""
        spec = self.require()
        pid = self.init.pid()
        components = tuple(self._components(spec)) if pid else ()
        nodes = self.nodes() if pid else ()
        names = set(spec.node_names())
        healthy = (
            pid is not None
            and all(c.running for c in components)
            and names <= {n.name for n in nodes if n.ready}
        )
        state = "running" if healthy else ("degraded" if pid else "stopped")
        timings = self.directory / "up.json"
        return Status(
            name=self.name,
            state=state,
            init_pid=pid,
            api_port=spec.api_port,
            kubeconfig=str(paths.lab_kubeconfig(self.name)),
            components=components,
            nodes=nodes,
            memory_mib=round(sum(map(pss_mib, descendants(pid))), 1) if pid else 0.0,
            up_seconds=json.loads(timings.read_text()) if timings.exists() else {},
        )

    def _components(self, spec: LabSpec) -> Iterator[Component]:
        # A role's number is its namespace's; the host's is found by its place under the init.
        for init in (self.init, *(self.node_init(i) for i in range(spec.nodes))):
            pid = init.pid()
            if pid is None:
                continue
            host = {inner_pid(entry): entry for entry in children(pid)}
            for role, item in sorted(init.roles().items()):
                seen = host.get(item.pid) if item.running else None
                yield Component(
                    role=role,
                    running=item.running,
                    pid=seen,
                    memory_mib=round(pss_mib(seen), 1) if seen else 0.0,
                    exit_code=None if item.running else item.code,
                )

    def log_files(self) -> dict[str, Path]:
        """Return the log files by role."""
        directory = self.directory / "logs"
        return {p.stem: p for p in sorted(directory.glob("*.log"))} if directory.is_dir() else {}

    def log_tail(self, role: str, lines: int = 15) -> str:
        """Return the end of a role's log."""
        file = self.directory / "logs" / f"{role.replace('/', '.')}.log"
        text = file.read_text(errors="replace") if file.exists() else "(no log)"
        return "\n".join(text.splitlines()[-lines:])

    def down(self) -> list[str]:
        """End everything and remove every file; returns what could not be removed, if anything."""
        left: list[str] = []
        if (pid := self.init.pid()) is not None and not kill_and_wait(pid):
            left.append(f"process {pid} (the lab's init) does not end")
        left += [f"cgroup {path}" for path in cgroups.remove(self.name)]
        if self.directory.exists():
            failed: list[str] = []
            shutil.rmtree(
                self.directory, onerror=lambda _f, path, info: failed.append(f"{path}: {info[1]}")
            )
            left += failed[:10]
        with contextlib.suppress(OSError):
            self.directory.parent.rmdir()
        return left


def unready(spec: LabSpec, nodes: Sequence[Node]) -> list[str]:
    """Return what keeps a lab's real nodes from being ready, in words."""
    live = {node.name: node for node in nodes}
    results = []
    for name in spec.node_names():
        node = live.get(name)
        if node is None:
            results.append(f"{name} has not joined")
            continue
        if not node.ready:
            results.append(f"{name} is not Ready")
        for resource, count in spec.device_resources().items():
            if (has := node.allocatable.get(resource, "0")) != str(count):
                results.append(f"{name} has {has} of {count} {resource}")
    return results


def names() -> list[str]:
    """Return the labs that have a directory, running or not."""
    directory = paths.labs_dir()
    return sorted(p.name for p in directory.iterdir()) if directory.is_dir() else []


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Lock a lab, so that only one command changes it at a time; a lock dies with its holder.

    Raises:
        RailheadError: another command holds it.
    """
    directory = paths.cache_root() / "locks"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"lab-{name}").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise RailheadError(
                f"another command is changing lab {name!r} (process {file.read().strip()})",
                remedy="wait until it has ended, or end it; whatever it left, `up` completes",
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _labagent(lab: Lab) -> Path:
    """Return the running init's own binary, so that a node is of the same build as its lab."""
    pid = lab.init.pid()
    return Path(f"/proc/{pid}/exe").readlink()


def _bridge(name: str, mtu: int) -> list[str]:
    return [f"link add {name} mtu {mtu} type bridge", f"link set {name} up"]


def _veth(outer: str, inner: str, pid: int, bridge: str, mtu: int) -> list[str]:
    return [
        f"link add {outer} mtu {mtu} type veth peer name {inner} mtu {mtu} netns {pid}",
        f"link set {outer} master {bridge}",
        f"link set {outer} up",
    ]


def _kubeconfig(name: str, server: str, authority: Pair, client: Pair) -> dict[str, Any]:
    import base64

    def data(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": data(authority.certificate),
                },
            }
        ],
        "users": [
            {
                "name": name,
                "user": {
                    "client-certificate-data": data(client.certificate),
                    "client-key-data": data(client.key),
                },
            }
        ],
        # Clients that take the context's namespace, as the Kubeflow SDK does, are where jobs are.
        "contexts": [
            {
                "name": name,
                "context": {"cluster": name, "user": name, "namespace": JOBS_NAMESPACE},
            }
        ],
    }


def _network_crd(artifacts: Artifacts) -> dict[str, Any]:
    crd: dict[str, Any] = json.loads(artifacts.nad_crd.read_text())
    return crd


def _node(item: dict[str, Any]) -> Node:
    conditions = {c["type"]: c["status"] for c in item["status"].get("conditions", ())}
    return Node(
        name=item["metadata"]["name"],
        ready=conditions.get("Ready") == "True",
        simulated=item["metadata"].get("labels", {}).get("type") == "kwok",
        allocatable={
            name: value
            for name, value in item["status"].get("allocatable", {}).items()
            if "/" in name
        },
    )


def _write(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    temporary.replace(path)
