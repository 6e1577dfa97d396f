"""A twin of one stack's cluster: its control plane, its nodes, its players and its cloud."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from railhead.base.paths import charts_dir
from railhead.config import parse
from railhead.lab.artifacts import ensure_kwok, twin_operators
from railhead.lab.engine.install import install as install_stand_ins
from railhead.lab.engine.provider.client import KubeClient
from railhead.lab.recorders.workspace import Workspace, workspace
from railhead.model.cluster import Cluster
from railhead.twin import cloud, helm, machines
from railhead.twin.account import Account
from railhead.twin.joining import Joining
from railhead.twin.managers import Managers
from railhead.twin.plane import Plane, free_port, programs, resident, stages
from railhead.twin.players import PLAYERS
from railhead.twin.provisioning import Provisioning
from railhead.twin.truth import Node
from railhead.twin.world import Loop, World

MODULES: Mapping[str, str] = {
    "kueue": "kueue-0.16.2",
    "jobset": "jobset-0.10.1",
    "kubeflow-trainer": "kubeflow-trainer-2.1.0",
}
_SAMPLE_S = 5
#: GKE gives pods that ask for GPUs a toleration of their taint (gcp.extended-toleration).
_ADMISSION: Mapping[str, Sequence[str]] = {"gcp": ("ExtendedResourceToleration",)}
#: The rows of truth that are here.
ROWS: tuple[str, ...] = ("gcp.extended-toleration",)


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A command that ended, or was ended.

    Args:
        status: its exit code; -1 if it was ended because it took too long.
        text: both of its streams.
        waiting: what the engine had begun and not ended.
        errors: the engine's own errors.
        operations: what it did, such as ``create``, by how often.
    """

    status: int
    text: str
    seconds: float
    waiting: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    operations: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Twin:
    """A running twin.

    Attributes:
        cluster: the stack's section, as it is now.
        client: the administrator's.
        researcher: the kubeconfig of one of the stack's researchers.
    """

    folder: Path
    stack: str
    checkout: Path
    cluster: Cluster
    plane: Plane
    client: KubeClient
    world: World
    loop: Loop
    laid: Workspace
    pulumi: Path
    researcher: Path
    _most: int = 0
    # Of RFC 2544: no machine that is there has one of these.
    _addresses: Iterator[ipaddress.IPv4Address] = field(
        default_factory=ipaddress.IPv4Network("198.18.0.0/16").hosts
    )

    def mebibytes(self, *more: int) -> int:
        """Return the most memory that the twin and the engine had so far, in MiB.

        Args:
            more: sessions of the engine's processes.
        """
        running = {p.pid for p in self.plane.processes.running.values()}
        self._most = max(self._most, resident(running | set(more)))
        return self._most

    def add(self, node: Node) -> None:
        """Make a node."""
        self.world.hardware[node.name] = node
        self.client.request("POST", "/api/v1/nodes", body=node.body(str(next(self._addresses))))

    def remove(self, name: str) -> None:
        """Take a node away, with the pods on it, as a machine that is gone does."""
        query = {"fieldSelector": f"spec.nodeName={name}"}
        pods = self.client.request("GET", "/api/v1/pods", query=query).body["items"] or []
        self.client.request("DELETE", f"/api/v1/nodes/{name}")
        self.world.hardware.pop(name, None)
        for pod in pods:
            metadata = pod["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            with contextlib.suppress(Exception):
                self.client.request("DELETE", path, query={"gracePeriodSeconds": "0"})

    def scale(self, group: str, nodes: int) -> None:
        """Run so many nodes of an EKS node group, as `aws eks update-nodegroup-config` does."""
        path = self.folder / "account.json"
        account = Account.read(path)
        for made in account.of("aws:eks/nodeGroup:NodeGroup"):
            if made.inputs["nodeGroupName"] == group:
                made.inputs["scalingConfig"]["desiredSize"] = nodes
        account.write(path)
        request = {"do": "scale", "group": group, "nodes": nodes}
        (self.folder / "requests" / f"{time.time_ns()}.json").write_text(json.dumps(request))

    def change(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Edit the stack's section in the twin's copy of its file.

        Each edit begins without the losses that an earlier one allowed.

        Raises:
            InputError: it is not valid afterwards.
        """
        data = yaml.safe_load(self.laid.stack_file.read_text())
        section = data["config"]["railhead:cluster"]
        section.pop("removals", None)
        edit(section)
        self.cluster = parse(section, where=self.laid.stack_file.name)
        self.laid.stack_file.write_text(yaml.safe_dump(data, sort_keys=False))

    def engine(
        self,
        *arguments: str,
        limit_s: float,
        progress: Callable[[str], None] = lambda _: None,
    ) -> Ran:
        """Run `pulumi`; end it when it is done with no further resource within the limit."""
        events = self.folder / "events.jsonl"
        events.write_text("")
        output = self.folder / "pulumi.log"
        words = [str(self.pulumi), *arguments, "--non-interactive"]
        if arguments[0] in ("up", "destroy", "preview"):
            words += ["--event-log", str(events), "--suppress-progress"]
        start = time.monotonic()
        with output.open("wb") as stream, events.open("rb") as reported:
            process = subprocess.Popen(
                words,
                cwd=self.laid.project,
                env={
                    **self.laid.environment,
                    "PULUMI_DEBUG_COMMANDS": "1",
                    # A control plane that is reached by name has a certificate that all trust.
                    "SSL_CERT_FILE": str(self.plane.authority.pair.certificate),
                },
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            ended, waiting = 0.0, tuple[str, ...]()
            done, since = 0, start
            while process.poll() is None:
                now = time.monotonic()
                if count := reported.read().count(b"resOutputsEvent"):
                    done, since = done + count, now
                if now > since + limit_s and not ended:
                    # What is under way ends well when it is interrupted, and is no longer told.
                    ended, waiting = now, _read(events)[0]
                    os.killpg(process.pid, signal.SIGINT)
                if ended and now > ended + 60:
                    os.killpg(process.pid, signal.SIGKILL)
                if int(now - start) % _SAMPLE_S == 0:
                    self.mebibytes(process.pid)
                progress(f"{done} resources")
                time.sleep(0.25)
        seconds = time.monotonic() - start
        _, errors, operations = _read(events)
        return Ran(
            status=-1 if ended else process.returncode,
            text=output.read_text(errors="replace"),
            seconds=seconds,
            waiting=waiting,
            errors=errors,
            operations=operations,
        )

    def railhead(self, *arguments: str, limit_s: float = 60) -> Ran:
        """Run one of Railhead's own commands as a researcher."""
        start = time.monotonic()
        environment = {**os.environ, "KUBECONFIG": str(self.researcher), "NO_COLOR": "1"}
        environment["PYTHONPATH"] = str(self.checkout)
        environment["HOME"] = str(self.folder / "home")
        try:
            done = subprocess.run(
                [sys.executable, "-m", "railhead", *arguments],
                cwd=self.checkout,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            text = (late.stdout or b"").decode(errors="replace")
            return Ran(status=-1, text=text, seconds=time.monotonic() - start)
        text = done.stdout.decode(errors="replace")
        return Ran(status=done.returncode, text=text, seconds=time.monotonic() - start)

    def journal(self) -> list[dict[str, Any]]:
        """Return what the cloud's providers were asked to do so far."""
        return [json.loads(line) for line in self.laid.journal.read_text().splitlines()]


@contextlib.contextmanager
def twin(
    folder: Path, *, stack: str, file: Path, checkout: Path, cluster: Cluster
) -> Iterator[Twin]:
    """Yield a twin of a stack, in an empty folder; all of it ends with the context.

    Args:
        folder: for everything that it writes.
        stack: the stack's name.
        file: the stack's file.
        checkout: the checkout whose components are run.
        cluster: the stack's section.
    """
    binaries = programs()
    plane = Plane(
        folder / "plane",
        binaries,
        stages(_made(folder / "stages"), ensure_kwok().stages),
        admission=_ADMISSION.get(cluster.platform.kind, ()),
    )
    loop: Loop | None = None
    managers: Managers | None = None
    try:
        groups = _groups(cluster)
        plane.start(people={"researcher": groups})
        client = plane.client()
        laid = workspace(
            _made(folder / "work"),
            checkout=checkout,
            stack=stack,
            file=file,
            pulumi=binaries["pulumi"],
        )
        certificate = plane.authority.issue(
            "webhooks", common_name="webhooks", hosts=("127.0.0.1", "localhost")
        )
        ports = {name: free_port() for name in (*helm.PROGRAMS, "aggregated")}
        settings = _settings(folder, plane, binaries, ports)
        plugins = folder / "work" / "plugins"
        shim = helm.install(plugins, settings, sys.executable, checkout)
        install_stand_ins(plugins, python=Path(sys.executable), helm=shim)
        cloud.install(plugins, settings, plane.token, sys.executable, checkout)
        _kubeconfigs(folder / "work" / "home", plane, cluster)
        managers = Managers(
            plane.processes, binaries, folder / "programs", plane.kubeconfig, certificate, ports
        )
        world = World(client=client)
        turns: list[Callable[[], None]] = [lambda: managers.turn(client)]
        loop = Loop(world, PLAYERS, turns)
        made = Twin(
            folder=folder,
            stack=stack,
            checkout=checkout,
            cluster=cluster,
            plane=plane,
            client=client,
            world=world,
            loop=loop,
            laid=laid,
            pulumi=binaries["pulumi"],
            researcher=plane.folder / "researcher.kubeconfig",
        )
        joining = Joining(folder / "requests", world, made.add, made.remove)
        turns.append(joining.turn)
        if cluster.platform.kind == "gcp":
            turns.append(Provisioning(joining).turn)
        if cluster.platform.kind == "existing":
            _site(made)
        made.engine("stack", "init", stack, limit_s=60)
        loop.start()
        yield made
    finally:
        if loop is not None:
            loop.stop()
        if managers is not None:
            managers.stop()
        plane.stop()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def _groups(cluster: Cluster) -> tuple[str, ...]:
    """Return the groups of the stack's researchers, every team's too."""
    named = [cluster.researchers, *(team.researchers for team in cluster.teams)]
    groups: list[str] = []
    for item in named:
        groups += [item] if isinstance(item, str) else list(item or ())
    return tuple(dict.fromkeys(groups))


def _settings(
    folder: Path, plane: Plane, binaries: Mapping[str, Path], ports: Mapping[str, int]
) -> Path:
    charts = _made(folder / "charts")
    path = folder / "twin.json"
    authority = base64.b64encode(plane.authority.pair.certificate.read_bytes()).decode()
    path.write_text(
        json.dumps(
            {
                "helm": str(binaries["helm"]),
                "post_renderer": str(folder / "work" / "plugins" / "helm"),
                "charts": str(charts),
                "modules": {
                    **{name: str(charts_dir() / d) for name, d in MODULES.items()},
                    **{name: str(path) for name, path in twin_operators.chart_dirs().items()},
                },
                "ports": dict(ports),
                "port": plane.port,
                "kubeconfig": str(plane.kubeconfig),
                "account": str(folder / "account.json"),
                "requests": str(_made(folder / "requests")),
                "authority": authority,
            }
        )
    )
    return path


def _kubeconfigs(home: Path, plane: Plane, cluster: Cluster) -> None:
    """Write the kubeconfig that an existing cluster's stack names."""
    platform: Any = cluster.platform
    if platform.kind != "existing":
        return
    named = str(platform.kubeconfig)
    path = (
        Path(named.replace("~", str(home), 1)) if named.startswith("~/") else home / ".kube/config"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(plane.document(platform.context or "twin")))


def _site(made: Twin) -> None:
    """Make what the site has before the stack: nodes, and the classes that it says it has."""
    for node in machines.standing(made.cluster):
        made.add(node)
    platform: Any = made.cluster.platform
    own = {c.name for c in platform.nfs.classes} if platform.nfs else set()
    for name in {c.storage_class for c in made.cluster.checkpoints} - own:
        made.client.request(
            "POST",
            "/apis/storage.k8s.io/v1/storageclasses",
            body={
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": "site.example.com",
                "reclaimPolicy": "Retain",
            },
        )


def _read(events: Path) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, int]]:
    """Return what had begun and not ended, errors, and what was done how often."""
    begun: dict[str, str] = {}
    errors: list[str] = []
    operations: dict[str, int] = {}
    for line in events.read_text(errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if before := event.get("resourcePreEvent"):
            metadata = before["metadata"]
            if metadata["op"] not in ("same", "read") and not metadata["type"].startswith(
                "pulumi:"
            ):
                begun[metadata["urn"]] = metadata["op"]
        elif after := event.get("resOutputsEvent"):
            metadata = after["metadata"]
            begun.pop(metadata["urn"], None)
            if not str(metadata["type"]).startswith(("pulumi:", "railhead:")):
                operations[metadata["op"]] = operations.get(metadata["op"], 0) + 1
        elif failed := event.get("resOpFailedEvent"):
            begun.pop(failed["metadata"]["urn"], None)
        elif (message := event.get("diagnosticEvent")) and message.get("severity") == "error":
            name = str(message.get("urn", "")).rsplit("::", 1)[-1]
            errors.append(f"{name}: {str(message.get('message', '')).strip()}")
    waiting = tuple(f"{op} {urn.rsplit('::', 1)[-1]}" for urn, op in begun.items())
    return waiting, tuple(errors), operations
