"""Finds one-line mistakes that the quick tests would miss: a sampled mutation run.

    python tools/mutants.py --sample 120 --seed 7 components railhead/launch

A mutant is a file with one expression changed: an entry of a dict or a list, or an argument, left
out; a comparison, a condition or a flag turned round; a number or a text made another. Those tests
of its place (`PLACES`) are run on it that run its line, as `tools/lines.py` measured once
(`build/mutants` keeps it while no source changes), soonest first; the first failure ends them, and
what no test fails on is printed with its line. Equal seeds choose equal mutants of equal sources.

A program that travels to pods as text (`PROGRAMS`) is run by tests as a process of its own, which
nothing measures: tests of modules that name it are run on it, and the text that they read is the
mutant's.

Why it is not a library: mutmut (3.8) runs from a copy of the sources in a folder of its own, where
the tests that read `stacks`, `docs` and `tools` beside them find none, and cosmic-ray (8.7) writes
each mutant over the file in the working tree and starts a new interpreter for it, whose imports
alone take longer here than most of the tests. This one changes the module while it is imported, in
a fork of a process that has imported everything else: the working tree is never written to.

What no run could tell from the original is no mutant: how a terminal draws a table (`_DRAWN`), an
argument that says what is the default anyway (`check=False`, `strict=False`), whether `zip` looks
at lengths that are equal (`strict=True`), whether a thread outlives the process (`daemon`), a
second more where something waits or asks again (`*_SECONDS`, `*seconds=`, `timeout=`), whether a
moment is before a time or at it (`time.monotonic() >`), and a place in an order that has gaps
(`ORDER`). Texts with a space in them are for people; those that users act on, errors and their
remedies, are tested where they are raised.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from tools import lines

if TYPE_CHECKING:
    import pytest

REPO = Path(__file__).resolve().parents[1]

#: Tests that hold all that is made, or said, at once.
SNAPSHOTS = (
    "test_inputs_and_options_are_those_of_the_snapshot",
    "test_what_no_shipped_stack_says_makes_what_it_made",
    "test_jobs_are_explained_and_sent_as_they_were",
    "test_commands_say_what_they_said",
)


def _made(*stacks: str, variants: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the snapshots of all that these stacks and variants make."""
    file = "tests/components/test_example_stacks.py"
    for test, names in zip(SNAPSHOTS, (stacks, variants), strict=False):
        yield from (f"{file}::{test}[{name}]" for name in names)


#: Path -> its tests, those that fail soonest first; the longest path that fits counts.
PLACES: dict[str, tuple[str, ...]] = {
    "railhead/launch": ("tests/unit/launch", "tests/unit/framework/test_wiring.py"),
    "components": (
        *_made("lab", "aws-p5en-block", variants=("existing", "volcano", "whole-nics", "dranet")),
        "tests/components/test_what_must_hold.py",
        "tests/components/test_training_cluster.py",
        "tests/components/test_names.py",
        "tests/components/test_fences.py",
        "tests/components/test_last_update.py",
        "tests/components/test_whole.py",
    ),
    "components/fabric": (
        *_made(
            *("lab", "onprem-ib-sriov", "onprem-roce-shared"),
            variants=("volcano", "whole-nics", "ipoib", "dranet", "existing", "aws-dra"),
        ),
        "tests/components/test_fabric_objects.py",
        "tests/components/test_fabric_cases.py",
        "tests/components/test_what_must_hold.py",
    ),
    "components/fabric/gke.py": (
        "tests/components/test_gcp.py",
        *_made("gcp-a3-mega", "gcp-a3-ultra", variants=("gcp", "gcp-dranet")),
        "tests/components/test_whole.py",
    ),
    "components/program.py": (
        *_made(variants=("existing",)),
        "tests/components/test_watching.py",
        "tests/components/test_whole.py",
    ),
    "components/watching": (
        *_made(variants=("existing", "volcano")),
        "tests/components/test_watching.py",
        "tests/components/test_whole.py",
        "tests/components/test_names.py",
        "tests/components/test_what_must_hold.py",
    ),
    "components/guards": (
        "tests/components/test_what_must_hold.py",
        "tests/components/test_node_gate.py",
        "tests/components/test_gate_cases.py",
        *_made("lab", "onprem-ib-sriov", variants=("existing",)),
        "tests/components/test_whole.py",
        "tests/components/test_training_cluster.py",
    ),
    "components/namespaces": (
        *_made("lab", "aws-p5en-block", variants=("volcano", "whole-nics", "dranet")),
        "tests/components/test_what_must_hold.py",
        "tests/components/test_training_cluster.py",
        "tests/components/test_network_policies.py",
        "tests/components/test_fences.py",
        "tests/components/test_names.py",
    ),
    "components/aws": (
        *_made("aws-p5-prod", "aws-p5en-block", variants=("aws", "aws-dra")),
        "tests/components/test_aws.py",
        "tests/components/test_aws_order.py",
        "tests/components/test_aws_fields.py",
        "tests/components/test_aws_requests.py",
    ),
    "components/gcp": (
        *_made("gcp-a3-mega", "gcp-a3-ultra", variants=("gcp", "gcp-dranet")),
        "tests/components/test_gcp.py",
        "tests/components/test_gcp_order.py",
        "tests/components/test_gcp_requests.py",
    ),
}
#: What takes longer hangs: on a busy machine, this and so many times what its tests take unchanged.
LIMIT_S = 120
SLOWER = 4
#: What pods are given as text. What is snapshotted with its digest says nothing of what it does.
PROGRAMS = "railhead/launch/programs/"
DIGESTED = ("test_jobs_are_explained_and_sent_as_they_were",)
#: Imported once, before any fork: of the checkout's own only what imports nothing of the place.
HEAVY = ("pytest", "yaml", "pydantic", "hypothesis", "jsonschema", "httpx", "typer", "rich")
HEAVY_OF = {
    "railhead/launch": (
        *("railhead.config", "railhead.kube.jobs", "railhead.storage.claims"),
        *("pulumi", "railhead.resolve.cluster", "railhead.lab.artifacts", "httpcore"),
    ),
    "components": (
        *("pulumi", "pulumi_kubernetes", "pulumi_aws", "pulumi_gcp"),
        *("railhead.resolve.cluster", "railhead.config"),
    ),
    "components/aws": ("botocore",),
    "components/gcp": ("googleapiclient",),
}

#: What is said to people, or drawn for them.
_SAID = ("help", "metavar", "remedy", "reason", "source", "encoding")
_DRAWN = ("box", "folded", "header_style", "no_wrap", "overflow", "pad_edge", "style")
_DEFAULTS = {"check": False, "strict": False, "daemon": True}

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change: the ``index``-th that a file offers."""

    file: str
    index: int
    line: int
    what: str


class _Changes(ast.NodeVisitor):
    """Finds, and with ``wanted`` makes, the changes of a tree in a fixed order."""

    def __init__(self, wanted: int | None = None) -> None:
        self.found: list[tuple[int, str]] = []
        self.wanted = wanted

    def _offer(self, node: ast.AST, what: str) -> bool:
        self.found.append((getattr(node, "lineno", 0), what))
        return len(self.found) - 1 == self.wanted

    # What is said to people, or to the type checker, is no behaviour.
    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d)):
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_Raise(self, node: ast.Raise) -> None:
        del node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                self.visit(value.value)

    def visit_Import(self, node: ast.Import) -> None:
        del node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        del node

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        # Of a type, a slice says nothing at run time.
        if not (isinstance(node.value, ast.Name) and node.value.id[:1].isupper()):
            self.visit(node.slice)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [t.id for t in node.targets if isinstance(t, ast.Name)]
        waits = any(name.endswith("_SECONDS") for name in names) and isinstance(
            node.value, ast.Constant
        )
        if not waits and not {"__all__", "ORDER"} & set(names):
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        if self._offer(node.test, "the condition turned round"):
            node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
            return
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if isinstance(node.value, ast.Call) and self._offer(node, "the call left out"):
            node.value = ast.copy_location(ast.Constant(value=None), node.value)
            return
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for index, op in enumerate(node.ops):
            if isinstance(op, _ORDERS) and any(map(_clock, (node.left, *node.comparators))):
                continue
            other = _COMPARED[type(op)]
            if self._offer(node, f"{type(op).__name__} for {other.__name__}"):
                node.ops[index] = other()
                return
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        if self._offer(node, "`and` and `or` swapped"):
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            return
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for index, key in enumerate(node.keys):
            name = ast.unparse(key) if key is not None else f"**{ast.unparse(node.values[index])}"
            if self._offer(node.values[index], f"entry {name[:60]} left out"):
                del node.keys[index], node.values[index]
                return
        self.generic_visit(node)

    def _elements(self, node: ast.List | ast.Tuple | ast.Set) -> None:
        if isinstance(getattr(node, "ctx", None), ast.Store):
            return
        for index, element in enumerate(node.elts):
            # A set display cannot be empty, and a pair is taken apart by position.
            leaves_some = isinstance(node, ast.List) or len(node.elts) > 1
            if isinstance(node, ast.Tuple) or not leaves_some:
                continue
            if self._offer(element, f"element {ast.unparse(element)[:60]} left out"):
                del node.elts[index]
                return
        self.generic_visit(node)

    visit_List = visit_Tuple = visit_Set = _elements  # noqa: N815 - ast's names

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id == "zip":
            for argument in node.args:
                self.visit(argument)
            return
        for index, keyword in enumerate(node.keywords):
            if keyword.arg in (*_SAID, *_DRAWN) or _default(keyword):
                continue
            if keyword.arg and self._offer(keyword.value, f"argument {keyword.arg} left out"):
                del node.keywords[index]
                return
        self.visit(node.func)
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg not in (*_SAID, *_DRAWN) and not _waits(keyword):
                self.visit(keyword.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            if self._offer(node, f"{not value} for {value}"):
                node.value = not value
        elif isinstance(value, int):
            if self._offer(node, f"{value + 1} for {value}"):
                node.value = value + 1
        # With a space in it a text is for people.
        elif isinstance(value, str) and value and " " not in value:  # noqa: SIM102 - as above
            if self._offer(node, f"another text for {value!r}"[:90]):
                node.value = f"{value}x"


_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def _clock(node: ast.expr) -> bool:
    return any(
        isinstance(each, ast.Attribute) and each.attr == "monotonic" for each in ast.walk(node)
    )


def _default(keyword: ast.keyword) -> bool:
    value = keyword.value
    return isinstance(value, ast.Constant) and value.value is _DEFAULTS.get(keyword.arg or "", ...)


def _waits(keyword: ast.keyword) -> bool:
    named = (keyword.arg or "").endswith(("seconds", "timeout"))
    return named and isinstance(keyword.value, ast.Constant)


def mutants(file: Path) -> list[Mutant]:
    """Return every change that a file offers."""
    changes = _Changes()
    changes.visit(ast.parse(file.read_text(encoding="utf-8")))
    name = str(file.relative_to(REPO))
    return [
        Mutant(file=name, index=index, line=line, what=what)
        for index, (line, what) in enumerate(changes.found)
    ]


def changed(mutant: Mutant) -> ast.Module:
    """Return the file's tree with the change made."""
    tree = ast.parse((REPO / mutant.file).read_text(encoding="utf-8"))
    before = ast.dump(copy.deepcopy(tree))
    _Changes(mutant.index).visit(tree)
    if ast.dump(tree) == before:
        raise RuntimeError(f"{mutant} changes nothing")
    return ast.fix_missing_locations(tree)


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module another tree than its file has."""

    def __init__(self, module: str, file: Path, tree: ast.Module) -> None:
        self.module, self.file, self.tree = module, file, tree

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the module's spec with this loader; None for every other."""
        del path, target
        if fullname != self.module:
            return None
        package = [str(self.file.parent)] if self.file.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            fullname, self.file, loader=self, submodule_search_locations=package
        )

    def exec_module(self, module: ModuleType) -> None:
        """Run the changed tree."""
        exec(compile(self.tree, str(self.file), "exec"), module.__dict__)  # noqa: S102


def place(file: str) -> str:
    """Return the row of :data:`PLACES` that a file belongs to."""
    fits = [p for p in PLACES if file == p or file.startswith(f"{p}/")]
    if not fits:
        raise SystemExit(f"{file} has no tests in PLACES of tools/mutants.py")
    return max(fits, key=len)


def _heavy(file: str) -> Iterator[str]:
    yield from HEAVY
    for start, modules in HEAVY_OF.items():
        if file.startswith(start):
            yield from modules


class _Chosen:
    """Runs some tests in the order in which they are given, and no other that was measured."""

    def __init__(self, tests: Sequence[str], measured: Mapping[str, float]) -> None:
        self.rank = {name: rank for rank, name in enumerate(tests)}
        self.measured = measured

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # A name that the mutant itself gave is new.
        items[:] = [i for i in items if i.nodeid in self.rank or i.nodeid not in self.measured]
        items.sort(key=lambda item: self.rank.get(item.nodeid, -1))


def _of_text(file: str, measured: lines.Lines) -> list[str]:
    """Return the tests of modules that name a program, or are named for it, soonest first."""
    word = Path(file).stem

    def names(module: str) -> bool:
        text = (REPO / module).read_text(encoding="utf-8")
        return word in Path(module).stem or re.search(rf"(?<![a-z]){word}\b", text) is not None

    of = {
        module for module in {name.partition("::")[0] for name in measured.seconds} if names(module)
    }
    tests = [name for name in measured.seconds if name.partition("::")[0] in of]
    return sorted(
        (name for name in tests if name.rpartition("::")[2] not in DIGESTED),
        key=measured.seconds.__getitem__,
    )


def _tests_of(mutant: Mutant, measured: lines.Lines) -> list[str]:
    """Return the tests to run on a mutant; nothing if no test runs its line."""
    if mutant.file.startswith(PROGRAMS):
        return _of_text(mutant.file, measured)
    return measured.tests(mutant.file, mutant.line)


def _module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


_OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
_MARKED = ("-m", "not lab and not controlplane")


def _read_as(file: Path, tree: ast.Module) -> None:
    """Make all that reads a program's text read this one's."""
    text, whole = ast.unparse(tree), Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        return text.encode() if path == file else whole(path)

    def read_text(path: Path, encoding: str | None = None, errors: str | None = None) -> str:
        return read_bytes(path).decode(encoding or "utf-8", errors or "strict")

    Path.read_bytes, Path.read_text = read_bytes, read_text  # type: ignore[assignment, method-assign]


def _judge(mutant: Mutant, tests: Sequence[str], measured: lines.Lines) -> int:
    """Run tests on a mutant in this process; 0 where all pass."""
    import pytest

    file, tree = REPO / mutant.file, changed(mutant)
    sys.meta_path.insert(0, _Loader(_module(mutant.file), file, tree))
    if mutant.file.startswith(PROGRAMS):
        _read_as(file, tree)
    chosen = _Chosen(tests, measured.seconds)
    asked = _asked(PLACES[place(mutant.file)], tests)
    return int(pytest.main([*_OPTIONS, *_MARKED, *asked], plugins=[chosen]))


def _asked(row: Sequence[str], tests: Sequence[str]) -> Iterator[str]:
    """Yield the tests' modules, or what the row names of a module where that is not all of it."""
    for module in dict.fromkeys(name.partition("::")[0] for name in tests):
        named = [item for item in row if item.startswith(f"{module}::")]
        yield from named or [module]


def _started(work: Callable[[], int]) -> int:
    """Return a process of its own, without a voice, that ends with what the work returns."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = "/dev/null"
        status = 1
        try:
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            status = work()
        finally:
            os._exit(status)
    return child


def _measured(row: str) -> lines.Lines | None:
    """Return which of a row's tests run which line; None if they fail without any change."""
    kept = REPO / "build" / "mutants" / f"{row.replace('/', '-')}.json"
    if (match := lines.read(kept)) is not None:
        return match
    of_row = [REPO / row] if row.endswith(".py") else (REPO / row).rglob("*.py")
    files = [str(file.relative_to(REPO)) for file in of_row]

    def work() -> int:
        ended, result = lines.measure(
            [file for file in files if place(file) == row], [*_OPTIONS, *_MARKED, *PLACES[row]]
        )
        lines.write(kept, result)
        return ended

    start = time.monotonic()
    _, status = os.waitpid(_started(work), 0)
    print(f"{row}: its tests take {time.monotonic() - start:.0f} s unchanged", flush=True)
    if os.waitstatus_to_exitcode(status):
        kept.unlink(missing_ok=True)
        return None
    return lines.read(kept)


@dataclass(kw_only=True)
class _Run:
    """Mutants, each in a process, so many at a time."""

    measured: Mapping[str, lines.Lines]
    parallel: int
    ended: dict[Mutant, str] = field(default_factory=dict)
    running: dict[int, tuple[Mutant, float, float]] = field(default_factory=dict)

    def all(self, chosen: Sequence[Mutant]) -> dict[Mutant, str]:
        """Return the end of each mutant.

        It is ``caught``, ``caught by time``, ``survived`` or ``run by no test``.
        """
        todo = list(chosen)
        while todo or self.running:
            while todo and len(self.running) < self.parallel:
                self._start(todo.pop(0))
            time.sleep(0.05)
            for child in list(self.running):
                self._look(child)
        return self.ended

    def _start(self, mutant: Mutant) -> None:
        measured = self.measured[place(mutant.file)]
        tests = _tests_of(mutant, measured)
        now = time.monotonic()
        if not tests:
            self._say(mutant, "run by no test", now)
            return
        limit = LIMIT_S + SLOWER * sum(measured.seconds[name] for name in tests)
        child = _started(lambda: _judge(mutant, tests, measured))
        self.running[child] = (mutant, now, now + limit)

    def _look(self, child: int) -> None:
        mutant, start, limit = self.running[child]
        result, status = os.waitpid(child, os.WNOHANG)
        if not result and time.monotonic() < limit:
            return
        if result:
            passed = os.waitstatus_to_exitcode(status) == 0
            ended = "survived" if passed else "caught"
        else:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            ended = "caught by time"
        del self.running[child]
        self._say(mutant, ended, start)

    def _say(self, mutant: Mutant, ended: str, start: float) -> None:
        self.ended[mutant] = ended
        print(
            f"{len(self.ended)} {ended:14} {time.monotonic() - start:5.1f} s "
            f"{mutant.file}:{mutant.line}: {mutant.what}",
            flush=True,
        )


def main() -> int:
    """Print what survives; exit 1 where that is more than ``--at-most`` per cent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", default=["components", "railhead/launch"])
    parser.add_argument("--sample", type=int, default=100, help="how many mutants; 0 is all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--at-most", type=float, default=5.0, help="per cent that may survive")
    parser.add_argument("--json", type=Path, help="also write what happened here")
    given = parser.parse_args()
    files = sorted(
        file
        for path in given.paths
        for file in ([REPO / path] if path.endswith(".py") else (REPO / path).rglob("*.py"))
    )
    every = [mutant for file in files for mutant in mutants(file)]
    chosen = every
    if given.sample and given.sample < len(every):
        chosen = random.Random(given.seed).sample(every, given.sample)  # noqa: S311 - no secret
    os.chdir(REPO)
    sys.path.insert(0, str(REPO))
    sys.dont_write_bytecode = True
    for name in {name for mutant in chosen for name in _heavy(mutant.file)}:
        importlib.import_module(name)
    if early := {_module(mutant.file) for mutant in chosen} & set(sys.modules):
        raise SystemExit(f"HEAVY of tools/mutants.py imports {', '.join(sorted(early))}")
    measured = {}
    for row in sorted({place(mutant.file) for mutant in chosen}):
        if (result := _measured(row)) is None:
            print(f"the tests of {row} fail without any change: {', '.join(PLACES[row])}")
            return 2
        measured[row] = result
    ended = _Run(measured=measured, parallel=given.parallel).all(
        sorted(chosen, key=lambda m: (m.file, m.index))
    )
    survived = [m for m, end in ended.items() if end in ("survived", "run by no test")]
    share = 100 * len(survived) / max(len(ended), 1)
    print(f"{len(ended)} of {len(every)} mutants, seed {given.seed}: {share:.1f} % survived")
    for mutant in survived:
        print(f"  {mutant.file}:{mutant.line}: {mutant.what} ({ended[mutant]})")
    if given.json:
        rows = [vars(mutant) | {"ended": end} for mutant, end in ended.items()]
        given.json.write_text(json.dumps(rows, indent=1))
    return 1 if share > given.at_most else 0


if __name__ == "__main__":
    sys.exit(main())
