"""The comment, SARIF, JUnit and the command line of `railhead review`."""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from railhead.base.errors import ExitCode, InputError
from railhead.cli import run
from railhead.lab.planning import Plan
from railhead.lab.stack_plans import StackPlan
from railhead.review import judges
from railhead.review import review as reviewing
from railhead.review.formats import junit, sarif
from railhead.review.markdown import LIMIT, MARKER, cut, markdown
from railhead.review.model import Finding, Judges, Place, Pool, Review, StackReview, ordered
from railhead.review.model import verdict as verdict_of
from railhead.review.review import reaches_plans
from railhead.review.sources import sources
from railhead.review.texts import pipelines, projects, requirements
from tests.unit.review.pulled import git_in, laid, write

FILE = "stacks/Pulumi.a.yaml"


def finding(**more: object) -> Finding:
    values: dict[str, object] = {
        "rule": "edit-checkpoint",
        "level": "refuse",
        "loss": "data",
        "subject": "checkpoint training/checkpoints",
        "what": "(30000Gi) would go | <b>",
        "who": "every run",
        "stack": "a",
        "place": Place(file=FILE, line=7),
        "suggestion": "- name: weights\n  claim: checkpoints",
        "allow": "an entry",
        **more,
    }
    return Finding.model_validate(values)


def review(*findings: Finding, changed: tuple[str, ...] = ()) -> Review:
    pool = Pool(
        pool="h100",
        instance_type="p5.48xlarge",
        nodes_before=2,
        nodes_after=4,
        gpus_before=16,
        gpus_after=32,
    )
    return Review(
        verdict=verdict_of(findings),
        base="origin/main",
        compared_with="0123456789abcdef",
        judges=Judges(commit="0123456789abcdef", digest="sha256:abc", changed=changed),
        stacks=(StackReview(stack="a", file=FILE, compared=True, pools=(pool,), deleted=("x",)),),
        findings=ordered(findings),
        not_looked_at=("what is live",),
        seconds=9.0,
    )


def test_comment_begins_with_marker_and_verdict() -> None:
    lines = markdown(review(finding())).splitlines()
    assert lines[0] == MARKER
    assert lines[1].startswith("### Railhead: **do not merge** - `a`: checkpoint training/")
    text = "\n".join(lines)
    assert "```suggestion\n- name: weights\n  claim: checkpoints\n```" in text
    assert f"`{FILE}:7`" in text
    assert "32 GPUs (16 before), 768 GPU hours a day" in text
    assert "**Not looked at:** what is live" in text
    assert "\\| &lt;b>" in text


@pytest.mark.parametrize(
    ("findings", "sentence"),
    [
        ((), "nothing is lost"),
        ((finding(level="ask"),), "look before you merge"),
        ((finding(level="unjudged"),), "do not merge yet"),
        ((finding(level="note"),), "1 changes that lose nothing"),
    ],
)
def test_verdict_is_said(findings: tuple[Finding, ...], sentence: str) -> None:
    assert sentence in markdown(review(*findings))


def test_change_of_judges_is_said_first() -> None:
    text = markdown(review(changed=("policies/exempt.py: the exemptions",)))
    assert text.index("changes who judges") < text.index("Not looked at")


def test_long_comment_is_cut_at_a_line_and_closed() -> None:
    text = markdown(review(*(finding(subject=f"claim {n}", level="note") for n in range(3000))))
    assert len(text) > LIMIT
    kept = cut(text)
    assert len(kept) <= LIMIT
    assert kept.count("<details>") == kept.count("</details>")
    assert "the rest is in the report" in kept
    assert cut("short") == "short"


def test_sarif_names_rule_line_and_fingerprint() -> None:
    document = sarif(review(finding(), finding(level="ask", subject="other", rule="b")))
    assert document["version"] == "2.1.0"
    (run_,) = document["runs"]
    first, second = run_["results"]
    assert first["level"] == "error"
    assert second["level"] == "warning"
    assert run_["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == first["ruleId"]
    place = first["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": FILE}, "region": {"startLine": 7}}
    moved = sarif(review(finding(place=Place(file=FILE, line=99))))["runs"][0]["results"][0]
    assert moved["partialFingerprints"] == first["partialFingerprints"]


def test_junit_fails_for_what_is_refused_alone() -> None:
    root = ElementTree.fromstring(junit(review(finding(), finding(level="ask", subject="b"))))
    assert root.get("failures") == "1"
    assert len(root.findall("testcase")) == 2
    assert ElementTree.fromstring(junit(review())).get("tests") == "1"


def test_gravest_finding_decides_and_each_is_there_once() -> None:
    rows = ordered([finding(level="note"), finding(), finding(subject="b", loss="guards")])
    assert [f.level for f in rows] == ["refuse", "refuse"]
    assert verdict_of([finding(level="ask"), finding(level="unjudged")]) == "unjudged"


def test_findings_of_one_resource_under_one_rule_all_stay() -> None:
    """A wider right was not told where a condition of the same document changed, too."""
    rows = ordered([finding(what="frees a condition"), finding(level="ask", what="deletes data")])
    assert [f.what for f in rows] == ["frees a condition", "deletes data"]
    assert rows[0].fingerprint != rows[1].fingerprint


def test_stack_without_a_plan_has_no_counts() -> None:
    """A mistake in the file was shown as "0 GPUs (96 before)"."""
    nothing = StackReview(stack="a", file=FILE, compared=False)
    text = markdown(review(finding()).model_copy(update={"stacks": (nothing,)}))
    assert "**`a`**: there is no plan to compare" in text
    assert "GPUs" not in text


def test_the_same_of_several_resources_is_one_row_and_one_edit() -> None:
    guards = [finding(subject=f"guard {n}", rule="guards") for n in range(28)]
    pack = [finding(subject=f"p{n}", rule="pack-a", what=f"p{n} warns") for n in range(28)]
    other = finding(subject="guard 3", rule="guards", stack="b")
    second = finding(subject="p3", rule="pack-a", what="p3 is privileged")
    text = markdown(review(*guards, *pack, other, second))
    rows = [line for line in text.splitlines() if line.startswith("| ⛔")]
    assert len(rows) == 3
    assert "**p3** p3 is privileged |" in rows[2]
    assert (
        "**guard 0** (30000Gi) would go \\| &lt;b>, and so guard 1, guard 10, guard 11" in rows[0]
    )
    assert "and 25 more" in rows[0]
    assert "p0 warns, and so p1, p10, p11 and 24 more" in rows[1]
    assert text.count("```suggestion") == 1


def test_base_is_where_the_pull_request_began(repository: Path) -> None:
    git_in(repository, "checkout", "-q", "-b", "change")
    (repository / "a.txt").write_text("1\ntwo\n3\n")
    (repository / "new.txt").write_text("new\n")
    git_in(repository, "checkout", "-q", "main")
    (repository / "policies" / "exempt.py").write_text('"""B."""\n\nNAMES = ()\n')
    git_in(repository, "commit", "-q", "-m", "b", "--", "policies")
    git_in(repository, "checkout", "-q", "change")
    source = laid(repository, "main")
    assert source.changed == ("a.txt", "new.txt")
    assert source.tip != source.fork
    assert "NAMES = ()" in (source.judge / "policies/exempt.py").read_text()
    (hunk,) = source.hunks("a.txt")
    assert (hunk.line, hunk.before, hunk.after) == (2, ("2",), ("two",))


GUARD = "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy"


def _side(file: Path, expression: str, frame: str = "") -> StackPlan:
    spec = {"validations": [{"expression": expression}]}
    urn = f"urn::{GUARD}::it"
    trace = [{"sourcePosition": f"project://{frame}#1"}] if frame else []
    states = {urn: {"urn": urn, "type": GUARD, "inputs": {"spec": spec}, "stackTrace": trace}}
    plan = Plan(stack="a", resources=(), violations=(), judged=False, seconds=1.0, states=states)
    return StackPlan(file=file, plan=plan, cluster={"pools": []})


def _commit_stack_and_code(repository: Path) -> None:
    for name, text in ((FILE, "a: 1\n"), ("components/a.py", "A = 1\n")):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text(text)
    git_in(repository, "add", ".")
    git_in(repository, "commit", "-q", "-m", "b")


@pytest.mark.parametrize(
    ("by_head", "told"),
    [("pool in ['a', 'b']", []), ("pool in ['a', 'b'] || mine", ["refuse"])],
)
def test_code_beside_a_stacks_file_is_judged_as_code(
    by_head: str, told: list[str], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guard that code weakened was taken for one that follows from the stack's file."""
    _commit_stack_and_code(repository)
    (repository / FILE).write_text("a: 2\n")
    (repository / "components/a.py").write_text("A = 2\n")
    source = laid(repository)

    def stack_plans(files: list[Path], *, code: Path) -> dict[Path, StackPlan]:
        file_of_base = {file: file.is_relative_to(source.base) for file in files}
        by = by_head if code == source.root else "pool in ['a', 'b']"
        return {
            file: _side(file, "pool in ['a']" if base else by)
            for file, base in file_of_base.items()
        }

    monkeypatch.setattr(reviewing, "stack_plans", stack_plans)
    monkeypatch.setattr(reviewing, "violations", lambda *_: {})
    result = reviewing.review(source, "HEAD", [FILE], reviewing.Options(), 0.0)
    assert [f.level for f in result.findings if f.loss == "guards"] == told


@pytest.mark.parametrize(("frame", "asked"), [("components/a.py", []), ("b.py", ["code-unseen"])])
def test_guessed_place_shows_nothing_of_its_file(
    frame: str, asked: list[str], repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _commit_stack_and_code(repository)
    (repository / "components/a.py").write_text("A = 2\n")
    source = laid(repository)

    def stack_plans(files: list[Path], *, code: Path) -> dict[Path, StackPlan]:
        expression = f"pool in ['{code == source.base}']"
        return {file: _side(file, expression, f"{code}/{frame}") for file in files}

    monkeypatch.setattr(reviewing, "stack_plans", stack_plans)
    monkeypatch.setattr(reviewing, "violations", lambda *_: {})
    result = reviewing.review(source, "HEAD", [FILE], reviewing.Options(), 0.0)
    assert any(f.loss == "guards" for f in result.findings)
    assert [f.rule for f in result.findings if f.rule == "code-unseen"] == asked


def test_program_of_another_project_is_asked_about(repository: Path) -> None:
    folder = repository / "examples/parts"
    folder.mkdir(parents=True)
    text = "gate = Gate(rate=400)\nqueue(gpus=32)\n"
    (folder / "Pulumi.yaml").write_text("name: parts\n")
    (folder / "__main__.py").write_text(text)
    git_in(repository, "add", ".")
    git_in(repository, "commit", "-q", "-m", "parts")
    (folder / "__main__.py").write_text(text.replace("400", "100"))
    source = laid(repository)
    result = reviewing.review(source, "HEAD", [], reviewing.Options(), 0.0)
    assert [(f.rule, f.level) for f in result.findings] == [("code-unseen", "ask")]
    assert "`gate = Gate(rate=400)`" in result.findings[0].what
    (folder / "__main__.py").write_text(f"{text}print(gate)\n")
    result = reviewing.review(replace(source), "HEAD", [], reviewing.Options(), 0.0)
    assert result.findings == ()


def test_a_base_is_laid_out_by_pythons_without_filters(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11.2, of Debian 12: tarfile's filters came with 3.11.4."""
    extract = tarfile.TarFile.extractall

    def extractall(archive: tarfile.TarFile, path: Path) -> None:
        extract(archive, path)

    monkeypatch.setattr(tarfile.TarFile, "extractall", extractall)
    assert any(laid(repository).base.iterdir())


def test_unknown_base_is_bad_input(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="rev-parse"):
        sources(repository, "nowhere", tmp_path)


@pytest.mark.parametrize(
    ("text", "changes"),
    [('"""Other words."""\n\n# why\nNAMES = ("a",)\n', 0), ('"""A."""\n\nNAMES = ("b",)\n', 1)],
)
def test_words_about_a_rule_do_not_change_the_judge(
    text: str, changes: int, repository: Path
) -> None:
    (repository / "policies/exempt.py").write_text(text)
    who = judges.judges(laid(repository), allowed=False)
    assert len(who.changed) == changes
    assert who.digest.startswith("sha256:")


def test_pipelines_are_judges_but_for_their_comments(repository: Path) -> None:
    workflow = ".github/workflows/it.yml"
    quiet = "on: pull_request\npermissions: {contents: read}\n"
    secret = "env: {ALL: '${{ toJSON(secrets) }}'}\n"
    shell = f"{quiet}run: |\n  # a\n"
    source = laid(repository)
    for name, before, after, changed in (
        (workflow, None, f"{quiet}jobs: {{lint: {{}}}}\n", True),
        (workflow, quiet, f"{quiet}{secret}", True),
        (workflow, quiet, f"# lints\n{quiet}# permissions:\n", False),
        (workflow, shell, shell.replace("# a", "# b"), True),
        (workflow, "if: yes\n", "if: true\n", True),
        (workflow, "run: a\n", "run: a\u2028# ; b\n", True),
        (workflow, "a: 1\n", "a: 2026-13-45\n", True),
        (workflow, "a: 2026-13-45\n", "a: 2026-13-45  # a\n", False),
        (workflow, "a: 1\n", 'a: "\\UFFFFFFFF"\n', True),
        ("policies.yaml", "# a\nversions-ran: mandatory\n", "versions-ran: mandatory\n", False),
        ("policies.yaml", "versions-ran: mandatory\n", "versions-ran: advisory\n", True),
        # Stricter in one rule, and judging otherwise.
        ("policies.yaml", "versions-ran: advisory\n", "versions-ran: mandatory\n", True),
    ):
        who = judges.judges(write(source, name, before, after), allowed=False)
        assert any(row.startswith(name) for row in who.changed) is changed, (name, after)


def test_workflow_that_runs_strangers_is_refused(repository: Path) -> None:
    name = ".github/workflows/it.yml"
    head = "    ref: ${{ github.event.pull_request.head.sha }}\n"
    source = laid(repository)
    for text, refused in (
        (f"on: pull_request_target\n{head}", True),
        (f"on: pull_request\n{head}", False),
        ("on: pull_request_target\n    ref: ${{ github.head_ref }}\n", True),
        ("on: pull_request_target\n", False),
        (f"on: pull_request  # not pull_request_target\n{head}", False),
        ("on: issue_comment\n    ref: refs/pull/${{ github.event.issue.number }}/head\n", True),
        ("on: issue_comment\nrun: gh pr checkout 7\n", True),
        ("on: issue_comment\nif: author_association\nrun: gh pr checkout 7\n", False),
        (f"on: pull_request_target\nif: author_association\n{head}", True),
        ("on: issue_comment\n", False),
        # A comment has no head of a pull request.
        (f"on: [pull_request, issue_comment]\n{head}", False),
        ("on: [pull_request, issue_comment]\ngroup: ${{ github.head_ref }}\n", False),
        (f"on: [pull_request_target, issue_comment]\n{head}", True),
    ):
        assert bool(list(pipelines(write(source, name, None, text)))) is refused, text


@pytest.mark.parametrize(
    ("events", "step", "text"),
    [
        ("issue_comment", "run: echo ${{ github.event.comment.body }}", "event.comment.body"),
        ("[push, issues]", "run: echo ${{ github.event.issue.title }}", "event.issue.title"),
        ("{discussion: }", "with: {script: '${{github.event.discussion.body}}'}", "n.body"),
        ("pull_request_target", "run: echo ${{ format('{0}', github.head_ref) }}", "head_ref"),
        ("pull_request_target", "run: '${{ github.event.pull_request.head.ref }}'", "head.ref"),
        ("workflow_run", "run: '${{ github.event.workflow_run.head_branch }}'", "head_branch"),
        # Handed over, no stranger's text, and without the base's rights.
        ("issue_comment", "env: {A: '${{ github.event.comment.body }}'}", ""),
        ("issue_comment", "run: echo ${{ github.event.comment.id }}", ""),
        ("issues", "run: echo ${{ contains(github.event.issue.title, 'a') }}", ""),
        ("pull_request", "run: echo ${{ github.head_ref }}", ""),
    ],
)
def test_strangers_text_in_a_script_is_refused(
    repository: Path, events: str, step: str, text: str
) -> None:
    workflow = f"on: {events}\njobs:\n  a:\n    steps:\n      - {step}\n"
    source = write(laid(repository), ".github/workflows/it.yml", None, workflow)
    rows = [row for row in pipelines(source) if "into a script" in row.what]
    assert [f"{row.level} {row.loss}" for row in rows] == ["refuse rights"] * bool(text)
    assert all(f"{text} into a script" in row.what for row in rows)
    # What stands is not told again.
    assert not list(pipelines(write(source, ".github/workflows/it.yml", workflow, f"{workflow}\n")))


@pytest.mark.parametrize(
    ("name", "after", "judging"),
    [
        ("components/guards/gate.py", '{"resources": {"limits": {"memory": "2Gi"}}}', False),
        ("components/guards/gate.py", '{"resources": {"limits": {}, "claims": []}}', True),
        ("components/guards/gate.py", '{"resources": ["pods"]}', True),
        ("policies/gate.py", '{"resources": {"limits": {"memory": "2Gi"}}}', True),
    ],
)
def test_sizes_of_a_gates_pods_judge_nothing(
    repository: Path, name: str, after: str, judging: bool
) -> None:
    before = 'SPEC = {"resources": {"limits": {"memory": "1Gi"}}}\n'
    source = write(laid(repository), name, before, f"SPEC = {after}\n")
    assert bool(judges.judges(source, allowed=False).changed) is judging


def test_rights_wheels_and_own_actions_are_judges(repository: Path) -> None:
    names = [
        *(".github/actions/setup/run.sh", ".gitlab/review.yml"),
        *("railhead/base/rbac.py", "wheels/railhead-0.1.0-py3-none-any.whl"),
    ]
    for name in names:
        (repository / name).parent.mkdir(parents=True)
        (repository / name).write_bytes(b"POWERS = ()  # \xff\n")
    (repository / names[-1]).write_bytes(b"PK\x03\x04\0\0\n")
    source = laid(repository)
    who = judges.judges(source, allowed=False)
    assert [row.partition(": ")[0] for row in who.changed] == names
    assert [len(source.hunks(name)) for name in names] == [1, 1, 1, 0]


def test_requirements_that_nobody_here_installs_are_noted(repository: Path) -> None:
    for name, text in (
        ("requirements.txt", "-r wheels/pins.txt\n"),
        ("wheels/pins.txt", "boto3\n"),
        ("policies/requirements.txt", "boto3\n"),
        ("requirements/gcp.txt", "--index-url https://packages.example.com/\n"),
        ("examples/requirements.txt", "-r pins.txt\ntorch\n"),
        ("examples/pins.txt", "torch\n"),
    ):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text(text)
    rows = requirements(laid(repository))
    assert [(row.subject, row.level) for row in rows] == [
        ("examples/requirements.txt: torch", "note"),
        ("policies/requirements.txt: boto3", "refuse"),
        ("requirements/gcp.txt: --index-url https://packages.example.com/", "refuse"),
        ("wheels/pins.txt: boto3", "refuse"),
    ]


def test_code_that_no_plan_runs_is_asked_about(repository: Path) -> None:
    source = laid(repository)
    for name, before, after, sentence in (
        ("railhead/launch/a.py", "a = 1\n", "a = 2\n", "what it does (`a = 2`)"),
        ("railhead/launch/b.py", "a = 1\n", "a = 1  # b\n", ""),
        ("components/c.py", "a = 1\n", "a = 2\n", ""),
    ):
        findings = reviewing._unplanned(write(source, name, before, after))
        rows = [row.what for row in findings if row.subject == name]
        assert len(rows) == bool(sentence), name
        assert all(sentence in text for text in rows), rows


def test_state_that_moves_is_refused(repository: Path) -> None:
    source = laid(repository)
    backend = "name: a\nbackend: {url: 's3://states'}\n"
    for name, before, after, subjects in (
        ("Pulumi.yaml", backend, "name: a\n", ["Pulumi.yaml: backend"]),
        ("Pulumi.yaml", backend, f"# here\n{backend}", []),
        ("Pulumi.yaml", "name: a\n", "name: b\n", ["Pulumi.yaml: name"]),
        (FILE, "encryptionsalt: a\n", "encryptionsalt: b\n", [f"{FILE}: encryptionsalt"]),
        (FILE, "config: {}\n", "encryptionsalt: a\nconfig: {a: {secure: b}}\n", []),
        (FILE, "config: {a: {secure: b}}\n", "encryptionsalt: a\n", [f"{FILE}: encryptionsalt"]),
        (FILE, "encryptionsalt: a\n", "secretsprovider: b\n", [f"{FILE}: encryptionsalt"]),
        (FILE, "config: {}\n", "config: {a: b}\n", []),
        ("tests/Pulumi.yaml", backend, "name: a\n", []),
    ):
        findings = projects(write(source, name, before, after))
        rows = [row.subject for row in findings if row.subject.startswith(name)]
        assert rows == subjects, (name, after)


@pytest.mark.parametrize(
    ("name", "reaches"),
    [
        ("components/aws/network.py", True),
        ("railhead/machines/rows/aws.yaml", True),
        ("__main__.py", True),
        ("Pulumi.yaml", True),
        ("stacks/digests.yaml", True),
        ("stacks/Pulumi.a.yaml", False),
        ("stacks/stack.schema.json", False),
        ("docs/aws.md", False),
        (".gitlab/review.yml", False),
        ("railhead/launch/api.py", False),
        ("tests/unit/test_hygiene.py", False),
    ],
)
def test_files_that_reach_every_plan(name: str, reaches: bool) -> None:
    assert reaches_plans(name, ["stacks/Pulumi.a.yaml"]) is reaches


def test_schema_is_printed_and_unknown_words_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["review", "--schema"]) == ExitCode.OK
    schema = json.loads(capsys.readouterr().out)
    assert schema["properties"]["schema_version"]
    assert run(["review", "--allow", "everything"]) == ExitCode.BAD_INPUT


def test_end_of_a_traceback_is_in_the_comment(repository: Path) -> None:
    build = reviewing._Builder(source=laid(repository), file=FILE, stack="a")
    text = f"cannot be planned: {'File, line, in run ' * 300}TypeError: no method"
    what = build.unjudged(text, "plan-failed").what
    assert what.startswith("could not be judged: cannot be planned: ")
    assert what.endswith("TypeError: no method")
    assert len(what) < 1600
