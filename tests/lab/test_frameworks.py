"""Each framework's example, on two nodes, from its description alone; and killed in the middle."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.jobs import Jobs, records
from tests.lab.killed import killed_in_the_middle, start

pytestmark = pytest.mark.lab

# Enough that each still runs when it is killed.
EPOCHS = {"fsdp": 12, "jax": 60, "accelerate": 40, "deepspeed": 40, "megatron": 60, "ray": 40}


# torchrun's rendezvous is held by tests/lab/test_restarts.py.
@pytest.mark.exhaustive
@pytest.mark.parametrize("example", EPOCHS)
def test_killed_in_the_middle_its_losses_are_an_unbroken_runs(
    jobs: Jobs, repo: Path, example: str
) -> None:
    killed_in_the_middle(jobs, repo, example, EPOCHS[example])


def test_every_rank_of_mpi_knows_the_sum(jobs: Jobs, repo: Path) -> None:
    name = start(jobs, repo, "mpi")
    jobs.phase(name, "completed", 180)
    text = records(jobs.run("logs", name, "--tail", "500").stdout.splitlines(), "rank=")
    assert sorted(int(r["rank"]) for r in text) == [0, 1, 2, 3]
    assert {(r["world_size"], r["sum"]) for r in text} == {("4", "10")}
    assert len({r["host"] for r in text}) == 2
    jobs.clear(name)
