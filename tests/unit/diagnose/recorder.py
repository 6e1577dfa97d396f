"""Flight-recorder dumps as PyTorch writes them, version 2.10 of its format."""

from __future__ import annotations

import json
import pickle
from typing import Any


def entry(
    seq: int,
    op: str = "all_reduce",
    *,
    state: str = "completed",
    sizes: tuple[int, ...] = (4,),
    dtype: str = "Float",
    group: str = "0",
    p2p: bool = False,
    line: int = 10,
) -> dict[str, Any]:
    shape = [list(sizes)]
    return {
        "frames": [
            {"name": "all_reduce", "filename": "/opt/torch/distributed/x.py", "line": 1},
            {"name": "step", "filename": "/workspace/train.py", "line": line},
        ],
        "record_id": seq,
        "pg_id": 0,
        "process_group": (group, "default_pg"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": seq,
        "profiling_name": f"nccl:{op}",
        "time_created_ns": 1,
        "input_sizes": shape,
        "input_dtypes": [dtype],
        "output_sizes": shape,
        "output_dtypes": [dtype],
        "state": state,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": state == "completed",
        "timeout_ms": 600000,
        "is_p2p": p2p,
    }


def held(
    entries: list[dict[str, Any]], groups: dict[str, list[int]] | None = None
) -> dict[str, Any]:
    groups = {"0": [0, 1, 2, 3]} if groups is None else groups
    return {
        "version": "2.10",
        "comm_lib_version": "2.27.5",
        "pg_config": {
            name: {"name": name, "desc": "default_pg", "ranks": str(ranks)}
            for name, ranks in groups.items()
        },
        "pg_status": {"0": {"last_enqueued_collective": 1}},
        "entries": entries,
    }


def pickled(*args: Any, **kwargs: Any) -> bytes:
    # torch::jit::Pickler writes protocol 2.
    return pickle.dumps(held(*args, **kwargs), protocol=2)


def as_json(*args: Any, **kwargs: Any) -> bytes:
    return json.dumps(held(*args, **kwargs)).encode()
