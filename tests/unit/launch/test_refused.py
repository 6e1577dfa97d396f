"""Everything that a job is refused with, in whole sentences, and what is just not refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from railhead.base.errors import RailheadError
from railhead.contract import ClusterContract, Dataset, Switch
from railhead.framework import FRAMEWORKS
from railhead.launch import job as jobs
from railhead.launch.job import JobFile, override_values, parse_job, read_job
from railhead.launch.plan import Plan, make_plan
from tests.snapshots import compare, differs
from tests.unit.launch.conftest import CONTRACT, GOLDEN, JOB
from tests.unit.launch.test_transcripts import cluster_of

SHORT = "name: a\nnodes: 1\ncommand: [x]\n"


def refusal(work: Callable[..., object], *given: object) -> str:
    """Return the problem and what to do about it; empty if nothing is refused."""
    try:
        work(*given)
    except RailheadError as error:
        return f"{error.problem} -> {error.remedy}"
    return ""


# -- a job's text ---------------------------------------------------------------------------------

TEXTS = (
    *("", "- a\n", "a: [\n", "a: b: c\n", "a: 'x\n", "a: \x01\n", "\ta: b\n", "? [a]\n: b\n"),
    *('a: "\\UFFFFFFFF"\n', 'a: "\\U00110000"\n'),
    *("\na: &x [1]\n", "a: 1\nb: *x\n", "a: !!str x\n", "a: ! x\n", "a: !!python/name:os x\n"),
    *(f"{SHORT}env: {'[' * depth}{']' * depth}\n" for depth in (19, 20)),
    f"[{'[a], ' * 25}]\n",
    f"{SHORT}name: b\n",
    f"{SHORT}env: {{A: 1, A: 2}}\n",
    f"{SHORT}env: {{? [a] : b}}\n",
    f'{SHORT}env: {{"\\uD800": 1}}\n',
    f'{SHORT}env: {{A: "\\uDFFF"}}\n',
    f'{SHORT}"\\uD800": 1\n',
    f"{SHORT}env: {{A: 'null', B: '', C: \"~\"}}\n",
    f"{SHORT}env: {{A: }}\n",
    *(f"{SHORT}min_nodes: {number}\n" for number in ("+1", "'1'", "1234567890", "007")),
    *(f"{SHORT}files: ['{name}']\n" for name in ("..", "a/..", "a/.", "./a", "/a", "a b", "")),
    f'{SHORT}files: ["a\\0/x"]\n',
    f"{SHORT}files: [a/x, b/x, y, c/y, z]\n",
    *(f"{SHORT}mounts: {{{path}: c}}\n" for path in ("//", "/a/", "/./a", "/a/../b", "/a/etc")),
    *(f"{SHORT}topology: {words}\n" for words in ("prefer", "a b", "prefer a b", "'  prefer a '")),
    *(f"{SHORT}sizing: {{seq_len: {count}}}\n" for count in ("0.5", "1.5k", "1.0005k", "1e19")),
    *(f"{SHORT}verify: {entry}\n" for entry in ("TRUE", "'false'", "no", "1")),
    "command: [' ']\nname: A\ncolour: red\n",
)
SETS = (
    *("nodes", "=1", "command=x", "files=a", "datasets=a", "env.=x", "name.x=y", "colour=red"),
    *("nodes=-1", "nodes=1234567890", "restarts=+3", "env.A=", "queue=", "sizing.params=x"),
    *("env=x", "checkpoint.path=a=b", "mounts./d=c", "secrets.B=s/k"),
)


def overridden(item: str) -> Any:
    """Return a job's values after an override, or the refusal."""
    values: dict[str, Any] = {"name": "a", "env": {"A": "1"}, "mounts": None}
    problems = override_values(values, [item])
    return problems[0] if problems else differs(values, {"name": "a", "env": {"A": "1"}})


# -- its files ------------------------------------------------------------------------------------

LISTED = (
    *("[a.py]", "[src]", "[.]", "[., src]", "[src, .]", "[none.py]", "[apy]", "[src/sub/b.py]"),
    *(
        "[empty]",
        "[hidden]",
        "[../large]",
        "[../large.bin]",
        "[a b, none.py]",
        "[nowhere/x]",
        "[link]",
    ),
)


def tree(folder: Path) -> None:
    """Beside a job file and above it: what is taken along, and what is not."""
    for name in (
        *("a.py", "src/b.py", "src/a.txt", "src/sub/b.py", "src/.git/config", "src/.hidden"),
        *("src/c.pyc", "src/__pycache__/x", "src/node_modules/x", "src/venv/x", "hidden/.x"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "empty").mkdir()
    (folder / "src/round").symlink_to(folder)
    (folder / "link").symlink_to(folder / "src")
    (folder / "src/linked.py").symlink_to(folder / "a.py")
    (folder / "src/gone.py").symlink_to(folder / "gone")
    (folder / "../large").mkdir()
    for name in ("large.bin", "large/more.bin"):
        (folder.parent / name).write_bytes(b"x" * (jobs.MAX_FILES_BYTES + 1))


def taken(folder: Path, listed: str) -> Any:
    """Return what travels with a job of these files, or why the job is refused."""
    path = folder / "job.yaml"
    path.write_text(f"{SHORT}files: {listed}\n")
    results: list[list[str]] = []

    def work() -> None:
        results.append([f"{item.name} of {len(item.data)}" for item in read_job(path)[1]])

    text = refusal(work)
    return results[0] if results else text.replace(str(folder), "FOLDER")


def unread(folder: Path) -> dict[str, str]:
    """Write job files that cannot be read as such."""
    (folder / "bytes").write_bytes(b"\xff\xfe")
    # What is no YAML from its first character on, so that nobody has to read all of it.
    (folder / "largest").write_bytes(b"\x01" * jobs.MAX_JOB_FILE_BYTES)
    (folder / "larger").write_bytes(b"\x01" * (jobs.MAX_JOB_FILE_BYTES + 1))
    names = ("bytes", "largest", "larger", "src", "job.yml", "nowhere/job.yaml")
    return {name: refusal(read_job, folder / name).replace(str(folder), "FOLDER") for name in names}


# -- what the cluster does not have ---------------------------------------------------------------

(TORCH,) = CONTRACT.runtimes
(QUEUE,) = CONTRACT.queues


def having(**fields: Any) -> ClusterContract:
    return CONTRACT.model_copy(update=fields)


def of(**fields: Any) -> ClusterContract:
    """Return the contract with these fields in its one runtime."""
    return having(runtimes=(TORCH.model_copy(update=fields),))


def teams(*names: str) -> ClusterContract:
    queues = (QUEUE.model_copy(update={"name": n, "namespace": n, "team": n}) for n in names)
    return having(queues=tuple(queues))


def row(framework: str) -> ClusterContract:
    """Return the contract with another framework in its one runtime."""
    known = FRAMEWORKS[framework]
    return of(framework=framework, launches=known.launches, alone=known.alone, reserved={}, told=())


SWITCHES = {
    "NCCL_NET": Switch(reason="`Socket` is TCP", allowed=("IB",)),
    "NCCL_IB_DISABLE": Switch(reason="a debugging switch"),
}
SWITCHED = having(fabric=CONTRACT.fabric.model_copy(update={"switches": SWITCHES}))
LAUNCHED = row("torch")
OTHER = TORCH.model_copy(update={"name": "other", "pool": "cpu"})
JAX = TORCH.model_copy(update={"name": "jax", "framework": "jax", "processes_per_node": 1})
DATASETS = having(
    datasets=tuple(
        Dataset(name=name, namespace=where, claim=f"{name}-1", mount_path=f"/data/{name}")
        for name, where in (("words", "training"), ("images", "training"), ("texts", "other"))
    )
)
PLAIN = "name: a\nnodes: 2\ncommand: [torchrun, x.py]\n"
#: A job's text and a cluster.
ASKED: dict[str, tuple[str, ClusterContract]] = {
    "an old contract": (JOB, having(placement_field=None)),
    "no runtime": (PLAIN, having(runtimes=())),
    "no runtime of a name": (f"{PLAIN}runtime: torc\n", CONTRACT),
    "no such runtime among none": (f"{PLAIN}runtime: torch\n", having(runtimes=())),
    "no framework": (f"{PLAIN}framework: pytorch\n", CONTRACT),
    "a framework among none": (f"{PLAIN}framework: torch\n", having(runtimes=())),
    "no runtime of a name among several": (
        f"{PLAIN}runtime: mine\n", having(runtimes=(TORCH, OTHER)),
    ),
    "no framework among several": (f"{PLAIN}framework: pax\n", having(runtimes=(TORCH, JAX))),
    "no queue of a name among several": (f"{PLAIN}queue: x\n", teams("l", "v")),
    "a queue beside those over the pool": (
        f"{PLAIN}queue: cpu\n",
        having(
            queues=tuple(
                QUEUE.model_copy(update={"name": name, "pools": (pool,)})
                for name, pool in (("cpu", "cpu"), ("a", "gpu"), ("b", "gpu"))
            )
        ),
    ),
    "several of a framework": (f"{PLAIN}framework: torch\n", having(runtimes=(TORCH, OTHER))),
    "several of another framework": (f"{PLAIN}framework: jax\n", having(runtimes=(TORCH, JAX))),
    "a runtime of another framework": (
        f"{PLAIN}framework: jax\nruntime: torch\n", having(runtimes=(TORCH, JAX)),
    ),
    "no queue": (PLAIN, having(queues=())),
    "no queue of a name": (f"{PLAIN}queue: trainin\n", CONTRACT),
    "a queue over other pools": (f"{PLAIN}queue: training\n", of(pool="cpu")),
    "no queue over the pool": (PLAIN, of(pool="cpu")),
    "a queue of another namespace": (f"{PLAIN}namespace: other\n", teams("l", "v")),
    "a queue that its namespace has not": (f"{PLAIN}namespace: l\nqueue: v\n", teams("l", "v")),
    "queues of several teams": (PLAIN, teams("l", "v")),
    "queues of one team": (PLAIN, teams("l")),
    "no such queue and no runtime": (f"{PLAIN}queue: x\nruntime: none\n", CONTRACT),
    "GPUs that no pod has": (f"{PLAIN}gpus_per_node: 9\n", CONTRACT),
    "a priority among none": (f"{PLAIN}priority: high\n", CONTRACT),
    "no such priority": (
        f"{PLAIN}priority: hihg\n", having(priorities={"high": 1000, "low": -1})
    ),
    "no level": (f"{PLAIN}topology: prefer rakc\n", having(topology_levels=("x/rack", "y/host"))),
    "several levels": (
        f"{PLAIN}topology: rack\n", having(topology_levels=("x/rack", "y/rack", "y/host")),
    ),
    "one number of nodes": (PLAIN, of(only_nodes=3)),
    "fewer nodes, of a framework": (f"{PLAIN}min_nodes: 1\n", row("jax")),
    "fewer nodes, of none": (f"{PLAIN}min_nodes: 1\n", of(framework="own")),
    "as many nodes": (f"{PLAIN}min_nodes: 2\n", CONTRACT),
    "fewer nodes that are proven": (f"{PLAIN}min_nodes: 1\nverify: true\n", CONTRACT),
    "reserved variables": (f"{PLAIN}env: {{NCCL_SOCKET_IFNAME: a, RANK: 1, A: b}}\n", CONTRACT),
    "a reserved secret": (f"{PLAIN}secrets: {{RANK: s/k}}\n", CONTRACT),
    "switches": (f"{PLAIN}env: {{NCCL_NET: Socket, NCCL_IB_DISABLE: 1}}\n", SWITCHED),
    "a switch that is allowed": (f"{PLAIN}env: {{NCCL_NET: IB}}\n", SWITCHED),
    "switches of no fabric": (f"{PLAIN}env: {{NCCL_NET: x}}\nfabric: none\n", SWITCHED),
    "a switch in the command": ("name: a\nnodes: 1\ncommand: [env, NCCL_NET=x, x]\n", SWITCHED),
    "what the fabric sets taken away": (
        "name: a\nnodes: 1\ncommand: [sh, -c, 'unset A NCCL_NET; x']\n", SWITCHED,
    ),
    "the same by env": ("name: a\nnodes: 1\ncommand: [env, -u, NCCL_NET, x]\n", SWITCHED),
    "every variable taken away": ("name: a\nnodes: 1\ncommand: [env, -i, x]\n", SWITCHED),
    "what it does not set taken away": (
        "name: a\nnodes: 1\ncommand: [env, -u, NCCL_IB_DISABLE, x]\n", SWITCHED,
    ),
    "a file of NCCL's variables": (f"{PLAIN}mounts: {{/root/.nccl.conf: c}}\n", CONTRACT),
    "the end of a name in the command": ("name: a\nnodes: 1\ncommand: [MY_NCCL_NET=x]\n", SWITCHED),
    "the start of a name": ("name: a\nnodes: 1\ncommand: [env, NCCL_NETS=x]\n", SWITCHED),
    "a proof of no fabric": (f"{PLAIN}verify: true\nfabric: none\n", CONTRACT),
    "a proof of one node": ("name: a\nnodes: 1\ncommand: [x]\nverify: true\n", CONTRACT),
    "a proof by no launcher": (f"{PLAIN}verify: true\n", row("jax")),
    "a proof by nobody knows what": (f"{PLAIN}verify: true\n", of(framework="own")),
    "no launcher": ("name: a\nnodes: 2\ncommand: [python3, x.py]\n", LAUNCHED),
    "a launcher of one node": (
        "name: a\nnodes: 2\ncommand: [torchrun, --standalone, x.py]\n", LAUNCHED,
    ),
    "two of what is no word of the scheduler": (
        f"{PLAIN}timeout: 1h\ntopology: any\n",
        having(unsaid={"timeout": "it has none", "topology": "nor levels", "priority": "nor that"}),
    ),
    "secrets that are given": (
        f"{PLAIN}env: {{B: 1, A: 2}}\nsecrets: {{A: s/k, B: s/k}}\n", CONTRACT,
    ),
    "a mount in another": (f"{PLAIN}mounts: {{/checkpoints/a: c}}\n", CONTRACT),
    "a mount beside another": (f"{PLAIN}mounts: {{/checkpoints-2: c}}\n", CONTRACT),
    "logs without a claim": (f"{PLAIN}logs: kept\n", of(checkpoint=None)),
    "checkpoints without a claim": (f"{PLAIN}checkpoint: {{path: a}}\n", of(checkpoint=None)),
    "as much memory as a container has": (f"{PLAIN}shm: 64Mi\n", CONTRACT),
    "a little more": (f"{PLAIN}shm: 65Mi\n", CONTRACT),
    "all of the memory": (f"{PLAIN}shm: 512Mi\n", CONTRACT),
    "more than that": (f"{PLAIN}shm: 513Mi\n", CONTRACT),
    "no data set": (f"{PLAIN}datasets: [word]\n", DATASETS),
    "a data set of another namespace": (f"{PLAIN}datasets: [texts]\n", DATASETS),
    "a data set among none": (f"{PLAIN}datasets: [words]\n", CONTRACT),
    "a data set under a mount": (
        f"{PLAIN}datasets: [images, words]\nmounts: {{/data/words: c}}\n", DATASETS,
    ),
    "too few nodes of several processes": (
        "name: a\nnodes: 1\nprocesses_per_node: 2\ncommand: [x]\n", cluster_of("mpi"),
    ),
    "processes of one": (
        "name: a\nnodes: 2\nprocesses_per_node: 2\ncommand: [x]\n", cluster_of("jax"),
    ),
    "sizes that do not fit": (
        "name: a\nnodes: 2\ncommand: [torchrun, x, --tensor-model-parallel-size, '3']\n",
        cluster_of("megatron"),
    ),
    "nodes that share a machine": (f"{PLAIN}gpus_per_node: 7\n", CONTRACT),
    "one node of a part": ("name: a\nnodes: 1\ncommand: [x]\ngpus_per_node: 7\n", CONTRACT),
    "a framework that another's runtime carries": (
        "name: a\nnodes: 2\ncommand: [x]\nframework: jax\n", cluster_of("raw"),
    ),
    "carried in an image of its own": (
        "name: a\nnodes: 2\ncommand: [x.py]\nframework: paddle\nimage: mine\n", cluster_of("raw"),
    ),
    "a framework that nothing carries": (
        "name: a\nnodes: 2\ncommand: [x]\nframework: torch\n", cluster_of("raw"),
    ),
    "a framework by its launcher's name": (f"{PLAIN}framework: torchrun\n", CONTRACT),
    "much at once": (
        f"{PLAIN}queue: x\ngpus_per_node: 9\nlogs: kept\nshm: 1Mi\nenv: {{RANK: 1}}\n"
        "verify: true\nfabric: none\ntopology: x\npriority: y\n",
        of(checkpoint=None, only_nodes=1),
    ),
}  # fmt: skip


def parsed(text: str) -> JobFile:
    return parse_job(text, where="job.yaml")


def asked(text: str, contract: ClusterContract) -> Any:
    """Return why the cluster does not have it, or what its user should know."""
    results: list[Plan] = []
    message = refusal(lambda: results.append(make_plan(parsed(text), (), contract)))
    return message or list(results[0].notes)


def test_jobs_are_refused_as_they_were(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    tree(folder)
    help_shown = " -> nothing was created; `railhead launch --help` shows a complete job file"

    def short(text: Any) -> Any:
        return text.removesuffix(help_shown) if isinstance(text, str) else text

    results = {
        "texts": {
            json.dumps(text.removeprefix(SHORT)): short(refusal(parsed, text)) for text in TEXTS
        },
        "overrides": {item: overridden(item) for item in SETS},
        "files": {listed: short(taken(folder, listed)) for listed in LISTED},
        "job files": unread(folder),
        "clusters": {name: asked(*entry) for name, entry in ASKED.items()},
        "a text, whole": {TEXTS[-1]: refusal(parsed, TEXTS[-1])},
    }
    compare(GOLDEN / "refused.yaml", results)
