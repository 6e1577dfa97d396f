"""`railhead plan` of the stacks that are shipped, by the real engine with the real policies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railhead.base.errors import ExitCode
from railhead.cli import run
from railhead.lab import planning
from tests.components.recording import STACKS
from tests.engine.controlplane import locate

REPO = Path(__file__).resolve().parents[2]


def _stack(name: str) -> str:
    return str(REPO / "stacks" / f"Pulumi.{name}.yaml")


@pytest.mark.slow
@pytest.mark.parametrize("stack", [s for s in STACKS if s.startswith(("aws-", "gcp-"))])
def test_a_cloud_stack_is_planned_with_its_costs(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if locate("pulumi") is None:
        pytest.skip("no pulumi: set RAILHEAD_TEST_BIN or run `railhead lab build`")
    assert run(["plan", _stack(stack), "--json"]) == ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["violations"] == []
    assert found["policies"] == "run"
    assert sum(found["counts"].values()) > 100
    assert all(not token.startswith("railhead:") for token in found["counts"])
    assert found["pools"][0]["gpus"] == found["pools"][0]["nodes"] * 8
    what = {item["what"] for item in found["costs"]}
    assert ("EKS cluster" if stack.startswith("aws") else "GKE cluster") in what
    assert ("NAT gateway" in what) == (stack == "aws-p5-prod")
    stores = ("Filestore", "FSx for Lustre", "Managed Lustre")
    sizes = [item["details"] for item in found["costs"] if item["what"] in stores]
    assert all(any("apacity" in key or "file" in key for key in d) for d in sizes)
    assert sizes


def _plan(*violations: planning.Violation) -> planning.Plan:
    names = [("railhead:index:A", 0), *[("aws:ec2/route:Route", 1)] * 4, ("aws:ec2/vpc:Vpc", 1)]
    return planning.Plan(
        stack="it",
        resources=tuple(
            planning.Planned(
                urn=f"urn::{i}",
                type=token,
                name=f"n{i}",
                operation="create",
                depth=depth,
                inputs={},
            )
            for i, (token, depth) in enumerate(names)
        ),
        violations=violations,
        judged=True,
        seconds=1.0,
    )


@pytest.mark.parametrize(("mandatory", "code"), [(True, ExitCode.REFUSED), (False, ExitCode.OK)])
def test_a_refused_plan_says_so_by_its_exit_code(
    mandatory: bool,
    code: ExitCode,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = planning.Violation(rule="rule", urn="urn", message="no\nmore", mandatory=mandatory)
    monkeypatch.setattr(planning, "plan", lambda *_, **__: _plan(one))
    assert run(["plan", _stack("lab")]) == code
    said = capsys.readouterr().out
    assert ("refused by rule" if mandatory else "advice by rule") in said
    assert "+ aws:ec2/route:Route  x 4" in said
    assert "+ aws:ec2/vpc:Vpc  n5" in said
    assert "it: 5 resources would be made" in said


def test_a_mistake_in_the_file_is_found_before_anything_runs(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text("config: {railhead:cluster: {name: 1}}\n")
    assert run(["plan", str(file)]) == ExitCode.BAD_INPUT
