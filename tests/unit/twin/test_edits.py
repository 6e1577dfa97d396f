"""Edits of a rehearsal: the guard of edits lets each through, as a rehearsal makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.config import parse
from railhead.config.edits import stop
from railhead.resolve.cluster import resolve
from railhead.twin.edits import EDITS
from railhead.twin.steps import SkippedError
from tests.components.recording import stack_cluster

STACKS = sorted(
    name
    for path in (Path(__file__).resolve().parents[3] / "stacks").glob("Pulumi.*.yaml")
    if (name := path.name.split(".")[1]) != "lab"
)


@pytest.mark.parametrize("stack", STACKS)
def test_edits_pass_the_guard(stack: str) -> None:
    section = stack_cluster(stack)
    before = resolve(parse(section, where=stack)).contract
    made = []
    for edit in EDITS:
        section.pop("removals", None)
        try:
            edit.change(section)
        except SkippedError:
            continue
        cluster = parse(section, where=stack)
        after = resolve(cluster).contract
        stop(before, after, cluster.removals)
        before = after
        made.append(edit.name)
    assert {"nodes-down", "team-more", "team-less"} <= set(made)
