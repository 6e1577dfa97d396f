"""Plans of a project's stacks, with their contracts and warnings, and what a pack reports of them.

A project's stacks are planned in one process of their own, by Pulumi's SDK without the engine
(:mod:`railhead.lab.recorders.offline`), and judged in another, by the judge's own pack. The engine
plans what that leaves open.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from railhead.base.errors import InputError, PrerequisiteError, RailheadError
from railhead.config.files import stack_name
from railhead.contract import ClusterContract
from railhead.lab import planning
from railhead.lab.planning import Violation
from railhead.lab.recorders import judging, offline
from railhead.lab.recorders.workspace import policy_pack, workspace


@dataclass(frozen=True, kw_only=True)
class StackPlan:
    """A stack's file and its plan. ``failed`` says why it could not be planned, if so.

    ``requests`` are what a policy pack is shown of it; None where the engine planned it. ``cause``
    is the engine's error.
    """

    file: Path
    plan: planning.Plan | None = None
    contract: ClusterContract | None = None
    cluster: Mapping[str, Any] = field(default_factory=dict)
    gpus: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()
    failed: str = ""
    cause: RailheadError | None = None
    requests: tuple[str, ...] | None = None


def _quiet(_text: str) -> None:
    """Show no progress."""


def plan(
    file: Path, *, policies: bool = True, progress: Callable[[str], None] = _quiet
) -> planning.Plan:
    """Plan the stack of ``file`` as at a first preview, and have its project's pack judge the plan.

    Args:
        file: the stack's file; the project around it has the program.
        policies: whether the pack judges the plan.
        progress: called with a line that says how far it is.

    Raises:
        NotFoundError: the file is in no project.
        InputError: the project's Railhead finds mistakes in the file.
        PrerequisiteError: only the engine can plan it, and there is no `pulumi`.
        RailheadError: the program failed, or the pack could not be asked.
    """
    checkout, started = planning.checkout_of(file), time.monotonic()
    stack = stack_plans([file], code=checkout, progress=progress)[file]
    if stack.cause is not None:
        raise stack.cause
    if stack.mistakes:
        raise InputError("\n".join(stack.mistakes), remedy="mend the lines of the stack's file")
    if stack.plan is None:
        raise RailheadError(
            f"the preview of {stack_name(file)} failed:\n{stack.failed}",
            remedy="mend what it names; `railhead config check` finds mistakes in the file",
        )
    reported = violations([stack], checkout, progress=progress)[file] if policies else ()
    return replace(
        stack.plan, violations=reported, judged=policies, seconds=time.monotonic() - started
    )


def stack_plans(
    files: Sequence[Path], *, code: Path, progress: Callable[[str], None] = _quiet
) -> dict[Path, StackPlan]:
    """Plan stacks' files, those that are there, with the code of the checkout ``code``."""
    there = [file for file in files if file.is_file()]
    if not there:
        return {}
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="railhead-plan-") as name:
        folder = Path(name)
        # By name: a stack that a pull request adds moves no other's folder, which values name.
        stacks = [_laid(folder / stack_name(file), file, code) for file in there]
        marks = [Path(stack["progress"]) for stack in stacks]
        printed = _run(
            offline.__file__,
            [],
            stacks,
            code,
            lambda: progress(f"planning: {_length(marks)} resources ..."),
        )
        seconds = (time.monotonic() - started) / max(len(there), 1)
        return {
            file: _planned(file, _read(stack["result"], printed), seconds, progress)
            for file, stack in zip(there, stacks, strict=True)
        }


def _laid(folder: Path, file: Path, code: Path) -> dict[str, Any]:
    """Lay out a stack's folder, and return what :mod:`offline` reads of it."""
    folder.mkdir()
    name = stack_name(file)
    stack: dict[str, Any] = {
        "name": name,
        "project": yaml.safe_load((code / "Pulumi.yaml").read_text())["name"],
        "file": str(file),
        "result": str(folder / "result.json"),
        "progress": str(folder / "progress"),
    }
    try:
        laid = workspace(folder, checkout=code, stack=name, file=file, pulumi=Path("pulumi"))
    except Exception:  # noqa: BLE001 - a file that is no stack's: its facts say so
        return stack | {"folder": str(code), "environment": dict(os.environ), "config": None}
    config = yaml.safe_load(laid.stack_file.read_text())["config"]
    environment = dict(laid.environment)
    return stack | {"folder": str(laid.project), "environment": environment, "config": config}


def _run(
    script: str,
    words: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    code: Path,
    tick: Callable[[], None],
) -> str:
    """Run a script with a checkout's code on rows, and return what it printed if it failed."""
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as printed:
        json.dump(rows, given)
        given.seek(0)
        process = subprocess.Popen(
            [sys.executable, script, *words],
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=printed,
            env={**os.environ, "PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=code,
        )
        if not planning.ends(process, tick):
            return f"it did not end within {planning.LIMIT_S:.0f} s"
        printed.seek(0)
        return printed.read().strip() if process.returncode else ""


def _length(marks: Sequence[Path]) -> int:
    """Return how many resources were reached: a byte was written for each."""
    return sum(mark.stat().st_size for mark in marks if mark.exists())


def _read(result: str, printed: str) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(Path(result).read_text())
    except (OSError, ValueError):
        return {"broken": (printed.splitlines() or ["it ended without a result"])[-1]}
    return content


def _planned(
    file: Path, result: dict[str, Any], seconds: float, progress: Callable[[str], None]
) -> StackPlan:
    if "contract" not in result:
        if mistakes := result.get("mistakes"):
            return StackPlan(file=file, mistakes=tuple(mistakes))
        return StackPlan(file=file, failed=result.get("broken", "it could not be read"))
    facts = StackPlan(
        file=file,
        contract=ClusterContract.from_json(json.dumps(result["contract"]), where=str(file)),
        cluster=result["cluster"],
        gpus=result["gpus"],
        warnings=tuple(result["warnings"]),
    )
    if "states" in result:
        plan = _plan(stack_name(file), result["states"], seconds)
        return replace(facts, plan=plan, requests=tuple(result["requests"]))
    if failed := result.get("failed"):
        return replace(facts, failed=f"its program failed:\n{failed[-2000:]}")
    planned = by_engine(facts, pack_of=None, progress=progress)
    if isinstance(planned.cause, PrerequisiteError):
        why = str(result.get("unanswered", ""))[-2000:].strip()
        cause = PrerequisiteError(f"{planned.failed}:\n{why}", remedy=planned.cause.remedy)
        return replace(planned, failed=cause.problem, cause=cause)
    return planned


def _plan(stack: str, states: Mapping[str, Any], seconds: float) -> planning.Plan:
    steps = [
        {**state, "op": "read" if state.get("external") else "create"} for state in states.values()
    ]
    return planning.Plan(
        stack=stack,
        resources=planning.tree(steps),
        violations=(),
        judged=False,
        seconds=seconds,
        states=states,
    )


def by_engine(
    facts: StackPlan, *, pack_of: Path | None, progress: Callable[[str], None] = _quiet
) -> StackPlan:
    """Return the facts with the plan that the engine makes of their file."""
    plan, failed, cause = None, "", None
    try:
        plan = planning.plan(
            stack_name(facts.file),
            facts.file,
            progress=lambda reached: progress(f"planning: {reached} resources ..."),
            policies=pack_of is not None,
            pack_of=pack_of,
        )
        if not plan.states:
            failed = "the engine printed no plan that can be compared"
    except RailheadError as error:
        failed, cause = error.problem, error
    return replace(facts, plan=plan, failed=failed, cause=cause, requests=None)


def violations(
    of: Sequence[StackPlan], judge: Path, *, progress: Callable[[str], None] = _quiet
) -> dict[Path, tuple[Violation, ...]]:
    """Return what the pack of the checkout ``judge`` reports of each stack that has a plan.

    Raises:
        RailheadError: the pack could not be asked, and the engine could not ask it either.
    """
    planned = [stack for stack in of if stack.plan is not None]
    asked = [stack for stack in planned if stack.requests is not None]
    reported = _asked_of_pack(asked, judge, progress)
    return {
        stack.file: reported[stack.file]
        if stack.file in reported
        else _asked_of_engine(stack, judge, progress)
        for stack in planned
    }


def _asked_of_pack(
    of: Sequence[StackPlan], judge: Path, progress: Callable[[str], None]
) -> dict[Path, tuple[Violation, ...]]:
    """Return what the pack reports of stacks with requests, without those it could not judge."""
    if not of:
        return {}
    with tempfile.TemporaryDirectory(prefix="railhead-judge-") as name:
        folder = Path(name)
        rows = [_row(stack, folder / str(number)) for number, stack in enumerate(of)]
        marks = [Path(row["progress"]) for row in rows]
        count = sum(len(stack.requests or ()) for stack in of)
        printed = _run(
            judging.__file__,
            [str(policy_pack(folder, judge))],
            rows,
            judge,
            lambda: progress(f"judging: {_length(marks)} of {count} resources ..."),
        )
        results = [_read(row["result"], printed) for row in rows]
    return {
        stack.file: tuple(Violation(**row) for row in result["violations"])
        for stack, result in zip(of, results, strict=True)
        if "violations" in result
    }


def _row(stack: StackPlan, path: Path) -> dict[str, str]:
    """Write what :mod:`judging` reads of a plan, and return where that and its result are."""
    plan = path.with_suffix(".json")
    plan.write_text(json.dumps({"requests": stack.requests}))
    return {
        "plan": str(plan),
        "result": str(path.with_suffix(".result.json")),
        "progress": str(path.with_suffix(".progress")),
    }


def _asked_of_engine(
    stack: StackPlan, judge: Path, progress: Callable[[str], None]
) -> tuple[Violation, ...]:
    engine = by_engine(stack, pack_of=judge, progress=progress)
    if engine.plan is None:
        raise RailheadError(
            f"the policy pack did not judge {stack.file.name}: {engine.failed}",
            remedy="run `pulumi preview --policy-pack` with it, and mend what it names",
        )
    return engine.plan.violations
