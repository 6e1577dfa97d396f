"""Tests of how the checks before a launch are discovered, ordered and added up."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from railhead.base.errors import RefusedError
from railhead.base.finding import Finding, checks_in
from railhead.contract import ClusterContract
from railhead.kube.client import Cluster
from railhead.launch import checks
from railhead.launch.asked import Asked
from railhead.launch.job import read_job
from railhead.launch.plan import make_plan
from railhead.launch.preflight import preflight
from tests.unit.launch import world
from tests.unit.launch.fake_api import Api


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    folder = tmp_path / "some_checks"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name, order in (("late", 3), ("early", 1), ("between", 2), ("also_between", 2)):
        (folder / f"{name}.py").write_text(f"ORDER = {order}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("some_checks")
    for name in [name for name in sys.modules if name.partition(".")[0] == "some_checks"]:
        del sys.modules[name]


def test_a_check_is_found_by_being_there_and_runs_in_its_turn(package: ModuleType) -> None:
    names = [module.__name__.rpartition(".")[2] for module in checks_in(package)]
    assert names == ["early", "also_between", "between", "late"]


def test_admission_is_heard_only_of_what_passed(
    api: Api, cluster: Cluster, contract: ClusterContract, job_file: Path
) -> None:
    assert checks_in(checks)[-1].__name__.endswith(".admission")
    api.refusals[("POST", world.JOBS)] = (422, "admission webhook says no")
    job, files = read_job(job_file)
    plan = make_plan(job, files, contract)
    with pytest.raises(RefusedError, match="webhook says no"):
        preflight(cluster, plan, contract)
    world.job(api, plan.name)
    with pytest.raises(RefusedError, match="exists already") as refused:
        preflight(cluster, plan, contract)
    assert "webhook" not in str(refused.value)


def test_checks_ask_at_the_same_time(
    cluster: Cluster,
    contract: ClusterContract,
    job_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job, files = read_job(job_file)
    modules = checks_in(checks)
    together = threading.Barrier(len(modules), timeout=10)

    def meet(_: Asked) -> list[Finding]:
        together.wait()
        return []

    for module in modules:
        monkeypatch.setattr(module, "check", meet)
    assert preflight(cluster, make_plan(job, files, contract), contract) == ()


FINE = Finding(name="a", passed=True, text="it is there")
OPEN = Finding(name="b", passed=None, text="it may not be read", remedy="ask for it")
BAD = Finding(name="c", passed=False, text="it is not there", remedy="make it")
WORSE = Finding(name="d", passed=False, text="it is another's", remedy="name another")
ALIKE = Finding(name="e", passed=False, text="nor is that", remedy="make it")
MUTE = Finding(name="f", passed=False, text="nobody knows why")


@pytest.mark.parametrize(
    ("found", "last", "said"),
    [
        ([[FINE], [], [OPEN]], FINE, ""),
        ([[FINE, BAD]], FINE, "demo: it is not there -> make it; nothing was created"),
        (
            [[BAD, WORSE], [OPEN], [ALIKE]],
            FINE,
            "demo: 3 reasons not to launch\n  it is not there\n  it is another's\n  nor is that"
            " -> make it; name another; nothing was created",
        ),
        ([[MUTE]], FINE, "demo: nobody knows why -> nothing was created"),
        # The last is heard where the others have nothing to say.
        ([[FINE], [OPEN]], WORSE, "demo: it is another's -> name another; nothing was created"),
        ([[BAD]], WORSE, "demo: it is not there -> make it; nothing was created"),
    ],
)
def test_findings_of_checks_are_added_up(
    cluster: Cluster,
    contract: ClusterContract,
    job_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    found: list[list[Finding]],
    last: Finding,
    said: str,
) -> None:
    modules = [SimpleNamespace(check=lambda _, some=some: some) for some in found]
    modules.append(SimpleNamespace(check=lambda _: [last], UNLESS_OTHERS=True))
    monkeypatch.setattr(sys.modules[preflight.__module__], "checks_in", lambda _: modules)
    plan = make_plan(*read_job(job_file), contract)
    if not said:
        every = tuple(item for some in found for item in some)
        assert preflight(cluster, plan, contract) == (*every, last)
        return
    with pytest.raises(RefusedError) as caught:
        preflight(cluster, plan, contract)
    assert f"{caught.value.problem} -> {caught.value.remedy}" == said
