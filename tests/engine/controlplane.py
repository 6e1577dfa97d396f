"""A bare control plane for tests: etcd, API server and controller manager on loopback."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from railhead.lab import artifacts
from railhead.lab.engine.provider.client import ClientSettings, KubeClient, load_kubeconfig
from railhead.twin.plane import API_SERVER_GC, free_port

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")


def locate(name: str) -> Path | None:
    """Find a binary in ``$RAILHEAD_TEST_BIN``, else in the lab's artifacts, else in PATH."""
    if folder := os.environ.get("RAILHEAD_TEST_BIN"):
        candidate = Path(folder) / name
        if candidate.is_file():
            return candidate
    if (built := artifacts.locate(name)) is not None:
        return built
    found_on_path = shutil.which(name)
    return Path(found_on_path) if found_on_path else None


def client_of(kubeconfig: str) -> KubeClient:
    """Return a client for a kubeconfig, given as text or as a path."""
    settings = ClientSettings(kubeconfig=kubeconfig)
    return KubeClient(load_kubeconfig(settings), settings)


@contextlib.contextmanager
def running(
    words: Sequence[str], log: Path, settings: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a controller as a process, until the context ends; ``settings`` are variables of it."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            words,
            env=os.environ | dict(settings or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class _EndedError(Exception):
    """A program of it ended before it served."""


@dataclass
class ControlPlane:
    """A running control plane; ``kubeconfig`` is its administrator's.

    ``without`` are controllers that do not run: nodes without a kubelet stay ready without the
    one that looks after their leases.
    """

    folder: Path
    binaries: dict[str, Path]
    without: tuple[str, ...] = ()
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    port: int = 0
    kubeconfig: Path = Path()

    def start(self) -> None:
        """Start and wait until it serves; try again on a port that another process took."""
        for _ in range(3):
            try:
                self._start()
            except _EndedError:
                self.stop()
                shutil.rmtree(self.folder / "etcd", ignore_errors=True)
            else:
                return
        raise RuntimeError(f"it ended three times; see the logs in {self.folder}")

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        peer, client, self.port = free_port(), free_port(), free_port()
        token = secrets.token_hex(16)
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f"{token},admin,admin,system:masters\n")
        tokens.chmod(0o600)
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        signing = self.folder / "sa.key"
        signing.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        signing.chmod(0o600)
        self._spawn(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
        )
        certificates = self.folder / "certs"
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{client}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self.port}",
            f"--cert-dir={certificates}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={signing}",
            f"--service-account-key-file={signing}",
            "--allow-privileged",
        )
        self.kubeconfig = self.folder / "kubeconfig"
        config: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {
                        "server": f"https://127.0.0.1:{self.port}",
                        "certificate-authority": str(certificates / "apiserver.crt"),
                    },
                }
            ],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }
        self.kubeconfig.write_text(yaml.safe_dump(config))
        self.kubeconfig.chmod(0o600)
        self._wait()
        self._spawn(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            f"--service-account-private-key-file={signing}",
            "--use-service-account-credentials=true",
            f"--root-ca-file={certificates / 'apiserver.crt'}",
            "--secure-port=0",
            "--concurrent-namespace-syncs=10",
            "--controllers=" + ",".join(["*", *(f"-{name}" for name in self.without)]),
        )

    def _spawn(self, name: str, *arguments: str) -> None:
        log = (self.folder / f"{name}.log").open("wb")
        self.processes.append(
            subprocess.Popen(
                [str(self.binaries[name]), *arguments],
                env=os.environ | API_SERVER_GC,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        )

    def kill(self, name: str) -> Callable[[], None]:
        """Kill a program of it; returns a function that starts it again."""
        process = self.processes[PROGRAMS.index(name)]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        command = cast(list[str], process.args)

        def again() -> None:
            self._spawn(name, *command[1:])
            self.processes[PROGRAMS.index(name)] = self.processes.pop()

        return again

    def client(self) -> KubeClient:
        """Return a new one, its administrator's."""
        return client_of(str(self.kubeconfig))

    def _wait(self, limit_s: float = 60.0) -> None:
        from railhead.kube.errors import ApiError, UnreachableError

        deadline = time.monotonic() + limit_s
        while True:
            for process in self.processes:
                if process.poll() is not None:
                    raise _EndedError
            try:
                client = self.client()
                client.request("GET", "/readyz", timeout_s=2, attempts=1)
                client.request("GET", "/api/v1/namespaces/default", timeout_s=2, attempts=1)
                return
            except (UnreachableError, ApiError, OSError) as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"no API server after {limit_s:.0f} s: {error}") from error
                time.sleep(0.2)

    def stop(self) -> None:
        """End everything."""
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.processes.clear()
