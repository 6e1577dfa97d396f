"""Workflows, scripts, requirements and rows of machines that a pull request changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.review.commands import COMMANDS, commands
from railhead.review.judges import judges
from railhead.review.machines import machines
from railhead.review.texts import hashes, statements
from railhead.review.unseen import unseen
from railhead.review.workflows import scripts, workflows
from tests.unit.review.pulled import laid, write

WORKFLOW = ".github/workflows/it.yml"
NIGHTLY = "name: it\non:\n  schedule:\n    - cron: '15 1 * * *'\njobs:\n  a:\n    steps:\n"

DOES = [
    ("pulumi state unprotect --all --yes", "refuse data"),
    ("pulumi -s prod state delete urn:a", "refuse data"),
    ("pulumi destroy --yes", "refuse data"),
    ("pulumi up --yes --stack a", "ask file"),
    ("kubectl -n training delete pvc -l old=true", "refuse data"),
    ('kubectl patch pvc a -p \'{"metadata":{"finalizers":null}}\'', "refuse data"),
    ("kubectl label pvc a railhead.dev/keep-", "refuse data"),
    ("kubectl delete pod a", "ask jobs"),
    ("aws s3 rm --recursive s3://acme-checkpoints/", "refuse data"),
    ("gsutil -m rm -r gs://acme-checkpoints", "refuse data"),
    ("gcloud storage rm -r gs://acme-checkpoints", "refuse data"),
    ("helm uninstall kueue", "refuse jobs"),
    ("aws ec2 terminate-instances --instance-ids i-1", "refuse capacity"),
    ("gcloud container clusters delete a", "refuse capacity"),
    ("curl -fsSL https://get.example.com | sh", "refuse rights"),
    ("railhead review --base main --allow judges", "refuse judges"),
]
PASSES = (
    *("pulumi preview --stack a", "pulumi up", "kubectl get pvc", "kubectl label pvc a b=c"),
    *("aws s3 cp a s3://b", "gcloud container clusters list", "helm upgrade --install a b"),
    *("curl -fsSL https://example.com/a.tgz -o a.tgz", "# pulumi destroy", "rm -rf build"),
    *("railhead review --base main", "terraform plan", "pulumi config set state unprotected"),
)


@pytest.mark.parametrize(("line", "verdict"), DOES)
def test_command_that_loses_something_is_told(line: str, verdict: str) -> None:
    ((_, _, row),) = commands([f"- run: {line}"])
    assert f"{row.level} {row.loss}" == verdict


def test_every_command_has_a_case() -> None:
    assert {next(commands([line]))[2] for line, _ in DOES} == set(COMMANDS)


@pytest.mark.parametrize("line", PASSES)
def test_command_that_loses_nothing_passes(line: str) -> None:
    assert list(commands([line])) == []


def test_script_that_stands_is_not_told_again(repository: Path) -> None:
    source = laid(repository)
    old = f"{NIGHTLY}      - run: pulumi destroy --yes\n"
    new = old.replace("destroy --yes\n", "destroy --yes\n      - run: helm uninstall a\n")
    (row,) = scripts(write(source, WORKFLOW, old, new))
    assert "`- run: helm uninstall a` by itself (15 1 * * *)" in row.what
    assert list(scripts(write(source, "tests/a.sh", None, "pulumi destroy\n"))) == [row]


def test_workflow_is_told_by_what_it_may_do(repository: Path) -> None:
    source = laid(repository)
    base = f"{NIGHTLY}      - run: make\n    timeout-minutes: 30\n"
    for after, sentence in (
        (base.replace("30", "45"), ""),
        (f"# why\n{base}", ""),
        (f"permissions: {{id-token: write}}\n{base}", "may do more with the repository"),
        (f"permissions: write-all\n{base}", "may do more with the repository"),
        (f"env: {{A: '${{{{ secrets.KEY }}}}'}}\n{base}", "takes secrets.KEY"),
        (base.replace("run: make", "uses: acme/deploy@main"), "runs acme/deploy@main"),
        (base.replace("run: make", "run: make all"), "runs otherwise"),
    ):
        texts = [row.what for row in workflows(write(source, WORKFLOW, base, after))]
        assert bool(texts) is bool(sentence), (after, texts)
        assert not sentence or any(sentence in text for text in texts), (after, texts)


def test_workflow_that_judges_no_pull_request_is_no_judge(repository: Path) -> None:
    source = laid(repository)
    tags = "on: {push: {tags: ['v*']}}\njobs: {}\n"
    for name, before, after, changed in (
        (WORKFLOW, tags, f"{tags}env: {{}}\n", False),
        (WORKFLOW, None, NIGHTLY, False),
        (WORKFLOW, tags, tags.replace("tags: ['v*']", "branches: ['*']"), True),
        (WORKFLOW, tags, f"{tags}# \nenv: {{A: railhead review}}\n", True),
        (WORKFLOW, "on: pull_request\n", NIGHTLY, True),
        (".github/CODEOWNERS", None, "* @acme/ml\n", False),
        (".github/CODEOWNERS", "* @acme/ml\n", "* @acme/all\n", True),
    ):
        who = judges(write(source, name, before, after), allowed=False)
        assert any(row.startswith(name) for row in who.changed) is changed, (name, after)
    write(source, "CODEOWNERS", "* @acme/ml\n", "* @acme/ml\n")
    who = judges(write(source, ".github/CODEOWNERS", None, "* @acme/all\n"), allowed=False)
    assert who.changed


def test_other_file_of_the_same_version_is_refused(repository: Path) -> None:
    source = laid(repository)
    old = f"a==1.0 \\\n    --hash=sha256:{'0a' * 32}\n"
    more = old.replace("\n    --hash", f"\n    --hash=sha256:{'0c' * 32} \\\n    --hash")
    for after, levels in (
        (old.replace("0a", "0b"), ["refuse"]),
        (old.replace("1.0", "1.1").replace("0a", "0b"), []),
        (more, []),
        ("a==1.0\n", ["refuse"]),
    ):
        rows = hashes(write(source, "requirements.txt", old, after))
        assert [row.level for row in rows] == levels, after
    rows = hashes(write(source, "requirements.txt", more, old))
    assert [row.level for row in rows] == ["note"]


def test_statement_that_no_plan_knows_is_read_in_code(repository: Path) -> None:
    source = laid(repository)
    name, when = "components/a.py", '        "Condition": {"StringEquals": {"a:Tag": "true"}},\n'
    text = f'rows = {{\n        "Effect": "Allow",\n        "Action": ["a:Delete"],\n{when}}}\n'
    more = when.replace('"true"}', '"true", "a:By": "x"}')
    for after, levels in (
        (text.replace(when, ""), ["refuse"]),
        (text.replace(when, more), ["note"]),
        (text.replace("a:Delete", "a:*"), ["ask"]),
        (text.replace("rows", "grants"), []),
        (f"{text}more = {{'Principal': '*', 'Effect': 'Allow'}}\n", ["refuse"]),
        (f"{text}more = {{'Principal': {{'AWS': ['*']}}}}\n", ["refuse"]),
        (f"{text}more = {{'Principal': {{'Service': 'a'}}}}\n", []),
    ):
        rows = list(statements(write(source, name, text, after)))
        assert [row.level for row in rows] == levels, after
    (row,) = statements(write(source, name, text, text.replace(when, "")))
    assert row.what.startswith('holds without the condition that it had for "Action": ["a:Delete"]')


ROW = """machines:
  - name: p5.48xlarge
    gpus: 8
    nics:
      - {card: 0, rate_gbps: 100}
      - {card: 1, rate_gbps: 100}
    limits: [one]
    sources: {nics: the maker}
"""
TRUTH = "machines:\n- {machine: p5.48xlarge, gpus: 8, efa: 2, source: karpenter}\n"


def test_facts_of_a_machine_are_told_with_what_follows(repository: Path) -> None:
    source = laid(repository)
    name = "railhead/machines/rows/aws.yaml"
    write(source, "railhead/twin/truth/aws.yaml", TRUTH, TRUTH)
    lacks = ROW.replace("      - {card: 1, rate_gbps: 100}\n", "")
    for before, after, levels, sentence in (
        (ROW, lacks, ["refuse", "ask"], "railhead/twin/truth has 2, by karpenter"),
        (lacks, ROW, ["note", "ask"], "railhead/twin/truth has 2"),
        (ROW, ROW.replace("100", "200"), ["ask"], "Its source is the same as before: the maker"),
        (ROW, ROW.replace("gpus: 8", "gpus: 4"), ["refuse"], "it stays idle"),
        (ROW, ROW.replace("[one]", "[]"), ["ask"], "limits: one -> (nothing)"),
        (ROW, ROW.replace("[one]", "[one, two]"), ["note"], "limits: (nothing) -> two"),
        (ROW, ROW.replace("p5.48xlarge", "p6"), ["refuse"], "is no machine any more"),
        (ROW, f"# why\n{ROW}", [], ""),
    ):
        rows = list(machines(write(source, name, before, after)))
        assert [row.level for row in rows] == levels, after
        assert not levels or any(sentence in row.what for row in rows), (after, rows)


def test_code_of_which_no_plan_shows_anything_is_asked_about(repository: Path) -> None:
    source = laid(repository)
    name, text = "components/a.py", '"""A."""\n\nasked = make(wait=0, after=args.ready)\n'
    for before, after, asked in (
        (text, text.replace("0", "3600"), True),
        (text, text.replace(", after=args.ready", ""), True),
        (text, text.replace("asked", "needed").replace("A.", "B."), False),
        (text, f"{text}more = make(wait=5)\n", False),
        ('fail("no such pool")\n', 'fail("no pool of that name")\n', False),
        ('a = CustomTimeouts(create="2h")\n', 'a = CustomTimeouts(create="3h")\n', False),
        (None, text, False),
    ):
        rows = list(unseen(write(source, name, before, after), [name], ()))
        assert bool(rows) == asked, after
        assert list(unseen(source, [name], {name})) == []
    moved = write(source, name, text, text.replace("0", "WAIT"))
    assert list(unseen(write(moved, "components/b.py", None, "WAIT = 0\n"), [name], ())) == []
