"""The fabric for real: rails, guards, network policy and node gate on a running cluster.

The stack is updated to each mode in turn and put back as it was at the end.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.base.names import FABRIC_LABEL
from railhead.gate.state import ANNOTATION, LABEL
from railhead.lab import preflight
from railhead.lab.cluster import Lab
from tests.lab.conftest import Run, eventually, succeed
from tests.lab.jobs import IMAGE, NAMESPACE, Jobs, records, submitting, unique, wait

pytestmark = pytest.mark.lab

Apply = Callable[[Sequence[dict[str, Any]]], None]
PAYLOAD = 64 << 20
GPU, RDMA = "nvidia.com/gpu", "rdma/rdma_shared_device_a"


def rail(index: int) -> dict[str, Any]:
    """Addresses of a rail; the first is the stack's own."""
    base = 128 + 16 * index
    return {
        "name": f"rail-{index}",
        "subnet": f"192.168.{base}.0/20",
        "range_start": f"192.168.{base + 8}.1",
        "range_end": f"192.168.{base + 15}.254",
    }


def asked_for(fabric: dict[str, Any]) -> set[str]:
    """Return the resources that pods of a fabric's jobs request."""
    devices = () if fabric.get("resources") is False else (RDMA,)
    return {*(row["name"] for row in fabric["rails"]), *devices}


@pytest.fixture(scope="module")
def deploy(
    pulumi: Run, stack: str, repo: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Update the stack to another fabric, with the jobs given up that ask for what goes."""
    original = yaml.safe_load((repo / "stacks" / "Pulumi.lab.yaml").read_text())
    directory = tmp_path_factory.mktemp("stack")
    first = last = original["config"]["railhead:cluster"]["fabric"]

    def update(fabric: dict[str, Any]) -> None:
        nonlocal last
        settings = json.loads(json.dumps(original))
        cluster = settings["config"]["railhead:cluster"]
        cluster["fabric"] = fabric
        if asked_for(last) - asked_for(fabric):
            cluster["removals"] = [{"kind": "cluster", "name": cluster["name"], "loses": ["jobs"]}]
        file = directory / "Pulumi.lab.yaml"
        file.write_text(yaml.safe_dump(settings))
        succeed(pulumi("up", "--stack", stack, "--yes", "--config-file", str(file)))
        last = fabric

    yield update
    if last != first:
        update(first)


@pytest.fixture(scope="module")
def fabric(repo: Path) -> dict[str, Any]:
    """The lab stack's own fabric."""
    text = (repo / "stacks" / "Pulumi.lab.yaml").read_text()
    result: dict[str, Any] = yaml.safe_load(text)["config"]["railhead:cluster"]["fabric"]
    return result


@pytest.fixture
def jobs(lab_env: dict[str, str], kubeconfig: Path, tmp_path: Path) -> Iterator[Jobs]:
    with submitting(lab_env, kubeconfig, tmp_path) as jobs:
        yield jobs


@pytest.fixture
def lab(running_lab: str) -> Lab:
    return Lab(running_lab)


def node_labels(kubectl: Run, running_lab: str) -> dict[str, str | None]:
    items = json.loads(succeed(kubectl("get", "nodes", "-o", "json")).stdout)["items"]
    return {
        item["metadata"]["name"]: item["metadata"]["labels"].get(LABEL)
        for item in items
        if item["metadata"]["name"].startswith(f"{running_lab}-node-")
    }


def run_rails(jobs: Jobs, *, rails: int, processes: int) -> list[dict[str, str]]:
    """Run tests/lab/rails.py as a job on two nodes; what each process counted."""
    shutil.copy(Path(__file__).with_name("rails.py"), jobs.directory / "rails.py")
    name = unique("rails")
    path = jobs.job_file(
        name,
        processes_per_node=processes,
        command=["torchrun", "/workspace/rails.py"],
        files=["rails.py"],
        env={"RAILS": str(rails)},
    )
    done = jobs.run("launch", path, "--follow", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    moved = records(done.stdout.splitlines(), "moved ")
    assert len(moved) == 2 * processes * rails
    assert {row["node"] for row in moved} == {"0", "1"}
    return moved


def check_turns(moved: list[dict[str, str]], rails: int) -> None:
    """Assert that one rail carries each turn's payload, and other interfaces next to nothing."""
    for row in moved:
        turn = int(row["rail"])
        counted = {k: int(v) for k, v in row.items() if k == "eth0" or k.startswith("net")}
        assert set(counted) == {"eth0", *(f"net{i + 1}" for i in range(rails))}
        # Each node of two sends and receives the payload once per round, four rounds.
        assert counted[f"net{turn + 1}"] > 4 * (16 << 20), row
        quiet = [count for name, count in counted.items() if name != f"net{turn + 1}"]
        assert max(quiet) < 2_000_000, row


# -- rails --------------------------------------------------------------------------------------


def test_macvlan_carries_a_job_and_the_pod_network_does_not(jobs: Jobs) -> None:
    """The stack as it is: one rail."""
    check_turns(run_rails(jobs, rails=1, processes=1), 1)


@pytest.fixture(scope="class")
def two_rails(
    deploy: Callable[[dict[str, Any]], None], fabric: dict[str, Any], running_lab: str
) -> None:
    """The stack with two rails."""
    for index in range(2):
        # A pod of an earlier run, which had the whole interface, gave it back switched off.
        Lab(running_lab).node_init(index).run(["ip", "link", "set", "rail1", "up"])
    deploy(fabric | {"rails": [rail(i) | {"master": f"rail{i}"} for i in range(2)]})


@pytest.mark.acceptance
@pytest.mark.usefixtures("two_rails")
class TestTwoRails:
    """A rail per process."""

    def test_the_gate_proves_both(self, kubectl: Run, running_lab: str) -> None:
        text = succeed(
            kubectl("-n", "railhead-gate", "get", "configmap", "expectation-gpu", "-o", "json")
        ).stdout
        expected = json.loads(json.loads(text)["data"]["expectation.json"])
        assert [i["name"] for i in expected["interfaces"]] == ["rail0", "rail1"]
        eventually(
            lambda: set(node_labels(kubectl, running_lab).values()) == {"ready"},
            timeout=60,
            what="two nodes are ready",
        )

    def test_each_process_has_its_own_rail(self, jobs: Jobs) -> None:
        check_turns(run_rails(jobs, rails=2, processes=2), 2)

    def test_rails_do_not_reach_each_other(
        self, kubectl: Run, apply: Apply, running_lab: str
    ) -> None:
        """A pod on one rail reaches a pod on the same, and none on the other."""
        hosts = [f"{running_lab}-node-{i}" for i in range(2)]
        joined = {
            "one": ("rail-0", hosts[0]),
            "two": ("rail-1", hosts[1]),
            "too": ("rail-1", hosts[0]),
        }
        try:
            apply(
                [
                    plain(name, host, annotations={"k8s.v1.cni.cncf.io/networks": network})
                    for name, (network, host) in joined.items()
                ]
            )
            for name in joined:
                running(kubectl, name)
            there = address(kubectl, "two", "net1")

            def reaches(name: str, interface: str) -> bool:
                probe = ("ping", "-c1", "-W2", "-I", interface, there)
                return kubectl("exec", name, "-n", NAMESPACE, "--", *probe).returncode == 0

            assert reaches("too", "net1")
            assert not reaches("one", "net1")
            assert not reaches("one", "eth0")
            assert not reaches("too", "eth0")
        finally:
            kubectl("-n", NAMESPACE, "delete", "pod", *joined, "--now", "--ignore-not-found")


@pytest.fixture(scope="class")
def host_device(deploy: Callable[[dict[str, Any]], None], fabric: dict[str, Any]) -> Iterator[None]:
    """The stack in another mode, for these tests alone."""
    deploy(
        {
            "kind": "roce",
            "mode": "host-device",
            "resources": False,
            "lock_memory": False,
            "mtu": fabric["mtu"],
            "ipam": fabric["ipam"],
            "rails": [rail(1) | {"pf_names": ["rail1"]}],
        }
    )
    yield
    deploy(fabric)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("host_device")
class TestHostDevice:
    """The whole interface moves into the pod, and back."""

    def test_the_interface_carries_a_job_and_comes_back(
        self, jobs: Jobs, lab: Lab, kubectl: Run, running_lab: str
    ) -> None:
        eventually(
            lambda: set(node_labels(kubectl, running_lab).values()) == {"ready"},
            timeout=60,
            what="two nodes are ready",
        )
        check_turns(run_rails(jobs, rails=1, processes=1), 1)
        jobs.clear()
        eventually(lambda: all(interfaces(lab)), timeout=60, what="rail1 is back on both nodes")

    def test_a_node_whose_rail_is_in_use_stays_ready(
        self, jobs: Jobs, lab: Lab, kubectl: Run, running_lab: str
    ) -> None:
        name = unique("hold")
        jobs.launch(name, nodes=2)
        wait(lambda: len(jobs.pods(name)) == 2, 90, "two pods")
        eventually(lambda: not any(interfaces(lab)), timeout=60, what="rail1 is in the pods")
        # Several looks of the gate, which comes by every two seconds.
        time.sleep(6)
        assert set(node_labels(kubectl, running_lab).values()) == {"ready"}
        jobs.clear()
        eventually(lambda: all(interfaces(lab)), timeout=60, what="rail1 is back on both nodes")


def interfaces(lab: Lab) -> list[bool]:
    """Return whether each node has rail1."""
    results = [lab.node_init(i).run(["ip", "-o", "link", "show"]) for i in range(2)]
    return [": rail1@" in text for text in results]


# -- guards -------------------------------------------------------------------------------------


def plain(
    name: str,
    node: str | None = None,
    *,
    namespace: str = NAMESPACE,
    command: str = "sleep 600",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a small pod without devices."""
    container = {
        "name": "c",
        "image": "railhead.local/busybox:1",
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            **({"nodeName": node} if node else {}),
            **spec,
        },
    }


def running(kubectl: Run, name: str, namespace: str = NAMESPACE) -> None:
    phase = ("-n", namespace, "get", "pod", name, "-o", "jsonpath={.status.phase}")
    eventually(lambda: kubectl(*phase).stdout == "Running", timeout=60, what=f"{name} runs")


def address(kubectl: Run, name: str, interface: str, namespace: str = NAMESPACE) -> str:
    show = ("exec", name, "-n", namespace, "--", "ip", "-4", "-o", "addr", "show", interface)
    return succeed(kubectl(*show)).stdout.split()[3].split("/")[0]


def refusal(kubectl: Run, body: dict[str, Any], *options: str) -> str:
    """Return why the cluster refuses an object; fail if it accepts it."""
    result = kubectl("create", *options, "-f", "-", stdin=json.dumps(body))
    assert result.returncode != 0, result.stdout
    return result.stderr


def test_bad_pods_are_refused_with_the_remedy(kubectl: Run, stack: str) -> None:
    del stack
    # As Kueue would have admitted it.
    labels = {"jobset.sigs.k8s.io/jobset-name": "j", "kueue.x-k8s.io/podset": "node"}
    gang = plain("bad", labels=labels)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    gang["metadata"]["ownerReferences"] = [owner]
    gang["spec"]["containers"][0]["resources"] = {"limits": {GPU: 8}}
    # Anyone else's word that a Job owns it is not believed. Of two guards that refuse a pod, either
    # answers: this one asks for no fabric.
    lone = {**gang, "metadata": {**gang["metadata"], "labels": {**labels, FABRIC_LABEL: "none"}}}
    assert "no queue was charged" in refusal(kubectl, lone)
    text = refusal(kubectl, gang, "--as=system:serviceaccount:kube-system:job-controller")
    assert "would fall back to TCP" in text
    assert "k8s.v1.cni.cncf.io/networks" in text
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        reaching: dict[str, Any] = {field: True}
        assert f"spec.{field}" in refusal(kubectl, plain("bad", **reaching))
    host: dict[str, Any] = {"volumes": [{"name": "h", "hostPath": {"path": "/dev/infiniband"}}]}
    assert "PersistentVolumeClaim" in refusal(kubectl, plain("bad", **host))
    privileged = plain("bad")
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    assert "remove securityContext.privileged" in refusal(kubectl, privileged)


def test_a_job_without_its_fabric_never_gets_a_pod(kubectl: Run, stack: str) -> None:
    """The Job is written without Railhead, and its controller makes no pod."""
    del stack
    template = plain("x", restartPolicy="Never")
    template["spec"]["containers"][0]["resources"] = {
        "limits": {GPU: 8},
        "requests": {"cpu": "100m", "memory": "64Mi"},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": unique("bare"),
            "namespace": NAMESPACE,
            "labels": {"kueue.x-k8s.io/queue-name": "training"},
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "template": {"spec": template["spec"]},
        },
    }
    # The Job itself, before the queue has given it anything.
    text = refusal(kubectl, job)
    # Two guards say so; which of them the API server names first is not told.
    assert "'railhead-job-template'" in text or "'railhead-parallel-job'" in text
    assert "a job of several nodes without the fabric" in text.lower()


def test_a_running_pod_may_be_looked_into_but_not_raised(kubectl: Run, apply: Apply) -> None:
    apply([plain("watched")])
    try:
        running(kubectl, "watched")
        assert kubectl("exec", "watched", "-n", NAMESPACE, "--", "id").returncode == 0
        debug = ("debug", "watched", "-n", NAMESPACE, "--image=railhead.local/busybox:1")
        raised = kubectl(*debug, "--profile=sysadmin", "--", "sh")
        assert "remove securityContext.privileged" in raised.stderr
        succeed(kubectl(*debug, "--profile=general", "--", "true"))
    finally:
        kubectl("-n", NAMESPACE, "delete", "pod", "watched", "--now", "--ignore-not-found")


# -- network policy -----------------------------------------------------------------------------

LISTEN = (
    "import http.server, signal, sys; signal.signal(15, lambda *_: sys.exit(0));"
    "http.server.HTTPServer(('', {port}), http.server.SimpleHTTPRequestHandler).serve_forever()"
)
PORT = 34567
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"


@pytest.fixture
def listening(jobs: Jobs, kubectl: Run) -> list[dict[str, Any]]:
    """The two pods of a job, each listening on a port that nobody has named to the cluster."""
    if not preflight.has_ip_sets():
        pytest.skip("this kernel has no IP sets: nothing enforces network policies in its lab")
    name = unique("listen")
    jobs.launch(name, command=["python3", "-c", LISTEN.format(port=PORT)])
    jobs.phase(name, "running", 90)
    pods = jobs.pods(name)
    for pod in pods:
        ask = ("exec", pod["metadata"]["name"], "-n", NAMESPACE, "--", "python3", "-c", CONNECT)

        def listens(ask: tuple[str, ...] = ask) -> bool:
            return bool(kubectl(*ask, "127.0.0.1", str(PORT)).returncode == 0)

        eventually(listens, timeout=60, what="the pod listens")
    return pods


def test_a_jobs_pods_reach_each_other_and_names_and_nothing_else(
    kubectl: Run, listening: list[dict[str, Any]]
) -> None:
    first, second = listening
    python = ("exec", first["metadata"]["name"], "-n", NAMESPACE, "--", "python3", "-c")

    def connects(host: str, port: int) -> bool:
        return kubectl(*python, CONNECT, host, str(port)).returncode == 0

    eventually(
        lambda: connects(second["status"]["podIP"], PORT), timeout=30, what="pods reach each other"
    )
    master = f"{first['spec']['hostname']}.{first['spec']['subdomain']}"
    look = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
    assert kubectl(*python, look, master).stdout.strip() == first["status"]["podIP"]
    # The API server by service and by address, the kubelet of the other node, a web server.
    for host, port in (
        ("10.96.0.1", 443),
        ("10.210.0.1", 6443),
        (second["status"]["hostIP"], 10250),
    ):
        assert not connects(host, port), f"{host}:{port}"


def test_other_pods_cannot_reach_the_job(
    kubectl: Run, apply: Apply, listening: list[dict[str, Any]]
) -> None:
    """Pods of another namespace, and pods of no job in the job's own, are refused."""
    hosts = sorted({pod["spec"]["nodeName"] for pod in listening})
    assert len(hosts) == 2
    other = "strangers"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}
    try:
        apply([space])
        strangers = [
            *((f"stranger-{i}", other, host) for i, host in enumerate(hosts)),
            ("stranger-within", NAMESPACE, hosts[0]),
        ]
        serve = "mkdir /www && httpd -f -p 8080 -h /www"
        apply([plain(n, h, namespace=s, command=serve) for n, s, h in strangers])
        for name, space_name, _ in strangers:
            running(kubectl, name, space_name)
        # They reach each other, so what follows is the policy's doing and no broken network.
        there = address(kubectl, "stranger-1", "eth0", other)

        def connects(name: str, namespace: str, host: str, port: int) -> bool:
            probe = f"nc -w 2 {host} {port} < /dev/null"
            return kubectl("exec", name, "-n", namespace, "--", "sh", "-c", probe).returncode == 0

        eventually(
            lambda: connects("stranger-0", other, there, 8080), timeout=30, what="a free network"
        )
        for pod in listening:
            for name, space_name, _ in strangers:
                assert not connects(name, space_name, pod["status"]["podIP"], PORT), name
        # Nor does the job reach them.
        python = ("exec", listening[0]["metadata"]["name"], "-n", NAMESPACE, "--", "python3", "-c")
        assert kubectl(*python, CONNECT, there, "8080").returncode != 0
    finally:
        kubectl("-n", NAMESPACE, "delete", "pod", "stranger-within", "--now", "--ignore-not-found")
        kubectl("delete", "namespace", other, "--ignore-not-found", timeout=120)


# -- node gate ----------------------------------------------------------------------------------


def test_a_node_whose_rail_is_down_gets_no_job(
    jobs: Jobs, lab: Lab, kubectl: Run, running_lab: str
) -> None:
    broken, good = f"{running_lab}-node-1", f"{running_lab}-node-0"

    def labels() -> dict[str, str | None]:
        return node_labels(kubectl, running_lab)

    eventually(lambda: set(labels().values()) == {"ready"}, timeout=60, what="both are ready")
    lab.node_init(1).run(["ip", "link", "set", "rail0", "down"])
    try:
        eventually(lambda: labels()[broken] == "failed", timeout=30, what="the node has failed")
        assert labels()[good] == "ready"
        text = kubectl("get", "node", broken, "-o", "json").stdout
        report = json.loads(json.loads(text)["metadata"]["annotations"][ANNOTATION])
        (finding,) = report["open"]
        assert finding["name"] == "interface rail0"
        assert "ip link set rail0 up" in finding["remedy"]
        # A gang of two has no second node: it waits whole, with no pod anywhere.
        both, item = unique("both"), unique("one")
        jobs.launch(both, nodes=2)
        # One of one is placed on the node that passed, however often.
        jobs.launch(item, nodes=1)
        jobs.phase(item, "running", 90)
        assert {p["spec"]["nodeName"] for p in jobs.pods(item)} == {good}
        assert jobs.pods(both) == []
        jobs.clear(item)
    finally:
        lab.node_init(1).run(["ip", "link", "set", "rail0", "up"])
    eventually(lambda: labels()[broken] == "ready", timeout=60, what="it is ready again")
    jobs.phase(both, "running", 120)
    assert {p["spec"]["nodeName"] for p in jobs.pods(both)} == {good, broken}


def test_naming_the_node_does_not_bypass_the_gate(kubectl: Run, running_lab: str) -> None:
    body = plain("named", f"{running_lab}-node-1", labels={"kueue.x-k8s.io/podset": "node"})
    body["spec"]["containers"][0]["resources"] = {"limits": {GPU: 1, RDMA: 1}}
    assert "Forbidden" in refusal(kubectl, body) or "no queue" in refusal(kubectl, body)


def test_the_gates_own_account_may_not_raise_another_node(
    kubectl: Run, running_lab: str, lab_env: dict[str, str]
) -> None:
    del lab_env
    account = "system:serviceaccount:railhead-gate:railhead-gate"
    result = kubectl(
        "label",
        "node",
        f"{running_lab}-node-0",
        f"{LABEL}=failed",
        "--overwrite",
        f"--as={account}",
    )
    assert "the node that its own pod runs on" in result.stderr


def test_images_of_the_lab_run_the_gate(kubectl: Run, stack: str) -> None:
    del stack
    pods = json.loads(kubectl("-n", "railhead-gate", "get", "pods", "-o", "json").stdout)["items"]
    # One a node, and the keeper.
    assert len(pods) == 3
    for pod in pods:
        (container,) = pod["spec"]["containers"]
        assert container["image"] == IMAGE
        (status,) = pod["status"]["containerStatuses"]
        assert status["ready"]
        assert status["restartCount"] == 0


def test_gate_runs_once_by_hand(kubectl: Run, stack: str) -> None:
    """An administrator runs the gate's check by hand, in the gate's own pod."""
    del stack
    result: subprocess.CompletedProcess[str] = kubectl(
        *("-n", "railhead-gate", "exec", "ds/gate-gpu", "--", "python3", "-m", "railhead.gate"),
        *("--once", "--sys=/host/sys", "--dev=/host/dev"),
        "--expectation=/opt/railhead-gate/expectation.json",
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "proven  interface rail0: up" in result.stdout
    assert f"proven  resource {RDMA}" in result.stdout
