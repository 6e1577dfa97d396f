"""First stacks of `railhead new`, on every machine that a platform has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from railhead import config
from railhead.base.errors import InputError
from railhead.machines import GKE_MACHINES, MACHINES
from railhead.platform.aws.facts import CAPACITY_BLOCK_ONLY
from railhead.platform.registry import PLATFORMS, platform_of
from railhead.platform.starter import starters
from railhead.resolve.wiring import wiring

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
    section = starter.section(answers)
    cluster = config.parse(section, where="stack")
    assert section["platform"]["network"]["mtu"] == GKE_MACHINES[machine].mtu
    assert "addresses" in section["platform"]["storage"][0]
    now = datetime(2026, 11, 26, tzinfo=UTC)
    doubts = [path for path, _ in platform_of(cluster).doubts(cluster, now)]
    # A reservation may have been made with a policy.
    placed = GKE_MACHINES[machine].labelled or not reservation
    assert doubts == ([] if placed else ["pools[0].placement.kind"])


def aws(machine: str, **more: str) -> Any:
    """Return the section that the starter for AWS makes of a machine."""
    starter = starters(PLATFORMS)["aws"]
    answers = {"name": "first", "machine": machine, **more}
    for question in starter.questions:
        answers.setdefault(question.key, question.default(answers))
    return starter.section(answers)


def test_a_first_stack_on_aws_is_correct() -> None:
    """Doubt none: each machine has its own network layers, in a region that tells any."""
    now = datetime(2026, 11, 26, tzinfo=UTC)
    machines = {n for n, row in MACHINES.items() if "aws" in row.platforms} - CAPACITY_BLOCK_ONLY
    for machine in sorted(machines):
        for more in ({}, {"reservation": "cr-0a1b2c3d4e5f60718"}, {"region": "ap-southeast-5"}):
            section = aws(machine, **more)
            cluster = config.parse(section, where=f"{machine} {more}")
            assert list(platform_of(cluster).doubts(cluster, now)) == [], (machine, more)
            assert ("placement_group" in section["pools"][0]) != ("reservation" in more)


def test_zones_are_the_accounts_own() -> None:
    tokyo = {"region": "ap-northeast-1", "zones": "ap-northeast-1a,ap-northeast-1c"}
    section = aws("p5.48xlarge", **tokyo)
    config.parse(section, where="tokyo")
    network = section["platform"]["network"]
    assert network["availability_zones"] == ["ap-northeast-1a", "ap-northeast-1c"]
    ohio = aws("p5.48xlarge", zone="us-east-2b")["platform"]["network"]["availability_zones"]
    assert ohio == ["us-east-2b", "us-east-2a", "us-east-2c"]


def test_a_machine_of_capacity_blocks_has_no_first_stack() -> None:
    for machine in CAPACITY_BLOCK_ONLY:
        with pytest.raises(InputError, match="capacity blocks alone"):
            aws(machine)


def test_a_first_stack_on_a_cluster_that_is_there_is_correct() -> None:
    """Doubt none, on each of the provider's machines; another's are refused."""
    now = datetime(2026, 11, 26, tzinfo=UTC)
    for name, provider in (("metal", "metal"), ("azure", "azure"), ("oke", "oci")):
        starter = starters(PLATFORMS)[name]
        answers = {"name": "first"}
        for question in starter.questions:
            answers[question.key] = question.default(answers)
        for row in MACHINES.values():
            given = answers | {"machine": row.name}
            if row.provider == provider:
                section = starter.section(given)
                cluster = config.parse(section, where=row.name)
                assert list(platform_of(cluster).doubts(cluster, now)) == [], row.name
                # Oracle's File Storage speaks no other version.
                options = section["platform"]["nfs"]["classes"][0].get("mount_options", ())
                assert ("nfsvers=3" in options) == (name == "oke"), row.name
                assert wiring(cluster).environment["NCCL_IB_HCA"] == (
                    f"={','.join(row.hcas or cluster.fabric.nccl_hcas(row))}"
                ), row.name
            elif "existing" in row.platforms:
                with pytest.raises(InputError, match=f"is of '{row.provider}'"):
                    starter.section(given)
