"""Dumps that newer stacks leave: the flight recorder's, RAS, the Inspector; hostile bytes too."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railhead.base.errors import InputError
from railhead.diagnose import dumps, inputs, ras
from tests.unit.diagnose.recorder import as_json, entry, pickled

DONE = [entry(1), entry(2)]


def read(by_rank: dict[int, bytes]) -> list[dumps.Dump]:
    return [dumps.read_dump(data, f"nccl_trace_rank_{rank}") for rank, data in by_rank.items()]


def troubles(by_rank: dict[int, bytes]) -> list[tuple[str, int, tuple[int, ...]]]:
    return [(item.kind, item.seq, item.ranks) for item in dumps.analyse(read(by_rank))]


def test_a_healthy_job_has_nothing_to_say() -> None:
    assert troubles({rank: pickled(DONE) for rank in range(4)}) == []


@pytest.mark.parametrize("write", [pickled, as_json], ids=["pickle", "json"])
def test_the_rank_that_never_came_is_named(write: Any) -> None:
    late = [*DONE, entry(3, state="started", line=42)]
    data = {rank: write(late if rank != 2 else DONE) for rank in range(4)}
    assert troubles(data) == [("fr-missing-ranks", 3, (2,))]
    text = dumps.analyse(read(data))[0].text
    assert "rank 2 never came to all_reduce(4 Float) at /workspace/train.py:42" in text
    assert "rank 2 ended at 2" in text


def test_a_different_operation_is_a_mismatch() -> None:
    mine = [*DONE, entry(3, state="started")]
    other = [*DONE, entry(3, "broadcast", state="started")]
    data = {rank: pickled(other if rank == 1 else mine) for rank in range(4)}
    assert troubles(data) == [("fr-mismatch", 3, (1,))]


@pytest.mark.parametrize("change", [{"sizes": (5,)}, {"dtype": "Half"}])
def test_a_different_size_or_type_is_a_mismatch(change: dict[str, Any]) -> None:
    mine = [*DONE, entry(3, state="started")]
    other = [*DONE, entry(3, state="started", **change)]
    data = {rank: pickled(other if rank == 3 else mine) for rank in range(4)}
    assert troubles(data) == [("fr-mismatch", 3, (3,))]


def test_uneven_gathers_are_not_a_mismatch() -> None:
    data = {rank: pickled([*DONE, entry(3, "all_to_all", sizes=(rank + 1,))]) for rank in range(4)}
    assert troubles(data) == []


def test_all_ranks_in_one_call_are_stuck() -> None:
    data = {rank: pickled([*DONE, entry(3, state="started")]) for rank in range(4)}
    assert troubles(data) == [("fr-stuck", 3, (0, 1, 2, 3))]


def test_a_rank_without_a_dump_is_named_and_not_accused() -> None:
    data = {rank: pickled([*DONE, entry(3, state="started")]) for rank in range(3)}
    assert troubles(data) == [("fr-stuck", 3, (0, 1, 2)), ("fr-no-dump", -1, (3,))]


def test_entries_dropped_by_a_ring_buffer_are_not_missing() -> None:
    full = [entry(seq) for seq in range(1, 9)]
    data = {0: pickled(full), 1: pickled(full[5:]), 2: pickled(full), 3: pickled(full)}
    assert troubles(data) == []


def test_point_to_point_is_left_out() -> None:
    data = {
        rank: pickled([*DONE, *([entry(0, "send 0->1", p2p=True)] if rank == 0 else [])])
        for rank in range(4)
    }
    assert troubles(data) == []


def test_a_rank_that_waits_elsewhere_is_not_the_first() -> None:
    """Rank 1 is missing in group a because it waits for rank 3 in group b."""
    groups = {"a": [0, 1], "b": [1, 3]}
    data = {
        0: pickled([entry(1, group="a"), entry(2, group="a", state="started")], groups),
        1: pickled([entry(1, group="a"), entry(1, group="b", state="started")], groups),
        3: pickled([], groups),
    }
    # Rank 3 left an empty dump of its group: it has not come to anything yet.
    assert ("fr-missing-ranks", 2, (1,)) not in troubles(data)


def test_ranks_distinguish_groups_of_one_name() -> None:
    left, right = {"tp": [0, 1]}, {"tp": [2, 3]}
    data = {
        0: pickled([entry(1, group="tp")], left),
        1: pickled([entry(1, group="tp")], left),
        2: pickled([entry(1, "broadcast", group="tp")], right),
        3: pickled([entry(1, "broadcast", group="tp")], right),
    }
    assert troubles(data) == []


def test_the_old_format_without_groups_is_read() -> None:
    old = [{"seq_id": 1, "profiling_name": "nccl:all_reduce", "state": "completed", "pg_id": 0}]
    later = [*old, {"seq_id": 2, "profiling_name": "nccl:all_reduce", "state": "started"}]
    data = {0: pickle.dumps(later), 1: pickle.dumps(old)}
    assert [kind for kind, _, _ in troubles({0: data[0], 1: data[0]})] == ["fr-stuck"]


class _Evil:
    def __reduce__(self) -> Any:
        return os.system, ("echo gone > gone",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_that_holds_code_is_refused(
    protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = pickle.dumps({"version": "2.10", "entries": [_Evil()]}, protocol=protocol)
    with pytest.raises(InputError) as refused:
        dumps.load_pickle(data, "nccl_trace_rank_0")
    assert "system" in refused.value.problem
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02cos\nsystem\n(S'true'\ntR.",
        b"\x80\x02Pabc\n.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02r\xff\xff\xff\x7f.",
        b"\x80\x02]r\xff\xff\xff\x7f.",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x02",
        b"\x80\x02}",
        b"\x80\xff.",
        b"\x80\x02" + b"(" * 100_000 + b".",
        b"",
    ],
)
def test_hostile_pickles_are_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        dumps.load_pickle(data, "trace_0")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (pickle.dumps({"entries": 1}), "no list of entries"),
        (pickle.dumps([]), ""),
        (b"{", "not JSON"),
        (b'{"a": 1}', "no list of entries"),
    ],
)
def test_other_files_are_refused_or_empty(data: bytes, problem: str) -> None:
    if not problem:
        assert dumps.read_dump(data, "rank_0").entries == {}
        return
    with pytest.raises(InputError, match=problem):
        dumps.read_dump(data, "rank_0")


def test_a_name_without_a_rank_is_refused() -> None:
    with pytest.raises(InputError, match="does not end in a rank"):
        dumps.read_dump(pickled(DONE), "trace")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**70), max_value=2**70)
    | st.text(max_size=8)
    | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=12,
)
KEYS = ("collective_seq_id", "profiling_name", "state", "input_sizes", "process_group", "frames")
ENTRIES = st.lists(
    st.dictionaries(st.sampled_from((*KEYS, "is_p2p", "input_dtypes")), VALUES, max_size=6)
    | VALUES,
    max_size=4,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(entries=ENTRIES, config=VALUES)
def test_any_values_in_a_dump_give_a_result(entries: Any, config: Any) -> None:
    held = {"version": "2.10", "entries": entries, "pg_config": config}
    read_two = [dumps.read_dump(pickle.dumps(held), f"rank_{rank}") for rank in range(2)]
    dumps.observe(read_two)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=400))
def test_any_bytes_give_a_dump_or_a_refusal(data: bytes) -> None:
    for head in (b"", b"\x80\x02", b"\x80\x04\x95", b'{"entries": ['):
        with contextlib.suppress(InputError):
            dumps.read_dump(head + data, "rank_0")


def test_cut_and_flipped_dumps_give_a_dump_or_a_refusal() -> None:
    whole = pickled([entry(seq) for seq in range(20)])
    chance = random.Random(7)
    for _ in range(400):
        data = bytearray(whole[: chance.randrange(len(whole) + 1)])
        for _ in range(chance.randrange(4)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        with contextlib.suppress(InputError):
            dumps.observe([dumps.read_dump(bytes(data), "rank_0")])


RAS_TEXT = """\
Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (2.05s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4       7-8        32        32   RUNNING  INCOMPLETE

Errors
======

INCOMPLETE
  Missing communicator data from 1 job process
  Process 3487984 on node 172.16.64.213 managing GPU 5

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 21

Warnings
========

TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data

#0-1 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
  26 ranks have launched up to operation 6650
  6 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210
"""
RAS_OK = RAS_TEXT.partition("Errors\n")[0].replace("INCOMPLETE", "OK")


def test_ras_text_names_missing_and_late_ranks() -> None:
    seen = ras.read_ras_text(RAS_TEXT.encode(), "ras.txt")
    missing = [proof.text for proof in seen["ras-missing-ranks"]]
    assert missing == [
        "Process 3487984 on node 172.16.64.213 managing GPU 5",
        "The missing rank: 21",
    ]
    assert any("6 ranks have launched" in proof.text for proof in seen["ras-mismatch"])
    assert ras.read_ras_text(RAS_OK.encode(), "ras.txt") == {}


def communicator(counts: list[int], missing: bool) -> dict[str, Any]:
    return {
        "hash": "0xae94423cfbb2ef4a",
        "size": len(counts) + missing,
        "ranks": [
            {"rank": rank, "host": "h", "pid": 1, "collective_counts": {"AllReduce": count}}
            for rank, count in enumerate(counts)
        ],
        "missing_ranks": [
            {
                "rank": len(counts),
                "host": "172.16.64.245",
                "pid": 1524345,
                "status": {"unresponsive": True, "considered_dead": False},
            }
        ]
        * missing,
    }


def test_ras_json_names_missing_and_late_ranks() -> None:
    seen = ras.read_ras_json({"communicators": [communicator([7, 7, 6], True)]}, "ras.json")
    assert "rank 3 on 172.16.64.245, process 1524345, is unresponsive" in (
        seen["ras-missing-ranks"][0].text
    )
    assert "rank 2 has launched 6 AllReduce, others up to 7" in seen["ras-mismatch"][0].text
    assert ras.read_ras_json({"communicators": [communicator([7, 7], False)]}, "ras.json") == {}


# What NCCL 2.28.9 answered while rank 1 of 3 was stopped, without its other ranks.
RAS_WITHOUT_A_COMMA = b"""{
  "nccl_version": "2.28.9",
  "communicators": [
    {
      "hash": "0x9c86943f6c907a9d",
      "ranks": [],
      "missing_ranks": [
        {
          "rank": 1,
          "host": "127.0.0.1",
          "pid": 884,
          "cuda_dev": 0,
          "nvml_dev": 0
          "status": {
            "unresponsive": true,
            "considered_dead": false
          }
        }
      ]
    }
  ]
}
"""


def test_ras_json_lacks_a_comma_before_a_missing_ranks_status(tmp_path: Path) -> None:
    for text in (RAS_WITHOUT_A_COMMA, ras.mended(RAS_WITHOUT_A_COMMA)):
        (tmp_path / "ras.json").write_bytes(text)
        result = inputs.sort([tmp_path])
        assert result.skipped == []
        [proof] = result.observed["ras-missing-ranks"]
        assert "rank 1 on 127.0.0.1, process 884, is unresponsive" in proof.text


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(held=st.dictionaries(st.sampled_from(("communicators", "ras")), VALUES, max_size=2))
def test_any_json_of_ras_gives_a_result(held: dict[str, Any]) -> None:
    ras.read_ras_json(held, "ras.json")


def inspector(slow: int | None, ranks: int = 4, operations: int = 20) -> bytes:
    lines = [
        {
            "header": {"id": "0x7f", "rank": rank, "n_ranks": ranks, "nnodes": 2},
            "metadata": {"hostname": "h", "pid": 1},
            "coll_perf": {
                "coll": "AllReduce",
                "coll_sn": number,
                "coll_msg_size_bytes": 1 << 20,
                "coll_exec_time_us": 100 if rank == slow else 1000 + rank,
            },
        }
        for number in range(operations)
        for rank in range(ranks)
    ]
    return "\n".join(map(json.dumps, lines)).encode()


def test_the_inspector_shows_the_rank_that_others_wait_for() -> None:
    seen = ras.read_inspector(inspector(slow=2), "i.jsonl")
    assert seen["inspector-slow-rank"][0].text.startswith("rank 2 spent less than")
    assert ras.read_inspector(inspector(slow=None), "i.jsonl") == {}
    assert ras.read_inspector(inspector(slow=2, operations=5), "i.jsonl") == {}


def test_a_cut_inspector_file_is_read_as_far_as_it_goes() -> None:
    assert ras.read_inspector(inspector(slow=2)[:-40], "i.jsonl")
    with pytest.raises(InputError, match="no operation"):
        ras.read_inspector(b'{"coll_perf": 1}\n{', "i.jsonl")


def test_content_decides_the_kind_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickled(DONE))
    (tmp_path / "trace_1.json").write_bytes(as_json(DONE))
    (tmp_path / "ras.txt").write_text(RAS_TEXT)
    (tmp_path / "ras.json").write_text(json.dumps({"communicators": [communicator([1], True)]}))
    (tmp_path / "inspector.log").write_bytes(inspector(slow=1))
    (tmp_path / "job.log").write_text("NCCL INFO Using network IB\n")
    (tmp_path / "collector.log").write_text('{"log": "NCCL INFO Using network IB"}\n')
    (tmp_path / "evil_2").write_bytes(pickle.dumps(_Evil(), protocol=2))
    result = inputs.sort([tmp_path, "-", tmp_path / "not-there.log"])
    assert [dump.rank for dump in result.dumps] == [0, 1]
    assert set(result.observed) == {"ras-missing-ranks", "ras-mismatch", "inspector-slow-rank"}
    assert [Path(str(path)).name for path in result.logs] == [
        "collector.log",
        "job.log",
        "-",
        "not-there.log",
    ]
    assert len(result.skipped) == 1
    assert "system" in result.skipped[0]
