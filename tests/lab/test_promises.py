"""The acceptance on the lab: what is real there is proven, and RDMA is refused in words.

`make acceptance` runs checks whose verdict a lab decides, `make exhaustive-lab` all of them: two
nodes share one machine's cores, so scaling and slow nodes take minutes and prove nothing, and other
tests launch jobs of the same examples.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from xml.etree import ElementTree

import jsonschema
import pytest

from railhead.accept import checks, outputs
from railhead.base.errors import ExitCode
from tests.lab.jobs import wait
from tests.lab.promises import Lab, Suite

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.acceptance]

# What the lab has processes for; RDMA it has not.
PROVEN = ("gangs", "launch", "restart")
NAMES = tuple(check.name for check in checks.every())
DECIDED = tuple(name for name in NAMES if name in ("rdma", "gangs", "restart"))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(DECIDED, id="decided"),
        pytest.param(NAMES, id="all", marks=pytest.mark.exhaustive),
    ],
)
def names(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The checks that are run, in their order."""
    result: tuple[str, ...] = request.param
    return result


@pytest.fixture(scope="module")
def only(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the option that names them; nothing for all."""
    return () if names == NAMES else ("--only", ",".join(names))


@pytest.fixture(scope="module")
def suite(lab: Lab, only: tuple[str, ...]) -> Suite:
    """One run of them."""
    files = {kind: lab.folder / f"report.{kind}" for kind in ("junit", "markdown", "html")}
    written = (word for kind, path in files.items() for word in (f"--{kind}", str(path)))
    return lab.accept(*only, *written)


def test_the_lab_is_not_accepted_because_of_rdma(suite: Suite, names: tuple[str, ...]) -> None:
    assert suite.done.returncode == ExitCode.REFUSED, suite.done.stderr
    assert suite.report["accepted"] is False
    jsonschema.validate(suite.report, outputs.schema())
    # A check that was not asked for is in the report, not proven.
    assert [c["name"] for c in suite.report["checks"]] == list(NAMES)
    assert all(suite.check(n)["verdict"] == "not-proven" for n in set(NAMES) - set(names))
    # Two nodes share one machine's cores here, so scaling and slowness are real findings.
    failed = {c["name"] for c in suite.report["checks"] if c["verdict"] == "failed"}
    assert "rdma" in failed
    assert failed.isdisjoint(PROVEN), suite.done.stdout


def test_rdma_fails_by_saying_that_it_is_tcp(suite: Suite) -> None:
    result = suite.check("rdma")
    assert result["verdict"] == "failed", result["summary"]
    assert result["summary"].startswith("The transport is TCP: backend gloo")
    # The rail's interface, as the pods read it themselves.
    interfaces = next(e["text"] for e in result["evidence"] if "interfaces" in e["title"])
    assert "net1 after" in interfaces


@pytest.mark.parametrize("name", PROVEN)
def test_what_is_real_in_the_lab_is_proven(suite: Suite, names: tuple[str, ...], name: str) -> None:
    result = suite.check(name)
    wanted = "passed" if name in names else "not-proven"
    assert result["verdict"] == wanted, (result["summary"], result["evidence"])


def test_results_have_evidence_and_failures_a_remedy(suite: Suite) -> None:
    for check in suite.report["checks"]:
        assert check["evidence"], check["name"]
        assert check["reproduce"], check["name"]
        assert check["remedy"] or check["verdict"] == "passed", check["name"]


def test_the_other_formats_say_the_same(suite: Suite, lab: Lab) -> None:
    cases = ElementTree.parse(lab.folder / "report.junit").getroot()[0].findall("testcase")
    assert [case.get("name") for case in cases] == list(NAMES)
    text = (lab.folder / "report.markdown").read_text()
    assert "lab is not accepted" in text
    page = lab.folder / "report.html"
    checked = subprocess.run(
        [sys.executable, "-m", "railhead", "accept", "check-report", str(page)],
        env=lab.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert "unchanged: cluster lab" in checked.stdout


def test_nothing_of_it_is_left_in_the_cluster(suite: Suite, lab: Lab) -> None:
    assert lab.jobs() == []


def test_resume_takes_what_finished_and_runs_nothing_again(
    suite: Suite, lab: Lab, names: tuple[str, ...], only: tuple[str, ...]
) -> None:
    again = lab.folder / "again.json"
    done = lab.run("--quick", "--yes", "--resume", *only, "--json", str(again), timeout=1500)
    assert done.returncode == ExitCode.REFUSED, done.stderr
    report = json.loads(again.read_text())
    for item in report["checks"]:
        before = suite.check(item["name"])
        assert item["verdict"] == before["verdict"], item["name"]
        if item["name"] in {"rdma", *PROVEN} & {*names}:
            assert f"{item['name']}: kept evidence" in done.stderr
            assert item["seconds"] == before["seconds"]


def test_a_waiver_accepts_rdma_by_name_and_says_so(
    suite: Suite, lab: Lab, names: tuple[str, ...], only: tuple[str, ...]
) -> None:
    path = lab.folder / "waived.json"
    waive = ["--waive", "rdma", "--by", "Ada", "--reason", "a lab", "--until", "2999-01-01"]
    words = ("--quick", "--yes", "--resume", *only, "--json", str(path))
    done = lab.run(*words, *waive, timeout=1500)
    report = json.loads(path.read_text())
    rdma = next(c for c in report["checks"] if c["name"] == "rdma")
    assert (rdma["verdict"], rdma["waiver"]["by"]) == ("failed", "Ada")
    others = {c["verdict"] for c in report["checks"] if c["name"] != "rdma"}
    wanted = {"failed": ExitCode.REFUSED, "not-proven": ExitCode.UNPROVEN}
    codes = [code for verdict, code in wanted.items() if verdict in others]
    assert done.returncode == (codes or [ExitCode.OK])[0]
    assert report["accepted"] is (names == NAMES and others == {"passed"})
    assert "waived by Ada until 2999-01-01" in done.stdout


def test_an_interrupt_takes_its_jobs_away(lab: Lab) -> None:
    started = subprocess.Popen(
        [*lab.command("--quick", "--yes", "--only", "rdma"), "--out", str(lab.folder / "cut")],
        env=lab.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait(lambda: bool(lab.jobs()) or started.poll() is not None, 120, "its job")
        os.kill(started.pid, signal.SIGTERM)
        _, err = started.communicate(timeout=180)
    finally:
        started.kill()
    assert started.returncode == ExitCode.INTERRUPTED, err
    assert "interrupted: its jobs were deleted" in err
    assert "Traceback" not in err
    assert lab.jobs() == []
