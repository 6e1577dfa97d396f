"""Every value says where it comes from, and every figure is the one of its source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railhead.framework import FRAMEWORKS
from railhead.launch import estimates, explain
from railhead.launch.estimates import SHARDINGS, Figure, Shape, figures
from railhead.launch.job import JobFile, SizingFile, parse_job
from railhead.launch.plan import make_plan
from tests.unit.launch.conftest import CONTRACT, JOB
from tests.unit.launch.fake_api import Api

SHAPE = Shape(nodes=8, gpus=8, gbps=3200.0)


def sizing(**fields: Any) -> SizingFile:
    return SizingFile(**fields)


def named(found: list[Figure], name: str) -> Figure:
    [item] = [figure for figure in found if figure.name == name]
    return item


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (1024, "1024"), (0.5, "0.5"), (0.06562, "0.06562"), (2e15, "2e+15")],
)
def test_a_figure_has_four_digits_and_a_count_all_of_its_own(
    value: float | None, shown: str
) -> None:
    assert explain.number(value) == shown


# -- values -------------------------------------------------------------------------------------


def explained(more: str = "", **said: str) -> dict[str, explain.Derived]:
    job = parse_job(JOB + more, where="job.yaml")
    rows = explain.derived(job, make_plan(job, (), CONTRACT), CONTRACT, said)
    assert len({row.name for row in rows}) == len(rows)
    return {row.name: row for row in rows}


def test_explanation_names_job_file_or_cluster_as_origin() -> None:
    rows = explained()
    assert rows["nodes"].origin == "job file"
    assert rows["gpus per node"].origin == "job file"
    assert (rows["queue"].value, rows["queue"].origin) == ("training", "contract: queues")
    assert rows["queue"].why == "the first one over pool gpu"
    assert rows["image"].origin == "contract: runtimes.torch.image"
    assert rows["world size"].value == "4"
    assert rows["env EPOCHS"].origin == "job file"
    assert rows["env NCCL_SOCKET_IFNAME"].origin == "contract: fabric.environment"
    assert rows["env CHECKPOINT_DIR"].value == "/checkpoints/demo"
    assert rows["a node's nvidia.com/gpu"].origin == "contract: runtimes.torch.shares"
    assert rows["a node's memory"].origin == "contract: runtimes.torch.pod"
    assert rows["timeout"].why == "it may run for ever"
    # The runtime's own 0 ends a process whose rendezvous nobody set; Trainer puts the number there.
    assert (rows["env PET_NNODES"].value, rows["env PET_NNODES"].origin) == (
        "at the start",
        "Kubeflow Trainer",
    )


def test_given_field_is_not_a_default() -> None:
    rows = explained("timeout: 2h\nimage: mine:1\nqueue: training\ntopology: any\n")
    for name in ("timeout", "image", "queue", "topology"):
        assert (rows[name].origin, rows[name].why) == ("job file", ""), name
    assert rows["timeout"].value == "7200 s"
    assert explained(nodes="--nodes")["nodes"].origin == "--nodes"
    each = explained("topology: 2 in hostname\n")["topology"].value
    assert each == "each 2 nodes within one hostname, or it waits"


def test_a_field_that_is_left_out_has_the_reason() -> None:
    job = parse_job("name: a\nnodes: 1\ncommand: [train.py]\n", where="job.yaml")
    plan = make_plan(job, (), CONTRACT)
    rows = {row.name: row for row in explain.derived(job, plan, CONTRACT)}
    assert rows["runtime"].why.startswith("the first of 1")
    assert rows["gpus per node"].origin == "contract: runtimes.torch.gpus_per_node"
    assert rows["processes per node"].origin == "contract: runtimes.torch.processes_per_node"
    assert rows["command begins with"].origin == "framework torch"
    assert rows["topology"].origin == "default"


def test_fabrics_reasons_are_printed() -> None:
    fabric = CONTRACT.fabric.model_copy(update={"reasons": {"NCCL_DEBUG": "so that it says why"}})
    contract = CONTRACT.model_copy(update={"fabric": fabric})
    job = parse_job(JOB, where="job.yaml")
    rows = explain.derived(job, make_plan(job, (), contract), contract)
    assert [row.why for row in rows if row.name == "env NCCL_DEBUG"] == ["so that it says why"]


def test_every_variable_and_resource_of_the_object_is_explained() -> None:
    from railhead.launch import render

    job = parse_job(JOB, where="job.yaml")
    plan = make_plan(job, (), CONTRACT)
    rows = {row.name for row in explain.derived(job, plan, CONTRACT)}
    trainer = render.train_job(plan)["spec"]["trainer"]
    assert {f"env {item['name']}" for item in trainer["env"]} <= rows
    assert {f"a node's {name}" for name in plan.resources["requests"]} <= rows


def test_the_command_prints_them_and_creates_nothing(api: Api, run: Any, job_file: Path) -> None:
    sets = ["--set", "sizing.params=7.5e9", "--set", "env.EPOCHS=3", "--set", "runtime=torch"]
    code, out, _ = run("launch", job_file, "--explain", "--nodes", "1", *sets)
    assert code == 0
    assert "the first one over pool gpu" in out
    assert "ZeRO-3, FSDP full shard" in out
    heads = [line.split() for line in out.splitlines() if line.startswith(("VALUE", "FIGURE"))]
    assert [head[0] for head in heads] == ["VALUE", "FIGURE"]
    assert "FROM" in heads[0]
    code, out, _ = run("launch", job_file, "--explain", "--json", "--nodes", "1", *sets)
    read = json.loads(out)
    origins = {row["name"]: row["from"] for row in read["values"]}
    assert (origins["nodes"], origins["env EPOCHS"]) == ("--nodes", "--set")
    assert origins["runtime"] == "--set"
    ddp = next(figure for figure in read["figures"] if figure["name"] == "DDP")
    assert (ddp["value"], ddp["unit"]) == (120.0, "GB")
    assert not [path for method, path, _ in api.asked if method == "POST"]


def test_one_line_is_explained_as_well(api: Api, run: Any) -> None:
    code, out, _ = run(
        "run", "--explain", "--json", "-j", "2x8", "--set", "sizing.params=1B",
        "torchrun", "x.py",
    )  # fmt: skip
    assert code == 0
    origins = {row["name"]: row["from"] for row in json.loads(out)["values"]}
    assert origins["nodes"] == "command line"
    assert origins["name"].startswith("made up")
    assert not [path for method, path, _ in api.asked if method == "POST"]


def test_sizing_reaches_no_object() -> None:
    more = "sizing: {params: 8e9, global_batch: 64}\n"
    plain, sized = (parse_job(JOB + text, where="job.yaml") for text in ("", more))
    assert make_plan(plain, (), CONTRACT) == make_plan(sized, (), CONTRACT)


# -- machines -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpus", "processes", "framework", "fabric", "pool", "expected"),
    [
        (8, 8, "torch", None, {}, (8, 3200.0)),
        (4, 4, "torch", None, {}, (4, 1600.0)),
        (8, 2, "torch", None, {}, (2, 3200.0)),
        (8, 8, "torch", "none", {}, (8, 0.0)),
        (8, 1, "jax", None, {}, (8, 3200.0)),
        (8, 1, None, None, {}, (1, 3200.0)),
        # Of a pool that does not say its own, each NIC has the fabric's rate.
        (8, 8, "torch", None, {"line_rate_gbps": None, "nics": 4}, (8, 800.0)),
        (0, 3, "torch", None, {"gpus_per_node": 0}, (3, 3200.0)),
        (0, 1, "raw", None, {"gpus_per_node": 0}, (1, 3200.0)),
    ],
)
def test_a_part_of_the_gpus_has_that_part_of_the_nics(
    gpus: int,
    processes: int,
    framework: str | None,
    fabric: str | None,
    pool: dict[str, Any],
    expected: tuple[int, float],
) -> None:
    of = {"line_rate_gbps": 3200, "nics": 8} | pool
    plan = replace(
        make_plan(parse_job(JOB, where="job.yaml"), (), CONTRACT),
        pool=CONTRACT.node_pools[0].model_copy(update=of),
        gpus_per_node=gpus,
        processes_per_node=processes,
        framework=FRAMEWORKS[framework] if framework else None,
    )
    fast = CONTRACT.fabric.model_copy(update={"line_rate_gbps": 200})
    made = explain.shape(plan, CONTRACT.model_copy(update={"fabric": fast}), fabric=fabric)
    assert (made.nodes, made.gpus, made.gbps) == (2, *expected)


# -- figures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [("DDP", 120.0), ("ZeRO-1", 31.4), ("ZeRO-2", 16.6), ("ZeRO-3, FSDP full shard", 1.9)],
)
def test_memory_is_that_of_the_paper(name: str, gigabytes: float) -> None:
    """ZeRO, figure 1: 7.5 billion parameters, 64 GPUs, K = 12."""
    result = figures(sizing(params="7.5e9"), SHAPE)
    assert named(result, name).value == pytest.approx(gigabytes, abs=0.05)


def test_values_that_do_not_fit_are_marked() -> None:
    result = figures(sizing(params="7.5e9", gpu_memory_gb=80), SHAPE)
    assert [f.name for f in result if f.wrong] == ["DDP"]


def test_zero_3_sends_half_as_much_again() -> None:
    """ZeRO, section 7.2.2."""
    given = sizing(params="1e9", micro_batch=1)
    ways = {way.name: way for way in SHARDINGS}
    plain = estimates.crossing(given, SHAPE, ways["DDP"], 1)
    cut = estimates.crossing(given, SHAPE, ways["ZeRO-3, FSDP full shard"], 1)
    assert plain == 2 * 2e9 * 7 / 8
    assert cut == 1.5 * plain


@pytest.mark.parametrize(
    ("write", "mtbf", "best"),
    [(5, 24 * 60, 117), (5, 6 * 60, 57), (5, 15, 9.1), (5, 4, 3.4), (8, 4, 4)],
)
def test_interval_matches_dalys_paper(write: float, mtbf: float, best: float) -> None:
    """Figures 3 to 5 of the paper, in minutes, and one by its equation.

    What takes twice as long is written without end.
    """
    digits = 1 if best < 10 else 0
    assert round(estimates.daly(write, mtbf), digits) == best


def test_llama_machines_were_interrupted_every_three_hours() -> None:
    result = figures(sizing(), Shape(nodes=2048, gpus=8, gbps=0))
    assert named(result, "between interruptions").value == pytest.approx(54 * 24 / 419)


def test_the_linear_rule() -> None:
    given = sizing(base_lr=0.1, base_batch=256, micro_batch=32, accumulation=4, optimizer="sgd")
    result = figures(given, SHAPE)
    assert named(result, "global batch").value == 8192
    # Goyal et al.: 0.1 for 256 images is 3.2 for 8192.
    assert named(result, "linear rule").value == pytest.approx(3.2)
    assert "square root rule" not in [figure.name for figure in result]


def test_a_batch_that_does_not_divide_says_what_does() -> None:
    result = figures(sizing(global_batch=1000, micro_batch=2), SHAPE)
    wrong = named(result, "global batch")
    assert (wrong.wrong, wrong.value) == (True, None)
    assert "1000 is no multiple of 128 = 2 micro x 64 replicas" in wrong.formula
    assert "896 or 1024 is" in wrong.formula
    # 1000 / (2 x 8) is not whole on any number of nodes.
    assert "goes on" not in wrong.formula
    result = figures(sizing(global_batch=240, micro_batch=2), SHAPE)
    assert "240 goes on 1, 3, 5 nodes" in named(result, "global batch").formula


def test_contradictory_batch_sizes_are_reported() -> None:
    result = figures(sizing(global_batch=100, micro_batch=1, accumulation=2), SHAPE)
    assert named(result, "global batch").wrong
    assert "not the 100" in named(result, "global batch").formula


def test_partitions_that_do_not_divide_the_gpus_are_reported() -> None:
    [only] = figures(sizing(params="1e9", tensor=3), SHAPE)
    assert only.wrong
    assert "does not divide 64 GPUs" in only.formula


def test_missing_rate_gives_no_time() -> None:
    result = figures(sizing(params="1e9", step_seconds=1), replace(SHAPE, gbps=0.0))
    assert not [f for f in result if f.name.endswith("at least") or f.group == "scaling"]
    assert named(result, "time on the fabric").value is None


def test_missing_figures_are_named() -> None:
    needed = " ".join(figure.formula for figure in figures(sizing(), SHAPE))
    for field in ("params", "global_batch", "micro_batch", "base_lr", "checkpoint_gbs"):
        assert f"sizing.{field}" in needed


COUNTS = st.integers(1, 64)
SIZINGS = st.builds(
    SizingFile,
    params=st.floats(1e6, 1e13),
    dtype=st.sampled_from(["bf16", "fp16", "fp32"]),
    optimizer=st.sampled_from(["adamw", "sgd"]),
    global_batch=st.none() | st.integers(1, 4096),
    micro_batch=st.none() | COUNTS,
    accumulation=st.none() | COUNTS,
    seq_len=st.none() | st.integers(1, 131072),
    tensor=st.sampled_from([1, 2, 4, 8]),
    pipeline=st.sampled_from([1, 2, 3]),
    base_batch=st.none() | COUNTS,
    base_lr=st.none() | st.floats(1e-6, 1.0),
    tflops=st.none() | st.floats(1, 1000),
    step_seconds=st.none() | st.floats(0.001, 100),
    checkpoint_gbs=st.none() | st.floats(0.1, 1000),
)
SHAPES = st.builds(
    Shape,
    nodes=st.integers(1, 512),
    gpus=st.sampled_from([1, 2, 4, 8]),
    gbps=st.sampled_from([0.0, 100.0, 3200.0]),
)


@settings(max_examples=200, deadline=None)
@given(given_=SIZINGS, shape=SHAPES)
def test_figures_are_consistent(given_: SizingFile, shape: Shape) -> None:
    result = figures(given_, shape)
    numbers = {figure.name: figure.value for figure in result if not figure.wrong}
    assert all(figure.formula for figure in result)
    assert all(value is None or value >= 0 for value in numbers.values())
    replicas = estimates.replicas_of(given_, shape)
    if replicas is None:
        assert [figure.wrong for figure in result] == [True]
        return
    assert replicas * given_.tensor * given_.pipeline == shape.world
    if numbers.get("global batch"):
        micro, steps = numbers["micro batch"], numbers["micro batches a step"]
        assert micro is not None
        assert steps is not None
        assert micro * steps * replicas == numbers["global batch"]
        assert given_.global_batch in (None, numbers["global batch"])
    held = [estimates.memory(given_, shape, replicas, way) for way in SHARDINGS]
    plain, item, two, three, near = held
    assert plain >= item >= two >= three > 0
    assert plain >= near >= three * 0.999999
    # All of it is somewhere: what is cut is on the replicas together.
    cut = given_.tensor * given_.pipeline
    whole = (given_.params or 0) * sum(estimates.state_bytes(given_)) / cut
    assert three * replicas == pytest.approx(whole)
    for figure in result:
        if figure.group == "scaling" and figure.value is not None:
            assert 0 < figure.value <= 100
    sent = [estimates.crossing(given_, shape, way, 1) for way in SHARDINGS]
    if shape.nodes == 1:
        assert set(sent) <= {0.0, None}


@settings(max_examples=100, deadline=None)
@given(write=st.floats(0.1, 1e4), mtbf=st.floats(10, 1e8))
def test_youngs_interval_loses_least(write: float, mtbf: float) -> None:
    def lost(every: float) -> float:
        return write / every + every / (2 * mtbf)

    best = estimates.young(write, mtbf)
    assert all(lost(best) <= lost(best * other) * 1.000001 for other in (0.5, 0.9, 1.1, 2.0))
    assert estimates.daly(write, mtbf) <= best * 1.2


def test_a_job_file_takes_it(tmp_path: Path) -> None:
    job = parse_job("name: a\nnodes: 1\ncommand: [x]\nsizing: {params: 70B}\n", where="j")
    assert isinstance(job, JobFile)
    assert job.sizing is not None
    assert job.sizing.params == 70e9


def test_inline_program_is_shown_by_its_first_line() -> None:
    words = ("python3", "-c", '"""torchrun, and more.\n\nimport os\n', "a b.py", "x")
    assert explain.shown(words) == "python3 -c <torchrun, and more.> 'a b.py' x"
