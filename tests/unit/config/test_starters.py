"""First stacks of `railhead new`, on every machine that a platform has."""

from __future__ import annotations

import pytest

from railhead import config
from railhead.machines import MACHINES
from railhead.platform.registry import PLATFORMS
from railhead.platform.starter import starters

# The A4X is refused, by name: docs/gcp.md says what it lacks.
_A4X = "a4x-highgpu-4g"
GCP = sorted(n for n, row in MACHINES.items() if "gcp" in row.platforms and n != _A4X)


@pytest.mark.parametrize("reservation", ["", "h100-block"])
@pytest.mark.parametrize("machine", GCP)
def test_a_first_stack_on_gcp_is_correct(machine: str, reservation: str) -> None:
    starter = starters(PLATFORMS)["gcp"]
    answers = {"name": "first"}
    for question in starter.questions:
        answers[question.key] = question.default(answers)
    answers |= {"machine": machine, "reservation": reservation}
    config.parse(starter.section(answers), where="stack")
