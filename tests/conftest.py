"""Fixtures of all tests: paths, control planes, and the suite that a test belongs to."""

from __future__ import annotations

import functools
import gc
import os
import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.additions import missing
from tests.engine.controlplane import PROGRAMS, ControlPlane, locate

# CI tries the same cases each time, so that what lands is what was tried; elsewhere they vary.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None)
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

REPO = Path(__file__).resolve().parent.parent
# Cheap suites first, so that a mistake shows before a cluster is started.
ORDER = ("slow", "controlplane", "lab", "last")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Stop a run of the whole suite where an addition lacks a row elsewhere; name each."""
    whole = session.config.args_source is not pytest.Config.ArgsSource.ARGS
    first = not hasattr(session.config, "workerinput")
    if whole and first and (lacking := missing()):
        pytest.exit("\n".join(lacking), returncode=1)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Name what an addition lacks below the failures of a run that began for all that."""
    if exitstatus and (lacking := missing()):
        terminalreporter.section("not added everywhere", sep="=", red=True)
        for line in lacking:
            terminalreporter.line(line)


def pytest_xdist_auto_num_workers() -> int:
    """Return one more than there are cores: a fifth of their time the quick tests wait."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect without a search for garbage, and search no more in what is made here: it stays.

    A test makes some ten thousand objects, and a search after each 700 of them, Python's own
    choice, is a seventh of its time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000)
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file, with all that it imports, none of whose tests `-m` selects.

    Such a file has a mark that the expression excludes, or names none that it asks for: each mark
    is named in the file of its test, but `exhaustive`, which parameters have of other files
    (tests/marks.py). pytest asks this of no file that is on the command line.
    """
    expression = config.getoption("markexpr")
    if collection_path.suffix != ".py" or "not (" in expression:
        return None
    excluded = set(re.findall(r"not (\w+)", expression))
    asked = set(re.findall(r"\w+", re.sub(r"not \w+|\b(and|or)\b", "", expression)))
    if excluded & _marks(collection_path):
        return True
    if not asked or "exhaustive" in asked or not collection_path.name.startswith("test_"):
        return None
    return None if asked & {*_words(collection_path), *_marks(collection_path)} else True


@functools.cache
def _words(file: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", file.read_text()))


@functools.cache
def _marks(file: Path) -> frozenset[str]:
    """Return the marks that a file gives all of its tests."""
    if file.is_relative_to(REPO / "tests" / "lab"):
        return frozenset({"lab"})
    match = re.search(r"^pytestmark = (\[[^]]*\]|.*)", file.read_text(), re.MULTILINE)
    return frozenset(re.findall(r"mark\.(\w+)", match[1] if match else ""))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything under tests/lab as `lab`, put the costly suites last, `last` behind all.

    A `long` test runs first, so that nothing waits for it alone.
    """
    for item in items:
        if item.path.is_relative_to(REPO / "tests" / "lab"):
            item.add_marker("lab")

    def cost(item: pytest.Item) -> int:
        marks = {mark.name for mark in item.iter_markers()}
        if unnamed := marks & set(ORDER) - {"lab"} - _words(item.path):
            raise pytest.UsageError(f"{item.path} does not name its mark {', '.join(unnamed)}")
        if "long" in marks:
            return -1
        return max((rank for rank, mark in enumerate(ORDER, 1) if mark in marks), default=0)

    items.sort(key=cost)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep a file's tests on one worker where they share a fixture, and spread all others."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return file if _shares(config.rootpath / file) else nodeid

    return Scheduling(config, log)


@functools.cache
def _shares(file: Path) -> bool:
    text = file.read_text()
    return 'scope="module"' in text or "own_plane" in text


@pytest.fixture(scope="session")
def repo() -> Path:
    """The checkout's root."""
    return REPO


@pytest.fixture(scope="session")
def shared() -> Path:
    """Material beside the checkout (recorded logs); skips where it is absent."""
    directory = REPO.parent / "shared"
    if not directory.is_dir():
        pytest.skip("../shared is not beside this checkout")
    return directory


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """One control plane for all of a worker's tests on the engine; skips without its binaries."""
    yield from _plane(tmp_path_factory)


@pytest.fixture(scope="session")
def judging_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A second control plane for tests of admission: it keeps the definitions that they need."""
    yield from _plane(tmp_path_factory)


@pytest.fixture(scope="module")
def own_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A module's own, where another's looser definitions of the same kinds would judge nothing."""
    yield from _plane(tmp_path_factory)


def _plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    results = {name: locate(name) for name in PROGRAMS}
    missing = [name for name, path in results.items() if path is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: set RAILHEAD_TEST_BIN or run `railhead lab build`")
    plane = ControlPlane(
        tmp_path_factory.mktemp("control-plane"),
        {name: path for name, path in results.items() if path is not None},
    )
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
