"""The documentation's job files: in the package that is installed, or in the checkout beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from railhead.contract import ClusterContract
from railhead.launch.job import JobFile, parse_job

#: What README, docs/quickstart.md and docs/launching.md launch.
NAMES = ("torch-ddp", "fsdp", "jax", "mpi")
_PACKAGE = Path(__file__).resolve().parents[1]
# pyproject.toml puts them into the wheel under the first; a checkout has them beside the package.
_FOLDERS = (_PACKAGE / "examples", _PACKAGE.parent / "examples")


@dataclass(frozen=True, kw_only=True)
class Example:
    """A job file as the documentation shows it, and the folder that its files are relative to."""

    name: str
    text: str
    job: JobFile
    folder: Path


def examples() -> tuple[Example, ...]:
    """All that are there; none where neither folder is."""
    found = []
    for name in NAMES:
        for folder in _FOLDERS:
            path = folder / f"{name}.yaml"
            if path.is_file():
                text = path.read_text(encoding="utf-8")
                job = parse_job(text, where=path.name)
                found.append(Example(name=name, text=text, job=job, folder=folder))
                break
    return tuple(found)


def unfit(example: Example, contract: ClusterContract) -> str:
    """Why a cluster has nothing for an example to run in; empty where it has."""
    runtime, framework = example.job.runtime, example.job.framework
    if runtime and runtime not in {one.name for one in contract.runtimes}:
        return f"the cluster has no runtime {runtime}"
    if framework and framework not in {one.framework for one in contract.runtimes}:
        return f"the cluster has no runtime of {framework}"
    return ""
