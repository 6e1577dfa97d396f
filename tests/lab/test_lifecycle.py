"""A lab comes up, survives what is killed, stands beside another, and leaves nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead.base import paths
from railhead.base.errors import ExitCode
from railhead.lab.cluster import Lab
from railhead.lab.processes import descendants
from tests.lab.conftest import eventually, railhead, succeed
from tests.marks import few

NAME = "life"


def status(name: str = NAME) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(railhead("lab", "status", "--name", name, "--json").stdout)
    return result


def up(*arguments: str) -> subprocess.CompletedProcess[str]:
    return succeed(railhead("lab", "up", "--name", NAME, "--nodes", "1", *arguments))


# What the names and rules of a lab and of its programs have in them; others use this machine too.
MARKS = re.compile(rf"{NAME}|railhead|kube|containerd|runc|cni|etcd|multus|10\.(210|244|96)\.")


def traces() -> dict[str, list[str]]:
    """Return the traces of a lab on the host, outside its own directory."""

    def output(*argv: str) -> list[str]:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()

    def entries(directory: str) -> list[str]:
        path = Path(directory)
        return [p.name for p in path.iterdir()] if path.is_dir() else []

    everything = {
        "interfaces": output("ip", "-o", "link"),
        "namespaces": output("ip", "netns", "list"),
        "firewall": [line for line in output("iptables-save") if line[:2] == "-A"],
        "mounts": [
            line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ],
        "cgroups": [str(p) for p in Path("/sys/fs/cgroup").glob(f"*/railhead/{NAME}")],
        **{
            directory: entries(directory)
            # Not /tmp, where other programs of this name may be at work: TMPDIR is the test's own.
            for directory in ("/run", "/var/lib", "/var/log", "/opt", "/etc/cni", "/")
        },
    }
    return {
        where: sorted(name for name in names if MARKS.search(name))
        for where, names in everything.items()
    }


def interfaces(*inside: str) -> set[str]:
    """Names of network interfaces, on the host or by what runs ``inside`` a lab."""
    shown = subprocess.run(
        [*inside, "ip", "-json", "link"], capture_output=True, text=True, check=True
    ).stdout
    return {link["ifname"] for link in json.loads(shown)}


@pytest.fixture(scope="module", autouse=True)
def clean() -> Iterator[None]:
    """Take down the lab of an earlier, broken run before the tests, and their own after them."""
    succeed(railhead("lab", "down", "--name", NAME))
    yield
    succeed(railhead("lab", "down", "--name", NAME))


@pytest.fixture
def lab() -> Lab:
    """The module's lab of one node, made or repaired; each test leaves it for the next."""
    up()
    return Lab(NAME)


@pytest.fixture
def no_lab() -> Iterator[None]:
    """Take down the module's lab before the test, and the test's own after it."""
    succeed(railhead("lab", "down", "--name", NAME))
    yield
    succeed(railhead("lab", "down", "--name", NAME))


def running_pid(role: str) -> int:
    pids = [c["pid"] for c in status()["components"] if c["role"] == role and c["running"]]
    assert pids, f"{role} does not run"
    assert isinstance(pids[0], int)
    return pids[0]


def test_down_leaves_nothing_and_credentials_are_private(
    no_lab: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, links = traces(), interfaces()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    up()
    lab = Lab(NAME)
    pid = lab.init.pid()
    assert pid is not None
    processes = descendants(pid)
    assert len(processes) > 10
    # Nothing of a running lab shows on the host either, but for one loopback port.
    during = traces()
    assert {k: during[k] for k in ("interfaces", "firewall", "namespaces", "mounts")} == {
        k: before[k] for k in ("interfaces", "firewall", "namespaces", "mounts")
    }
    assert during["cgroups"]
    own = interfaces("nsenter", f"--net=/proc/{pid}/ns/net") - {"lo"}
    assert {"cluster0", "fabric0"} <= own
    assert not own & (interfaces() - links)
    listening = subprocess.run(
        ["ss", "-Htln"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    port = f":{status()['api_port']} "
    assert [line.split()[3] for line in listening if port in line] == [f"127.0.0.1{port.strip()}"]
    assert lab.directory.stat().st_mode & 0o077 == 0
    for secret in (*lab.directory.glob("pki/*.key"), *lab.directory.glob("kubeconfig*/*")):
        assert secret.stat().st_mode & 0o077 == 0, secret
    assert paths.lab_kubeconfig(NAME).stat().st_mode & 0o777 == 0o600

    succeed(railhead("lab", "down", "--name", NAME))
    eventually(lambda: not any(_lives(p) for p in processes), timeout=5, what="processes ended")
    assert traces() == before
    assert not lab.directory.exists()
    assert list(temporary.iterdir()) == []


def _lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


ROLES = (
    *("etcd", "kube-apiserver", "kube-scheduler", "gateway"),
    *("node-0/kubelet", "node-0/containerd"),
)


@pytest.mark.parametrize("role", few(ROLES, ["etcd"]))
def test_up_repairs_what_was_killed(lab: Lab, role: str) -> None:
    victim = running_pid(role)
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: status()["state"] == "degraded", timeout=10, what=f"{role} missed")
    up()
    assert status()["state"] == "running"
    assert running_pid(role) != victim


@pytest.mark.exhaustive
@pytest.mark.parametrize("whose", few(["lab", "node"], ["lab"]))
def test_up_repairs_a_killed_init(lab: Lab, whose: str) -> None:
    kubectl = [
        str(lab.directory / "tools" / "kubectl"),
        f"--kubeconfig={paths.lab_kubeconfig(NAME)}",
    ]
    succeed(railhead("lab", "env", "--name", NAME))
    created = [*kubectl, "create", "namespace", f"survives-{whose}"]
    subprocess.run(created, check=True, capture_output=True)
    pid = lab.init.pid() if whose == "lab" else lab.node_init(0).pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not _lives(pid), timeout=10, what="the init's namespace has ended")
    up()
    assert status()["state"] == "running"
    # The cluster is the same one, not a new one.
    subprocess.run(
        [*kubectl, "get", "namespace", f"survives-{whose}"], check=True, capture_output=True
    )


@pytest.mark.parametrize("delay", few([0.3, 0.8, 1.5, 2.5], ["1.5"]))
def test_up_after_a_killed_up(no_lab: None, delay: float) -> None:
    half = subprocess.Popen(
        [sys.executable, "-m", "railhead", "lab", "up", "--name", NAME, "--nodes", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(delay)
    half.kill()
    half.wait()
    up()
    assert status()["state"] == "running"
    succeed(railhead("lab", "down", "--name", NAME))
    assert not paths.lab_dir(NAME).exists()


@pytest.mark.exhaustive
def test_up_after_a_kill_between_bridges_and_their_record(no_lab: None) -> None:
    """Bridges cannot be created twice; a kill by the clock rarely falls between the two steps."""
    killed = f"""
import os, signal, sys
from railhead.cli import main
from railhead.lab.cluster import Lab
make = Lab._ip
Lab._ip = lambda *given: (make(*given), os.kill(os.getpid(), signal.SIGKILL))
sys.argv = ["railhead", "lab", "up", "--name", "{NAME}", "--nodes", "1"]
main()
"""
    half = subprocess.run([sys.executable, "-c", killed], capture_output=True, check=False)
    assert half.returncode == -signal.SIGKILL
    assert Lab(NAME).init.pid() is not None
    up()
    assert status()["state"] == "running"


@pytest.mark.exhaustive
def test_two_labs_run_side_by_side(running_lab: str, lab: Lab) -> None:
    assert status(running_lab)["state"] == "running"
    assert status()["state"] == "running"
    assert {n["name"] for n in status(running_lab)["nodes"]} >= {f"{running_lab}-node-0"}
    assert {n["name"] for n in status()["nodes"]} == {f"{NAME}-node-0"}


@pytest.mark.exhaustive
def test_up_grows_but_says_how_to_shrink(lab: Lab) -> None:
    succeed(railhead("lab", "up", "--name", NAME, "--nodes", "2"))
    assert {n["name"] for n in status()["nodes"] if n["ready"]} == {
        f"{NAME}-node-0",
        f"{NAME}-node-1",
    }
    refused = railhead("lab", "up", "--name", NAME, "--nodes", "1")
    assert refused.returncode == ExitCode.BAD_INPUT
    assert "nodes: has 2, asked for fewer (1)" in refused.stderr
    assert f"railhead lab down --name {NAME}" in refused.stderr
    # One of two nodes is not what the next test takes over.
    succeed(railhead("lab", "down", "--name", NAME))


def test_simulated_nodes_take_only_pods_that_tolerate_them(
    no_lab: None,
) -> None:
    up("--simulated-nodes", "40")
    lab = Lab(NAME)
    # The kubeconfig names the namespace of jobs, which a stack makes.
    kubectl = [
        str(lab.directory / "tools/kubectl"),
        f"--kubeconfig={paths.lab_kubeconfig(NAME)}",
        "--namespace=default",
    ]
    nodes = status()["nodes"]
    assert [n["ready"] for n in nodes if n["simulated"]] == [True] * 40
    assert all(n["allocatable"]["nvidia.com/gpu"] == "8" for n in nodes)
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "simulated"},
        "spec": {
            "nodeSelector": {"type": "kwok"},
            "containers": [
                {
                    "name": "main",
                    "image": "not-an-image",
                    "resources": {"limits": {"nvidia.com/gpu": "8"}},
                }
            ],
        },
    }

    def phase_of(name: str) -> str:
        query = [*kubectl, "get", "pod", name, "-o", "jsonpath={.status.phase}"]
        return subprocess.run(query, capture_output=True, text=True, check=False).stdout

    create = [*kubectl, "create", "-f", "-"]
    subprocess.run(create, input=json.dumps(pod), text=True, check=True, capture_output=True)
    pod["metadata"]["name"] = "tolerant"
    pod["spec"]["tolerations"] = [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]
    subprocess.run(create, input=json.dumps(pod), text=True, check=True, capture_output=True)
    eventually(lambda: phase_of("tolerant") == "Running", timeout=30, what="a pod is simulated")
    assert phase_of("simulated") == "Pending"


def test_a_taken_port_is_named_before_anything_is_changed(no_lab: None) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = railhead("lab", "up", "--name", NAME, "--api-port", str(port))
    assert result.returncode == ExitCode.MISSING_PREREQUISITE
    assert f"port {port} of 127.0.0.1" in result.stderr
    assert "--api-port" in result.stderr
    assert not paths.lab_dir(NAME).exists()


def test_without_root_the_error_says_so() -> None:
    result = subprocess.run(
        [
            *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"),
            *(sys.executable, "-c", "from railhead.lab.preflight import check_machine as c; c()"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode != 0
    # The interpreter itself may lie where only root reads; then there is nothing to see here.
    if "Permission denied" in result.stderr and "railhead" not in result.stderr:
        pytest.skip("the interpreter is not readable by others")
    assert "a lab needs root" in result.stderr
    assert "uid 65534" in result.stderr


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(small)], check=True)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "railhead", "lab", "up", "--name", NAME],
            env={**os.environ, "RAILHEAD_CACHE": str(small / "c")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == ExitCode.MISSING_PREREQUISITE
        assert "GiB free" in result.stderr
        assert "RAILHEAD_CACHE" in result.stderr
        assert list(small.iterdir()) == [] or not (small / "c" / "labs").exists()
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_concurrent_up_is_refused(lab: Lab) -> None:
    from railhead.lab.cluster import locked

    with locked(NAME):
        result = railhead("lab", "up", "--name", NAME)
    assert result.returncode == ExitCode.FAILED
    assert "another command is changing lab" in result.stderr


def test_an_unknown_lab_and_log_are_named(lab: Lab) -> None:
    missing = railhead("lab", "status", "--name", "nowhere")
    assert missing.returncode == ExitCode.NOT_FOUND
    assert "there is no lab 'nowhere'" in missing.stderr
    assert NAME in missing.stderr
    log = railhead("lab", "logs", "node-0/kublet", "--name", NAME)
    assert log.returncode == ExitCode.BAD_INPUT
    assert "did you mean 'node-0.kubelet'" in log.stderr
