"""Finds which tests run which line of some files, measured once for equal sources.

A line that is run while modules are imported or tests collected, or by what tests share (a cached
function, a fixture that outlives a test), shows in whichever test comes first, and matters to the
others as much: all of them count as running it, or all of the module whose fixture it is.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import coverage
import pytest

REPO = Path(__file__).resolve().parents[1]
#: Contexts of what is run for more than one test; coverage's own is that of imports.
_ALL = ""
_MODULE = "module "


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The lines that each test runs, as measured."""

    #: Test -> what it took, in seconds; in the order in which they were run.
    seconds: dict[str, float]
    #: File -> line -> places in ``seconds`` of the tests that run it, -1 for all of them.
    run: dict[str, dict[str, list[int]]]

    def tests(self, file: str, line: int) -> list[str]:
        """Return the tests that run a line's statement: its own, then shared ones, by time."""
        names = list(self.seconds)
        of_file = self.run.get(file, {})
        results = {index for each in statement(file, line) for index in of_file.get(str(each), ())}
        own = results - {-1}
        if -1 in results:
            own |= {index for indices in of_file.values() for index in indices} - {-1}
        others = set(range(len(names))) - own if -1 in results else set()
        return [
            name
            for group in (own, others)
            for name in sorted((names[index] for index in group), key=self.seconds.__getitem__)
        ]


def statement(file: str, line: int) -> set[int]:
    """Return the lines of the innermost statement around a line, without statements in it."""
    results: set[int] = set()
    for node in ast.walk(ast.parse((REPO / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.stmt) and line in (own := _own(node)):
            results = own
    return results


def _own(node: ast.stmt) -> set[int]:
    inner = (each for each in ast.walk(node) if isinstance(each, ast.stmt) and each is not node)
    return _span(node).difference(*map(_span, inner))


def _span(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


class _Contexts:
    """Tells coverage for which test lines are run, and times each test."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self.measured = measured
        self.now = _ALL
        self.seconds: dict[str, float] = {}

    @contextmanager
    def within(self, context: str) -> Iterator[None]:
        """Count lines for this context until it ends."""
        before, self.now = self.now, context
        self.measured.switch_context(context)
        try:
            yield
        finally:
            self.now = before
            self.measured.switch_context(before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        start = time.monotonic()
        with self.within(item.nodeid):
            result = yield
        self.seconds[item.nodeid] = time.monotonic() - start
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        module = request.node.nodeid.partition("::")[0]
        with self.within(f"{_MODULE}{module}" if fixturedef.scope in ("module", "class") else _ALL):
            return (yield)

    def caching(self, maxsize: Any = 128, typed: bool = False) -> Any:
        """Replace ``functools.lru_cache``: what it keeps counts as run by all tests."""
        if callable(maxsize):
            return self.caching()(maxsize)

        def decorated(function: Callable[..., Any]) -> Any:
            @functools.wraps(function)
            def shared(*args: Any, **kwargs: Any) -> Any:
                with self.within(_ALL):
                    return function(*args, **kwargs)

            return _LRU_CACHE(maxsize=maxsize, typed=typed)(shared)

        return decorated


_LRU_CACHE = functools.lru_cache


def measure(files: Collection[str], tests: Sequence[str]) -> tuple[int, Lines]:
    """Run the tests in this process, which has imported none of the files; how they ended."""
    measured = coverage.Coverage(
        data_file=None, config_file=False, include=[str(REPO / file) for file in files]
    )
    contexts = _Contexts(measured)
    functools.lru_cache = contexts.caching
    measured.start()
    ended = int(pytest.main(list(tests), plugins=[contexts]))
    measured.stop()
    return ended, Lines(seconds=contexts.seconds, run=_run(measured, list(contexts.seconds)))


def _run(measured: coverage.Coverage, names: list[str]) -> dict[str, dict[str, list[int]]]:
    places: dict[str, list[int]] = {_ALL: [-1]}
    for index, name in enumerate(names):
        places[name] = [index]
        places.setdefault(f"{_MODULE}{name.partition('::')[0]}", []).append(index)
    data = measured.get_data()
    return {
        str(Path(file).relative_to(REPO)): {
            str(line): sorted(
                {index for context in contexts for index in places.get(context, [-1])}
            )
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        for file in sorted(data.measured_files())
    }


def sources() -> str:
    """Return a digest of the checkout as it is."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPO, capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    digest = hashlib.sha256()
    for name in listed.split("\0"):
        if (REPO / name).is_file():
            digest.update(f"{name}\0".encode() + (REPO / name).read_bytes())
    return digest.hexdigest()


def read(path: Path) -> Lines | None:
    """Return the measurement of the sources as they are; None if nothing was measured."""
    if not path.is_file():
        return None
    result = json.loads(path.read_text(encoding="utf-8"))
    return Lines(**result["lines"]) if result["sources"] == sources() else None


def write(path: Path, lines: Lines) -> None:
    """Write the measurement for :func:`read`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    results = {"sources": sources(), "lines": asdict(lines)}
    path.write_text(json.dumps(results), encoding="utf-8")
