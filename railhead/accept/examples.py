"""The documentation's job files, as `railhead accept` launches them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from railhead.base.examples import FOLDERS
from railhead.contract import ClusterContract
from railhead.launch.job import JobFile, parse_job

#: What README, docs/quickstart.md and docs/launching.md launch.
NAMES = ("torch-ddp", "fsdp", "jax", "mpi")
_FOLDERS = FOLDERS


@dataclass(frozen=True, kw_only=True)
class Example:
    """A job file as the documentation shows it, and the folder that its files are relative to."""

    name: str
    text: str
    job: JobFile
    folder: Path


def examples() -> tuple[Example, ...]:
    """Return all that are there; none where neither folder is."""
    results = []
    for name in NAMES:
        for folder in _FOLDERS:
            path = folder / f"{name}.yaml"
            if path.is_file():
                text = path.read_text(encoding="utf-8")
                job = parse_job(text, where=path.name)
                results.append(Example(name=name, text=text, job=job, folder=folder))
                break
    return tuple(results)


def unfit(example: Example, contract: ClusterContract) -> str:
    """Return why no runtime of a cluster can run an example; empty where one can."""
    runtime, framework = example.job.runtime, example.job.framework
    if runtime and runtime not in {item.name for item in contract.runtimes}:
        return f"the cluster has no runtime {runtime}"
    if framework and framework not in {item.framework for item in contract.runtimes}:
        return f"the cluster has no runtime of {framework}"
    return ""
