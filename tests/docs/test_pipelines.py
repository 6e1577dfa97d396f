"""The pipelines of docs/pipelines parse, call commands that exist, and trust no pull request."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from railhead.review.markdown import MARKER
from tests.docs import commands

REPO = Path(__file__).resolve().parents[2]
FOLDER = REPO / "docs" / "pipelines"
FILES = sorted(FOLDER.iterdir())


def _yaml(name: str) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load((FOLDER / name).read_text())
    return loaded


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_review_is_called_with_options_that_exist(file: Path) -> None:
    text = file.read_text().replace("\\\n", " ")
    calls = re.findall(
        r'railhead"? (review --base .*?)(?:>>|"?\n *(?:artifacts|\'\'\'|- uses))', text, re.S
    )
    if file.name == "github-comment.yml":
        assert not calls
        return
    assert calls
    for call in calls:
        words = [w for w in shlex.split(" ".join(call.split())) if not w.startswith("$ALLOW")]
        line = "railhead " + " ".join(word.replace("$BASE", "origin/main") for word in words)
        assert commands.check(line, REPO) is None, line
    for call in re.findall(r'railhead"? (lab .*)', text):
        assert commands.check_named(f"railhead {call}") is None, call
    # The judge is the base's.
    assert re.search(r'-r \S*base/requirements.txt"?$', text, re.MULTILINE), (
        "alone: hashes in it ask for hashes of all that pip is given beside it"
    )


def test_the_job_that_runs_a_pull_request_can_only_read() -> None:
    review = _yaml("github-review.yml")
    # YAML 1.1 reads the key `on` as true.
    assert list(review[True]) == ["pull_request"]
    assert review["permissions"] == {"contents": "read"}
    assert "secrets." not in (FOLDER / "github-review.yml").read_text()
    for step in review["jobs"]["review"]["steps"]:
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False
        # What a pull request says reaches a shell by the environment alone.
        assert "${{" not in step.get("run", "")


def test_the_job_that_can_write_runs_nothing_of_a_pull_request() -> None:
    comment = _yaml("github-comment.yml")
    assert list(comment[True]) == ["workflow_run"]
    (job,) = comment["jobs"].values()
    assert comment["permissions"] == {}
    for step in job["steps"]:
        assert "checkout" not in step.get("uses", "")
        assert "${{" not in step.get("run", "")
    assert comment[True]["workflow_run"]["workflows"] == [_yaml("github-review.yml")["name"]]


@pytest.mark.parametrize("name", ["github-comment.yml", "gitlab-review.yml"])
def test_the_one_comment_is_found_by_its_marker_in_all_pages(name: str) -> None:
    text = (FOLDER / name).read_text()
    assert MARKER in text
    assert "--paginate" in text or "X-Next-Page" in text


def test_gitlab_compiles_and_keeps_the_reports() -> None:
    jobs = _yaml("gitlab-review.yml")
    assert jobs["railhead-review"]["artifacts"]["when"] == "always"
    (script,) = jobs["railhead-comment"]["script"]
    program = script.partition("<<'END'\n")[2].rpartition("END")[0]
    compile(program, "gitlab-review.yml", "exec")
    assert jobs["railhead-comment"]["variables"]["GIT_STRATEGY"] == "none"


def test_a_release_is_published_by_a_job_that_runs_no_source() -> None:
    text = (REPO / ".github/workflows/release.yml").read_text()
    jobs = yaml.safe_load(text)["jobs"]
    assert jobs["build"]["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    for step in jobs["publish"]["steps"]:
        assert "checkout" not in step.get("uses", "")
        assert "${{" not in step.get("run", "")
    # Without a token: the index trusts the workflow.
    assert jobs["publish"]["permissions"]["id-token"] == "write"
