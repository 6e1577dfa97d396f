"""Killing `pulumi up` at any moment and running it again ends in the same place."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from railhead.kube.errors import ApiError
from tests.engine.conftest import Stack

pytestmark = pytest.mark.controlplane


def plugins_of(stack: Stack) -> list[int]:
    """Return the plugin processes that belong to this stack's commands."""
    results = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            cwd = str((entry / "cwd").readlink())
        except OSError:
            continue
        if b"railhead.lab.engine" in command and cwd == str(stack.folder):
            results.append(int(entry.name))
    return results


def kill(stack: Stack, pid: int) -> None:
    """Kill `pulumi` as the kernel would, and wait until its plugins are gone."""
    os.kill(pid, signal.SIGKILL)
    stack.wait_for(lambda: not plugins_of(stack) and not locks(stack), 20)


def locks(stack: Stack) -> list[Path]:
    """Return the backend's lock files."""
    return list((stack.folder / "state" / ".pulumi" / "locks").rglob("*.json"))


def test_killed_while_objects_are_made(stack: Stack) -> None:
    """Named and autonamed objects that exist but are not in the state are carried on with."""
    stack.program(
        """
        ns = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
        wait = {"pulumi.com/waitFor": "jsonpath={.metadata.labels.ready}=yes"}
        for name, named in (("a", {"name": "a"}), ("b", {})):
            k8s.core.v1.ConfigMap(
                name, metadata={"namespace": NS, "annotations": wait, **named},
                data={"v": config.get("v") or "1"}, opts=opts(depends_on=[ns]),
            )
        """
    )
    path = f"/api/v1/namespaces/{stack.namespace}/configmaps"

    def made() -> dict[str, str]:
        items = stack.kube.request("GET", path).body["items"]
        return {
            item["metadata"]["name"]: item["metadata"]["uid"]
            for item in items
            if item["metadata"]["name"] != "kube-root-ca.crt"
        }

    process = stack.start_up()
    stack.wait_for(lambda: len(made()) == 2, 60)
    before = made()
    kill(stack, process.pid)
    assert {"a", "b"} & set(stack.resources()) == set()

    again = stack.start_up()
    stack.wait_for(lambda: "carrying on" in (stack.folder / "up.log").read_text(), 60)
    for name in before:
        stack.patch(f"{path}/{name}", {"metadata": {"labels": {"ready": "yes"}}})
    stack.wait_for(lambda: again.poll() is not None, 60)
    assert again.returncode == 0, (stack.folder / "up.log").read_text()
    assert made() == before
    stack.up("--expect-no-changes").ok()
    # What the CLI remembers of the killed run is cleared by a refresh, as it says.
    stack.refresh("--clear-pending-creates").ok()
    assert "pending operations" not in stack.up("--expect-no-changes").ok().text

    # A change of the data replaces; killed between the new object and the state.
    stack.set("v", "2")
    process = stack.start_up()
    stack.wait_for(lambda: set(made().values()) - set(before.values()), 60)
    kill(stack, process.pid)
    again = stack.start_up()
    deadline = time.monotonic() + 60
    while again.poll() is None and time.monotonic() < deadline:
        for name in made():
            # The old object may go between the look and the patch.
            with contextlib.suppress(ApiError):
                stack.patch(f"{path}/{name}", {"metadata": {"labels": {"ready": "yes"}}})
        time.sleep(0.3)
    assert again.returncode == 0, (stack.folder / "up.log").read_text()
    assert len(made()) == 2
    for name in made():
        live = stack.get(f"{path}/{name}")
        assert live is not None
        assert live["data"] == {"v": "2"}
    stack.up("--expect-no-changes").ok()


@pytest.mark.exhaustive
@pytest.mark.parametrize("delay_s", [0.3, 0.8, 1.3])
def test_killed_at_an_arbitrary_moment(stack: Stack, delay_s: float) -> None:
    """The next run reaches the same end from any state."""
    stack.program(
        """
        previous = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
        for number in range(12):
            previous = k8s.core.v1.ConfigMap(
                f"c{number}", metadata={"namespace": NS}, data={"a": "1"},
                opts=opts(depends_on=[previous]),
            )
        """
    )
    process = stack.start_up()
    # From the moment when the engine has its plugins; before that, the lock is all there is.
    stack.wait_for(lambda: plugins_of(stack), 30)
    time.sleep(delay_s)
    if process.poll() is None:
        kill(stack, process.pid)
    stack.up().ok()
    items = stack.kube.request("GET", f"/api/v1/namespaces/{stack.namespace}/configmaps").body
    names = [item["metadata"]["name"] for item in items["items"]]
    assert len([name for name in names if name.startswith("c")]) == 12
    stack.up("--expect-no-changes").ok()


def test_cancelled_by_ctrl_c(stack: Stack) -> None:
    """SIGINT ends a wait promptly, keeps what was made and prints no traceback."""
    stack.program(
        """
        k8s.core.v1.Namespace("ns", metadata={
            "name": NS, "annotations": {"pulumi.com/waitFor": "jsonpath={.metadata.labels.x}"},
        }, opts=o)
        """
    )
    process = stack.start_up()
    stack.wait_for(lambda: stack.get("/api/v1/namespaces/NS"), 60)
    time.sleep(0.5)
    os.kill(process.pid, signal.SIGINT)
    stack.wait_for(lambda: process.poll() is not None, 20)
    log = (stack.folder / "up.log").read_text()
    assert "Traceback" not in log
    assert "cancelled" in log
    assert "ns" in stack.resources()
    assert locks(stack) == []
    assert plugins_of(stack) == []
