"""`railhead plan` of the stacks that are shipped, with the real policies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from railhead.base.errors import ExitCode
from railhead.base.paths import lab_kubeconfig
from railhead.catalog.versions import COMBINATIONS
from railhead.cli import run
from railhead.components.controllers.charts import Chart, chart_source
from railhead.lab import artifacts, planning, stack_plans
from railhead.lab.recorders.workspace import fake_lab, workspace
from tests.components.recording import STACKS
from tests.marks import few

REPO = Path(__file__).resolve().parents[2]


def _stack(name: str) -> str:
    return str(REPO / "stacks" / f"Pulumi.{name}.yaml")


@pytest.mark.slow
@pytest.mark.parametrize(
    "stack",
    few([s for s in STACKS if s.startswith(("aws-", "gcp-"))], ["aws-p5-prod", "gcp-a3-mega"]),
)
def test_a_cloud_stack_is_planned_with_its_costs(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", _stack(stack), "--json"]) == ExitCode.OK
    result = json.loads(capsys.readouterr().out)
    assert result["violations"] == []
    assert result["policies"] == "run"
    assert sum(result["counts"].values()) > 100
    assert all(not token.startswith("railhead:") for token in result["counts"])
    assert result["pools"][0]["gpus"] == result["pools"][0]["nodes"] * 8
    assert result["system_nodes"] in ([3, "m7i.2xlarge"], [2, "e2-standard-16"])
    what = {item["what"] for item in result["costs"]}
    assert ("EKS cluster" if stack.startswith("aws") else "GKE cluster") in what
    assert ("NAT gateway" in what) == (stack == "aws-p5-prod")
    stores = ("Filestore", "FSx for Lustre", "Managed Lustre")
    sizes = [item["details"] for item in result["costs"] if item["what"] in stores]
    assert all(any("apacity" in key or "file" in key for key in d) for d in sizes)
    assert sizes


def _plan(*violations: planning.Violation) -> planning.Plan:
    names = [("railhead:index:A", 0), *[("aws:ec2/route:Route", 1)] * 4, ("aws:ec2/vpc:Vpc", 1)]
    return planning.Plan(
        stack="it",
        resources=tuple(
            planning.PlannedResource(
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


@pytest.mark.parametrize(
    ("stack", "mandatory", "code"),
    [("lab", True, ExitCode.REFUSED), ("aws-p5-prod", False, ExitCode.OK)],
)
def test_a_refused_plan_says_so_by_its_exit_code(
    stack: str,
    mandatory: bool,
    code: ExitCode,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    item = planning.Violation(rule="rule", urn="urn", message="no\nmore", mandatory=mandatory)
    monkeypatch.setattr(stack_plans, "plan", lambda *_, **__: _plan(item))
    assert run(["plan", _stack(stack)]) == code
    text = capsys.readouterr().out
    assert ("refused by rule" if mandatory else "advice by rule") in text
    assert "+ aws:ec2/route:Route  x 4" in text
    assert "+ aws:ec2/vpc:Vpc  n5" in text
    assert "it: 5 resources would be created" in text
    assert ("3 x m7i.2xlarge  for the controllers" in text) == (stack != "lab")


@pytest.mark.parametrize("kubeconfig", ["/etc/site/admin.conf", "admin.conf", "~other/config"])
def test_plan_never_reads_the_live_cluster(kubeconfig: str, tmp_path: Path) -> None:
    """Nor is a path missed that only another machine has; what stands beside the file comes."""
    beside, folder = tmp_path / "own", tmp_path / "laid"
    beside.mkdir()
    stack = yaml.safe_load(Path(_stack("onprem-roce-shared")).read_text())
    stack["config"]["railhead:cluster"]["platform"]["kubeconfig"] = kubeconfig
    (beside / "Pulumi.own.yaml").write_text(yaml.safe_dump(stack))
    for name in ("machines.yaml", "digests.yaml"):
        (beside / name).write_text("{}\n")
    laid = workspace(
        folder,
        checkout=REPO,
        stack="own",
        file=beside / "Pulumi.own.yaml",
        pulumi=tmp_path / "pulumi",
    )
    platform = yaml.safe_load(laid.stack_file.read_text())["config"]["railhead:cluster"]["platform"]
    assert platform["kubeconfig"] == "~/.kube/config"
    assert (Path(laid.environment["HOME"]) / ".kube/config").is_file()
    assert {"machines.yaml", "digests.yaml"} <= {f.name for f in laid.stack_file.parent.iterdir()}


def test_plan_works_for_a_lab_of_another_name_and_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_lab(tmp_path, "second")
    monkeypatch.setenv("RAILHEAD_CACHE", str(tmp_path))
    assert lab_kubeconfig("second").is_file()
    for name in [name for name in COMBINATIONS if name.startswith("lab")]:
        for controller in COMBINATIONS[name].controllers:
            assert chart_source(Chart.of(controller)).chart.startswith(str(tmp_path)), (
                name,
                controller.name,
            )


def test_plan_says_what_the_check_of_the_file_warns_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stack_plans, "plan", lambda *_, **__: _plan())
    file = tmp_path / "Pulumi.roce.yaml"
    text = Path(_stack("onprem-roce-shared")).read_text()
    file.write_text(text.replace("mtu: 9000", "mtu: 1500"))
    assert run(["plan", str(file)]) == ExitCode.OK
    assert "cuts RDMA's packets of 4096 bytes" in capsys.readouterr().out
    assert run(["plan", str(file), "--json"]) == ExitCode.OK
    result = json.loads(capsys.readouterr().out)
    assert any("cuts RDMA's packets" in text for text in result["warnings"])
    assert "not compared" in result["edits"]


def test_a_mistake_in_the_file_is_found_before_anything_runs(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_text("config: {railhead:cluster: {name: 1}}\n")
    assert run(["plan", str(file)]) == ExitCode.BAD_INPUT


def _project(folder: Path, program: str) -> str:
    (folder / "Pulumi.yaml").write_text("name: own\nruntime: python\n")
    (folder / "__main__.py").write_text(program)
    return str(shutil.copy(_stack("onprem-ib-sriov"), folder / "Pulumi.own.yaml"))


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "locate", lambda _: None)
    monkeypatch.setenv("PATH", "/nowhere")


@pytest.mark.slow
@pytest.mark.usefixtures("no_engine")
def test_plan_of_a_program_needs_no_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("railhead.lab.plan._EVERY_S", 0.0)
    parent = "opts=pulumi.ResourceOptions(parent=group)"
    file = _project(
        tmp_path,
        "import pulumi\n"
        "from pulumi_kubernetes.core.v1 import ConfigMap\n"
        "group = pulumi.ComponentResource('railhead:index:Group', 'group')\n"
        "ConfigMap('alone', metadata={'name': 'a'})\n"
        f"ConfigMap('inside', metadata={{'name': 'b'}}, {parent})\n",
    )
    assert run(["plan", file, "--no-policies"]) == ExitCode.OK
    text, progress = capsys.readouterr()
    lines = text.splitlines()
    assert lines[:2] == ["own: 2 resources would be created", ""]
    assert set(lines[2:5]) == {
        "  + kubernetes:core/v1:ConfigMap  alone",
        "  group  (Group)",
        "    + kubernetes:core/v1:ConfigMap  inside",
    }
    assert lines[lines.index("  group  (Group)") + 1].startswith("    +")
    assert "planning: " in progress


_CIRCLE = """
import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap
one, two = (pulumi.ComponentResource("railhead:index:Group", name) for name in ("one", "two"))
for inside, after in ((one, two), (two, one)):
    opts = pulumi.ResourceOptions(parent=inside, depends_on=[after])
    ConfigMap(f"in-{inside._name}", metadata={"name": inside._name}, opts=opts)
"""


@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize(
    ("program", "code", "message"),
    [
        pytest.param(
            "import pulumi\npulumi.ComponentResource('own:index:It', 'it', {}, remote=True)\n",
            ExitCode.MISSING_PREREQUISITE,
            "only the engine can plan this stack",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "import pulumi\nraise pulumi.RunError('no such pool')\n",
            ExitCode.FAILED,
            "no such pool",
            marks=pytest.mark.slow,
        ),
        ("1 / 0\n", ExitCode.MISSING_PREREQUISITE, "ZeroDivisionError: division by zero"),
        pytest.param(
            "import pulumi_aws as aws\naws.eks.get_node_group('a', 'b')\n",
            ExitCode.MISSING_PREREQUISITE,
            "aws:eks/getNodeGroup:getNodeGroup: no recorder knows its answer",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            _CIRCLE,
            ExitCode.MISSING_PREREQUISITE,
            "circular dependency involving a resource of type",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_plan_that_cannot_be_made_says_why(
    program: str, code: ExitCode, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["plan", _project(tmp_path, program)]) == code
    assert message in capsys.readouterr().err
