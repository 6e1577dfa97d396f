"""One side of a stack: its plan by the real engine, its contract and its warnings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from railhead.base.errors import RailheadError
from railhead.config.files import stack_name
from railhead.contract import ClusterContract
from railhead.lab import planning

# What the side's own Railhead makes of the file: the base's code judges the base's file.
_FACTS = """
import json, sys
from pathlib import Path
from railhead import config
from railhead.base.errors import InputError
from railhead.resolve.cluster import resolve
from railhead.machines import MACHINES
try:
    checked = config.check(Path(sys.argv[1]))
    cluster = checked.cluster
    facts = {
        "warnings": list(checked.doubts),
        "contract": json.loads(resolve(cluster).contract.to_json()),
        "cluster": cluster.model_dump(mode="json"),
        "gpus": {p.name: MACHINES[p.instance_type].gpus for p in cluster.pools},
    }
except InputError as error:
    facts = {"mistakes": error.problem.splitlines()}
print(json.dumps(facts))
"""
_LIMIT_S = 120


@dataclass(frozen=True, kw_only=True)
class Side:
    """A stack as one side has it. ``failed`` says why it could not be planned, if so."""

    file: Path
    plan: planning.Plan | None = None
    contract: ClusterContract | None = None
    cluster: Mapping[str, Any] = field(default_factory=dict)
    gpus: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    mistakes: tuple[str, ...] = ()
    failed: str = ""


def side(file: Path, *, code: Path, pack_of: Path | None) -> Side:
    """Plan a stack's file with the code that is beside it; ``pack_of`` None: no pack judges."""
    facts = _facts(file, code)
    if "failed" in facts:
        return Side(file=file, failed=facts["failed"])
    if mistakes := facts.get("mistakes"):
        return Side(file=file, mistakes=tuple(mistakes))
    contract = ClusterContract.from_json(json.dumps(facts["contract"]), where=str(file))
    name = stack_name(file)
    plan, failed = None, ""
    try:
        plan = planning.plan(
            name, file, progress=lambda _: None, policies=pack_of is not None, pack_of=pack_of
        )
        if not plan.states:
            failed = "the engine printed no plan that can be compared"
    except RailheadError as error:
        failed = error.problem
    return Side(
        file=file,
        plan=plan,
        contract=contract,
        cluster=facts["cluster"],
        gpus=facts["gpus"],
        warnings=tuple(facts["warnings"]),
        failed=failed,
    )


def _facts(file: Path, code: Path) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _FACTS, str(file)],
        capture_output=True,
        check=False,
        timeout=_LIMIT_S,
        env=environment,
        cwd=code,
        text=True,
    )
    try:
        facts: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"failed": (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]}
    return facts
