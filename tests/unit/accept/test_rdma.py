"""RDMA at its rate passes alone: TCP fails at any bandwidth, missing evidence proves nothing."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from railhead.accept import pairs, traffic
from railhead.accept.checks import rdma
from railhead.accept.model import Result, Verdict
from railhead.accept.site import Facts
from railhead.catalog import acceptance
from railhead.fabric.kinds import FABRICS
from railhead.machines import MACHINES
from railhead.nccl import proofs as by_process
from railhead.nccl import ranks
from railhead.nccl.bench.collectives import COLLECTIVES
from tests.unit.accept import perftests

LOGS = Path(__file__).resolve().parents[2] / "nccl/tune"
NODES, EACH = 2, 8
WORLD = NODES * EACH
GIB = 1 << 30
# 400 Gbit/s for each of eight GPUs.
RATE = 400.0


@cache
def recorded(name: str) -> tuple[str, str]:
    """Return a log's first process, and what that has written."""
    text = (LOGS / name).read_text()
    writer = re.search(r"([\w.-]+:\d+):\d+ \[\d+\] ", text)
    assert writer is not None
    own = [line for line in text.splitlines() if f"{writer[1]}:" in line]
    return writer[1], "\n".join(own)


def log(name: str, pod: int, pid: int) -> list[str]:
    """Return a recorded log of one process, as if this one had written it."""
    writer, text = recorded(name)
    lines = text.replace(f"{writer}:", f"pod-{pod}:{pid}:").splitlines()
    return [f"[default0]:{line}" for line in lines]


def over_verbs(pod: int, gbps: float = 392.0) -> list[str]:
    """Return the lines of a pod's first process on its rails over verbs."""

    def said(kind: str, **fields: Any) -> str:
        return f"[default0]:rdma: {json.dumps({'kind': kind, 'node': pod, **fields})}"

    names = [f"mlx5_{rail}" for rail in range(EACH)]
    results = [said("verbs", devices=[f"{name}/1" for name in names], tools=list(pairs.TOOLS))]
    for rail, name in enumerate(names):
        place = {"to": 1 - pod, "rail": rail, "device": name, "status": 0, "served": 0}
        sent = {f"{other}/1": 320000 << 16 if other == name else 4000 for other in names}
        output = perftests.bandwidth(name, gbps)
        results.append(said("pair", **place, tool="ib_write_bw", sent=sent, output=output))
        output = perftests.latency(name)
        results.append(said("pair", **place, tool="ib_read_lat", sent={}, output=output))
    return results


def lines(
    *,
    part: float = 0.9,
    logs: Callable[[int], str] = lambda rank: "365-roce-ok-gid-index-3-set.log",
    sent: float = 1.0,
    kernel: float = 0.001,
) -> list[tuple[int, str]]:
    """Return the output of a job of two machines; NICs that carry ``part`` of their rate.

    ``sent`` is what the ports count, ``kernel`` what the interfaces do, of what must cross.
    """
    results: list[tuple[int, str]] = []

    def say(pod: int, kind: str, **fields: Any) -> None:
        results.append((pod, f"[default0]:rdma: {json.dumps({'kind': kind, **fields})}"))

    least = 0.0
    rows = []
    for name in rdma._ALL:
        wire = COLLECTIVES[name].wire
        assert wire is not None
        for size in (GIB, 4 * GIB):
            seconds = size * wire(NODES, EACH) / (RATE * part * 1e9)
            rows.append((name, size, seconds))
            least += size * 5 * wire(NODES, EACH)
    for when, scale in (("before", 0.0), ("after", 1.0)):
        for pod in range(NODES):
            for port in range(8):
                counted = {"sent": int(1000 + scale * sent * least / 8), "received": 5}
                place = {"rank": pod * EACH, "when": when}
                say(
                    pod, "port", **place, name=f"mlx5_{port}/1", counted=counted,
                    rate="400 Gb/sec (4X NDR)", layer="Ethernet",
                )  # fmt: skip
            say(
                pod, "interface", rank=pod * EACH, when=when, name="eth0",
                sent=int(70 + scale * kernel * least),
            )  # fmt: skip
    span = 90.0 + 8 * sum(seconds for _, _, seconds in rows)
    for rank in range(WORLD):
        pod, local = divmod(rank, EACH)
        pid = 100 + local
        results += [(pod, line) for line in log(logs(rank), pod, pid)]
        say(
            pod, "begin", rank=rank, world=WORLD, local=local, each=EACH, host=f"pod-{pod}",
            pid=pid, backend="nccl", device="NVIDIA H100", torch="2.7", nccl="2.26.2",
            clock=10.0, time=1e9,
        )  # fmt: skip
        for name, size, seconds in rows:
            own = seconds * (1 + rank / 1000)
            fields = {"rank": rank, "collective": name, "size": size, "repeats": 5, "wrong": 0}
            say(pod, "row", **fields, seconds=own)
        for alone in (False, True):
            seconds = 4 * GIB / (50e9 * part)
            fields = {"rank": rank, "rail": local, "alone": alone, "size": 4 * GIB, "wrong": 0}
            say(pod, "rail", **fields, seconds=seconds)
        if not local:
            results += [(pod, line) for line in over_verbs(pod)]
        say(pod, "end", rank=rank, clock=10.0 + span, time=1e9 + span)
    return results


ASKED: dict[str, Any] = {
    "pods": NODES,
    "processes": EACH,
    "phase": "completed",
    "detail": "",
    "machines": ("lab-node-0", "lab-node-1"),
}


def verdict(facts: Facts, said: Sequence[tuple[int, str]], **asked: Any) -> Result:
    evidence = traffic.gathered(said, **(ASKED | asked))
    # As it is kept and read again.
    evidence = traffic.Traffic.model_validate_json(evidence.model_dump_json())
    return rdma.CHECK.judge(evidence, facts)


def edited(
    said: Sequence[tuple[int, str]], change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> list[tuple[int, str]]:
    """Return the lines with each record changed, or left out where the change gives None."""
    results = []
    for pod, text in said:
        head, mark, data = text.partition("rdma: ")
        if mark:
            record = change(json.loads(data))
            if record is None:
                continue
            results.append((pod, f"{head}{mark}{json.dumps(record)}"))
        else:
            results.append((pod, text))
    return results


def test_rdma_at_its_rate_passes(machines: Facts) -> None:
    result = verdict(machines, lines())
    assert result.verdict is Verdict.PASSED, result.summary
    assert all(item.passed is not False for item in result.measured)
    assert {plot.kind for plot in result.plots} == {"lines", "map"}
    assert "16 processes show roce" in result.summary


# -- the path -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "414-tcp-fallback-16-ranks-full.log",
        "315-gcp-fastsocket-a100-slow.log",
        "310-ofi-plugin-tcp-provider.log",
    ],
)
@pytest.mark.parametrize("part", [0.9, 0.05])
def test_tcp_fails_at_any_bandwidth(machines: Facts, name: str, part: float) -> None:
    result = verdict(machines, lines(part=part, logs=lambda _: name))
    assert result.verdict is Verdict.FAILED
    assert "the transport is TCP" in result.summary.replace("The", "the")


def test_one_rank_of_sixteen_on_tcp_fails(machines: Facts) -> None:
    names = {13: "361-ib-disabled-by-env-eight-hcas.log"}
    text = lines(logs=lambda rank: names.get(rank, "365-roce-ok-gid-index-3-set.log"))
    result = verdict(machines, text)
    assert result.verdict is Verdict.FAILED
    assert "TCP on 1 of 16 processes" in result.summary


def test_a_contract_whose_proof_is_tcp_does_not_pass_tcp(machines: Facts) -> None:
    fabric = machines.contract.fabric.model_copy(
        update={"proofs": FABRICS["ethernet"].proofs, "gpudirect": None, "kind": "ethernet"}
    )
    plain = replace(machines, contract=machines.contract.model_copy(update={"fabric": fabric}))
    name = "414-tcp-fallback-16-ranks-full.log"
    assert verdict(plain, lines(logs=lambda _: name)).verdict is Verdict.FAILED


def test_no_gpudirect_on_one_rank_fails(machines: Facts) -> None:
    texts = [
        (pod, text.replace("/GDRDMA", "") if "pod-1:103:" in text else text)
        for pod, text in lines()
    ]
    result = verdict(machines, texts)
    assert result.verdict is Verdict.FAILED
    assert "pod-1:103" in result.summary
    assert "without GPUDirect" in result.summary


def test_no_proofs_prove_nothing(machines: Facts) -> None:
    fabric = machines.contract.fabric.model_copy(update={"proofs": ()})
    plain = replace(machines, contract=machines.contract.model_copy(update={"fabric": fabric}))
    assert verdict(plain, lines()).verdict is Verdict.NOT_PROVEN


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(lambda text: "NCCL INFO" in text, id="all of the log"),
        pytest.param(lambda text: "pod-0:105:" in text, id="one rank's log"),
        pytest.param(lambda text: "pod-0:105:" in text and "via NET" in text, id="its channels"),
        pytest.param(lambda text: "[send]" in text and "pod-1:100:" in text, id="one direction"),
        pytest.param(lambda text: "NET/IB : Using" in text and "pod-1:1" in text, id="the devices"),
    ],
)
def test_a_log_that_lacks_something_is_not_proven(
    machines: Facts, gone: Callable[[str], bool]
) -> None:
    texts = [(pod, text) for pod, text in lines() if not gone(text)]
    assert verdict(machines, texts).verdict is Verdict.NOT_PROVEN


def test_the_log_must_be_of_the_processes_that_measured(machines: Facts) -> None:
    texts = [(pod, text.replace("pod-1:107:", "pod-1:999:")) for pod, text in lines()]
    result = verdict(machines, texts)
    assert result.verdict is Verdict.NOT_PROVEN
    assert "rank 15, process 107" in result.summary


def test_no_recorded_log_of_sockets_ever_passes() -> None:
    """Labelled logs, whole and line by line, against each fabric's proofs."""
    with (LOGS / "INDEX.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    sockets = [row["file"] for row in rows if row["transport"] == "socket"]
    assert len(sockets) >= 20
    kinds = [(kind.proofs, kind.gpudirect) for kind in FABRICS.values()]
    for name in sockets:
        text = (LOGS / name).read_text(errors="replace").splitlines()
        for proofs, gpudirect in kinds:
            wrote = ranks.judge({0: text}, processes=1, proofs=proofs, gpudirect=gpudirect)
            count = len(wrote.processes)
            asked: Any = {"processes": count, "proofs": proofs, "gpudirect": gpudirect}
            result = ranks.judge({0: text}, **asked)
            assert result.verdict is not Verdict.PASSED, (name, proofs)
            # In a pod, by what its own Python can run.
            assert by_process.judge({0: text}, **asked).verdict != by_process.PASSED, (name, proofs)


# -- over verbs -----------------------------------------------------------------------------------


def paired(change: Callable[[dict[str, Any]], dict[str, Any]], rail: int = 3) -> Any:
    """Return all lines, with the bandwidth of one rail of the second machine changed."""
    return edited(
        lines(),
        lambda r: (
            r | change(r)
            if (r["kind"], r.get("tool"), r.get("rail"), r.get("node"))
            == ("pair", "ib_write_bw", rail, 1)
            else r
        ),
    )


SLOW = perftests.bandwidth("mlx5_3", 210.0)


@pytest.mark.parametrize(
    ("change", "verdict_", "says"),
    [
        pytest.param(
            {"output": SLOW}, Verdict.FAILED, "rail 3 (mlx5_3) of lab-node-1", id="half the rate"
        ),
        pytest.param(
            {"output": perftests.bandwidth("mlx5_3", 460.0)},
            Verdict.NOT_PROVEN,
            "more than a NIC can",
            id="more than the rate",
        ),
        pytest.param(
            {"output": perftests.bandwidth("mlx5_4")},
            Verdict.NOT_PROVEN,
            "RDMA_Write BW over mlx5_4, not of mlx5_3",
            id="another device",
        ),
        pytest.param(
            {"output": perftests.latency("mlx5_3")},
            Verdict.NOT_PROVEN,
            "tells of RDMA_Read Latency",
            id="another test",
        ),
        pytest.param({"output": ""}, Verdict.NOT_PROVEN, "0 tests", id="exit 0 and no table"),
        pytest.param(
            {"output": "\n".join(perftests.bandwidth("mlx5_3").splitlines()[:-1])},
            Verdict.NOT_PROVEN,
            "no end",
            id="cut off",
        ),
        pytest.param(
            {"status": 1, "output": "Couldn't connect to 10.0.0.2:18515"},
            Verdict.NOT_PROVEN,
            "ended with 1, its server with 0: Couldn't connect",
            id="it failed",
        ),
        pytest.param({"served": -1}, Verdict.NOT_PROVEN, "its server with -1", id="no server"),
        pytest.param(
            {"sent": {"mlx5_3/1": 4000, "mlx5_5/1": 320000 << 16}},
            Verdict.NOT_PROVEN,
            "that device's ports have sent 4000",
            id="another port counted it",
        ),
        pytest.param(
            {"sent": {"mlx5_3/1": 320000 << 16, "mlx5_5/1": 9 << 30}},
            Verdict.NOT_PROVEN,
            "the rail is not by itself",
            id="two ports counted it",
        ),
    ],
)
def test_a_rail_over_verbs_is_judged_by_itself(
    machines: Facts, change: dict[str, Any], verdict_: Verdict, says: str
) -> None:
    result = verdict(machines, paired(lambda _: change))
    assert result.verdict is verdict_
    assert says in result.summary


@pytest.mark.parametrize(
    "gone",
    [
        pytest.param(lambda r: r["kind"] == "verbs" and r["node"] == 1, id="what a pod has"),
        pytest.param(lambda r: r["kind"] == "verbs", id="what all pods have"),
        pytest.param(
            lambda r: r["kind"] == "pair" and r["rail"] == 5 and r["node"] == 0, id="a rail"
        ),
        pytest.param(lambda r: r["kind"] == "pair" and r["tool"] == "ib_read_lat", id="a tool"),
    ],
)
def test_unreported_pair_is_not_proven(
    machines: Facts, gone: Callable[[dict[str, Any]], bool]
) -> None:
    text = edited(lines(), lambda r: None if gone(r) else r)
    assert verdict(machines, text).verdict is Verdict.NOT_PROVEN


def without(record: dict[str, Any], **fields: Any) -> dict[str, Any] | None:
    if record["kind"] == "pair":
        return None
    return record | (fields if record["kind"] == "verbs" else {})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"tools": ()}, "ib_write_bw is not in the image"),
        ({"devices": ()}, "there are no verbs"),
    ],
)
def test_the_report_says_where_verbs_cannot_be_tested(
    machines: Facts, fields: dict[str, Any], says: str
) -> None:
    """NCCL's own rails, alone and together, show what the part would have."""
    result = verdict(machines, edited(lines(), lambda r: without(r, **fields)))
    assert result.verdict is Verdict.PASSED
    assert any(says in item.text for item in result.evidence)


@pytest.mark.parametrize("fields", [{"tools": ()}, {"devices": ()}])
def test_a_pod_that_lacks_what_the_others_have_is_not_proven(
    machines: Facts, fields: dict[str, Any]
) -> None:
    text = edited(lines(), lambda r: without(r, **fields) if r.get("node") == 1 else r)
    assert verdict(machines, text).verdict is Verdict.NOT_PROVEN


def test_tcp_beside_fast_tables_over_verbs_fails(machines: Facts) -> None:
    name = "414-tcp-fallback-16-ranks-full.log"
    assert verdict(machines, lines(logs=lambda _: name)).verdict is Verdict.FAILED


# -- counters -------------------------------------------------------------------------------------


def test_idle_ports_prove_nothing(machines: Facts) -> None:
    result = verdict(machines, lines(sent=0.2))
    assert result.verdict is Verdict.NOT_PROVEN
    assert "the RDMA ports" in result.summary.replace("The", "the")


def test_a_kernel_that_carried_it_contradicts_the_log(machines: Facts) -> None:
    result = verdict(machines, lines(kernel=1.05))
    assert result.verdict is Verdict.NOT_PROVEN
    assert "transport is TCP" in result.summary


def test_a_kernel_that_carried_it_fails_without_a_log(machines: Facts) -> None:
    texts = [(pod, text) for pod, text in lines(kernel=1.05) if "NCCL INFO" not in text]
    assert verdict(machines, texts).verdict is Verdict.FAILED


def test_gloo_is_tcp(machines: Facts) -> None:
    message = edited(
        lines(kernel=1.05), lambda r: r | ({"backend": "gloo"} if "world" in r else {})
    )
    message = [(pod, text) for pod, text in message if "NCCL INFO" not in text]
    result = verdict(machines, message)
    assert result.verdict is Verdict.FAILED
    assert "The transport is TCP: backend gloo" in result.summary


def test_gloo_that_shows_nothing_is_not_proven(machines: Facts) -> None:
    message = edited(lines(), lambda r: r | ({"backend": "gloo"} if "world" in r else {}))
    message = [(pod, text) for pod, text in message if "NCCL INFO" not in text]
    assert verdict(machines, message).verdict is Verdict.NOT_PROVEN


def test_ports_that_no_pod_sees_are_reported(machines: Facts) -> None:
    result = verdict(machines, edited(lines(), lambda r: None if r["kind"] == "port" else r))
    assert result.verdict is Verdict.PASSED
    assert any("no port is visible" in item.text for item in result.evidence)


# -- the rate -------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0.35, 0.1, 0.001])
def test_rdma_that_is_slow_fails(machines: Facts, part: float) -> None:
    result = verdict(machines, lines(part=part))
    assert result.verdict is Verdict.FAILED
    assert "Too slow" in result.summary


def test_a_recorded_log_of_slow_rdma_fails(machines: Facts) -> None:
    """The transport is right; the run measured 55.9 GB/s algbw of 400."""
    name = "735-roce-two-h100-low-per-connection-qps.log"
    result = verdict(machines, lines(part=55.9 / 400, logs=lambda _: name))
    assert result.verdict is Verdict.FAILED


def test_more_than_the_nics_can_carry_is_not_proven(machines: Facts) -> None:
    result = verdict(machines, lines(part=1.3))
    assert result.verdict is Verdict.NOT_PROVEN
    assert "more than the NICs can carry" in result.summary


def test_a_rail_that_is_slow_fails_and_is_named(machines: Facts) -> None:
    def slow(record: dict[str, Any]) -> dict[str, Any]:
        bad = record["kind"] == "rail" and record["rank"] == 11 and record["alone"]
        return record | ({"seconds": record["seconds"] * 5} if bad else {})

    result = verdict(machines, edited(lines(), slow))
    assert result.verdict is Verdict.FAILED
    assert "Rail 3 of lab-node-1" in result.summary


def test_a_machine_without_a_rate_is_not_proven(machines: Facts) -> None:
    for fields in ({"line_rate_gbps": 0}, {"nvlink_domain": 72}):
        plain = replace(machines, pool=machines.pool.model_copy(update=fields))
        result = verdict(plain, lines())
        assert result.verdict is Verdict.NOT_PROVEN
        assert "what the NICs can carry" in result.summary


def test_a_published_figure_of_the_machine_is_held(machines: Facts) -> None:
    """Two p5.48xlarge have 487 GB/s at 16 GiB: 60 % of the line rate would do elsewhere."""
    pool = machines.pool.model_copy(update={"instance_type": "p5.48xlarge"})
    p5 = replace(machines, pool=pool)
    result = verdict(p5, lines(part=0.45))
    assert result.verdict is Verdict.FAILED
    assert "published" in result.summary
    assert verdict(p5, lines(part=0.9)).verdict is Verdict.PASSED


def test_every_published_run_reaches_what_is_asked() -> None:
    """The limit's source: of machines without NVLink between them, and of sums without SHARP."""
    seen = 0
    for machine in MACHINES.values():
        for item in machine.published:
            if item.transport != "network" or item.sharp or machine.nvlink_domain > machine.gpus:
                continue
            collective = COLLECTIVES[item.collective]
            assert collective.factor is not None
            assert collective.wire is not None
            algbw = item.busbw / collective.factor(item.nodes * machine.gpus)
            wire = algbw * collective.wire(item.nodes, machine.gpus)
            rate = machine.line_rate_gbps / 8
            reached = rdma.reaches(item.collective, item.busbw, wire) / rate
            assert acceptance.LINE_RATE.value <= reached, (machine.name, item)
            assert wire / rate <= acceptance.ABOVE.value, (machine.name, item)
            seen += 1
    assert seen >= 10


# -- what was sabotaged ---------------------------------------------------------------------------


def _drop(kind: str, rank: int) -> Callable[[dict[str, Any]], dict[str, Any] | None]:
    return lambda r: None if r["kind"] == kind and r["rank"] == rank else r


def _set(kind: str, at: int, /, **fields: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda r: r | (fields if r["kind"] == kind and r["rank"] == at else {})


def _faster(scale: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change(record: dict[str, Any]) -> dict[str, Any]:
        mine = record.get("rank") == 3 and "seconds" in record and record["kind"] == "row"
        return record | ({"seconds": record["seconds"] * scale} if mine else {})

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_drop("begin", 5), id="a rank is missing"),
        pytest.param(_drop("end", 5), id="a rank was cut off"),
        pytest.param(_drop("row", 5), id="a rank has no rows"),
        pytest.param(_drop("rail", 5), id="a rail is missing"),
        pytest.param(_set("begin", 5, rank=4), id="a rank twice"),
        pytest.param(_set("begin", 5, world=8), id="another world"),
        pytest.param(_set("begin", 5, each=1), id="fewer processes"),
        pytest.param(_set("begin", 5, backend="gloo"), id="mixed backends"),
        pytest.param(_set("end", 5, time=1e9 + 900), id="a clock that lies"),
        pytest.param(_set("end", 5, clock=40.0, time=1e9 + 30), id="both clocks lie"),
        pytest.param(_faster(0.1), id="one rank is ten times as fast"),
        pytest.param(_faster(1e4), id="more work than time"),
        pytest.param(_set("row", 5, seconds=None, why="not known"), id="not measured"),
        pytest.param(_set("row", 5, wrong=None), id="not looked at"),
    ],
)
def test_sabotage_is_not_proven(machines: Facts, change: Any) -> None:
    result = verdict(machines, edited(lines(), change))
    assert result.verdict is Verdict.NOT_PROVEN, result.summary


@pytest.mark.parametrize(
    "change",
    [
        _set("row", 5, seconds=float("nan")),
        _set("row", 5, seconds=0),
        _set("row", 5, seconds=-1),
        _set("row", 5, wrong=-1),
        _set("begin", 5, rank="five"),
        _set("end", 5, more=1),
        _set("end", 5, kind="other"),
    ],
)
def test_unreadable_input_is_an_error(change: Any) -> None:
    with pytest.raises((ValidationError, ValueError, KeyError)):
        traffic.gathered(edited(lines(), change), **ASKED)


def test_a_line_that_is_cut_is_an_error() -> None:
    text = lines()
    text[3] = (text[3][0], text[3][1][:60])
    with pytest.raises(ValueError, match="is cut"):
        traffic.gathered(text, **ASKED)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"phase": "failed", "detail": "exited 1"}, "exited 1"),
        ({"phase": "not done in time"}, "not done in time"),
        ({"machines": ("lab-node-0",)}, "where every pod ran"),
        ({"machines": ("lab-node-0", "lab-node-0")}, "on one machine"),
        ({"machines": ("lab-node-0", "other")}, "not asked for"),
        ({"processes": 4}, "were"),
        ({"pods": 3}, "were"),
    ],
)
def test_a_job_that_is_not_as_asked_is_not_proven(
    machines: Facts, asked: dict[str, Any], says: str
) -> None:
    result = verdict(machines, lines(), **asked)
    assert result.verdict is Verdict.NOT_PROVEN
    assert says in result.summary


def test_wrong_values_fail(machines: Facts) -> None:
    for kind in ("row", "rail"):
        result = verdict(machines, edited(lines(), _set(kind, 5, wrong=3)))
        assert result.verdict is Verdict.FAILED
        assert "wrong" in result.summary


def test_the_plan_needs_two_nodes_and_torchrun(facts: Facts) -> None:
    planned = rdma.CHECK.plan(facts)
    assert (planned.nodes, planned.missing) == (2, "")
    assert "two nodes" in rdma.CHECK.plan(replace(facts, nodes=("a",))).missing
    simulated = replace(facts, simulated=("lab-node-1",))
    assert "two nodes" in rdma.CHECK.plan(simulated).missing
    runtime = facts.runtime.model_copy(update={"framework": "jax"})
    assert "torchrun" in rdma.CHECK.plan(replace(facts, runtime=runtime)).missing


@pytest.mark.parametrize(
    ("change", "asked", "mend"),
    [
        (_set("end", 5, time=1e9 + 900), {}, "chronyc tracking"),
        (_faster(0.1), {}, "chronyc tracking"),
        (_drop("end", 5), {}, "containerLogMaxSize"),
        (_drop("begin", 5), {}, "containerLogMaxSize"),
        (None, {"phase": "not done in time"}, "kubectl get networkpolicy -n training"),
    ],
)
def test_each_missing_thing_has_its_own_remedy(
    machines: Facts, change: Any, asked: dict[str, Any], mend: str
) -> None:
    texts = [] if change is None else edited(lines(), change)
    result = verdict(machines, texts, **asked)
    assert result.verdict is Verdict.NOT_PROVEN
    assert mend in result.remedy
