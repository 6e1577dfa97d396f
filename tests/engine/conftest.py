"""Fixtures for tests of the engine's stand-ins: a control plane, and stacks of the real engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from railhead.kube.errors import ApiError
from railhead.lab.engine.install import install
from railhead.lab.engine.provider.client import KubeClient
from tests.engine.controlplane import ControlPlane, locate

REPO = Path(__file__).resolve().parents[2]
HEADER = """
import os
import pulumi
import pulumi_kubernetes as k8s
from pulumi import ResourceOptions

config = pulumi.Config()
cluster = k8s.Provider(
    "cluster", kubeconfig=os.environ["TEST_KUBECONFIG"], cluster_identifier="test"
)
o = ResourceOptions(provider=cluster)


def opts(**more):
    return ResourceOptions(provider=cluster, **more)
"""


@dataclass
class Result:
    """Exit status and output of a `pulumi` command."""

    status: int
    text: str

    def ok(self) -> Result:
        """Return the result, after checking that the command succeeded."""
        assert self.status == 0, self.text
        return self


@dataclass
class Stack:
    """One stack of one throw-away project, in a ``file://`` backend of its own."""

    folder: Path
    environment: dict[str, str]
    pulumi: Path
    kube: KubeClient
    namespace: str
    stack: str = "test"
    spawned: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def program(self, body: str) -> None:
        """Replace the program; ``NS`` in it is the test's namespace."""
        text = HEADER + f'\nNS = "{self.namespace}"\n' + textwrap.dedent(body)
        (self.folder / "__main__.py").write_text(text)

    def run(self, *arguments: str, timeout_s: float = 120) -> Result:
        """Run `pulumi`; both of its streams in one text."""
        done = subprocess.run(
            [str(self.pulumi), *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(errors="replace"))

    def set(self, key: str, value: str) -> None:
        """Set a configuration value."""
        self.run("config", "set", key, value).ok()

    def preview(self, *arguments: str) -> Result:
        """`pulumi preview`."""
        return self.run("preview", *arguments)

    def up(self, *arguments: str) -> Result:
        """`pulumi up`, without its own preview."""
        return self.run("up", "--yes", "--skip-preview", *arguments)

    def refresh(self, *arguments: str) -> Result:
        """`pulumi refresh`."""
        return self.run("refresh", "--yes", "--skip-preview", *arguments)

    def destroy(self, *arguments: str) -> Result:
        """`pulumi destroy`."""
        return self.run("destroy", "--yes", "--skip-preview", *arguments)

    def start_up(self) -> subprocess.Popen[bytes]:
        """`pulumi up` in the background."""
        process = subprocess.Popen(
            [str(self.pulumi), "up", "--yes", "--skip-preview", "--non-interactive"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=(self.folder / "up.log").open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.spawned.append(process)
        return process

    def state_text(self) -> str:
        """Return the checkpoint as it is on disk."""
        return next((self.folder / "state").rglob(f"stacks/**/{self.stack}.json")).read_text()

    def resources(self) -> dict[str, dict[str, Any]]:
        """Return the checkpoint's resources by logical name."""
        checkpoint = json.loads(self.state_text())["checkpoint"]["latest"]
        listed = checkpoint.get("resources", ())
        return {item["urn"].rsplit("::", 1)[-1]: item for item in listed}

    def get(self, path: str) -> dict[str, Any] | None:
        """Return a live object by its URL path, or None. ``NS`` is the test's namespace."""
        try:
            body: dict[str, Any] = self.kube.request("GET", path.replace("NS", self.namespace)).body
        except ApiError as error:
            if error.not_found:
                return None
            raise
        return body

    def patch(self, path: str, body: dict[str, Any], *, manager: str = "someone") -> Any:
        """Change a live object from outside Pulumi by a merge patch."""
        return self.kube.request(
            "PATCH",
            path.replace("NS", self.namespace),
            body=body,
            content_type="application/merge-patch+json",
            query={"fieldManager": manager},
        ).body

    def wait_for(self, what: Callable[[], Any], limit_s: float = 30) -> Any:
        """Wait until ``what`` returns something true."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if result := what():
                return result
            time.sleep(0.05)
        raise AssertionError(f"not within {limit_s} s")

    def close(self) -> None:
        """End what was started in the background, and delete the namespace."""
        for process in self.spawned:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="session")
def kube(control_plane: ControlPlane) -> KubeClient:
    """An administrator's client."""
    return control_plane.client()


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the launchers of the stand-ins."""
    pulumi = locate("pulumi")
    if pulumi is None:
        pytest.skip("no pulumi: set RAILHEAD_TEST_BIN or run `railhead lab build`")
    folder = tmp_path_factory.mktemp("plugins")
    path = os.environ["PATH"]
    os.environ["PATH"] = "/usr/bin:/bin"
    try:
        install(folder, python=Path(sys.executable), helm=locate("helm"))
    finally:
        os.environ["PATH"] = path
    return folder


@pytest.fixture
def stack(
    tmp_path: Path, control_plane: ControlPlane, kube: KubeClient, plugins: Path
) -> Iterator[Stack]:
    """A fresh stack, and a namespace name that no other test uses."""
    pulumi = locate("pulumi")
    assert pulumi is not None
    for name in ("state", "home", "stacks"):
        (tmp_path / name).mkdir()
    # The engine logs no step at its most verbose level, as in railhead/lab/recorders/workspace.py.
    (tmp_path / "home" / "logs").touch()
    (tmp_path / "Pulumi.yaml").write_text("name: t\nruntime: python\nstackConfigDir: stacks\n")
    environment = {
        "PATH": f"{plugins}:{pulumi.parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_BACKEND_URL": f"file://{tmp_path / 'state'}?metadata=skip",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "1",
        "TEST_KUBECONFIG": str(control_plane.kubeconfig),
        # This checkout's code, whichever one the virtual environment was made for.
        "PYTHONPATH": str(REPO),
        "LANG": "C.UTF-8",
    }
    made = Stack(
        folder=tmp_path,
        environment=environment,
        pulumi=pulumi,
        kube=kube,
        namespace=f"t-{uuid.uuid4().hex[:8]}",
    )
    made.run("stack", "init", made.stack).ok()
    try:
        yield made
    finally:
        made.close()
