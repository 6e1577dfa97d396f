"""200 contests of gangs that cannot all fit: never two half-placed, in order, and every one ends.

In a lab of its own: a node of it is taken away, and its stack must have run on others.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.lab.cli import environment
from tests.lab.conftest import LAB, STACK, railhead, succeed
from tests.lab.contests import Done, conduct, lab_status

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.contests]

NAME = f"{LAB}-contests"
SEED, ARENAS = 11, 20
COUNT = int(os.environ.get("RAILHEAD_CONTESTS", "200"))


@pytest.fixture(scope="module")
def done(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    """The contests, run once; the record is kept where RAILHEAD_CONTESTS_RECORD says."""
    if os.geteuid() != 0:
        pytest.skip("a lab needs root")
    kept = os.environ.get("RAILHEAD_CONTESTS_RECORD")
    record = Path(kept) if kept else tmp_path_factory.mktemp("contests") / "record.jsonl"
    succeed(railhead("lab", "down", "--name", NAME))
    succeed(railhead("lab", "up", "--name", NAME, "--rails", "2"))
    env = {**os.environ, **environment(NAME)}
    for command in (("stack", "select", "--create", STACK), ("up", "--stack", STACK, "--yes")):
        succeed(
            subprocess.run(
                ["pulumi", *command, "--non-interactive"],
                cwd=repo,
                env=env,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
        )
    before = {node["name"] for node in lab_status(NAME)["nodes"]}
    # Nodes that came after the stack run none of its controllers.
    succeed(railhead("lab", "up", "--name", NAME, "--nodes", "5", "--simulated-nodes", "8"))
    nodes = [n["name"] for n in lab_status(NAME)["nodes"] if n["name"] not in before]
    try:
        yield conduct(NAME, seed=SEED, count=COUNT, arenas=ARENAS, nodes=nodes, record=record)
    finally:
        succeed(railhead("lab", "down", "--name", NAME))


def test_never_two_gangs_are_half_placed(done: Done) -> None:
    assert done.verdict.half_placed == []
    assert done.verdict.overfull == []
    assert done.verdict.unpaid == []


def test_every_gang_ends_well_and_had_all_of_its_places(done: Done) -> None:
    gangs = {gang.name for contest in done.contests for gang in contest.gangs}
    assert set(done.ended) == gangs
    assert set(done.ended.values()) == {"Succeeded"}
    assert done.verdict.never_whole == []


def test_the_order_of_priorities_is_kept(done: Done) -> None:
    assert done.verdict.out_of_order == []
    # Some came while less important ones ran, and stopped them.
    assert done.verdict.evictions.get("Preempted", 0) > 0


def test_one_contest_in_ten_lost_a_node_while_it_ran(done: Done) -> None:
    assert done.lost is not None
    losing = {contest.number for contest in done.contests if contest.loses_node}
    assert len(losing) == COUNT // 10
    assert done.struck
    assert done.struck <= losing
