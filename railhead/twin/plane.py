"""The control plane of a twin: real programs on loopback, and KWOK in place of kubelets."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from railhead.base.errors import PrerequisiteError, TimedOutError
from railhead.kube.errors import ApiError, UnreachableError
from railhead.lab import artifacts
from railhead.lab.artifacts import twin_operators
from railhead.lab.engine.provider.client import ClientSettings, KubeClient, load_kubeconfig
from railhead.lab.pki import Authority, Pair, signing_key

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    "kubectl",
    "helm",
    "kueue",
    "jobset",
    "trainer",
    "pulumi",
)
#: Pods with this annotation are ready when the twin says so, not as soon as they have a node.
PLAYED = "twin.railhead.dev/played"
#: Pods with this annotation end; its value is their exit code.
ENDS = "twin.railhead.dev/ends"
#: It makes an aggregated ClusterRole again that Helm has deleted, by server-side apply from a cache
#: that still has it (kubernetes v1.35.8, pkg/controller/clusterroleaggregation, applyClusterRoles),
#: and `helm uninstall --wait` of Kueue's chart then waits for its whole timeout: in about half of
#: all destroys here. It is off, so that two rehearsals of a stack end alike.
_WITHOUT = "clusterrole-aggregation-controller"
#: How an API server collects garbage: at Go's default that took a fifth of its CPU time (measured).
API_SERVER_GC = {"GOGC": "400", "GOMEMLIMIT": "1GiB"}
_READY_S = 60.0
_SETPRIV = shutil.which("setpriv")


def programs() -> dict[str, Path]:
    """Return the programs of a twin, by name.

    Raises:
        PrerequisiteError: one is not built; names it.
    """
    core = core_programs()
    operators = twin_operators.directory()
    if not operators.is_dir():
        raise PrerequisiteError(
            "a rehearsal needs operators that are not built",
            remedy=f"run `railhead lab build --only {twin_operators.NAME}`",
        )
    own = {program.name: operators / program.name for program in twin_operators.PROGRAMS}
    return own | core


def core_programs() -> dict[str, Path]:
    """Return those programs of a twin that a lab has too, by name.

    Raises:
        PrerequisiteError: one is not built; names it.
    """
    result = {name: artifacts.locate(name) for name in PROGRAMS}
    if missing := [name for name, path in result.items() if path is None]:
        raise PrerequisiteError(
            f"a rehearsal needs programs that are not built: {', '.join(missing)}",
            remedy="run `railhead lab build`",
        )
    return {name: path for name, path in result.items() if path is not None}


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on now."""
    # Below those that the kernel gives away: a port may be bound minutes after it was chosen.
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def client_of(kubeconfig: Path) -> KubeClient:
    """Return a client with the credentials of a kubeconfig."""
    settings = ClientSettings(kubeconfig=str(kubeconfig))
    return KubeClient(load_kubeconfig(settings), settings)


@dataclass
class Programs:
    """Processes of a twin, each with its log; all end with the twin."""

    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Start a program under a name that no running one has, in a folder where it needs one."""
        # None outlives a rehearsal that is killed.
        with_us = [_SETPRIV, "--pdeathsig", "KILL", "--"] if _SETPRIV else []
        log = (self.folder / f"{name}.log").open("ab")
        with log:
            self.running[name] = subprocess.Popen(
                [*with_us, *command],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )

    def ended(self) -> list[str]:
        """Return the names of those that ended by themselves."""
        return [name for name, process in self.running.items() if process.poll() is not None]

    def tail(self, name: str, lines: int = 8) -> str:
        """Return the last lines of a program's log."""
        text = (self.folder / f"{name}.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def stop(self, name: str) -> None:
        """End one, at once."""
        process = self.running.pop(name, None)
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop_all(self) -> None:
        """End all, the last started first."""
        for name in reversed(list(self.running)):
            self.stop(name)


@dataclass
class Plane:
    """etcd, API server, controller manager, scheduler and KWOK on 127.0.0.1.

    Args:
        folder: for what it writes.
        binaries: the programs by name.
        stages: KWOK's files.
        admission: admission plugins that this platform's API servers have more than others.

    Attributes:
        kubeconfig: the administrator's.
        port: the API server's.
        authority: signs the API server's and the webhooks' certificates.
    """

    folder: Path
    binaries: Mapping[str, Path]
    stages: Sequence[Path]
    admission: Sequence[str] = ()
    processes: Programs = field(init=False)
    kubeconfig: Path = field(init=False)
    authority: Authority = field(init=False)
    port: int = 0
    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.processes = Programs(self.folder)
        self.kubeconfig = self.folder / "kubeconfig"
        self.authority = Authority(self.folder, "twin")

    def start(self, people: Mapping[str, Sequence[str]] = MappingProxyType({})) -> None:
        """Start all of it, and wait until the API server serves.

        Args:
            people: name -> groups of users other than the administrator; each gets a kubeconfig,
                ``NAME.kubeconfig`` in the folder.

        Raises:
            TimedOutError: it does not within a minute.
        """
        peer, etcd = free_port(), free_port()
        self.port = free_port()
        server = self.authority.issue(
            "server", common_name="kube-apiserver", hosts=("127.0.0.1", "localhost")
        )
        signing = signing_key(self.folder, "accounts")
        self._write(self.kubeconfig, self.document())
        self._write_people(people)
        self._start_servers(peer, etcd, server, signing)
        self._wait()
        self._start_controllers(signing)

    def stop(self) -> None:
        """End all of it."""
        self.processes.stop_all()

    def client(self) -> KubeClient:
        """Return a new client of the administrator's."""
        return client_of(self.kubeconfig)

    def document(self, context: str = "twin") -> dict[str, Any]:
        """Return the administrator's kubeconfig, its one context called ``context``."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "clusters": [
                {
                    "name": "twin",
                    "cluster": {
                        "server": f"https://127.0.0.1:{self.port}",
                        "certificate-authority": str(self.authority.pair.certificate),
                    },
                }
            ],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": context, "context": {"cluster": "twin", "user": "admin"}}],
        }

    def _write(self, path: Path, document: Mapping[str, Any]) -> None:
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(dict(document)))

    def _write_people(self, people: Mapping[str, Sequence[str]]) -> None:
        rows = [f"{self.token},admin,admin,system:masters"]
        for name, groups in people.items():
            token = secrets.token_hex(16)
            rows.append(f'{token},{name},{name},"{",".join(groups)}"')
            document = self.document()
            document["users"][0]["user"]["token"] = token
            self._write(self.folder / f"{name}.kubeconfig", document)
        tokens = self.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text("\n".join(rows) + "\n")

    def _start_servers(self, peer: int, etcd: int, server: Pair, signing: Pair) -> None:
        self.processes.start(
            "etcd",
            [
                str(self.binaries["etcd"]),
                f"--data-dir={self.folder / 'etcd'}",
                "--unsafe-no-fsync",
                f"--listen-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-cluster=default=http://127.0.0.1:{peer}",
                f"--listen-client-urls=http://127.0.0.1:{etcd}",
                f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            ],
        )
        self.processes.start(
            "kube-apiserver",
            [
                str(self.binaries["kube-apiserver"]),
                f"--etcd-servers=http://127.0.0.1:{etcd}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
                f"--secure-port={self.port}",
                f"--tls-cert-file={server.certificate}",
                f"--tls-private-key-file={server.key}",
                f"--token-auth-file={self.folder / 'tokens.csv'}",
                "--authorization-mode=Node,RBAC",
                f"--enable-admission-plugins={','.join(('NodeRestriction', *self.admission))}",
                "--service-cluster-ip-range=10.96.0.0/16",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-signing-key-file={signing.key}",
                f"--service-account-key-file={signing.certificate}",
                "--allow-privileged",
            ],
            API_SERVER_GC,
        )

    def _start_controllers(self, signing: Pair) -> None:
        kubeconfig = f"--kubeconfig={self.kubeconfig}"
        self.processes.start(
            "kube-controller-manager",
            [
                str(self.binaries["kube-controller-manager"]),
                kubeconfig,
                "--leader-elect=false",
                f"--service-account-private-key-file={signing.key}",
                "--use-service-account-credentials=true",
                f"--root-ca-file={self.authority.pair.certificate}",
                "--secure-port=0",
                "--concurrent-namespace-syncs=10",
                "--node-monitor-period=2s",
                f"--controllers=*,-{_WITHOUT}",
            ],
        )
        self.processes.start(
            "kube-scheduler",
            [
                str(self.binaries["kube-scheduler"]),
                kubeconfig,
                "--leader-elect=false",
                "--secure-port=0",
            ],
        )
        self.processes.start(
            "kwok",
            [
                str(self.binaries["kwok"]),
                kubeconfig,
                "--manage-all-nodes=true",
                "--node-lease-duration-seconds=40",
                "--server-address=",
                *(f"--config={stage}" for stage in self.stages),
            ],
        )

    def _wait(self) -> None:
        deadline = time.monotonic() + _READY_S
        while True:
            if ended := self.processes.ended():
                raise TimedOutError(
                    f"{ended[0]} of the twin ended:\n{self.processes.tail(ended[0])}",
                    remedy="run it again; if it ends again, look at the machine's memory",
                )
            try:
                client = self.client()
                client.request("GET", "/readyz", timeout_s=2, attempts=1)
                client.request("GET", "/api/v1/namespaces/default", timeout_s=2, attempts=1)
            except (UnreachableError, ApiError, OSError) as error:
                if time.monotonic() > deadline:
                    raise TimedOutError(
                        f"the twin's API server did not serve within {_READY_S:.0f} s: {error}",
                        remedy="look at the machine's load, and try again",
                    ) from error
                time.sleep(0.2)
            else:
                return


def resident(sessions: Collection[int]) -> int:
    """Return the memory in MiB of all processes of these sessions, shared pages by their share."""
    total = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        # A process may end while it is looked at.
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name, in parentheses, may have spaces in it.
            after = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(after[3]) in sessions:
                text = (entry / "smaps_rollup").read_text()
                total += int(text.split("\nPss:")[1].split()[0])
    return total // 1024


def stages(folder: Path, upstream: Sequence[Path]) -> tuple[Path, ...]:
    """Write KWOK's own stages, changed so that pods end and are ready as the twin says.

    Args:
        folder: where they go.
        upstream: KWOK's files, as `railhead lab build` keeps them.
    """
    made = []
    for path in upstream:
        body = yaml.safe_load(path.read_text())
        change: Callable[[dict[str, Any]], None] | None = _STAGES.get(body["metadata"]["name"])
        if change is not None:
            change(body["spec"])
        (target := folder / path.name).write_text(yaml.safe_dump(body, sort_keys=False))
        made.append(target)
    return tuple(made)


def _unless_played(spec: dict[str, Any]) -> None:
    spec["selector"]["matchExpressions"].append(
        {"key": f'.metadata.annotations["{PLAYED}"]', "operator": "DoesNotExist"}
    )


def _when_told(spec: dict[str, Any]) -> None:
    kept = [e for e in spec["selector"]["matchExpressions"] if "ownerReferences" not in e["key"]]
    kept.append({"key": f'.metadata.annotations["{ENDS}"]', "operator": "Exists"})
    spec["selector"]["matchExpressions"] = kept


_STAGES: Mapping[str, Callable[[dict[str, Any]], None]] = {
    "pod-ready": _unless_played,
    "pod-complete": _when_told,
}
