"""`railhead review` of whole pull requests, on a copy of this checkout."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from railhead.lab import planning
from railhead.lab.stack_plans import StackPlan, by_engine, stack_plans, violations
from railhead.review import review as reviewing
from railhead.review.compare import Planned, resources
from railhead.review.markdown import LIMIT, MARKER, markdown
from railhead.review.sources import Sources, git, sources
from tests.engine.controlplane import locate
from tests.engine.review_cases import CASES, Case
from tests.engine.review_mutations import counted
from tests.engine.review_strangers import STRANGERS
from tests.marks import few

pytestmark = pytest.mark.slow

REPO = Path(__file__).resolve().parents[2]
_FEW = ("better image", "a guard gone")
_ALL = (*CASES, *STRANGERS)
#: Sides of the base by their files.
_BASE: dict[Path, StackPlan] = {}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """Copy what git would ship of this checkout, and commit it: the base of every case."""
    folder = tmp_path_factory.mktemp("review")
    root = folder / "repository"
    listed = git(REPO, "ls-files", "-z", "--cached", "--others", "--exclude-standard").decode()
    for name in filter(None, listed.split("\0")):
        source, target = REPO / name, root / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink():
                target.symlink_to(source.readlink())
            else:
                target.write_bytes(source.read_bytes())
    git(folder, "init", "-q", str(root))
    git(root, "add", "-A")
    git(root, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "base")
    (folder / "laid").mkdir()
    return sources(root, "HEAD", folder / "laid")


@pytest.fixture
def pulled(checkout: Sources, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sources]:
    """Yield the copy, for one case; the base's side of a stack is planned once for all cases."""

    def planned(files: Sequence[Path], *, code: Path) -> dict[Path, StackPlan]:
        if not all(file.is_relative_to(checkout.base) for file in files):
            return stack_plans(files, code=code)
        _BASE.update(stack_plans([file for file in files if file not in _BASE], code=code))
        return {file: _BASE[file] for file in files if file in _BASE}

    monkeypatch.setattr(reviewing, "stack_plans", planned)
    yield replace(checkout)
    git(checkout.root, "checkout", "-q", ".")
    git(checkout.root, "clean", "-fdq")


def _edited(root: Path, case: Case) -> None:
    for edit in case.edits:
        path = root / edit.file
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text() if path.exists() else ""
        assert edit.old in text, f"{case.name}: {edit.file} has no {edit.old!r}"
        path.write_text(text.replace(edit.old, edit.new) if edit.old else text + edit.new)


@pytest.mark.parametrize("name", few([case.name for case in _ALL], list(_FEW)))
def test_pull_request_gets_its_verdict(name: str, pulled: Sources) -> None:
    case = next(case for case in _ALL if case.name == name)
    _edited(pulled.root, case)
    result = reviewing.review(
        pulled,
        "main",
        [f"stacks/Pulumi.{case.stack}.yaml"],
        reviewing.Options(),
        time.monotonic(),
    )
    text = markdown(result)
    assert result.verdict in case.verdict, text
    assert case.says in text
    assert text.startswith(MARKER)
    assert len(text) < LIMIT
    assert "**Not looked at:**" in text
    changed = {edit.file for edit in case.edits}
    for finding in result.findings:
        assert finding.place is None or finding.place.file in {*changed, result.stacks[0].file}


def _bare(planned: Planned) -> Planned:
    """Return a resource as the engine prints one: no alias, no way to a file beside its folder.

    Nor how it is made, of which it prints a part.
    """
    inputs = {k: v for k, v in planned.inputs.items() if k not in ("__internal", "version")}
    if "kubeconfig" in inputs:
        inputs["kubeconfig"] = Path(str(inputs["kubeconfig"])).name
    return replace(planned, inputs=inputs, frames=(), aliases=frozenset(), manner=None)


STACKS = sorted(path.name for path in (REPO / "stacks").glob("Pulumi.*.yaml"))
_LEAKS = """
import pulumi_kubernetes as k8s
k8s.core.v1.Secret("hub", metadata={"name": "hub"}, string_data={"HF_TOKEN": "abc"})
k8s.core.v1.Service("open", metadata={"name": "open"}, spec={"type": "LoadBalancer"})
"""


@pytest.mark.parametrize("name", few(STACKS, ["Pulumi.aws-p5-prod.yaml"]))
def test_plan_and_violations_match_the_engines(name: str, pulled: Sources) -> None:
    if locate("pulumi") is None:
        pytest.skip("no pulumi: set RAILHEAD_TEST_BIN or run `railhead lab build`")
    program = pulled.root / "__main__.py"
    program.write_text(program.read_text() + _LEAKS)
    file, root = pulled.root / "stacks" / name, pulled.root
    side = stack_plans([file], code=root)[file]
    engine = by_engine(side, pack_of=root)
    assert side.requests is not None
    assert side.plan is not None
    assert engine.plan is not None
    expected = {urn: _bare(row) for urn, row in resources(engine.plan, str(root)).items()}
    rows = resources(side.plan, str(root))
    assert any(name.startswith("components/") for row in rows.values() for name, _ in row.frames)
    made = {urn: _bare(row) for urn, row in rows.items()}
    assert made == {u: row for u, row in expected.items() if "::default_" not in u}
    shape = [[(r.urn, r.depth, r.operation) for r in p.resources] for p in (side.plan, engine.plan)]
    assert shape[0] == shape[1]
    reported = set(violations([side], root)[file])
    assert reported == set(engine.plan.violations)
    assert reported


def test_plan_that_does_not_end_is_a_failed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "LIMIT_S", 0.1)
    file = REPO / "stacks" / STACKS[0]
    assert stack_plans([file], code=REPO)[file].failed == "it did not end within 0 s"


@pytest.mark.exhaustive
def test_spoilt_fields_are_refused_or_asked_about() -> None:
    verdicts, rest = counted(1000, seed=1)
    seen = verdicts["refuse"] + verdicts["ask"]
    assert seen / sum(verdicts.values()) >= 0.98, rest.most_common()
