"""One side of a pull request: the plans of its stacks, their contracts and their warnings.

A checkout's stacks are planned in one process of their own, by Pulumi's SDK without the engine
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from railhead.base.errors import RailheadError
from railhead.config.files import stack_name
from railhead.contract import ClusterContract
from railhead.lab import planning
from railhead.lab.planning import PlannedResource, Violation
from railhead.lab.recorders import judging, offline
from railhead.lab.recorders.workspace import policy_pack, workspace


@dataclass(frozen=True, kw_only=True)
class Side:
    """A stack as one side has it. ``failed`` says why it could not be planned, if so.

    ``requests`` are what a policy pack is shown of it; None where the engine planned it.
    """

    file: Path
    plan: planning.Plan | None = None
    contract: ClusterContract | None = None
    cluster: Mapping[str, Any] = field(default_factory=dict)
    gpus: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()
    failed: str = ""
    requests: tuple[str, ...] | None = None


def sides(files: Sequence[Path], *, code: Path) -> dict[Path, Side]:
    """Plan stacks' files, those that are there, with the code of the checkout ``code``."""
    there = [file for file in files if file.is_file()]
    if not there:
        return {}
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="railhead-plan-") as name:
        folder = Path(name)
        # By name: a stack that a pull request adds moves no other's folder, which values name.
        stacks = [_laid(folder / stack_name(file), file, code) for file in there]
        printed = _run(offline.__file__, [], stacks, code)
        seconds = (time.monotonic() - started) / max(len(there), 1)
        return {
            file: _side(file, _read(stack["result"], printed), seconds)
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
    }
    try:
        laid = workspace(folder, checkout=code, stack=name, file=file, pulumi=Path("pulumi"))
    except Exception:  # noqa: BLE001 - a file that is no stack's: its facts say so
        return stack | {"folder": str(code), "environment": dict(os.environ), "config": None}
    config = yaml.safe_load(laid.stack_file.read_text())["config"]
    environment = dict(laid.environment)
    return stack | {"folder": str(laid.project), "environment": environment, "config": config}


def _run(script: str, words: Sequence[str], rows: Sequence[Mapping[str, Any]], code: Path) -> str:
    """Run a script with a checkout's code on rows, and return what it printed if it failed."""
    try:
        done = subprocess.run(
            [sys.executable, script, *words],
            input=json.dumps(rows),
            capture_output=True,
            check=False,
            timeout=planning.LIMIT_S,
            env={**os.environ, "PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=code,
            text=True,
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {planning.LIMIT_S:.0f} s"
    return done.stderr.strip() if done.returncode else ""


def _read(result: str, printed: str) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(Path(result).read_text())
    except (OSError, ValueError):
        return {"broken": (printed.splitlines() or ["it ended without a result"])[-1]}
    return content


def _side(file: Path, result: dict[str, Any], seconds: float) -> Side:
    if "contract" not in result:
        if mistakes := result.get("mistakes"):
            return Side(file=file, mistakes=tuple(mistakes))
        return Side(file=file, failed=result.get("broken", "it could not be read"))
    facts = Side(
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
    return by_engine(facts, pack_of=None)


def _plan(stack: str, states: Mapping[str, Any], seconds: float) -> planning.Plan:
    return planning.Plan(
        stack=stack,
        resources=tuple(
            PlannedResource(
                urn=urn,
                type=state["type"],
                name=urn.rsplit("::", 1)[-1],
                operation="read" if state.get("external") else "create",
                depth=0,
                inputs=state["inputs"],
            )
            for urn, state in states.items()
        ),
        violations=(),
        judged=False,
        seconds=seconds,
        states=states,
    )


def by_engine(facts: Side, *, pack_of: Path | None) -> Side:
    """Return a side with the plan that the engine makes of its file."""
    plan, failed = None, ""
    try:
        plan = planning.plan(
            stack_name(facts.file),
            facts.file,
            progress=lambda _: None,
            policies=pack_of is not None,
            pack_of=pack_of,
        )
        if not plan.states:
            failed = "the engine printed no plan that can be compared"
    except RailheadError as error:
        failed = error.problem
    return replace(facts, plan=plan, failed=failed, requests=None)


def violations(of: Sequence[Side], judge: Path) -> dict[Path, tuple[Violation, ...]]:
    """Return what the pack of the checkout ``judge`` reports of each side with a plan.

    Raises:
        RailheadError: the pack could not be asked, and the engine could not ask it either.
    """
    planned = [side for side in of if side.plan is not None]
    reported = _asked_of_pack([side for side in planned if side.requests is not None], judge)
    return {
        side.file: reported[side.file] if side.file in reported else _asked_of_engine(side, judge)
        for side in planned
    }


def _asked_of_pack(of: Sequence[Side], judge: Path) -> dict[Path, tuple[Violation, ...]]:
    """Return what the pack reports of sides with requests, without those it could not judge."""
    if not of:
        return {}
    with tempfile.TemporaryDirectory(prefix="railhead-judge-") as name:
        folder = Path(name)
        rows = [_row(side, folder / str(number)) for number, side in enumerate(of)]
        printed = _run(judging.__file__, [str(policy_pack(folder, judge))], rows, judge)
        results = [_read(row["result"], printed) for row in rows]
    return {
        side.file: tuple(Violation(**row) for row in result["violations"])
        for side, result in zip(of, results, strict=True)
        if "violations" in result
    }


def _row(side: Side, path: Path) -> dict[str, str]:
    """Write what :mod:`judging` reads of a side, and return where that and its result are."""
    plan = path.with_suffix(".json")
    plan.write_text(json.dumps({"requests": side.requests}))
    return {"plan": str(plan), "result": str(path.with_suffix(".result.json"))}


def _asked_of_engine(side: Side, judge: Path) -> tuple[Violation, ...]:
    engine = by_engine(side, pack_of=judge)
    if engine.plan is None:
        raise RailheadError(
            f"the policy pack did not judge {side.file.name}: {engine.failed}",
            remedy="run `pulumi preview --policy-pack` with it, and mend what it names",
        )
    return engine.plan.violations
