"""Agreement of what launch submits, the runtime wires, guards demand and the queue covers.

Of every stack that is shipped and of generated ones: several pools of unlike machines, part of a
node's GPUs, several namespaces and claims, queues over several pools. What becomes of a job is put
together here from the runtime's object and the job's, as Trainer does it; the contract has no part
in that.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from railhead import config
from railhead.base.errors import InputError
from railhead.base.quantity import parse
from railhead.catalog.versions import COMBINATIONS
from railhead.fabric.mode import GKE_INTERFACES, NETWORKS_ANNOTATION
from railhead.launch import render
from railhead.launch.job import Payload, parse_job, read_job
from railhead.launch.plan import Plan, make_plan
from railhead.machines import MACHINES
from railhead.model.capacity import quantities
from railhead.model.cluster import Cluster
from railhead.resolve.cluster import Resolved, resolve
from railhead.resolve.pod_guards import HARMLESS_CAPABILITIES, demand, network_pattern
from railhead.resolve.runtimes import ResolvedRuntime
from railhead.resolve.wiring import wiring
from tests import crds
from tests.components import fabrics
from tests.components.recording import STACKS, stack_cluster
from tests.kueues import kueues

Object = dict[str, Any]
FILE = Payload(name="train.py", data=b"x")
# A job's pods of MPI are the images' user, for ssh refuses root the key that Trainer mounts.
_NO_CAPABILITY = "a user has no capability that is added (kubernetes #56374, enhancements #2763)"
WITHOUT_MPI = {
    "aws-p5-prod": "no public image has both aws-ofi-nccl and sshd for mpiuser: AWS' has no sshd "
    "(deep-learning-containers, pytorch/training/docker/2.8/py3/cu129 and base/x86_64/gpu/cu129)",
    "aws-p5en-block": "as on aws-p5-prod",
    "onprem-ib-sriov": f"its nodes' memlock limit is finite, and {_NO_CAPABILITY}",
    "onprem-roce-shared": f"its nodes' memlock limit is finite, and {_NO_CAPABILITY}",
}


# -- what becomes of a job ------------------------------------------------------------------------


def plan_of(resolved: Resolved, runtime: str, **fields: Any) -> Plan:
    """Return the plan that `railhead launch` makes."""
    row = next(r for r in resolved.runtimes if r.name == runtime)
    nodes = row.framework.fewest_nodes
    wanted = {"name": "job", "nodes": nodes, "runtime": runtime, "command": ["torchrun", "y"]}
    if teams := resolved.cluster.teams:
        # Of several teams a job must say whose it is.
        wanted["queue"] = teams[0].name
    wanted |= fields
    job = parse_job(json.dumps(wanted), where="job")
    return make_plan(job, (FILE,), resolved.contract)


def container_of(pod: Mapping[str, Any]) -> Object:
    """Return the one that trains; a sidecar is among the ones that start before."""
    (only,) = pod["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def pods_of(runtime: ResolvedRuntime, job: Object) -> Object:
    """Return the pod that Trainer makes of a runtime's template and a TrainJob.

    ``resourcesPerNode`` replaces the container's resources (2.1, pkg/runtime/framework/plugins/
    jobset) or is merged into limits and requests (2.3, pkg/runtime/core), without claims in both.
    """
    *_, replicated = runtime.spec["template"]["spec"]["replicatedJobs"]
    pod: Object = copy.deepcopy(replicated["template"]["spec"]["template"])
    container, spec = container_of(pod), job["spec"]
    trainer = spec["trainer"]
    if own := trainer.get("resourcesPerNode"):
        merged = "runtimePatches" in spec
        container["resources"] = {
            side: (container["resources"][side] if merged else {}) | own[side]
            for side in ("requests", "limits")
        }
    env = {e["name"]: e.get("value") for e in (*container["env"], *trainer["env"])}
    container["env"] = [{"name": name, "value": value} for name, value in env.items()]
    if "runtimePatches" in spec:
        (patch,) = spec["runtimePatches"]
        changed = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
        name, more = changed["name"], changed["template"]["spec"]["template"]["spec"]
    else:
        (patch,) = spec["podTemplateOverrides"]
        # The job whose pods are looked at is the first; others get the same.
        target = patch["targetJobs"][0]
        name, more = target["name"], patch["spec"]
    assert name == replicated["name"]
    (patched,) = more["containers"]
    assert patched["name"] == container["name"]
    pod["spec"]["volumes"] += more["volumes"]
    container["volumeMounts"] += patched["volumeMounts"]
    return pod


# -- what must agree ------------------------------------------------------------------------------


def check(resolved: Resolved, plan: Plan) -> None:
    """Compare a plan's TrainJob with the stack's runtime, guards and queue."""
    cluster = resolved.cluster
    runtime = next(r for r in resolved.runtimes if r.name == plan.runtime)
    job = render.train_job(plan)
    pod = pods_of(runtime, job)
    assert job["spec"]["trainer"]["numNodes"] == plan.nodes
    check_devices(cluster, runtime, plan, pod)
    check_queue(resolved, runtime, plan, job, pod)
    check_nodes(cluster, runtime, pod)
    check_checkpoints(cluster, plan, pod)
    check_environment(runtime, pod)
    check_guards(cluster, plan, job, pod)


def check_devices(cluster: Cluster, runtime: ResolvedRuntime, plan: Plan, pod: Object) -> None:
    """Compare the devices with the wiring for this pool and these GPUs; a node must have them."""
    resources = container_of(pod)["resources"]
    wired = wiring(cluster, runtime.pool, plan.gpus_per_node)
    wanted = {runtime.machine.gpu_resource: str(plan.gpus_per_node)} | wired.requests()
    limits = dict(resources["limits"])
    check_memory(runtime, plan, resources["requests"]["memory"], limits.pop("memory"))
    assert limits == wanted
    assert {k: v for k, v in resources["requests"].items() if k in wanted} == wanted
    assert resources == plan.resources | {k: v for k, v in resources.items() if k == "claims"}
    assert plan.gpus_per_node == runtime.machine.gpus or not cluster.fabric.whole_nodes
    node = quantities(cluster, runtime.pool)
    assert not [name for name, amount in wanted.items() if parse(amount) > parse(node[name])]
    claimed = [c["resourceClaimTemplateName"] for c in pod["spec"].get("resourceClaims", [])]
    assert claimed == list(wired.claims.values())
    used = [claim["name"] for claim in resources.get("claims", [])]
    assert used == [claim["name"] for claim in pod["spec"].get("resourceClaims", [])]


def check_memory(runtime: ResolvedRuntime, plan: Plan, request: str, limit: str) -> None:
    """Compare the limit with what goes with the GPUs, of which daemons keep a part."""
    _, gib = runtime.pool.schedulable_resources
    gpus = runtime.gpus if runtime.machine.stand_in else plan.gpus_per_node
    part = Decimal(gib << 30) * gpus / runtime.machine.gpus
    assert parse(request) <= parse(limit) <= max(parse(request), part * Decimal("0.95"))


def check_queue(
    resolved: Resolved, runtime: ResolvedRuntime, plan: Plan, job: Object, pod: Object
) -> None:
    """Assert that the queue covers the pod's requests, with enough on the pool's own flavor."""
    label = job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    (namespace,) = (n for n in resolved.namespaces if n.name == job["metadata"]["namespace"])
    behind = namespace.queues[label]["clusterQueue"]
    assert behind == plan.cluster_queue
    (queue,) = (q for q in kueues(resolved).cluster_queues if q.name == behind)
    (group,) = queue.spec["resourceGroups"]
    requests = container_of(pod)["resources"]["requests"]
    assert set(requests) <= set(group["coveredResources"])
    quota: dict[str, Decimal] = {}
    for other in kueues(resolved).cluster_queues:
        # What another team is promised may be borrowed.
        if other is queue or "cohortName" in queue.spec:
            for name, amount in promised(other.spec, plan.flavor).items():
                quota[name] = quota.get(name, Decimal(0)) + amount
    short = {k for k, v in requests.items() if parse(v) * plan.nodes > quota[k]}
    assert short <= {"cpu", "memory"}, "these are the stack's own words"
    taken = [name for name in queue.pools if passes(resolved, queue.pools, name, pod)]
    assert taken == [runtime.pool.name], "Kueue could place it elsewhere"
    assert kueues(resolved).flavors[runtime.pool.name].name == plan.flavor


def promised(spec: Mapping[str, Any], flavor: str) -> dict[str, Decimal]:
    """Resource -> nominal quota of a cluster queue in a flavor."""
    (group,) = spec["resourceGroups"]
    rows = [r for f in group["flavors"] if f["name"] == flavor for r in f["resources"]]
    return {row["name"]: parse(row["nominalQuota"]) for row in rows}


def passes(resolved: Resolved, pools: tuple[str, ...], name: str, pod: Object) -> bool:
    """Return whether Kueue may take a flavor (pkg/scheduler/flavorassigner, flavorSelector).

    Of the pod's selector it looks at the label keys of all flavors of the group up to 0.18, and at
    the flavor's own since 0.19: either must be enough.
    """
    labels = {p: kueues(resolved).flavors[p].spec["nodeLabels"] for p in pools}
    keys_then, keys_now = {key for own in labels.values() for key in own}, set(labels[name])
    selector = pod["spec"]["nodeSelector"]
    return any(
        all(labels[name].get(k) == v for k, v in selector.items() if k in keys)
        for keys in (keys_then, keys_now)
    )


def check_nodes(cluster: Cluster, runtime: ResolvedRuntime, pod: Object) -> None:
    """Assert that the pod may run on no node of another pool, whatever labels that carries."""
    selector = pod["spec"]["nodeSelector"]
    for pool in cluster.pools:
        carries = dict(runtime.pool.node_selector) | dict(pool.node_selector)
        fits = selector.items() <= carries.items()
        assert fits is (pool.name == runtime.pool.name)


def check_checkpoints(cluster: Cluster, plan: Plan, pod: Object) -> None:
    """Assert that the directory lies on a claim of the job's namespace, or is not set."""
    container = container_of(pod)
    env = {e["name"]: e.get("value") for e in container["env"]}
    volumes = {
        v["name"]: v["persistentVolumeClaim"]["claimName"]
        for v in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in v
    }
    mounted = {
        m["mountPath"]: volumes[m["name"]]
        for m in container["volumeMounts"]
        if m["name"] in volumes
    }
    directory = env.get("CHECKPOINT_DIR")
    assert (directory is None) is (not mounted)
    if directory is not None:
        ((path, claim),) = mounted.items()
        assert directory == f"{path}/{plan.name}"
        assert plan.checkpoint_claim == claim
        there = {(c.namespace, c.name): c.mount_path for c in cluster.checkpoints}
        assert there[plan.namespace, claim] == path


def check_environment(runtime: ResolvedRuntime, pod: Object) -> None:
    """Compare the environment with the wiring and the overrides of the runtime's own section."""
    env = {e["name"]: e.get("value") for e in container_of(pod)["env"]}
    for name, value in runtime.wired.environment.items():
        assert env[name] == runtime.config.environment.get(name, value)


def check_guards(cluster: Cluster, plan: Plan, job: Object, pod: Object) -> None:
    """Everything that the guards ask of a pod of several nodes, and of a TrainJob's resources."""
    asked = demand(cluster)
    limits = container_of(pod)["resources"]["limits"]
    assert any(gpu in limits for gpu in asked.gpus)
    for device in asked.devices:
        assert parse(limits.get(device, "0")) > 0
    annotations = pod["metadata"]["annotations"]
    if asked.attachment in ("multus", "gke"):
        key = GKE_INTERFACES if asked.attachment == "gke" else NETWORKS_ANNOTATION
        for network in asked.networks:
            assert re.search(network_pattern(network, asked.attachment), annotations[key])
    if asked.attachment == "claim":
        (claim,) = pod["spec"]["resourceClaims"]
        assert claim["resourceClaimTemplateName"] in asked.networks
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])):
        capabilities = container.get("securityContext", {}).get("capabilities", {})
        assert set(capabilities.get("add", [])) <= {*asked.capabilities, *HARMLESS_CAPABILITIES}
    assert not pod["spec"].get("hostNetwork") or asked.host_network
    own = job["spec"]["trainer"].get("resourcesPerNode")
    assert (own is not None) is plan.resized
    if own is not None:
        assert {"cpu", "memory"} <= set(own["requests"])
        assert asked.attachment != "claim", "Trainer would drop the claim"


# -- stacks ---------------------------------------------------------------------------------------


@cache
def shipped(stack: str) -> Resolved:
    return resolve(config.parse(stack_cluster(stack), where=stack))


@pytest.mark.parametrize("stack", STACKS)
def test_every_job_that_a_shipped_stack_takes(stack: str) -> None:
    resolved = shipped(stack)
    for runtime in resolved.runtimes:
        assert runtime.gpus in runtime.shares
        for gpus in (None, *runtime.shares):
            fields = {} if gpus is None else {"gpus_per_node": gpus}
            for nodes in {runtime.framework.fewest_nodes, runtime.pool.nodes}:
                check(resolved, plan_of(resolved, runtime.name, nodes=nodes, **fields))


@cache
def validator(versions: str) -> jsonschema.Draft7Validator:
    schemas = crds.schemas(versions)
    return jsonschema.Draft7Validator(schemas["trainer.kubeflow.org/v1alpha1", "TrainJob"])


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_every_example_on_every_shipped_stack(stack: str, repo: Path) -> None:
    resolved = shipped(stack)
    schema = validator(resolved.cluster.versions)
    sets = [f"queue={team.name}" for team in resolved.cluster.teams[:1]]
    sent = []
    for path in sorted((repo / "examples").glob("*.yaml")):
        if path.stem == "mpi" and stack in WITHOUT_MPI:
            with pytest.raises(InputError, match="add a runtime of it"):
                make_plan(*read_job(path, sets=sets), resolved.contract)
            continue
        plan = make_plan(*read_job(path, sets=sets), resolved.contract)
        check(resolved, plan)
        sent.append(render.train_job(plan))
        own = sum(map(len, plan.words))
        assert len(json.dumps(sent[-1])) - own < 2_500, "no program travels with a job"
    faults = [e.message for job in sent for e in schema.iter_errors(job)]
    assert (len(sent), faults) == (10 if stack in WITHOUT_MPI else 11, [])


@cache
def cases() -> dict[str, Object]:
    """Stacks on clusters that are there, one for each way into pods: id -> raw cluster."""
    clusters = {c.id: fabrics.cluster(c) for c in fabrics.every() if c.platform == "existing"}
    # By claim, on machines that have fewer NICs than GPUs as well.
    claimed = copy.deepcopy(clusters["efa-efa-existing"])
    claimed["fabric"]["allocation"] = "dra"
    return clusters | {"efa-efa-existing-dra": claimed}


@st.composite
def stacks(draw: st.DrawFn) -> Object:
    """Return a stack of up to three pools, queues over some of them each, and runtimes on any."""
    raw = copy.deepcopy(draw(st.sampled_from(sorted(cases().items())))[1])
    template, kind = raw["pools"][0], raw["fabric"]["kind"]
    like = MACHINES[template["instance_type"]]
    machines = [
        m.name
        for m in MACHINES.values()
        if "existing" in m.platforms
        and (kind in m.fabrics or kind == "ethernet")
        # There are as many rails as NICs where the mode has rails.
        and ("rails" not in raw["fabric"] or len(m.nics) == len(like.nics))
    ]
    chosen = [template["instance_type"], *draw(st.lists(st.sampled_from(machines), max_size=2))]
    if hcas := raw["fabric"].get("hcas"):
        chosen = [m for m in chosen if len(MACHINES[m].nics) == len(hcas)] or chosen[:1]
    names = [f"pool-{index}" for index in range(len(chosen))]
    shared = draw(st.sampled_from([{}, {"zone": "z"}]))
    raw["pools"] = [
        {
            "name": name,
            "instance_type": machine,
            "nodes": draw(st.integers(1, 5)),
            "node_selector": {"railhead.dev/pool": name} | shared,
        }
        for name, machine in zip(names, chosen, strict=True)
    ]
    spaces = draw(st.sampled_from([["training"], ["training", "research"]]))
    raw["namespaces"] = spaces
    raw["versions"] = draw(st.sampled_from([*COMBINATIONS]))
    # Queues over neighbouring pools; each in one namespace or in all.
    split = draw(st.integers(1, len(names)))
    raw["queues"] = [
        {"name": f"queue-{i}", "namespace": space, "cluster_queue": f"queue-{i}", "pools": part}
        for i, part in enumerate(part for part in (names[:split], names[split:]) if part)
        for space in draw(st.sampled_from([spaces, spaces[-1:]]))
    ]
    claims = draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True))
    raw["checkpoints"] = [
        {
            "name": claim,
            "namespace": space,
            "storage_class": "nfs",
            "size": "1Ti",
            "mount_path": f"/mnt/{claim}",
        }
        for space in spaces
        for claim in draw(st.permutations(claims))
    ]
    base = {k: v for k, v in raw["runtimes"][0].items() if k not in ("checkpoint", "nodes")}
    raw["runtimes"] = [
        base
        | {"name": f"runtime-{index}", "pool": pool, "cpu": "1", "memory": "1Gi"}
        | draw(st.sampled_from([{}, {"checkpoint": claims[0]} if claims else {}]))
        | draw(st.sampled_from([{}, {"gpus_per_node": draw(st.integers(1, 8))}]))
        for index, pool in enumerate(draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)))
    ]
    return raw


@pytest.mark.exhaustive
@pytest.mark.slow
@settings(max_examples=250)
@given(raw=stacks(), data=st.data())
def test_every_job_that_a_generated_stack_takes(raw: Object, data: st.DataObject) -> None:
    try:
        cluster = config.parse(raw, where="generated")
    except InputError:
        assume(False)
    resolved = resolve(cluster)
    runtime = data.draw(st.sampled_from(resolved.runtimes))
    gpus = data.draw(st.none() | st.integers(1, 9))
    nodes = data.draw(st.integers(1, runtime.pool.nodes))
    queue = data.draw(st.none() | st.sampled_from(cluster.queues))
    fields: Object = {"nodes": nodes} | ({} if gpus is None else {"gpus_per_node": gpus})
    fields |= {"queue": queue.name} if queue else {}
    reasons = list(refusals(resolved, runtime, gpus=gpus, nodes=nodes, queue=queue))
    if reasons:
        with pytest.raises(InputError) as caught:
            plan_of(resolved, runtime.name, **fields)
        assert not [reason for reason in reasons if reason not in caught.value.problem]
    else:
        check(resolved, plan_of(resolved, runtime.name, **fields))


def refusals(
    resolved: Resolved, runtime: ResolvedRuntime, *, gpus: int | None, nodes: int, queue: Any
) -> Iterator[str]:
    """Yield the start of each message that refuses the job."""
    if gpus not in (None, *runtime.shares):
        yield f"gpus_per_node: {gpus} is not allowed"
    if queue is not None and runtime.pool.name not in queue.pools:
        yield f"queue: {queue.name!r} does not cover"
    charged = resolved.cluster.versions == "kueue-0.15"
    if charged and nodes != runtime.config.nodes:
        yield f"nodes: {nodes} is not allowed"


@pytest.mark.parametrize("stack", STACKS)
def test_a_share_is_as_large_a_part_of_the_nics_as_of_the_gpus(stack: str) -> None:
    for runtime in shipped(stack).runtimes:
        nics = len(runtime.machine.nics)
        for gpus, requests in runtime.shares.items():
            amount = Decimal(requests.get("vpc.amazonaws.com/efa", 0))
            assert amount in (0, max(1, nics * gpus // runtime.machine.gpus))


@pytest.mark.parametrize("stack", STACKS)
def test_reserved_settings_are_refused_with_their_owner(stack: str) -> None:
    resolved = shipped(stack)
    for runtime in resolved.contract.runtimes:
        assert "NCCL_NET" in runtime.reserved
        for variable, who in runtime.reserved.items():
            if variable.startswith("RAILHEAD_"):
                continue
            with pytest.raises(InputError, match=re.escape(f"{variable}: set by {who}")):
                plan_of(resolved, runtime.name, env={variable: "1"})
        # What a person debugs with is theirs.
        assert plan_of(resolved, runtime.name, env={"NCCL_DEBUG": "INFO"}).env["NCCL_DEBUG"]


@pytest.mark.parametrize("stack", STACKS)
def test_the_contract_has_each_runtimes_own_pod(stack: str) -> None:
    resolved = shipped(stack)
    runtimes = {runtime.name: runtime for runtime in resolved.contract.runtimes}
    assert list(runtimes) == [runtime.name for runtime in resolved.runtimes]
    for runtime in resolved.runtimes:
        *_, replicated = runtime.spec["template"]["spec"]["replicatedJobs"]
        made = copy.deepcopy(replicated["template"]["spec"]["template"])
        # What a framework's launcher alone waits for is no part of a node's pod.
        inside = [c for c in made["spec"].pop("initContainers", ()) if c["name"] != "named"]
        made["spec"] |= {"initContainers": inside} if inside else {}
        assert runtimes[runtime.name].pod == made
        assert runtimes[runtime.name].replicated_job == replicated["name"]
        assert runtimes[runtime.name].container == container_of(runtime.pod)["name"]
