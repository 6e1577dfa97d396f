"""Settings that each framework's documentation asks of a launcher, for every rank, in every API.

The table is written from the documents; what launch renders is completed as the API server, the
controllers and the kubelet do, and compared with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railhead.base.errors import InputError, PrerequisiteError
from railhead.base.names import NVLINK_CLAIM
from railhead.catalog.switches import SWITCHES, in_words
from railhead.config import parse
from railhead.framework import FRAMEWORKS
from railhead.framework.base import NODE_RANK
from railhead.launch import render
from railhead.launch.apis import apis
from railhead.launch.explain import derived
from railhead.launch.job import parse_job
from railhead.launch.logs import claimed
from railhead.launch.plan import Plan, make_plan
from railhead.resolve.runtimes import runtimes
from tests.components.recording import lab_cluster
from tests.wiring import (
    CONTROLLERS,
    EVERY,
    LAUNCHERS,
    TABLE,
    contract,
    differences,
    kinds,
    objects,
    plan,
    pods,
)


def test_every_framework_and_every_kind_is_in_the_tables() -> None:
    assert set(TABLE) == set(FRAMEWORKS)
    assert {api for _, api in EVERY} == {"trainjob", *apis()}
    assert set(CONTROLLERS) >= {"trainjob", *apis()}


@pytest.mark.parametrize(("framework", "api"), EVERY)
@pytest.mark.parametrize("nodes", [2, 3, 16, 128])
def test_every_rank_has_what_the_documentation_asks(framework: str, api: str, nodes: int) -> None:
    made = plan(framework, nodes, 1 if FRAMEWORKS[framework].one_process else 4)
    assert differences(framework, api, made, objects(api, made)) == []


@pytest.mark.parametrize(("framework", "api"), EVERY)
def test_missing_settings_are_detected(framework: str, api: str) -> None:
    """Each variable by which launch wires a gang; the table would else prove nothing."""
    row = FRAMEWORKS[framework]
    made = plan(framework, 2, 1 if row.one_process else 4)
    wired = row.wiring(made.gang(("a", "b")))
    # The first names logs alone; the second is for who looks at it.
    free = {"PADDLE_JOB_ID", "NODE_RANK"}
    text = environment(objects(api, made)[-1])
    if any(f"$({NODE_RANK})" in text.get(name, "") for name in wired):
        wired[NODE_RANK] = ""
    for name in sorted(text.keys() & wired.keys() - free):
        bodies = objects(api, made)
        for entries in every_list(bodies[-1], "env"):
            entries[:] = [e for e in entries if e["name"] != name]
        assert differences(framework, api, made, bodies), f"without {name}"


def every_list(value: Any, key: str) -> Iterator[list[dict[str, Any]]]:
    if isinstance(value, list):
        for inner in value:
            yield from every_list(inner, key)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name == key and isinstance(inner, list):
                yield inner
            else:
                yield from every_list(inner, key)


def environment(body: dict[str, Any]) -> dict[str, str]:
    return {e["name"]: e.get("value", "") for entries in every_list(body, "env") for e in entries}


def test_process_variables_match_each_launchers_source() -> None:
    """``process`` of a framework, which others rely on, against the launchers' own ways."""
    for framework, row in FRAMEWORKS.items():
        if row.launcher not in LAUNCHERS or row.one_process:
            continue
        made = plan(framework, 3, 4)
        api = next(api for name, api in EVERY if name == framework and api != "trainjob")
        result = pods(api, made, objects(api, made))
        gang = made.gang(tuple(pod.host for pod in result))
        for node, local in ((0, 0), (1, 3), (2, 1)):
            reported = LAUNCHERS[row.launcher](result, node, local)
            text = row.process(gang, node, local)
            assert reported.items() <= text.items(), framework


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_controllers_set_what_their_rows_promise(framework: str) -> None:
    """Launch leaves these to it: a variable that no controller has would be missing."""
    row = FRAMEWORKS[framework]
    for api, names in row.controller.items():
        made = plan(framework, 2, 1 if row.one_process else 4)
        # KubeRay writes the launcher's words, too.
        by_words = LAUNCHERS["ray start"](pods(api, made, objects(api, made)), 1, 0)
        assert set(names) <= {row.variable for row in CONTROLLERS[api]} | set(by_words), api


def test_every_row_says_where_it_was_read() -> None:
    for rows in (*TABLE.values(), *CONTROLLERS.values()):
        for row in rows:
            assert re.search(r"\d+\.\d+", row.source), row


@pytest.mark.parametrize("framework", ["mpi", "horovod"])
def test_ssh_takes_the_variables_to_the_other_pods(framework: str) -> None:
    """A process started over ssh has none of its container's variables."""
    needed = {"NCCL_SOCKET_IFNAME", "CHECKPOINT_DIR", "RAILHEAD_WORLD_SIZE", "LR", "TOKEN"}
    made = plan(framework, 2, 4, more={"secrets": {"TOKEN": "hub/token"}, "env": {"LR": "2"}})
    assert made.command[-4:-3] == ("python3",)
    (job,) = objects("trainjob", made)
    launcher, server = (pod.container for pod in pods("mpijob", made, objects("mpijob", made)))
    for entries in (job["spec"]["trainer"]["env"], launcher["env"]):
        assert needed <= sent(entries)
        # Open MPI takes its own; beside the list of it, any -x ends mpirun (4.1.4).
        assert not [name for name in sent(entries) if name.startswith("OMPI_")]
        assert "OMPI_MCA_mca_base_env_list" not in {e["name"] for e in entries}
    assert server["command"][-2:] == ["-o", "AcceptEnv=*"]
    assert "-x" not in (*made.command, *launcher["args"])


def sent(entries: Iterable[dict[str, Any]]) -> set[str]:
    """Return the names that mpirun's ssh sends; Open MPI splits its agent at each space."""
    (agent,) = (e["value"] for e in entries if e["name"] == "OMPI_MCA_plm_rsh_agent")
    ssh, *options = agent.split(" ")
    assert ssh == "ssh"
    assert all(option.startswith("-oSendEnv=") for option in options)
    return {option.removeprefix("-oSendEnv=") for option in options}


def test_runtimes_of_mpi_take_their_variables_to_all_pods() -> None:
    """Jobs of kubectl and the SDK, too; sshd's SetEnv would win over their own (sshd_config)."""
    raw = lab_cluster()
    raw["runtimes"][0] |= {"framework": "mpi", "environment": {"MINE": "1"}}
    [runtime, *_] = runtimes(parse(raw, where="test"))
    roles = runtime.spec["template"]["spec"]["replicatedJobs"]
    server, launcher = (
        role["template"]["spec"]["template"]["spec"]["containers"][0] for role in roles
    )
    names = {e["name"] for e in launcher["env"] if not e["name"].startswith("OMPI_")}
    assert sent(launcher["env"]) == names >= {"MINE", "NCCL_SOCKET_IFNAME"}
    assert server["command"][-2:] == ["-o", "AcceptEnv=*"]
    assert not any("SetEnv" in word for word in server["command"])
    assert not re.search(in_words(SWITCHES), " ".join(server["command"]))
    assert "command" not in launcher


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"env": {"PATH": "/opt/bin", "HOME": "/x"}}, "env: HOME, PATH: not allowed"),
        ({"secrets": {"USER": "a/b"}}, "env: USER: not allowed"),
        ({"env": {f"V{n}": "" for n in range(100)}}, "allowed: 100, for sshd takes no more"),
    ],
)
def test_variable_that_sshd_would_not_take_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        plan("mpi", 2, 4, more=more)
    assert plan("torch", 2, more=more).nodes == 2


def test_pods_of_an_older_runtime_would_not_get_the_variables() -> None:
    before = contract("mpi", 8)
    (runtime,) = before.runtimes
    text = json.dumps(runtime.pod).replace("OMPI_MCA_plm_rsh_agent", "MINE")
    older = runtime.model_copy(update={"pod": json.loads(text)})
    job = parse_job("name: a\nnodes: 2\nframework: mpi\ncommand: [train.py]\n", where="job")
    with pytest.raises(PrerequisiteError, match="an older Railhead made it") as caught:
        make_plan(job, (), before.model_copy(update={"runtimes": (older,)}))
    assert "pulumi up" in caught.value.remedy


@pytest.mark.parametrize(
    "words",
    [
        ["/opt/mpi/bin/mpirun", "-np", "8", "-x", "LR=1", "a", ":", "-np", "7", "b"],
        ["mpirun.openmpi", "-np", "8", "x"],
        ["horovodrun", "-np", "8", "x"],
        ["env", "A=b", "mpirun", "-np", "8", "x"],
        ["nsys", "profile", "-o", "y", "/opt/mpi/bin/mpiexec", "x"],
        ["timeout", "9h", "bash", "-c", "mpirun -np 8 x"],
        ["conda", "run", "-n", "mpi", "sh", "-c", "orterun -np 8 x"],
        ["bash", "-c", ". hpcx-init.sh && hpcx_load; A=1 ${HPCX_MPI_DIR}/bin/mpirun -np 8 x"],
        ["sh", "-c", "if ! numactl --interleave=all mpirun -np 8 x; then exit 3; fi"],
        ["bash", "-c", 'set -e\n"${MPI_HOME}/bin/mpirun" -np 8 x'],
        ["sh", "-c", 'RUN="$(command -v mpirun.openmpi)"; exec $RUN -np 8 x'],
    ],
    ids=" ".join,
)
def test_no_word_is_put_into_a_command_with_mpirun(words: list[str]) -> None:
    """Up to Open MPI 4.1 it ends with `mpirun does not support recursive calls`."""
    assert plan("mpi", 2, 4, more={"command": words}).command == tuple(words)


@pytest.mark.parametrize(
    "words",
    [
        ["bash", "run.sh"],
        ["sh", "-c", ". mpirun_env.sh && ./x"],
        ["nsys", "profile", "-o", "mpirun_trace", "./x"],
        ["/opt/mpirun/bin/x"],
        ["./x", "mpirun"],
    ],
    ids=" ".join,
)
def test_other_commands_are_started_by_mpirun(words: list[str]) -> None:
    made = plan("mpi", 2, 4, more={"command": words}).command
    assert made == ("mpirun", "-np", "8", "--bind-to", "none", *words)
    own = plan("mpi", 2, 4, more={"command": words, "launcher": "own"})
    assert own.command == tuple(words)


def test_pods_of_mpi_run_as_the_user_of_their_images() -> None:
    """Trainer v2.1.0, manifests/base/runtimes/deepspeed_distributed.yaml; ssh refuses root."""
    raw = lab_cluster()
    raw["runtimes"][0]["framework"] = "mpi"
    [runtime, *_] = runtimes(parse(raw, where="test"))
    roles = runtime.spec["template"]["spec"]["replicatedJobs"]
    made = [role["template"]["spec"]["template"]["spec"]["containers"][0] for role in roles]
    job = plan("mpi", 2, 4)
    made += [pod.container for pod in pods("mpijob", job, objects("mpijob", job))]
    user = {"allowPrivilegeEscalation": False, "runAsUser": 1000, "runAsGroup": 1000}
    assert [container["securityContext"] for container in made] == [user] * 4
    group = {"fsGroup": 1000, "fsGroupChangePolicy": "OnRootMismatch"}
    specs = [role["template"]["spec"]["template"]["spec"] for role in roles]
    specs += [pod.spec for pod in pods("mpijob", job, objects("mpijob", job))]
    assert [spec.get("securityContext") for spec in specs] == [group] * 4


def test_messages_of_mpi_stay_off_the_rails() -> None:
    """Open MPI takes every interface for them unless some are named."""
    raw = lab_cluster()
    raw["runtimes"][0]["framework"] = "mpi"
    [runtime, *others] = runtimes(parse(raw, where="test"))
    interfaces = runtime.wired.environment["GLOO_SOCKET_IFNAME"]
    for kind in ("btl", "oob"):
        assert runtime.environment[f"OMPI_MCA_{kind}_tcp_if_include"] == interfaces
    for other in others:
        if other.framework.name != "mpi":
            assert not any(name.startswith("OMPI") for name in other.environment)


def test_interfaces_left_out_beside_the_runtimes_are_refused() -> None:
    """Open MPI 4.1 opens no TCP where both lists are set, whatever they hold."""
    for more, kind in (
        ({"command": ["mpirun", "--mca", "btl_tcp_if_exclude", "lo", "x"]}, "btl"),
        ({"command": ["sh", "-c", "mpirun -mca oob_tcp_if_exclude lo x"]}, "oob"),
        ({"env": {"OMPI_MCA_btl_tcp_if_exclude": "lo"}}, "btl"),
        ({"secrets": {"OMPI_MCA_oob_tcp_if_exclude": "a/b"}}, "oob"),
    ):
        with pytest.raises(InputError, match=f"{kind}_tcp_if_exclude is not allowed") as caught:
            plan("mpi", 2, 4, more=more)
        assert f"--mca {kind}_tcp_if_include NAMES" in caught.value.remedy
    own = ["mpirun", "--mca", "btl_tcp_if_include", "eth1", "x"]
    assert plan("mpi", 2, 4, more={"command": own}).command[-4:] == tuple(own[1:])


def test_mpi_has_one_launcher_whatever_the_number_of_nodes() -> None:
    """Trainer v2.1.0 makes as many as the runtime's numNodes (pkg/runtime/core)."""
    raw = lab_cluster()
    raw["runtimes"][0] |= {"framework": "mpi", "nodes": 4}
    raw["pools"][0]["nodes"] = 4
    [runtime, *_] = runtimes(parse(raw, where="test"))
    assert runtime.spec["mlPolicy"]["numNodes"] == 1
    server, launcher = runtime.spec["template"]["spec"]["replicatedJobs"]
    assert server["template"]["spec"]["parallelism"] == 3
    assert "parallelism" not in launcher["template"]["spec"]


def test_image_that_would_reach_the_first_pod_alone_is_refused() -> None:
    made = plan("mpi", 2, 4, more={"image": "mine:1"})
    with pytest.raises(InputError, match="image: 'mine:1' would reach the first pod alone"):
        render.train_job(made)
    for pod in pods("mpijob", made, objects("mpijob", made)):
        assert pod.container["image"] == "mine:1"
    assert render.train_job(plan("torch", 2, more={"image": "mine:1"}))


@pytest.mark.parametrize(
    ("framework", "api", "roles"),
    [("mpi", "trainjob", 2), ("mpi", "mpijob", 2), ("torch", "pytorchjob", 2)],
)
def test_required_topology_holds_over_all_pods(framework: str, api: str, roles: int) -> None:
    """Two pod sets are placed apart unless they are a group, which Kueue takes of just two."""
    group = "kueue.x-k8s.io/podset-group-name"
    for topology, grouped in (("rack", True), ("prefer rack", False), ("any", False)):
        made = plan(framework, 2, 4, more={"topology": topology})
        text = json.dumps(objects(api, made))
        assert (group in text) is grouped
        if api != "trainjob":
            assert text.count(group) == roles * grouped
    assert group not in json.dumps(objects("trainjob", plan("torch", 2, more={"topology": "rack"})))
    alone = plan("torch", 1, more={"topology": "rack"})
    assert group not in json.dumps(objects("pytorchjob", alone))


@given(
    case=st.sampled_from(EVERY),
    nodes=st.integers(2, 6),
    gpus=st.integers(1, 8),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
def test_the_pods_are_the_same_in_every_api(case: tuple[str, str], nodes: int, gpus: int) -> None:
    """World, resources, image, words, networks and the fabric's variables, whatever the kind."""
    framework, api = case
    made = plan(framework, nodes, gpus=gpus)
    seen = pods(api, made, objects(api, made))
    assert len(seen) == nodes
    assert len({pod.host for pod in seen}) == nodes
    fabric = contract(framework, gpus).fabric.environment
    for pod in seen:
        spec, container, variables = pod.spec, pod.container, pod.variables()
        assert fabric.items() <= variables.items()
        assert variables["RAILHEAD_WORLD_SIZE"] == str(made.world_size)
        assert container["resources"] == made.resources
        assert spec["nodeSelector"] == made.template["spec"]["nodeSelector"]
        assert spec["tolerations"] == made.template["spec"]["tolerations"]
        (own,) = made.template["spec"]["containers"]
        assert container["volumeMounts"] == own["volumeMounts"]
        if "sshd" not in container["command"][0]:
            words = [*container["command"], *container.get("args", [])]
            text = claimed.without([w.replace("$$(", "$(") for w in words])
            assert text == list(made.command)
    if api != "trainjob":
        *_, body = apis()[api].objects(made)
        assert body["metadata"]["name"] == made.name
        assert body["metadata"]["namespace"] == made.namespace
        assert body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == made.queue
        annotations = made.template["metadata"]["annotations"]
        assert json.dumps(annotations, sort_keys=True)[1:-1] in json.dumps(body, sort_keys=True)


#: Fields of a job file that every kind of job must carry; ``nodes`` and its like are held above.
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "env": st.dictionaries(
            st.sampled_from(["LR", "A_B"]),
            st.text(st.characters(codec="ascii", exclude_characters="\0")),
        ),
        "secrets": st.sampled_from([{"TOKEN": "hub/token"}, {"T": "a/k", "U": "a/l"}]),
        "mounts": st.sampled_from([{"/out": "mine"}, {"/in": "theirs:ro", "/out": "mine"}]),
        "datasets": st.just(["words"]),
        "shm": st.sampled_from(["65Mi", "512Mi"]),
        "fabric": st.sampled_from(["none", "required"]),
        "priority": st.sampled_from(["research", "spare"]),
        "timeout": st.sampled_from(["90s", "2h"]),
        "topology": st.sampled_from(["rack", "prefer rack", "any"]),
        "restarts": st.integers(0, 5),
    },
)
_KUEUE, _RACK = "kueue.x-k8s.io/", "topology.railhead.dev/rack"
#: What a job's ``topology`` is, as annotations of its pods; without one they are the runtime's.
PLACED = {
    "rack": {f"{_KUEUE}podset-required-topology": _RACK},
    "prefer rack": {f"{_KUEUE}podset-preferred-topology": _RACK},
    "any": {f"{_KUEUE}podset-unconstrained-topology": "true"},
}
PLACED[""] = PLACED["prefer rack"]
_GROUP = f"{_KUEUE}podset-group-name"
#: How often a kind of job recreates its gang, by its spec; the others never do.
RECREATIONS = {
    "jobset": lambda spec: spec.get("failurePolicy", {}).get("maxRestarts", 0),
    "volcano": lambda spec: spec["maxRetry"] - 1,
}


@given(case=st.sampled_from(EVERY), fields=FIELDS)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
def test_job_fields_have_the_same_effect_in_every_api(
    case: tuple[str, str], fields: dict[str, Any]
) -> None:
    framework, api = case
    restarts = fields.get("restarts", 0)
    made = plan(framework, 2, more=fields)
    if api not in ("trainjob", *RECREATIONS) and restarts:
        with pytest.raises(InputError, match=f"restarts: {restarts} is not allowed with --api"):
            objects(api, made)
        return
    bodies = objects(api, made)
    labels = bodies[-1]["metadata"]["labels"]
    assert labels.get(f"{_KUEUE}priority-class") == fields.get("priority")
    seconds = {"90s": "90", "2h": "7200"}.get(fields.get("timeout", ""))
    assert labels.get(f"{_KUEUE}max-exec-time-seconds") == seconds
    if api in RECREATIONS:
        assert RECREATIONS[api](bodies[-1]["spec"]) == restarts
    for pod in pods(api, made, bodies):
        metadata, variables = pod.template["metadata"], pod.variables()
        text = fields.get("env", {}) | fields.get("secrets", {})
        assert text.items() <= variables.items()
        leaves = fields.get("fabric") == "none"
        assert (metadata.get("labels", {}).get("railhead.dev/fabric") == "none") is leaves
        assert (variables.get("NCCL_NET") == "Socket") is leaves
        placed = {
            k: v for k, v in metadata["annotations"].items() if "podset-" in k and k != _GROUP
        }
        assert placed == PLACED[fields.get("topology", "")]
        result = mounted(pod.spec)
        memory = {"medium": "Memory", "sizeLimit": fields.get("shm", "256Mi")}
        assert result["/dev/shm"] == ({"emptyDir": memory}, False)
        claims = fields.get("mounts", {}) | dict.fromkeys(
            ["/data/words"] if "datasets" in fields else [], "words-1:ro"
        )
        for path, claim in claims.items():
            name, _, mode = claim.partition(":")
            assert result[path] == ({"persistentVolumeClaim": {"claimName": name}}, bool(mode))
        assert set(result) == {*mounted(made.template["spec"]), *claims}


def mounted(spec: dict[str, Any]) -> dict[str, tuple[dict[str, Any], bool]]:
    """Path -> what lies there and whether it may only be read."""
    (container,) = spec["containers"]
    volumes = {v["name"]: {k: s for k, s in v.items() if k != "name"} for v in spec["volumes"]}
    paths = [m["mountPath"] for m in container["volumeMounts"]]
    assert len(volumes) == len(spec["volumes"])
    assert len(set(paths)) == len(paths)
    return {
        m["mountPath"]: (volumes[m["name"]], m.get("readOnly", False))
        for m in container["volumeMounts"]
    }


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_kind_of_job_refuses_frameworks_that_it_does_not_run(framework: str) -> None:
    made = plan(framework, 2)
    for name in set(apis()) - set(kinds(framework)):
        with pytest.raises(InputError, match=f"--api: {name} does not run framework"):
            apis()[name].objects(made)


def test_a_frameworks_job_chooses_its_runtime() -> None:
    result = contract("jax")
    other = result.runtimes[0].model_copy(update={"name": "other", "framework": "torch"})
    both = result.model_copy(update={"runtimes": (result.runtimes[0], other)})
    text = "name: a\nnodes: 1\nframework: {}\ncommand: [x]\n"
    for word, runtime in (("jax", "own"), ("torch", "other"), ("torchrun", "other")):
        assert make_plan(parse_job(text.format(word), where="job"), (), both).runtime == runtime
    with pytest.raises(InputError, match=r"framework: 'jaxx' has no runtime .* mean 'jax'"):
        make_plan(parse_job(text.format("jaxx"), where="job"), (), both)
    named = text.format("jax") + "runtime: other\n"
    with pytest.raises(InputError, match="runtime 'other' is of 'torch', not of 'jax'"):
        make_plan(parse_job(named, where="job"), (), both)


CARRIED = sorted(name for name, row in FRAMEWORKS.items() if row.job_sets_all and not row.carries)


def carried(framework: str, **fields: Any) -> Plan:
    """Return a job of a framework on a cluster whose only runtime is of none."""
    raw = contract("raw")
    asked = {"name": "run", "nodes": 3, "framework": framework, "command": ["train.py"], **fields}
    return make_plan(parse_job(yaml.safe_dump(asked), where="job"), (), raw)


@pytest.mark.parametrize("framework", CARRIED)
def test_ranks_without_their_own_runtime_get_documented_settings(
    framework: str,
) -> None:
    made = carried(framework)
    assert (made.runtime, made.framework) == ("own", FRAMEWORKS[framework])
    assert f"carries this job of {framework}" in made.notes[0]
    assert differences(framework, "trainjob", made, objects("trainjob", made)) == []
    # What the runtime itself would have said is nobody's to say still.
    with pytest.raises(InputError, match="NCCL_SOCKET_IFNAME: set by the cluster's fabric"):
        carried(framework, env={"NCCL_SOCKET_IFNAME": "eth0"})
    name = FRAMEWORKS[framework].set_by_job[-1]
    with pytest.raises(InputError, match=f"{name}: set by railhead launch"):
        carried(framework, env={name: "1"})


def test_frameworks_wired_by_trainer_need_a_runtime() -> None:
    assert set(CARRIED) == {"jax", "paddle", "ray", "tensorflow"}
    for framework in FRAMEWORKS.keys() - {*CARRIED, "raw"}:
        with pytest.raises(InputError, match="has no runtime in cluster"):
            carried(framework)


def test_explanation_of_a_carried_job_names_its_runtime() -> None:
    """--explain, for a job whose runtime is of none."""
    asked = parse_job("name: run\nnodes: 3\nframework: jax\ncommand: [train.py]\n", where="job")
    rows = {row.name: row for row in derived(asked, carried("jax"), contract("raw"))}
    assert (rows["framework"].value, rows["framework"].origin) == ("jax", "job file")
    text = derived(asked, carried("jax"), contract("raw"), {"framework": "--set"})
    assert next(row.origin for row in text if row.name == "framework") == "--set"
    assert "no runtime is of framework jax" in rows["runtime"].why


@pytest.mark.parametrize("gpus", [1, 8])
def test_carried_jobs_run_one_process_per_gpu_or_per_node(gpus: int) -> None:
    for framework in CARRIED:
        text = f"name: run\nnodes: 2\nframework: {framework}\ncommand: [train.py]\n"
        made = make_plan(parse_job(text, where="job"), (), contract("raw", gpus=gpus))
        assert made.processes_per_node == (1 if FRAMEWORKS[framework].one_process else gpus)


def test_sizes_that_a_framework_cannot_run_are_refused() -> None:
    with pytest.raises(InputError, match="nodes: 1 is too few"):
        plan("mpi", 1)
    with pytest.raises(InputError, match="processes_per_node: 4 is not allowed with jax"):
        plan("jax", 2, 4)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--tensor-model-parallel-size, '8'", None),
        ("--tensor-model-parallel-size=4, --pipeline-model-parallel-size=4", None),
        ("--tensor-model-parallel-size, '16'", "more than the 8 GPUs of a node"),
        ("--pipeline-model-parallel-size=3", "does not divide the world of 16"),
        ("--context-parallel-size=5", "does not divide the world of 16"),
        ("--expert-model-parallel-size=7", "expert tensor x expert x pipeline is 7"),
        ("--tensor-model-parallel-size=3, --pipeline-model-parallel-size=1", "is 3"),
        ("--tensor-model-parallel-size, many", "is 'many', a whole number"),
        ("--tensor-model-parallel-size", "is '', a whole number"),
    ],
)
def test_megatrons_sizes_are_held_against_the_world(words: str, problem: str | None) -> None:
    text = f"name: a\nnodes: 2\nframework: megatron\ncommand: [pretrain.py, {words}]\n"
    if problem is None:
        made = make_plan(parse_job(text, where="job"), (), contract("megatron"))
        assert made.command[0] == "torchrun"
        assert made.command[1] == "pretrain.py"
        return
    with pytest.raises(InputError, match=re.escape(problem)):
        make_plan(parse_job(text, where="job"), (), contract("megatron"))


def test_nvlink_of_several_machines_is_one_for_megatron() -> None:
    """The 72 GPUs of a rack, of which a machine has but a few."""
    own = contract("megatron")
    rack = [p.model_copy(update={"nvlink_domain": 72, "nodes": 40}) for p in own.node_pools]
    (runtime,) = own.runtimes
    spec = {**runtime.pod["spec"], "resourceClaims": [{"name": NVLINK_CLAIM}]}
    large = runtime.model_copy(update={"max_nodes": 40, "pod": {**runtime.pod, "spec": spec}})
    wide = own.model_copy(update={"node_pools": tuple(rack), "runtimes": (large,)})
    apart = wide.model_copy(update={"runtimes": own.runtimes})
    text = "name: a\nnodes: {}\nframework: megatron\ncommand: [pretrain.py, {}]\n"
    sizes = "--tensor-model-parallel-size, '16'"
    for nodes, gpus, problem in (
        (2, "", None),
        (20, "", "does not divide the 72 GPUs that NVLink joins"),
        (4, "gpus_per_node: 4\n", "is more than the 4 GPUs of a node"),
    ):
        job = parse_job(text.format(nodes, sizes) + gpus, where="job")
        if problem is None:
            assert make_plan(job, (), wide).command[:2] == ("torchrun", "pretrain.py")
            continue
        with pytest.raises(InputError, match=problem):
            make_plan(job, (), wide)
    # A pod without a channel reaches the other machines by the NICs.
    job = parse_job(text.format(4, sizes), where="job")
    with pytest.raises(InputError, match="is more than the 8 GPUs of a node"):
        make_plan(job, (), apart)


def test_deepspeeds_launcher_gets_the_ssh_settings() -> None:
    text = "name: a\nnodes: 2\nframework: deepspeed\ncommand: [deepspeed, train.py]\n"
    with pytest.raises(InputError, match="starts no launcher that is known"):
        make_plan(parse_job(text, where="job"), (), contract("deepspeed"))
    text += "launcher: own\n"
    with pytest.raises(InputError, match=r"starts them over ssh .*\n.*write `torchrun train.py`"):
        make_plan(parse_job(text, where="job"), (), contract("deepspeed"))
