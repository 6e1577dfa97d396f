"""The documentation's commands exist as they are written, and its links lead somewhere."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pulumi_policy import EnforcementLevel

from railhead.catalog.lab import PARTS
from railhead.policies import RULES
from tests.docs import commands

REPO = Path(__file__).resolve().parents[2]
PAGES = commands.pages(REPO)
COMMANDS = [command for page in PAGES for command in commands.commands(REPO, page)]


def test_there_is_documentation_to_check() -> None:
    assert Path("README.md") in PAGES
    assert len(COMMANDS) > 20
    assert any(command.run == "lab" for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_every_shown_command_exists_with_its_options(command: commands.Command) -> None:
    assert commands.check(command.text, REPO) is None, command


def test_every_named_command_exists() -> None:
    """Prose, messages and their remedies name commands between backquotes."""
    texts = [(page, (REPO / page).read_text()) for page in PAGES]
    for file in (REPO / "railhead").rglob("*.py"):
        source = file.read_text()
        nodes = ast.walk(ast.parse(source)) if "`railhead " in source else ()
        texts += [(file, str(node.value)) for node in nodes if isinstance(node, ast.Constant)]
    problems = {
        f"{place}: {command}: {problem}"
        for place, text in texts
        for command in commands.named(text)
        if (problem := commands.check_named(command))
    }
    assert not problems


def test_the_check_of_named_commands_finds_what_does_not_exist() -> None:
    for text, problem in {
        "`railhead nodes`": "there is no command 'nodes'",
        "`railhead lab build pulumi`": "it takes fewer arguments",
        "`railhead lab build --alone\npulumi`": "there is no option --alone",
        "`railhead lab build --only pulumi`, `railhead catalog list|show`": None,
        "`railhead launch JOB.yaml --api KIND`, `railhead state STACK [--mend]`": None,
    }.items():
        named = commands.named(text)
        assert {commands.check_named(command) for command in named} == {problem}, text


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in COMMANDS if c.run == "quick"], ids=str)
def test_quick_commands_run(command: commands.Command) -> None:
    """Blocks marked `run: quick` are executed as a reader would, from the checkout's root."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command.text],
        cwd=REPO,
        env={
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": "/nonexistent",
            "PYTHONPATH": str(REPO),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == command.exits, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("railhead no-such-command", "no command 'no-such-command'"),
        ("railhead lab up --no-such-option", "--no-such-option"),
        ("railhead lab up --nodes many", "--nodes"),
        ("railhead lab", "needs one of"),
        ("make no-such-target", "no target 'no-such-target'"),
        ("make demo && railhead lab nothing", "no command 'nothing'"),
        ('eval "$(railhead lab nothing)"', "no command 'nothing'"),
        ("railhead launch examples/no-such-file.yaml", "examples/no-such-file.yaml"),
        ("railhead lab exec -- pulumi upp", "pulumi has no command"),
        ("frobnicate --now", "not a program"),
        ("echo 'unclosed", "not a shell command"),
    ],
)
def test_the_check_finds_what_does_not_exist(line: str, problem: str) -> None:
    result = commands.check(line, REPO)
    assert result is not None
    assert problem in result


def slug(heading: str) -> str:
    """Return a heading's anchor as the usual renderers make it."""
    text = re.sub(r"[`*_]|\[|\]\([^)]*\)", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def prose(page: Path) -> str:
    return commands.FENCE.sub("", (REPO / page).read_text())


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (REPO / page).parent / name if name else REPO / page
        assert file.exists(), f"{page}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", commands.FENCE.sub("", file.read_text()), re.M)
            assert anchor in {slug(heading) for heading in headings}, f"{page}: {target}"


def test_the_lab_page_lists_what_the_lab_builds() -> None:
    text = (REPO / "docs/lab.md").read_text()
    rows = re.findall(r"^\| ([\w-]+) \| (v[\d.]+) \| (.+) \|$", text, re.M)
    assert rows == [(part.name, part.version, part.production) for part in PARTS]


def test_the_reviewers_page_lists_every_rule() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \|", (REPO / "docs/reviewing.md").read_text(), re.M)
    assert rows == [rule.name for rule in RULES]
    advisory = [r.name for r in RULES if r.enforcement_level != EnforcementLevel.MANDATORY]
    assert advisory == ["versions-ran"]


def test_every_page_is_reached_from_the_readme() -> None:
    reached, queue = set(), [Path("README.md")]
    while queue:
        page = queue.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in re.findall(r"\]\(([^)\s#]+)", prose(page)):
            file = ((REPO / page).parent / target).resolve()
            if file.suffix == ".md" and file.is_relative_to(REPO):
                queue.append(file.relative_to(REPO))
    assert set(PAGES) - reached == set()


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_pages_are_finished(page: Path) -> None:
    text = (REPO / page).read_text()
    for mark in ("TO" + "DO", "FIX" + "ME", "real out" + "put:", "TB" + "D"):
        assert mark not in text, f"{page} still says {mark!r}"
    assert text.count("```") % 2 == 0, f"{page}: a fence is not closed"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.parent.name == "decisions"], ids=str
)
def test_decisions_say_why(page: Path) -> None:
    if page.name == "README.md":
        return
    text = (REPO / page).read_text()
    for heading in ("Status", "Context", "Decision", "Consequences"):
        assert re.search(rf"^## {heading}$", text, re.M), f"{page} has no section {heading}"
    assert re.match(r"\d{4}-[a-z0-9-]+\.md$", page.name), page
