"""A contract's proofs in NCCL's log, compared with logs: every process, both directions."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.config import load
from railhead.nccl.expect import proven
from railhead.resolve.cluster import resolve
from tests.unit.nccl.logs import info, net

REPO = Path(__file__).resolve().parents[3]
LOGS = REPO.parent / "shared" / "nccl-logs"
FABRIC = resolve(load(REPO / "stacks" / "Pulumi.onprem-roce-shared.yaml")).contract.fabric


def rank(number: int, *, port: str = "RoCE", gdr: bool = True, receives: bool = True) -> list[str]:
    """Return what a rank of two nodes writes about its network."""
    host, pid = f"node-{number // 8}", 100 + number
    using = info(
        f"NET/IB : Using [0]mlx5_0:1/{port} [RO]; OOB eth0:10.0.0.1<0>", host=host, pid=pid
    )
    sends = net(number, number + 8, "send", gdr=gdr)
    return [using, sends, *([net(number - 8, number, "receive", gdr=gdr)] if receives else [])]


def verdicts(lines: list[str]) -> dict[str, bool | None]:
    return {f.name: f.passed for f in proven(lines, FABRIC.proofs, FABRIC.gpudirect)}


def test_every_rank_that_shows_all_is_proven() -> None:
    findings = proven([*rank(8), *rank(9)], FABRIC.proofs, FABRIC.gpudirect)
    assert {f.name: f.passed for f in findings} == {"node-1:108": True, "node-1:109": True}
    assert all(len(finding.evidence) == len(FABRIC.proofs) for finding in findings)


def test_one_rank_on_the_wrong_network_is_reported() -> None:
    tcp = [net(9, 17, "send", "Socket/0", gdr=False), info("Using network Socket", pid=109)]
    assert verdicts([*rank(8), *tcp]) == {
        "node-1:108": True,
        "node-1:109": None,
        "node-a:109": None,
    }


@pytest.mark.parametrize(
    ("lines", "passed"),
    [
        (rank(8, port="IB"), None),
        (rank(8)[:1], None),
        (rank(8, gdr=False), False),
        (rank(8, receives=False), None),
        ([], None),
    ],
    ids=["InfiniBand's ports", "no connection", "without GPUDirect", "one direction", "nothing"],
)
def test_unshown_facts_are_not_proven(lines: list[str], passed: bool | None) -> None:
    (verdict,) = verdicts(lines).values()
    assert verdict is passed


@pytest.mark.skipif(not LOGS.is_dir(), reason=f"no recorded logs in {LOGS.name}")
def test_a_real_log_of_efa_is_proven_by_an_efa_stacks_contract() -> None:
    fabric = resolve(load(REPO / "stacks" / "Pulumi.aws-p5-prod.yaml")).contract.fabric
    lines = (LOGS / "001-efa-ok-g4dn-t4-2node.log").read_text().splitlines()
    assert [finding.passed for finding in proven(lines, fabric.proofs)] == [True, True]
    # Another fabric's proofs are not shown.
    assert not any(finding.passed for finding in proven(lines, FABRIC.proofs))
