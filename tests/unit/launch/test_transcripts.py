"""What `--explain` says of a few jobs, word for word, as a researcher reads it.

`python -m tests.unit.launch.test_transcripts` writes it anew; read the difference.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from railhead.launch import explain
from railhead.launch.estimates import Shape, figures
from railhead.launch.job import Payload, SizingFile, parse_job
from railhead.launch.plan import make_plan
from tests.unit.launch.conftest import CONTRACT, JOB

GOLDEN = Path(__file__).parent / "golden"
MORE = """\
queue: training
image: mine:1
timeout: 2h
topology: any
secrets: {TOKEN: hub/token}
mounts: {/data: imagenet:ro}
sizing: {params: 7e9, global_batch: 64, micro_batch: 2, seq_len: 4096, tflops: 400}
"""
FIELDS = {
    "runtimes": tuple(
        runtime.model_copy(
            update={
                "pod": {
                    "metadata": {
                        "annotations": {
                            "kueue.x-k8s.io/podset-preferred-topology": "k.io/rack",
                            "k8s.v1.cni.cncf.io/networks": "rail-0",
                        }
                    },
                    "spec": runtime.pod["spec"]
                    | {"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}]},
                }
            }
        )
        for runtime in CONTRACT.runtimes
    ),
    "fabric": CONTRACT.fabric.model_copy(
        update={"line_rate_gbps": 400, "reasons": {"NCCL_DEBUG": "so that it says why"}}
    ),
}


def explained(text: str, *, contract: dict[str, Any], files: int = 0) -> Any:
    job = parse_job(text, where="job.yaml")
    seen = CONTRACT.model_copy(update=contract)
    payloads = tuple(Payload(name=f"f{n}.py", data=b"x" * 10) for n in range(files))
    plan = make_plan(job, payloads, seen)
    said = {"nodes": "--nodes"} if files else None
    rows = explain.derived(job, plan, seen, said)
    return explain.to_json(rows, explain.estimated(job, plan, seen))


def worked_out(shape: Shape, **fields: Any) -> Callable[[], Any]:
    return lambda: [one.to_json() for one in figures(SizingFile(**fields), shape)]


EIGHT = Shape(nodes=8, gpus=8, gbps=3200.0)
WHOLE = {
    "params": 7.5e9,
    "global_batch": 1024,
    "micro_batch": 4,
    "seq_len": 4096,
    "tflops": 400.0,
    "base_batch": 256,
    "base_lr": 1e-4,
    "gpu_memory_gb": 80.0,
    "checkpoint_gbs": 20.0,
}
CASES: dict[str, Callable[[], Any]] = {
    "a job that says all": lambda: explained(JOB + MORE, contract=FIELDS, files=2),
    "a job that says little": lambda: explained(
        "name: a\nnodes: 1\ncommand: [train.py]\nfabric: none\n", contract={}
    ),
    "a part of the GPUs": lambda: explained(
        "name: a\nnodes: 2\ngpus_per_node: 4\nframework: torch\ncommand: [torchrun, x.py]\n",
        contract=FIELDS,
    ),
    "figures of all that is given": worked_out(EIGHT, **WHOLE),
    "figures of a cut model, measured": worked_out(
        EIGHT, params=70e9, tensor=8, pipeline=4, dtype="fp32", optimizer="sgd",
        accumulation=8, global_batch=128, step_seconds=2.5, gpu_mtbf_hours=5000.0,
        base_batch=64, base_lr=0.1,
    ),
    "figures of one node": worked_out(Shape(nodes=1, gpus=8, gbps=3200.0), params=1e9),
    "figures without a rate": worked_out(Shape(nodes=2, gpus=8, gbps=0.0), params=1e9),
    "figures of nothing": worked_out(EIGHT),
    "a batch from its parts": worked_out(EIGHT, micro_batch=2, accumulation=3, base_lr=1.0),
    "a batch against its parts": worked_out(
        EIGHT, micro_batch=2, accumulation=3, global_batch=100
    ),
    "a batch that micro batches do not make": worked_out(EIGHT, micro_batch=3, global_batch=1000),
    "a batch that accumulation does not make": worked_out(EIGHT, accumulation=5, global_batch=64),
    "cuts that do not divide": worked_out(EIGHT, params=1e9, tensor=7),
    "cuts that fit no node": worked_out(
        Shape(nodes=3, gpus=8, gbps=100.0), params=1e9, tensor=6, pipeline=2
    ),
    "cuts over several nodes": worked_out(EIGHT, params=1e9, tensor=16, micro_batch=1),
}  # fmt: skip


def said() -> dict[str, Any]:
    # Sums of floats may differ in their last digit between machines.
    return {
        name: json.loads(json.dumps(case()), parse_float=lambda text: float(f"{float(text):.9g}"))
        for name, case in CASES.items()
    }


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return said()


@pytest.mark.parametrize("case", CASES)
def test_it_says_what_it_said(now: dict[str, Any], case: str) -> None:
    assert now[case] == json.loads((GOLDEN / "explain.json").read_text())[case]


if __name__ == "__main__":
    (GOLDEN / "explain.json").write_text(json.dumps(said(), indent=1) + "\n")
