"""Runs checks, one after the other, and makes of what they bring a report. Fails closed.

A check that raises, whose evidence cannot be read again or whose verdict cannot be given is not
proven. Whatever happens, the jobs that were made are taken away.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from railhead import __version__
from railhead.accept import waivers as waived
from railhead.accept.check import Check, CheckPlan
from railhead.accept.kept import Folder, Identity, record
from railhead.accept.model import Evidence, Report, Result, Verdict, Waiver
from railhead.accept.site import Facts, Testbed
from railhead.base.errors import RailheadError
from railhead.kube.client import Cluster

Say = Callable[[str], None]
_RESUME = "mend what it says, then `railhead accept --resume` runs this check again"


@dataclass(frozen=True, kw_only=True)
class Suite:
    """The checks that are asked for.

    Args:
        checks: all that there are, in order.
        only: names of those that run; the others are not proven.
        resume: take the kept evidence of checks that finished.
        waivers: of this acceptance.
    """

    checks: tuple[Check[Any], ...]
    only: frozenset[str]
    resume: bool = False
    waivers: tuple[Waiver, ...] = ()

    @property
    def chosen(self) -> tuple[Check[Any], ...]:
        """The checks that run."""
        return tuple(check for check in self.checks if check.name in self.only)


@dataclass(kw_only=True)
class Runner:
    """One acceptance.

    Args:
        facts: what is known.
        cluster: the connection.
        uid: what no other cluster has.
        folder: where evidence is kept.
        say: a line of progress.
        hardware: for the report.
        make_site: makes a check's hands on the cluster.
        clock: the time of the day.
        left: what could not be taken away, in words.
        oldest: when the oldest evidence was brought that a resumed run has taken.
    """

    facts: Facts
    cluster: Cluster
    uid: str
    folder: Folder
    say: Say
    hardware: dict[str, str] = field(default_factory=dict)
    make_site: Callable[..., Testbed] = Testbed
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    left: list[str] = field(default_factory=list)
    oldest: datetime | None = None

    @property
    def identity(self) -> Identity:
        """The subject of this run's evidence."""
        facts = self.facts
        return Identity(
            cluster=facts.contract.cluster,
            uid=self.uid,
            railhead=__version__,
            runtime=facts.runtime.name,
            queue=f"{facts.queue.namespace}/{facts.queue.name}",
            nodes=facts.nodes,
            quick=facts.quick,
            contract=hashlib.sha256(facts.contract.to_json().encode()).hexdigest(),
        )

    def site(self, name: str) -> Testbed:
        """Return a check's hands on the cluster; what an earlier run left of it is known to it."""
        return self.make_site(
            facts=self.facts,
            cluster=self.cluster,
            folder=self.folder.path / name,
            say=lambda text: self.say(f"{name}: {text}"),
        )

    def clean(self, checks: Iterable[Check[Any]]) -> tuple[str, ...]:
        """Take away what runs of these checks have left; what could not be, in words."""
        left = []
        for check in checks:
            try:
                self.site(check.name).clean()
            except Exception as error:  # noqa: BLE001 - the other checks' jobs must go too
                left.append(f"{check.name}: {_words(error)}")
        return tuple(left)

    def run(self, suite: Suite) -> Report:
        """Return every check that was asked for, then the report.

        Raises:
            KeyboardInterrupt: jobs were taken away before; kept evidence stays.
        """
        begun = self.clock()
        if left := self.clean(suite.checks):
            self.say(f"an earlier run's jobs are still there: {'; '.join(left)}")
        if not suite.resume:
            for check in suite.chosen:
                self.folder.forget(check.name)
        results = []
        for check in suite.checks:
            result = self._one(check, suite)
            results.append(waived.apply(result, suite.waivers))
        facts = self.facts
        return Report(
            cluster=facts.contract.cluster,
            platform=facts.contract.platform,
            begun=min(begun, self.oldest or begun),
            ended=self.clock(),
            railhead=__version__,
            quick=facts.quick,
            nodes=facts.nodes,
            hardware=self.hardware,
            versions=facts.contract.versions,
            environment=facts.contract.fabric.environment,
            asked=tuple(check.name for check in suite.checks),
            checks=tuple(results),
        )

    def _one(self, check: Check[Any], suite: Suite) -> Result:
        why = "not asked for"
        if suite.resume:
            kept, why = self.folder.find(check.name, self.identity, self.clock())
            if kept is not None:
                self.oldest = min(self.oldest or kept.begun, kept.begun)
                self.say(f"{check.name}: kept evidence of {kept.begun:%Y-%m-%d %H:%M} is taken")
                result = self._judged(check, kept.evidence)
                return result.model_copy(
                    update={"seconds": kept.seconds, "node_hours": kept.node_hours}
                )
        if check.name not in suite.only:
            return not_proven(
                check,
                f"it was not asked for, and {why}" if suite.resume else "it was not asked for",
                "run `railhead accept --resume` without --only, or with it named too",
            )
        try:
            planned = check.plan(self.facts)
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing is proven
            return not_proven(check, f"it could not be planned: {_words(error)}", _RESUME)
        if planned.missing:
            return not_proven(check, f"it cannot run here: {planned.missing}", _RESUME)
        return self._ran(check, planned)

    def _ran(self, check: Check[Any], planned: CheckPlan) -> Result:
        self.say(f"{check.name}: {check.promise}")
        begun, start = self.clock(), time.monotonic()
        site = self.site(check.name)
        try:
            try:
                evidence = check.run(site)
            finally:
                if left := self.clean([check]):
                    self.left.extend(left)
                    self.say(f"still there: {'; '.join(left)}")
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing is proven
            result = not_proven(check, f"it could not be run: {_words(error)}", _RESUME)
            return result.model_copy(update={"seconds": time.monotonic() - start})
        seconds = time.monotonic() - start
        hours = site.used() or planned.node_hours
        try:
            kept = record(
                check.name,
                self.identity,
                begun=begun,
                seconds=seconds,
                node_hours=hours,
                evidence=evidence,
            )
        except (ValueError, TypeError, AttributeError) as error:
            result = not_proven(check, f"its evidence cannot be kept: {_words(error)}", _RESUME)
        else:
            self.folder.keep(kept)
            # By what was written, so that the verdict is what a later reader would give.
            result = self._judged(check, kept.evidence)
        self.say(f"{check.name}: {result.verdict.value}: {result.summary}")
        return result.model_copy(update={"seconds": seconds, "node_hours": hours})

    def _judged(self, check: Check[Any], written: dict[str, Any]) -> Result:
        try:
            evidence = check.evidence.model_validate_json(json.dumps(written))
            result = check.judge(evidence, self.facts)
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing is proven
            return not_proven(check, f"its evidence cannot be judged: {_words(error)}", _RESUME)
        if result.name != check.name or result.waiver is not None:
            return not_proven(check, "its verdict is another check's, or waives itself", _RESUME)
        return result


def not_proven(check: Check[Any], summary: str, remedy: str) -> Result:
    """Return the result of a check that brought nothing to judge."""
    return Result(
        name=check.name,
        promise=check.promise,
        verdict=Verdict.NOT_PROVEN,
        summary=summary[:1].upper() + summary[1:],
        remedy=remedy,
        evidence=(Evidence(title="what stopped it", text=summary),),
        reproduce=(f"railhead accept --only {check.name}",),
    )


def plans(checks: Sequence[Check[Any]], facts: Facts) -> list[tuple[Check[Any], CheckPlan]]:
    """Return the plan of each check; one that raises is missing its plan."""
    made = []
    for check in checks:
        try:
            planned = check.plan(facts)
        except Exception as error:  # noqa: BLE001 - whatever it is, there is no plan
            planned = CheckPlan(
                steps=(), nodes=0, seconds=0, node_hours=0, missing=f"no plan: {_words(error)}"
            )
        made.append((check, planned))
    return made


def default_folder(cluster: str) -> Path:
    """Return the default folder of an acceptance: below the current one."""
    return Path("railhead-accept") / cluster


def _words(error: Exception) -> str:
    """Return an error in one line."""
    text = error.problem if isinstance(error, RailheadError) else str(error)
    named = "" if isinstance(error, RailheadError) else f"{type(error).__name__}: "
    return f"{named}{text}".strip().replace("\n", "; ") or type(error).__name__
