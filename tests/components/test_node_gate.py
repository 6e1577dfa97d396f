"""The node gate against a real API server: the program, and what holds it to its own node."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from railhead import config
from railhead.components import arguments
from railhead.components.guards.node_gate import (
    ACCOUNT,
    KEEPER,
    NAMESPACE,
    POLICY,
    PRIORITY_CLASS,
    awaited,
    daemon_set,
    keeper_deployment,
    keeper_policy,
    own_node_policy,
    program,
)
from railhead.gate.expectation import Expectation, Interface, Qos
from railhead.gate.state import ANNOTATION, LABEL
from railhead.machines import MACHINES
from railhead.resolve.gate import expectation, gate_labels
from railhead.resolve.wiring import wiring
from tests.api_server import Server
from tests.components.recording import REPO, lab_cluster
from tests.engine.controlplane import ControlPlane
from tests.unit.gate import trees


def first_daemon_set(cluster: Any) -> Any:
    args = arguments.gate(cluster)
    return daemon_set(args, args.pools[0], "x")


def parsed(**changes: Any) -> Any:
    return config.parse(lab_cluster() | changes, where="test")


def roce() -> dict[str, Any]:
    """Return the lab's fabric on real machines: eight rails with a NIC each."""
    fabric: dict[str, Any] = lab_cluster()["fabric"]
    rails = [
        {"name": f"rail-{i}", "master": f"rail{i}", "subnet": f"192.168.{100 + i}.0/24"}
        for i in range(8)
    ]
    return fabric | {"mtu": 9000, "rails": rails, "cluster_ranges": ["10.0.0.0/8"]}


def onprem(fabric: dict[str, Any], machine: str = "dgx-h100", **changes: Any) -> Any:
    """Return a cluster of real machines that is there already."""
    pool = {
        "name": "gpu",
        "instance_type": machine,
        "nodes": 2,
        "node_selector": {"railhead.dev/pool": "gpu"},
    }
    platform = {"kind": "existing", "kubeconfig": "/etc/kubeconfig"}
    return parsed(platform=platform, pools=[pool], fabric=fabric, **changes)


class TestExpectation:
    def test_the_lab_proves_its_rail_and_its_stand_ins(self) -> None:
        cluster = parsed()
        assert expectation(cluster, cluster.pools[0]) == Expectation(
            fabric="roce in mode rdma-shared",
            interfaces=(Interface(name="rail0", mtu=1500),),
            resources={"rdma/rdma_shared_device_a": 1},
        )

    def test_real_roce_proves_all_of_it(self) -> None:
        cluster = onprem(roce())
        result = expectation(cluster, cluster.pools[0])
        assert result.verbs
        assert result.link_layer == "Ethernet"
        assert result.rate_gbps == 400
        assert result.gpudirect == "any"
        assert result.qos == Qos(priority=3, dscp=26)
        assert (result.rdma_netns, result.pcie, result.iommu) == ("shared", True, True)
        assert result.interfaces == tuple(Interface(name=f"rail{i}", mtu=9000) for i in range(8))
        assert result.devices == MACHINES["dgx-h100"].hcas

    def test_tokens_must_last_where_the_stack_brings_multus(self) -> None:
        cluster = onprem(roce())
        assert expectation(cluster, cluster.pools[0]).lasting_tokens is False
        brought = onprem(roce() | {"network_operator": {"nfd": "operator"}})
        assert expectation(brought, brought.pools[0]).lasting_tokens is True
        without = {"kind": "infiniband", "mode": "rdma-shared", "network_operator": {}}
        bare = onprem(without)
        assert expectation(bare, bare.pools[0]).lasting_tokens is False

    def test_each_generation_of_nodes_has_its_own_names(self) -> None:
        pools = [
            {
                "name": name,
                "instance_type": f"hgx-{name}",
                "nodes": 2,
                "node_selector": {"railhead.dev/pool": name},
            }
            for name in ("h100", "b200")
        ]
        platform = {"kind": "existing", "kubeconfig": "/etc/kubeconfig"}
        names = {f"hgx-{name}": [f"{name}_{i}" for i in range(8)] for name in ("h100", "b200")}
        fabric = roce() | {"hcas_by_machine": names}
        queues = [
            {"name": "q", "namespace": "training", "cluster_queue": "q", "pools": ["h100", "b200"]}
        ]
        runtimes = [
            {"name": "t", "framework": "torch", "image": "x:1", "pool": "h100", "cpu": "4"}
            | {"memory": "8Gi"}
        ]
        cluster = parsed(
            platform=platform, pools=pools, fabric=fabric, queues=queues, runtimes=runtimes
        )
        for pool in cluster.pools:
            assert expectation(cluster, pool).devices == tuple(names[pool.instance_type])
        functions = {
            "kind": "roce",
            "mode": "sriov-roce",
            "cluster_ranges": ["10.0.0.0/8"],
            "ipam": {"kind": "nv-ipam"},
            "network_operator": {},
            "rails": [
                {"name": f"rail-{i}", "subnet": f"192.168.{i}.0/24"}
                | {"pf_names": [f"ens{i}np0", f"eth{i}"]}
                for i in range(8)
            ],
        }
        cluster = parsed(
            platform=platform, pools=pools, fabric=functions, queues=queues, runtimes=runtimes
        )
        for pool in cluster.pools:
            rails = expectation(cluster, pool).interfaces
            assert [(rail.name, rail.others) for rail in rails] == [
                (f"ens{i}np0", (f"eth{i}",)) for i in range(8)
            ]

    def test_whole_nics_leave_rdma_devices_behind(self) -> None:
        rails = [
            {"name": f"rail-{i}", "pf_names": [f"ens{i}np0"], "pci_addresses": [f"0000:{i}b:00.0"]}
            for i in range(8)
        ]
        cluster = onprem({"kind": "roce", "mode": "host-device", "rails": rails})
        assert expectation(cluster, cluster.pools[0]).rdma_netns == "shared"

    def test_the_site_says_what_only_it_knows(self) -> None:
        gate = {"gpudirect": "none", "priority": 5, "ecn": False}
        cluster = onprem(roce(), gate=gate)
        result = expectation(cluster, cluster.pools[0])
        assert result.gpudirect is None
        assert result.qos == Qos(priority=5, ecn=False, dscp=26)
        cluster = onprem(roce(), gate={"lossless": False})
        assert expectation(cluster, cluster.pools[0]).qos is None

    @pytest.mark.parametrize(
        ("machine", "gate", "sent", "proven"),
        [
            ("dgx-h100", {}, "106", 26),
            ("dgx-h100", {"dscp": 24, "ecn": True}, "98", 24),
            ("dgx-h100", {"lossless": False}, None, None),
            # Where frames may be dropped a site may still send with a class of its own.
            ("dgx-h100", {"lossless": False, "dscp": 0}, "2", None),
            # A provider's switches have a class of the provider's, and nobody publishes which of
            # its priorities pauses.
            ("BM.GPU.H100.8", {}, "41", None),
            ("BM.GPU.H100.8", {"lossless": True, "priority": 1}, "41", 10),
        ],
    )
    def test_what_nccl_sends_is_what_is_proven(
        self, machine: str, gate: dict[str, Any], sent: str | None, proven: int | None
    ) -> None:
        fabric = roce()
        if machine.startswith("BM."):
            rails = [
                {"name": f"rail-{i}", "master": f"rail{i}", "subnet": f"192.168.{100 + i}.0/24"}
                for i in range(16)
            ]
            fabric |= {"rails": rails, "mtu": 4220}
        cluster = onprem(fabric, machine, gate=gate)
        pool = cluster.pools[0]
        assert wiring(cluster, pool).environment.get("NCCL_IB_TC") == sent
        qos = expectation(cluster, pool).qos
        assert (qos.dscp if qos else None) == proven

    def test_no_fabric_no_gate(self) -> None:
        cluster = onprem({"kind": "ethernet", "mode": "none"})
        assert gate_labels(cluster) == {}
        assert gate_labels(parsed()) == {LABEL: "ready"}
        assert gate_labels(parsed(gate={"enabled": False})) == {}


class TestPod:
    def test_gate_runs_unprivileged_and_read_only(self) -> None:
        cluster = parsed()
        pod = first_daemon_set(cluster)["template"]["spec"]
        (container,) = pod["containers"]
        assert container["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in container["securityContext"]
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
        hosts = {v["name"] for v in pod["volumes"] if "hostPath" in v}
        mounts = {m["name"]: m for m in container["volumeMounts"]}
        assert hosts == {"sys", "dev"}
        assert all(mounts[name]["readOnly"] for name in hosts)

    def test_gate_sees_devices_where_selinux_confines_containers(self) -> None:
        """`container_t` may not stat them: the gate ended there, and no node was ever proven."""
        (container,) = first_daemon_set(onprem(roce()))["template"]["spec"]["containers"]
        assert container["securityContext"]["seLinuxOptions"] == {"type": "spc_t"}

    def test_one_dead_node_of_a_thousand_holds_up_nothing(self) -> None:
        """The provider waits for a ready pod on every node by default."""
        assert awaited(arguments.gate(parsed())) == {}
        (wanted,) = awaited(arguments.gate(onprem(roce()))).values()
        assert wanted == "jsonpath={.status.observedGeneration}"

    def test_its_image_comes_from_the_mirror(self) -> None:
        """A thousand nodes behind one address are more than docker.io gives to the unnamed."""
        mirrors = {"docker.io": "registry.example.com:5000/docker"}
        for given, wanted in (
            ({}, "docker.io/library/python:"),
            ({"registry_mirrors": mirrors}, "registry.example.com:5000/docker/library/python:"),
            ({"registry_mirrors": mirrors, "gate": {"image": "own.example.com/p:1"}}, "own."),
        ):
            changes: dict[str, Any] = {"gate": {}, **given}
            cluster = onprem(roce(), **changes)
            for spec in (
                first_daemon_set(cluster),
                keeper_deployment(arguments.gate(cluster), "x"),
            ):
                (container,) = spec["template"]["spec"]["containers"]
                assert container["image"].startswith(wanted)

    def test_gate_is_deleted_last_and_its_labels_expire(self) -> None:
        cluster = onprem(roce())
        gate = first_daemon_set(cluster)
        keeper = keeper_deployment(arguments.gate(cluster), "x")
        labels = gate["template"]["metadata"]["labels"]
        for spec in (gate, keeper):
            assert spec["template"]["spec"]["priorityClassName"] == PRIORITY_CLASS
        command = keeper["template"]["spec"]["containers"][0]["command"]
        (selector,) = [a.partition("=")[2] for a in command if a.startswith("--selector=")]
        key, _, value = selector.partition("=")
        assert labels[key] == value
        # The keeper's own pod is no gate's.
        assert keeper["template"]["metadata"]["labels"][key] != value

    def test_ports_are_asked_in_the_nodes_network_and_only_then(self) -> None:
        for gate, wanted in (({}, True), ({"lossless": False}, None)):
            cluster = onprem(roce(), gate=gate)
            spec = first_daemon_set(cluster)["template"]["spec"]
            assert spec.get("hostNetwork") is wanted

    def test_the_files_run_alone_and_need_nothing_but_python(self, tmp_path: Path) -> None:
        """The pod has the files in a directory that is not a package."""
        for path, text in program().items():
            target = tmp_path / "program" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        tree = trees.lab(tmp_path / "node")
        cluster = parsed()
        (tmp_path / "expectation.json").write_text(expectation(cluster, cluster.pools[0]).to_json())
        done = subprocess.run(
            [
                *(sys.executable, "-I", "-S", "-c"),
                f"import sys; sys.path.insert(0, {str(tmp_path / 'program')!r});"
                "import runpy; runpy.run_module('railhead.gate', run_name='__main__')",
                *("--once", f"--expectation={tmp_path / 'expectation.json'}"),
                f"--sys={tree.sys}",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        assert "proven  interface rail0: up, MTU 9000" in done.stdout
        # Asked by hand it knows nothing of the node's status, and says so.
        assert "failed  resource rdma/rdma_shared_device_a" in done.stdout
        assert done.returncode == 1


# -- a real API server -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(judging_plane: ControlPlane) -> Iterator[Server]:
    with Server(judging_plane) as server:
        for body in objects():
            server.apply(body)
        stranger = token(server, "gate-1")
        # A policy takes effect a moment after it was made.
        eventually(lambda: patch(server, stranger, "node-0", READY) != "", "the policy in force")
        yield server


def objects() -> Iterator[dict[str, Any]]:
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for name in (ACCOUNT, KEEPER, "other"):
        yield {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name, "namespace": NAMESPACE},
        }
    for index in range(2):
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{index}", "labels": {"pool": "gpu"}},
        }
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"gate-{index}", "namespace": NAMESPACE},
            "spec": {
                "nodeName": f"node-{index}",
                "serviceAccountName": ACCOUNT,
                "containers": [{"name": "gate", "image": "x"}],
            },
        }
    rbac = "rbac.authorization.k8s.io"
    yield {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ACCOUNT},
        # More than the stack grants, so that the policy alone is what refuses.
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["nodes", "nodes/status"],
                "verbs": ["get", "patch", "update", "delete"],
            }
        ],
    }
    yield {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ACCOUNT},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": ACCOUNT},
        "subjects": [
            {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
            for name in (ACCOUNT, KEEPER)
        ],
    }
    admission = "admissionregistration.k8s.io/v1"
    for name, spec in ((POLICY, own_node_policy()), (KEEPER, keeper_policy())):
        yield {
            "apiVersion": admission,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": spec,
        }
        yield {
            "apiVersion": admission,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }


def token(server: Server, pod: str | None, account: str = ACCOUNT) -> str:
    bound = ["--bound-object-kind=Pod", f"--bound-object-name={pod}"] if pod else []
    made = server.run("create", "token", account, "-n", NAMESPACE, *bound)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def eventually(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def patch(server: Server, credential: str, node: str, change: Any, *more: str) -> str:
    """Return why the API server refuses a patch with a token; empty when it accepts it."""
    bare = [str(server.kubectl), f"--server=https://127.0.0.1:{server.plane.port}"]
    bare += [f"--certificate-authority={server.plane.folder / 'certs' / 'apiserver.crt'}"]
    done = subprocess.run(
        [
            *(*bare, "--kubeconfig=/dev/null", f"--token={credential}", "patch", "node", node),
            *("--type=merge", "-p", json.dumps(change), *more),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stderr


READY = {"metadata": {"labels": {LABEL: "ready"}, "annotations": {ANNOTATION: "{}"}}}


@pytest.mark.controlplane
class TestOwnNode:
    def test_label_and_report_of_its_own_node(self, server: Server) -> None:
        mine = token(server, "gate-0")
        eventually(lambda: patch(server, mine, "node-0", READY) == "", "its own node")
        assert patch(server, mine, "node-0", {"metadata": {"labels": {LABEL: None}}}) == ""

    def test_gate_may_not_label_another_node(self, server: Server) -> None:
        refused = patch(server, token(server, "gate-0"), "node-1", READY)
        assert "the node that its own pod runs on" in refused
        assert patch(server, token(server, "gate-1"), "node-1", READY) == ""

    def test_no_token_without_a_pod(self, server: Server) -> None:
        unbound = patch(server, token(server, None), "node-0", READY)
        assert "the node that its own pod runs on" in unbound

    @pytest.mark.parametrize(
        "change",
        [
            {"metadata": {"labels": {"pool": "other"}}},
            {"metadata": {"labels": {"pool": None}}},
            {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
            {"metadata": {"annotations": {"a": "b"}}},
            {"spec": {"unschedulable": True}},
            {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
        ],
        ids=json.dumps,
    )
    def test_gate_may_change_only_its_label_and_taint(self, server: Server, change: Any) -> None:
        refused = patch(server, token(server, "gate-0"), "node-0", change)
        assert "and nothing else of a node" in refused

    def test_gate_may_not_change_its_nodes_status(self, server: Server) -> None:
        change = {"status": {"allocatable": {"nvidia.com/gpu": "8"}}}
        refused = patch(server, token(server, "gate-0"), "node-0", change, "--subresource=status")
        assert POLICY in refused

    def test_others_write_to_nodes_as_ever(self, server: Server) -> None:
        for change in ("a=b", "a-"):
            assert server.run("label", "node", "node-0", change).returncode == 0

    def test_the_keeper_takes_the_label_away_and_does_nothing_else(self, server: Server) -> None:
        mine, keeper = token(server, "gate-0"), token(server, None, KEEPER)
        withdraw = {"metadata": {"labels": {LABEL: None}, "annotations": {ANNOTATION: "{}"}}}
        refused = "the gate's keeper takes the label"
        eventually(lambda: refused in patch(server, keeper, "node-0", READY), "its policy")
        assert patch(server, mine, "node-0", READY) == ""
        assert patch(server, keeper, "node-0", withdraw) == ""
        for change in (
            {"metadata": {"labels": {LABEL: "failed"}}},
            {"metadata": {"labels": {LABEL: None, "pool": "other"}}},
            {"metadata": {"annotations": {"a": "b"}}},
            {"spec": {"unschedulable": True}},
        ):
            assert refused in patch(server, keeper, "node-0", change)

    @pytest.mark.parametrize("policy", [POLICY, KEEPER])
    def test_the_policy_is_well_typed(self, server: Server, policy: str) -> None:
        item = json.loads(
            server.run("get", "validatingadmissionpolicy", policy, "-o", "json").stdout
        )
        warnings = item.get("status", {}).get("typeChecking", {}).get("expressionWarnings")
        assert not warnings, json.dumps(warnings, indent=1)


@pytest.mark.controlplane
class TestProgram:
    """The program as a process, as its pod's account, on a tree that a test breaks."""

    @pytest.fixture
    def account(self, server: Server, tmp_path: Path) -> Path:
        directory = tmp_path / "account"
        directory.mkdir()
        (directory / "token").write_text(token(server, "gate-0"))
        shutil.copy(server.plane.folder / "certs" / "apiserver.crt", directory / "ca.crt")
        return directory

    @staticmethod
    def node(server: Server) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(
            server.run("get", "node", "node-0", "-o", "json").stdout
        )
        return result

    def label(self, server: Server) -> str | None:
        labels: dict[str, str] = self.node(server)["metadata"]["labels"]
        return labels.get(LABEL)

    def open(self, server: Server) -> list[dict[str, str]]:
        text = self.node(server)["metadata"]["annotations"][ANNOTATION]
        result: list[dict[str, str]] = json.loads(text)["open"]
        return result

    def test_label_follows_the_nodes_state(
        self, server: Server, account: Path, tmp_path: Path
    ) -> None:
        tree = trees.lab(tmp_path / "node")
        cluster = parsed()
        expected = tmp_path / "expectation.json"
        expected.write_text(expectation(cluster, cluster.pools[0]).to_json())
        state = tmp_path / "state"
        script = (
            "import sys, pathlib; from railhead.gate import api, __main__ as gate;"
            "gate.NodeApi.in_cluster = classmethod(lambda c, n: api.NodeApi(node=n, api=api.Api("
            f"server=api.server(), account=pathlib.Path({str(account)!r}))));"
            "sys.exit(gate.main(sys.argv[1:]))"
        )
        status = {"status": {"allocatable": {"rdma/rdma_shared_device_a": "63"}}}
        arguments = ("patch", "node", "node-0", "--subresource=status", "--type=merge", "-p")
        assert server.run(*arguments, json.dumps(status)).returncode == 0
        running = subprocess.Popen(
            [
                *(sys.executable, "-c", script, f"--expectation={expected}", "--node=node-0"),
                *(f"--sys={tree.sys}", f"--state={state}", "--period=0.2"),
            ],
            cwd=REPO,
            env={
                **os.environ,
                "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                "KUBERNETES_SERVICE_PORT": str(server.plane.port),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            eventually(lambda: self.label(server) == "ready", "a good node")
            assert self.open(server) == []
            assert (state / "spoken").exists()
            # The rail goes down: the node fails, and says why and what to do.
            trees.write(tree.sys / "class/net/rail0/operstate", "down")
            eventually(lambda: self.label(server) == "failed", "a rail that is down")
            (finding,) = self.open(server)
            assert finding["name"] == "interface rail0"
            assert "ip link set rail0 up" in finding["remedy"]
            trees.write(tree.sys / "class/net/rail0/operstate", "up")
            eventually(lambda: self.label(server) == "ready", "a rail that is mended")
            # The gate restores a label that someone removes or changes.
            assert server.run("label", "node", "node-0", f"{LABEL}-").returncode == 0
            eventually(lambda: self.label(server) == "ready", "the label is back")
            # A device plugin that loses its devices fails the node as well.
            gone = {"status": {"allocatable": {"rdma/rdma_shared_device_a": "0"}}}
            assert server.run(*arguments, json.dumps(gone)).returncode == 0
            eventually(lambda: self.label(server) == "failed", "no devices")
            assert self.open(server)[0]["name"] == "resource rdma/rdma_shared_device_a"
            # What nobody watches is not proven.
            running.send_signal(signal.SIGTERM)
            output, _ = running.communicate(timeout=120)
            assert running.returncode == 0
            assert self.label(server) is None
            lines = [json.loads(line) for line in output.splitlines()]
            assert lines[-1]["text"] == "label withdrawn"
            assert (account / "token").read_text()[:40] not in output
        finally:
            running.kill()
            running.wait()

    def test_another_nodes_gate_changes_nothing(
        self, server: Server, account: Path, tmp_path: Path
    ) -> None:
        done = subprocess.run(
            [
                *(sys.executable, "-c"),
                "import sys, pathlib; from railhead.gate.api import Api, NodeApi, ApiError\n"
                f"api = NodeApi(node='node-1', api=Api(account=pathlib.Path({str(account)!r}),"
                f" server='https://127.0.0.1:{server.plane.port}'))\n"
                "try: api.label({'railhead.dev/fabric': 'ready'}, {})\n"
                "except ApiError as error: print(error)",
            ],
            cwd=REPO,
            capture_output=True,
            text=True,
            check=True,
        )
        assert "the node that its own pod runs on" in done.stdout
