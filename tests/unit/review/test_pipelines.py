"""Workflows, scripts, requirements and rows of machines that a pull request changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.review.commands import COMMANDS, commands
from railhead.review.judges import judges
from railhead.review.machines import machines
from railhead.review.model import Place
from railhead.review.statements import statements
from railhead.review.texts import hashes
from railhead.review.unseen import unseen
from railhead.review.workflows import scripts, workflows
from tests.unit.review.pulled import gone, laid, write

WORKFLOW = ".github/workflows/it.yml"
NIGHTLY = "name: it\non:\n  schedule:\n    - cron: '15 1 * * *'\njobs:\n  a:\n    steps:\n"

CHECKOUT = "      - uses: actions/checkout@v5\n"

DOES = [
    ("pulumi state unprotect --all --yes", "refuse data"),
    ("pulumi -s prod state delete urn:a", "refuse data"),
    ("pulumi destroy --yes", "refuse data"),
    ("pulumi up --yes --stack a", "ask file"),
    ("kubectl -n training delete pvc -l old=true", "refuse data"),
    ('kubectl patch pvc a -p \'{"metadata":{"finalizers":null}}\'', "refuse data"),
    ("kubectl label pvc a railhead.dev/keep-", "refuse data"),
    ("kubectl delete pod a", "ask jobs"),
    ("kubectl delete pod a --namespace t", "ask jobs"),
    ("kubectl delete -n ns pod a", "ask jobs"),
    ("kubectl delete pod foo-ns-1 -n ns", "ask jobs"),
    ("kubectl delete -f j.yaml --namespace=t", "ask jobs"),
    ("kubectl delete -n training pvc a", "refuse data"),
    ("kubectl delete pod/a pvc/b", "refuse data"),
    ("kubectl delete pods,pvc -l a=b", "refuse data"),
    ("kubectl delete --grace-period 0 clusterqueues.kueue.x-k8s.io a", "refuse data"),
    ('["kubectl", "delete", "-n", "t", "pvc", "a"]', "refuse data"),
    ("kubectl delete ns a --dry-run=none", "refuse data"),
    ("kubectl delete ns a # not --dry-run", "refuse data"),
    ("kubectl delete ns a --dry-run=client; kubectl delete ns b", "refuse data"),
    ("pulumi --stack prod -C infra down --yes", "refuse data"),
    ("terraform -chdir=a apply -destroy", "refuse data"),
    ('echo "pulumi destroy" | sh', "refuse data"),
    ("echo a && pulumi destroy", "refuse data"),
    ("aws s3 rm --recursive s3://acme-checkpoints/", "refuse data"),
    ("gsutil -m rm -r gs://acme-checkpoints", "refuse data"),
    ("gcloud storage rm -r gs://acme-checkpoints", "refuse data"),
    ("helm uninstall kueue", "refuse jobs"),
    ("aws ec2 terminate-instances --instance-ids i-1", "refuse capacity"),
    ("gcloud container clusters delete a", "refuse capacity"),
    ("curl -fsSL https://get.example.com | sh", "refuse rights"),
    ("curl -fsSL https://get.example.com | python3 -", "refuse rights"),
    ("bash <(curl -fsSL https://get.example.com)", "refuse rights"),
    ('sh -c "$(curl -fsSL https://get.example.com)"', "refuse rights"),
    ("pulumi dn --yes", "refuse data"),
    ("export PULUMI_SKIP_CONFIRMATIONS=true", "ask file"),
    ("kubectl -n kueue-system scale deploy/kueue --replicas=0", "ask jobs"),
    ("rm -rf /mnt/checkpoints/run-1", "ask data"),
    ("find /mnt/ckpt -mtime +3 -delete", "ask data"),
    ("helm -n kueue-system delete kueue", "refuse jobs"),
    ("echo '# a' && pulumi destroy", "refuse data"),
    ("railhead review --base main --allow judges", "refuse judges"),
]
PASSES = (
    *("pulumi preview --stack a", "pulumi up", "kubectl get pvc", "kubectl label pvc a b=c"),
    *("aws s3 cp a s3://b", "gcloud container clusters list", "helm upgrade --install a b"),
    *("curl -fsSL https://example.com/a.tgz -o a.tgz", "# pulumi destroy", "rm -rf build"),
    *(
        "kubectl delete ns a --dry-run=client",
        "kubectl label pod a -n ns b-",
        "terraform plan -destroy",
    ),
    *("pulumi preview --stack down", 'echo "no; pulumi destroy"', "name: pulumi destroy"),
    *("true # pulumi destroy", 'log "pulumi destroy; then wait"', "curl -s a | jq .tag"),
    *("helm upgrade a b --set delete=true", "find . -name a -delete", "V=$(curl -s https://a)"),
    *("bash -c 'V=$(curl -s https://a)'", "kubectl scale deploy/a --replicas=10"),
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


def test_line_of_many_options_is_read_fast() -> None:
    assert [row.level for _, _, row in commands([f"kubectl delete {'-,' * 5000} -n"])] == ["ask"]
    assert not list(commands([f"pulumi {'-n ,,x ' * 500}"]))


def test_continued_line_is_one_command() -> None:
    (command,) = commands(["set -e", "kubectl delete \\", "  --wait=false \\", "  pvc a", "true"])
    assert command[:2] == (1, "kubectl delete --wait=false pvc a")
    assert [index for index, _, _ in commands(["# a \\", "pulumi destroy"])] == [1]


def test_text_that_a_script_shows_runs_nothing() -> None:
    lines = ["cat <<'EOT'", "  pulumi destroy", "EOT", "pulumi destroy"]
    assert [index for index, _, _ in commands(lines)] == [3]
    assert [index for index, _, _ in commands(["cat <<EOT | sh", *lines[1:3]])] == [1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("infra/Makefile", "t:\n\tpulumi destroy -y\n"),
        ("clean.bash", "\npulumi destroy -y\n"),
        ("bin/clean", "#!/bin/sh\npulumi destroy -y\n"),
        ("ops/a.py", "from subprocess import run\nrun(['pulumi', 'destroy', '-y'], check=True)\n"),
        ("ops/a.py", "import os\nos.system('pulumi destroy -y')\n"),
        ("ops/a.py", "C = ['pulumi', 'destroy', name]\nsubprocess.check_call(C)\n"),
    ],
)
def test_command_is_found_in_each_kind_of_script(repository: Path, name: str, text: str) -> None:
    (row,) = scripts(write(laid(repository), name, None, text))
    assert row.level == "refuse"
    assert row.place == Place(file=name, line=2)


def test_program_that_only_names_a_command_runs_none(repository: Path) -> None:
    text = '"""Like pulumi destroy."""\nHELP = "pulumi destroy -y"\nprint("pulumi destroy -y")\n'
    assert not list(scripts(write(laid(repository), "ops/a.py", None, text)))


def test_clock_that_starts_what_stood_there_is_told(repository: Path) -> None:
    text = f"{NIGHTLY}      - run: pulumi destroy\n"
    by_hand = text.replace("schedule:\n    - cron: '15 1 * * *'", "workflow_dispatch: {}")
    source = laid(repository)
    assert len(list(scripts(write(source, WORKFLOW, by_hand, text)))) == 1
    assert not list(scripts(write(source, WORKFLOW, text, text.replace("15 1", "16 1"))))


def test_renamed_script_runs_what_it_ran(repository: Path) -> None:
    source = gone(repository, "run/old.sh", "pulumi destroy\n")
    assert not list(scripts(write(source, "run/new.sh", None, "pulumi destroy\nhelm template a\n")))
    (row,) = scripts(write(source, "run/new.sh", None, "pulumi destroy\nhelm uninstall a\n"))
    assert "helm uninstall a" in row.what
    text = f"{NIGHTLY}      - run: |\n          pulumi destroy\n"
    rows = scripts(write(source, WORKFLOW, None, text))
    assert {(row.place.file, row.place.line) for row in rows if row.place} == {
        (WORKFLOW, 9),
        ("run/new.sh", 2),
    }


ACTION = "      - uses: pulumi/actions@v6\n        with:\n          command: "


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("up", "ask file: runs `pulumi up` by pulumi/actions by itself"),
        ("destroy", "refuse data: runs `pulumi destroy`"),
        ("${{ github.event_name == 'push' && 'up' || 'preview' }}", "ask file: runs `pulumi up`"),
        ("preview", ""),
    ],
)
def test_pulumis_action_is_told_by_its_command(repository: Path, command: str, told: str) -> None:
    source = write(laid(repository), WORKFLOW, None, f"{NIGHTLY}{ACTION}{command}\n")
    rows = [f"{row.level} {row.loss}: {row.what}" for row in workflows(source)]
    assert any(told in row for row in rows) if told else not any("runs" in row for row in rows)
    text = f"{NIGHTLY}{ACTION}{command}\n"
    source = write(source, WORKFLOW, text, text.replace("actions@v6", "actions@v7"))
    assert not any("by pulumi/actions" in row.what for row in workflows(source))


def test_words_about_commands_run_nothing(repository: Path) -> None:
    source = laid(repository)
    name = ".github/pull_request_template.md"
    assert not list(scripts(write(source, name, None, "- [ ] pulumi destroy\n")))


def test_line_of_a_continued_command_is_its_place(repository: Path) -> None:
    old = "set -e\nkubectl delete \\\n  pod a `b`\n"
    (row,) = scripts(write(laid(repository), "a.sh", old, old.replace("pod a", "pvc a")))
    assert row.place == Place(file="a.sh", line=3)
    assert row.what.startswith("runs `kubectl delete pvc a 'b'`: ")


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
        (f"env: {{A: \"${{{{ secrets['KEY'] }}}}\"}}\n{base}", "takes secrets['KEY']:"),
        (base.replace("run: make", "uses: acme/deploy@main"), "runs acme/deploy@main"),
        (base.replace("run: make", "run: make all"), "differs: jobs.a.steps"),
    ):
        texts = [row.what for row in workflows(write(source, WORKFLOW, base, after))]
        assert bool(texts) is bool(sentence), (after, texts)
        assert not sentence or any(sentence in text for text in texts), (after, texts)
    signs = f"permissions: {{id-token: write}}\n{base}"
    for before, after, gained in (
        (signs, signs.replace("      - run", f"{CHECKOUT}      - run"), True),
        (base, base.replace("      - run", f"{CHECKOUT}      - run"), False),
        (signs.replace("      - run", f"{CHECKOUT}      - run"), signs, False),
        (None, signs.replace("      - run", f"{CHECKOUT}      - run"), False),
    ):
        texts = [row.what for row in workflows(write(source, WORKFLOW, before, after))]
        assert any("job a has the sources from now on" in text for text in texts) is gained
    token = f"env: {{A: '${{{{ secrets.GITHUB_TOKEN }}}}'}}\n{NIGHTLY}"
    assert not list(workflows(write(source, WORKFLOW, None, token)))
    (row,) = workflows(write(source, WORKFLOW, base, base.replace("15 1", "16 1")))
    assert row.what.startswith("differs: on.schedule")
    (row,) = workflows(write(source, WORKFLOW, base, f"{base}  a: &a [*a]\n"))
    assert "cannot be read as YAML" in row.what


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("steps:", "permissions: {contents: write}\n    steps:", 7),
        ("run: make b", "run: make ${{ secrets.KEY }}", 9),
        ("run: make b", "uses: acme/deploy@main", 9),
    ],
)
def test_workflow_is_placed_at_what_it_gains(
    repository: Path, old: str, new: str, line: int
) -> None:
    text = f"{NIGHTLY}      - run: make\n      - run: make b\n"
    source = write(laid(repository), WORKFLOW, text, text.replace(old, new).replace("it", "at", 1))
    rows = [row for row in workflows(source) if row.rule == "pipeline-rights"]
    assert [row.place for row in rows] == [Place(file=WORKFLOW, line=line)]


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
        (text.replace('"true"', '["true", "false"]'), ["ask"]),
        (text.replace('{"StringEquals": {"a:Tag": "true"}}', "{**WHEN} if PROD else {}"), ["ask"]),
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


_BY_MARK = """mark = "acme/team"
rows = [
    {
        "Effect": "Allow",
        "Action": ["a:Delete"],
        "Resource": points,
        "Condition": {"StringEquals": {f"a:Tag/{mark}": ["x", tag]}},
    },
]
"""
_KEY = 'f"a:Tag/{mark}": ["x", tag]'
_MORE = """    {
        "Effect": "Allow",
        "Action": ["%s"],
        "Resource": "*",
    },
"""


@pytest.mark.parametrize(
    ("old", "new", "levels"),
    [
        (_KEY, f'{_KEY}, "a:By": "b"', ["note"]),
        ('["x", tag]', '"x"', ["note"]),
        ('["x", tag]', "[tag]", ["note"]),
        ('["x", tag]', '["x", tag, "y"]', ["ask"]),
        ('["x", tag]', '["x", other]', ["ask"]),
        (_KEY, 'f"a:Tag/{other}": ["x", tag], "a:By": "b"', ["ask"]),
        (f"{{{_KEY}}}", f"{{**more, {_KEY}}}", ["ask"]),
        # What its names stand for is what counts.
        ('f"a:Tag/{mark}"', '"a:Tag/acme/team"', []),
        ('f"a:Tag/{mark}": [', '"a:Tag/acme/team": "x", "a:By": [', ["note"]),
        ("]\n", f"{_MORE % 'a:Delete'}]\n", ["ask"]),
        ("]\n", f"{_MORE % 'a:DescribeTags'}]\n", []),
        ("]\n", f"{_MORE % 'secretsmanager:GetSecretValue'}]\n", ["ask"]),
    ],
)
def test_condition_is_compared_by_what_it_resolves_to(
    repository: Path, old: str, new: str, levels: list[str]
) -> None:
    after = _BY_MARK.replace(old, new) if old != "]\n" else _BY_MARK[:-2] + new
    rows = list(statements(write(laid(repository), "components/a.py", _BY_MARK, after)))
    assert [row.level for row in rows] == levels, rows


@pytest.mark.parametrize("form", ["{}", "[{}]"])
def test_statement_that_a_name_changes_is_reported(repository: Path, form: str) -> None:
    may = form.format('"s3:GetObject"')
    text = f'MAY = {may}\n\nrow = {{\n    "Effect": "Allow",\n'
    text += '    "Action": MAY,\n    "Resource": "a",\n}\n'
    now = text.replace("s3:GetObject", "s3:*")
    (row,) = statements(write(laid(repository), "components/a.py", text, now))
    assert (row.level, row.what) == ("ask", "differs by a name: `Allow s3:*`")
    assert row.place == Place(file="components/a.py", line=1)


def test_condition_of_another_mark_is_not_narrower(repository: Path) -> None:
    more = _BY_MARK.replace(_KEY, f'{_KEY}, "a:By": "b"')
    source = write(laid(repository), "components/a.py", _BY_MARK, more.replace("acme/team", "all"))
    assert [row.level for row in statements(source)] == ["ask"]
    # It denies less.
    texts = [text.replace("Allow", "Deny") for text in (_BY_MARK, more)]
    source = write(source, "components/a.py", *texts)
    assert [row.level for row in statements(source)] == ["ask"]


def test_new_statement_is_placed_and_told_by_its_actions(repository: Path) -> None:
    after = f"{_BY_MARK[:-2]}{_MORE % 'a:Delete'}]\n"
    (row,) = statements(write(laid(repository), "components/a.py", _BY_MARK, after))
    assert row.what == "is new: `Allow a:Delete`"
    assert row.place == Place(file="components/a.py", line=9)


def test_new_statement_beside_a_narrower_one_is_asked_about(repository: Path) -> None:
    after = _BY_MARK.replace(_KEY, f'{_KEY}, "a:By": "b"')[:-2] + f"{_MORE % 'a:*'}]\n"
    rows = list(statements(write(laid(repository), "components/a.py", _BY_MARK, after)))
    assert "ask" in [row.level for row in rows]


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


def test_statement_that_was_only_moved_is_not_told(repository: Path) -> None:
    source, name = laid(repository), "components/a.py"
    when = '"Condition": {"StringEquals": {"a:Tag": "true"}}'
    other = "def other():\n    return 1\n\n\n"
    says = f'def says():\n    return {{\n        "Action": ["a:Do"],\n        {when},\n    }}\n\n\n'
    more = says.replace("says", "more").replace("a:Do", "a:Delete")
    bare = more.replace(f"        {when},\n", "")
    everyone = 'ALL = {"Action": "a:Get", "Principal": "*"}\n'
    longer = says.replace('["a:Do"]', '[\n            "a:Do",\n        ]')
    for before, after, levels in (
        (f"{other}{says}", f"{says}{other}", []),
        (f"{everyone}{other}{says}", f"{other}{says}{everyone}", []),
        (f"{says}{more}", f"{says}{bare}", ["refuse"]),
        (longer, longer.replace('"a:Do",', '"a:Do",\n            "a:Delete",'), ["ask"]),
    ):
        rows = list(statements(write(source, name, before, after)))
        assert [row.level for row in rows] == levels, (after, rows)


def test_statement_of_a_moved_file_is_not_told(repository: Path) -> None:
    when = '"Condition": {"StringEquals": {"a:Tag": "true"}}'
    says = f'A = {{\n        "Action": ["a:Do"],\n        {when},\n}}\n'
    bare = says.replace(f"        {when},\n", "")
    source, moved = gone(repository, "components/a.py", says), "components/b.py"
    assert not list(statements(write(source, moved, None, f"import a\n\n{says}")))
    (row,) = statements(write(source, moved, None, says.replace("[", "[*more, ")))
    assert row.level == "ask"
    (row,) = statements(write(source, moved, None, bare))
    assert row.level == "refuse"


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
        (ROW, ROW.replace("p5.48xlarge", "p6"), ["ask"], "is removed: no stack here names it"),
        (ROW, f"# why\n{ROW}", [], ""),
    ):
        rows = list(machines(write(source, name, before, after)))
        assert [row.level for row in rows] == levels, after
        assert not levels or any(sentence in row.what for row in rows), (after, rows)


def test_machine_that_a_stack_has_is_not_removed(repository: Path) -> None:
    source, name, stack = laid(repository), "stacks/machines.yaml", "stacks/Pulumi.a.yaml"
    other = ROW.replace("p5.48xlarge", "own.4x")
    (row,) = machines(write(source, name, ROW, other))
    assert row.level == "ask"
    assert row.what.startswith("is removed: no stack here names it")
    source = write(source, stack, None, "config:\n  a: {instance_type: p5.48xlarge}\n")
    (row,) = machines(write(source, name, ROW, other))
    assert (row.level, row.what[:40]) == ("refuse", "is removed, and stacks/Pulumi.a.yaml has")
    (row,) = machines(write(source, name, ROW, "machines: [\n"))
    assert (row.level, row.subject) == ("ask", f"machine of {name}")


def test_machine_of_another_file_is_the_same(repository: Path) -> None:
    source = gone(repository, "stacks/machines.yaml", ROW)
    assert len(list(machines(source))) == 1
    assert not list(machines(write(source, "railhead/machines/rows/own.yaml", None, ROW)))


@pytest.mark.parametrize(
    "after",
    [
        "machines: 5\n",
        "machines: [5]\n",
        ROW.replace("sources: {nics: the maker}", "sources: me"),
        ROW.replace("rate_gbps: 100", "rate_gbps: '400'"),
        ROW[: ROW.index("nics:")] + "nics: 4\n",
    ],
)
def test_odd_row_of_a_machine_is_no_traceback(repository: Path, after: str) -> None:
    source = laid(repository)
    list(machines(write(source, "stacks/machines.yaml", ROW, after)))
    list(machines(write(source, "stacks/machines.yaml", after, ROW)))


def test_figure_without_a_source_has_not_the_same_one(repository: Path) -> None:
    old = ROW.replace("    sources: {nics: the maker}\n", "")
    (row,) = machines(write(laid(repository), "stacks/machines.yaml", old, old.replace("100", "1")))
    assert "source" not in row.what


def test_new_name_of_a_method_or_option_is_no_change(repository: Path) -> None:
    source, name = laid(repository), "components/a.py"
    text = (
        "import os\n\nclass A:\n    size: int\n    def make(self, ready):\n"
        "        self.asked = ready\n        return self.size\n\n"
        "b = A().make(ready=1)\nprint(b.asked)\n"
    )
    for old, new, asked in (
        ("ready", "after", False),
        ("asked", "wanted", False),
        ("make", "made", False),
        ("size", "length", False),
        ("(ready=1)", "(1)", True),
        ("return self.size", "return 1", True),
    ):
        source = write(source, name, text, text.replace(old, new))
        assert bool(list(unseen(source, [name], ()))) == asked, new
    other = text.replace("import os\n", "").replace("ready=1", "ready=print")
    (row,) = unseen(write(source, name, text, other), [name], ())
    assert "`b = A().make(ready=1)`" in row.what
    assert row.place == Place(file=name, line=8)
    tests = write(source, "tests/a.py", None, "a = 1\n")
    assert list(unseen(write(tests, name, text, other), [name], ()))


def test_function_that_nothing_calls_any_more_is_told(repository: Path) -> None:
    text = (
        'import k8s\n\ndef spec(name):\n    """Return the exporter of checkpoints."""\n'
        '    return name\n\nclass Watched:\n    """Alerts and exporters."""\n'
        "    def __init__(self, args):\n"
        "        for name in args.claims:\n            self._watch(name)\n"
        "        self.done()\n"
        "    def _watch(self, name):\n"
        "        k8s.Deployment(name, spec=spec(name), opts=k8s.ResourceOptions())\n"
    )
    now = text.replace("        for name in args.claims:\n            self._watch(name)\n", "")
    (row,) = unseen(write(laid(repository), "components/a.py", text, now), ["components/a.py"], ())
    assert row.what.endswith(
        ": nothing calls _watch() any more, so each Deployment that it makes is gone "
        "(*Alerts and exporters; Return the exporter of checkpoints*)"
    )


def test_name_put_together_otherwise_is_no_change(
    repository: Path,
) -> None:
    name = "components/a.py"
    text = 'for zone in zones:\n    Subnet(\n        f"{name}-public-{zone}",\n    )\n'
    now = text.replace('f"{name}-public-{zone}"', 'f"{name}-{kind}-{zone}"')
    source = write(laid(repository), name, text, now)
    assert list(unseen(source, [name], (), {(name, 2)})) == []
    assert list(unseen(source, [name], (), {(name, 1), ("components/b.py", 2)}))
    fixed = text.replace('f"{name}-public-{zone}"', '"public"')
    source = write(source, name, fixed, fixed.replace('"public"', "kind"))
    assert list(unseen(source, [name], (), {(name, 2)}))


def test_code_of_which_no_plan_shows_anything_is_asked_about(repository: Path) -> None:
    source = laid(repository)
    name, text = "components/a.py", '"""A."""\n\nasked = make(wait=0, after=args.ready)\n'
    day = "made = make(ttl=86400)\n"
    for before, after, asked in (
        (text, text.replace("0", "3600"), True),
        (text, text.replace(", after=args.ready", ""), True),
        (text, text.replace("asked", "needed").replace("A.", "B."), False),
        (text, f"{text}more = make(wait=5)\n", False),
        (day, f"DAY = 24 * 60 * 60\n{day.replace('86400', 'DAY')}", False),
        (day.replace("86400", "24 * 60 * 60"), day, False),
        (day, day.replace("86400", "24 * 60"), True),
        (day.replace("86400", "24 * 60 * 60"), day.replace("86400", "24 * 60"), True),
        (day, day.replace("86400", "9" + " * 10" * 5000), True),
        ('fail("no such pool")\n', 'fail("no pool of that name")\n', False),
        ('a = CustomTimeouts(create="2h")\n', 'a = CustomTimeouts(create="3h")\n', False),
        ('a = tell({"token": b})\n', "a = tell(Output.all(token=b).apply(dict))\n", False),
        ('a = Output.concat("x://", b)\n', 'a = b.apply(lambda c: f"x://{c}")\n', False),
        ('a = tell({"token": b})\n', "a = tell({})\n", True),
        (None, text, False),
    ):
        rows = list(unseen(write(source, name, before, after), [name], ()))
        assert bool(rows) == asked, after
        assert list(unseen(source, [name], {name})) == []
    moved = write(source, name, text, text.replace("0", "WAIT"))
    assert list(unseen(write(moved, "components/b.py", None, "WAIT = 0\n"), [name], ())) == []
