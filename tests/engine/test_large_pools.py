"""A thousand nodes of which three are dead: `up` begins, and jobs are placed on all the rest.

The real API server has the nodes, with what kubelets would say of them; the real Kueue, as a stack
configures it, places gangs. Nothing runs their pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from railhead.base.errors import RefusedError
from railhead.config import parse
from railhead.config.live import before_up
from railhead.gate.state import LABEL, READY
from railhead.kube import nodes
from railhead.launch.apis import apis
from railhead.launch.job import parse_job
from railhead.launch.plan import make_plan
from railhead.resolve.cluster import resolve
from tests import crds
from tests.api_server import Server
from tests.components.recording import Recording, fake_lab, run_program, stack_cluster
from tests.components.test_api_server import manifests
from tests.engine.controlplane import PROGRAMS, ControlPlane, locate
from tests.kueue_manager import eventually, kueue

# Rehearsals place gangs on fewer nodes, and tests/unit/test_nodes.py has nodes that are down.
pytestmark = [pytest.mark.controlplane, pytest.mark.exhaustive]

WHERE = "training"
FLEET = 1000
#: Not ready, one of them with the label that its gate gave it while it was.
DEAD = ("node-0", "node-500", "node-999")
MERGE = "application/merge-patch+json"
Body = dict[str, Any]


def cluster() -> Body:
    """Return the lab's stack on a thousand nodes."""
    body = stack_cluster("lab")
    body["pools"][0]["nodes"] = FLEET
    body["runtimes"] = body["runtimes"][:1]
    body["fabric"]["rails"] = [{"name": "rail-0", "master": "rail0", "subnet": "10.200.0.0/16"}]
    return body


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    results = {name: locate(name) for name in PROGRAMS}
    if missing := [name for name, path in results.items() if path is None]:
        pytest.skip(f"no {', '.join(missing)}: run `railhead lab build`")
    folder = tmp_path_factory.mktemp("large")
    fake_lab(folder)
    recording = run_program(cluster(), folder)
    plane = ControlPlane(
        folder / "plane",
        {name: path for name, path in results.items() if path is not None},
        without=("node-lifecycle-controller",),
    )
    try:
        plane.start()
        server = Server(plane)
        nad = crds.operators("k8s.cni.cncf.io")
        with ThreadPoolExecutor(4) as several:
            made = [several.submit(add_node, server, number) for number in range(FLEET)]
            with kueue(server, folder / "kueue", configuration(recording), nad):
                for body in manifests(recording):
                    server.apply(body)
                server.policies_settled()
                for item in made:
                    item.result()
                yield server
    finally:
        plane.stop()


def configuration(recording: Recording) -> Body:
    """Return the file that Kueue's chart would mount."""
    (release,) = (
        r.inputs
        for r in recording.of_type("kubernetes:helm.sh/v3:Release")
        if r.inputs["name"] == "kueue"
    )
    text = release["values"]["managerConfig"]["controllerManagerConfigYaml"]
    read: Body = yaml.safe_load(text)
    return read


def add_node(server: Server, number: int) -> None:
    """Add a node of the pool with the status that its kubelet would report."""
    name = f"node-{number}"
    dead = name in DEAD
    labels = {
        "kubernetes.io/hostname": name,
        "topology.railhead.dev/block": f"b{number // 100}",
        "topology.railhead.dev/rack": f"r{number // 10}",
        "railhead.dev/pool": "gpu",
    }
    if name not in DEAD[:2]:
        labels[LABEL] = READY
    room = {
        "cpu": "2",
        "memory": "4Gi",
        "pods": "110",
        "nvidia.com/gpu": "8",
        "rdma/rdma_shared_device_a": "63",
    }
    status = {
        "capacity": room,
        "allocatable": room,
        "conditions": [{"type": "Ready", "status": "Unknown" if dead else "True"}],
    }
    metadata = {"name": name, "labels": labels}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
    server.client.request("POST", nodes.NODES, body=body)
    if not dead:
        # Admission taints a new node as not ready, and what would take the taint away is not run.
        server.client.request(
            "PATCH", f"{nodes.NODES}/{name}", body={"spec": {"taints": None}}, content_type=MERGE
        )


def on_metal(server: Server) -> Any:
    """Return the same stack, of a cluster that is there already."""
    body = cluster()
    body["platform"] = {"kind": "existing", "kubeconfig": str(server.plane.kubeconfig)}
    body["versions"] = "proven"
    body["fabric"]["cluster_ranges"] = ["172.16.0.0/12"]
    del body["controllers"]
    return parse(body, where="test")


def test_dead_nodes_are_named_and_up_begins(server: Server) -> None:
    reported = before_up(on_metal(server))
    assert reported == f"nodes that are not ready or cordoned, and get no jobs: {', '.join(DEAD)}"


def test_up_reports_absent_nodes_and_begins(server: Server) -> None:
    """An operator who repairs a node removes it from the cluster."""
    body = on_metal(server)
    for wanted, begins in ((FLEET + 3, True), (FLEET + 40, False)):
        pool = body.pools[0].model_copy(update={"nodes": wanted})
        of = body.model_copy(update={"pools": (pool,)})
        if begins:
            assert f"{wanted} nodes promised, {FLEET} there" in before_up(of)
        else:
            with pytest.raises(RefusedError, match=f"{wanted} nodes promised, {FLEET} carry"):
                before_up(of)


def gang(size: int) -> list[Body]:
    text = f"name: g{size}\nnodes: {size}\nframework: torch\ncommand: [train.py]\n"
    contract = resolve(parse(cluster(), where="test")).contract
    return apis()["jobset"].objects(make_plan(parse_job(text, where="job"), (), contract))


def workload(server: Server, size: int, condition: str, status: str) -> Body:
    """Return the workload of a gang once it says so; nothing before."""
    # The first version lists the hosts of an assignment; later ones fold them.
    path = f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{WHERE}/workloads"
    for item in server.client.request("GET", path).body["items"]:
        for entry in item.get("status", {}).get("conditions", []):
            mine = item["metadata"]["name"].startswith(f"jobset-g{size}-")
            if mine and (entry["type"], entry["status"]) == (condition, status):
                return dict(item) | {"said": entry["message"]}
    return {}


def test_gang_gets_every_live_node_and_no_dead_one(server: Server) -> None:
    alive = FLEET - len(DEAD)
    for body in gang(alive + 1):
        server.apply(body)
    waits = eventually(lambda: workload(server, alive + 1, "QuotaReserved", "False"))
    assert f"allows to fit only {alive} out of {alive + 1} pod(s)" in waits["said"]
    server.delete(gang(alive + 1))
    for body in gang(alive):
        server.apply(body)
    admitted = eventually(lambda: workload(server, alive, "QuotaReserved", "True"))
    (placed,) = admitted["status"]["admission"]["podSetAssignments"]
    domains = placed["topologyAssignment"]["domains"]
    hosts = [domain["values"][-1] for domain in domains for _ in range(domain["count"])]
    assert set(hosts) == {f"node-{number}" for number in range(FLEET)} - set(DEAD)
    assert len(hosts) == alive
