"""The log of a training that was harmed, and whether it came back whole. Pure.

The program (:mod:`railhead.accept.programs.restart`) says lines that begin with ``restart:``. While
a job runs they are noted with this machine's time; its last attempt prints the whole diary, which
lay on the claim, so that no line of a pod that is gone is missing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from railhead.accept.losing import Lost
from railhead.accept.model import Model
from railhead.accept.record import Row

_LINE = re.compile(r"restart: (.*)$")
_PAIR = re.compile(r"(\w+)=(\S*)")


class LogLine(Model):
    """A line of a node's log, and when it arrived: seconds from the record's begin."""

    t: float
    node: int
    text: str


class Harm(Model):
    """A harm that is done to a job after a step, and its words."""

    kind: str
    step: int


#: In words, for people.
HARMS = {
    "kill": "a rank was killed",
    "hang": "a rank hung",
    "launcher": "the launcher was stopped",
    "wait": "a pod was deleted",
    "node": "a node was lost",
}


class Trained(Model):
    """One job: what was done to it, what it said, and what the cluster says of it.

    ``restarts`` is the JobSet's own count, None where it could not be read; ``rows`` the changes of
    its pods, ``live`` its lines as they came, ``last`` those of its last attempt, read at the end;
    ``lost`` the node that was taken away, where one was to be.
    """

    name: str
    nodes: int
    steps: int
    every: int
    harms: tuple[Harm, ...]
    phase: str
    detail: str = ""
    restarts: int | None
    rows: tuple[Row, ...]
    live: tuple[LogLine, ...]
    last: tuple[LogLine, ...]
    lost: Lost | None = None
    gap: str = ""


@dataclass
class Attempt:
    """One beginning of the program: where it took up, its losses by step, its checkpoints."""

    pod: str
    resumed: int = 0
    losses: dict[int, str] = field(default_factory=dict)
    saved: list[int] = field(default_factory=list)


class UnreadableError(ValueError):
    """The lines are not what the program says."""


def words(text: str) -> str:
    """Return the program's words in a line of a log; empty for other lines."""
    match = _LINE.search(text)
    return match[1].strip() if match else ""


def pairs(text: str) -> dict[str, str]:
    """``key=value`` words of a line."""
    return dict(_PAIR.findall(text))


def diary(lines: Sequence[LogLine]) -> list[str]:
    """Return the diary that the last attempt printed, whole.

    Raises:
        UnreadableError: it is not there, or a line of it is missing.
    """
    results: dict[int, str] = {}
    count: int | None = None
    for line in lines:
        message = words(line.text)
        if not message.startswith("diary "):
            continue
        number, _, rest = message.removeprefix("diary ").partition(" ")
        if number.startswith("lines="):
            count = _whole(number.removeprefix("lines="))
        else:
            results[_whole(number)] = rest
    if count is None:
        raise UnreadableError("the diary is cut off: its last line is not there")
    if sorted(results) != list(range(1, count + 1)):
        raise UnreadableError(f"the diary is cut off: {len(results)} of {count} lines")
    return [results[number] for number in range(1, count + 1)]


def attempts(lines: Sequence[str]) -> list[Attempt]:
    """Return the deeds of each attempt.

    Raises:
        UnreadableError: a line is not one that the program writes, or holds a wrong number.
    """
    results: list[Attempt] = []
    for line in lines:
        kind, values = line.partition(" ")[0], pairs(line)
        try:
            if kind == "begin":
                if _whole(values["attempt"]) != len(results) + 1:
                    raise UnreadableError(f"attempt {values['attempt']} after {len(results)}")
                results.append(Attempt(pod=values["pod"]))
            elif not results:
                raise UnreadableError(f"before an attempt began: {line!r}")
            elif kind == "resumed":
                results[-1].resumed = _whole(values["step"])
            elif kind == "step":
                _finite(values["loss"])
                results[-1].losses[_whole(values["n"])] = values["loss"]
            elif kind == "saved":
                results[-1].saved.append(_whole(values["step"]))
            else:
                raise UnreadableError(f"not the program's: {line!r}")
        except KeyError as missing:
            raise UnreadableError(f"{line!r} lacks {missing}") from None
    return results


def _whole(text: str) -> int:
    if not text.isdigit():
        raise UnreadableError(f"{text!r} is not a whole number")
    return int(text)


def _finite(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise UnreadableError(f"loss {text!r} is no number") from None
    if not math.isfinite(value) or value <= 0:
        raise UnreadableError(f"loss {text} is not one that this training can have")
    return value


@dataclass(frozen=True, kw_only=True)
class Came:
    """The recovery of a job from one harm: its step, where it resumed, repeated steps, seconds.

    ``seconds`` are from the harm to the resumed training, None where one of both was not seen.
    """

    harm: Harm
    resumed: int
    lost: int
    seconds: float | None


@dataclass
class Shown:
    """The findings on one job: ``wrong`` is against it, ``lacking`` is why it proves nothing."""

    wrong: list[tuple[str, str]] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    came: list[Came] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)


def losses(found: Sequence[Attempt]) -> dict[int, str]:
    """Step -> loss, of the last time that it was done."""
    return {step: loss for attempt in found for step, loss in attempt.losses.items()}


def unbroken(job: Trained) -> Shown:
    """Return a job that nobody touched: each step once, in one attempt."""
    shown = _read(job)
    if shown.wrong or shown.lacking:
        return shown
    _attempts(job, shown)
    curve = losses(shown.attempts)
    if sorted(curve) != list(range(1, job.steps + 1)):
        shown.lacking.append(f"unbroken: {len(curve)} of {job.steps} steps were done")
    if len(set(curve.values())) < max(2, len(curve) // 2):
        shown.lacking.append("unbroken: the loss does not change, so that equal ones show nothing")
    return shown


def broken(job: Trained, curve: dict[int, str]) -> Shown:
    """Return a job that was harmed, against the losses of the unbroken one."""
    shown = _read(job)
    if any(harm.kind == "node" for harm in job.harms):
        _lost(job, shown)
    if shown.wrong or shown.lacking:
        return shown
    _attempts(job, shown)
    result = shown.attempts
    saved: list[int] = []
    for number, attempt in enumerate(result):
        if number:
            _resumed(job, result[number - 1], attempt, number, saved, shown)
        expected = list(range(attempt.resumed + 1, attempt.resumed + 1 + len(attempt.losses)))
        if sorted(attempt.losses) != expected:
            shown.lacking.append(f"attempt {number + 1} did not do its steps in order")
        saved += attempt.saved
        for step, loss in sorted(attempt.losses.items()):
            if step not in curve:
                shown.lacking.append(f"the unbroken run has no step {step}")
            elif loss != curve[step]:
                shown.wrong.append(
                    (
                        "loss",
                        f"attempt {number + 1}: the loss of step {step} is {loss}, the unbroken "
                        f"run's is {curve[step]}",
                    )
                )
                break
    if job.steps not in (result[-1].losses if result else {}):
        shown.lacking.append(f"the last attempt did not do step {job.steps}")
    _live(job, shown)
    return shown


def _lost(job: Trained, shown: Shown) -> None:
    """Yield why the node was not really lost: a command's word does not prove it."""
    lost = job.lost
    if lost is None:
        shown.lacking.append(f"{job.name}: no node was lost: none of its nodes may be, or it ended")
    elif lost.status != 0:
        text = f": {lost.output}" if lost.output else ""
        shown.lacking.append(f"what takes node {lost.node} away ended with {lost.status}{text}")
    elif lost.unready is None:
        shown.lacking.append(f"node {lost.node} was ready all the time: it was not lost")


def _read(job: Trained) -> Shown:
    shown = Shown()
    texts = [words(line.text) for line in (*job.live, *job.last)]
    unshared = next((text for text in texts if text.startswith("unshared")), "")
    nostorage = next((text for text in texts if text.startswith("nostorage")), "")
    if unshared or nostorage:
        shown.wrong.append(
            ("storage", f"the checkpoint is not on all nodes: {unshared}{nostorage}")
        )
        return shown
    if job.phase == "failed":
        again = f"after {job.restarts} restarts" if job.restarts else "and was not started again"
        shown.wrong.append(("ended", f"{job.name} failed {again}: {job.detail}"))
        return shown
    if job.phase != "completed":
        shown.lacking.append(f"{job.name} did not end in time: {job.phase} {job.detail}".rstrip())
        return shown
    if job.gap:
        shown.lacking.append(f"the record of its pods has a gap: {job.gap}")
    try:
        shown.attempts = attempts(diary(job.last))
    except UnreadableError as error:
        shown.lacking.append(f"{job.name}: {error}")
    return shown


def _attempts(job: Trained, shown: Shown) -> None:
    """Yield where the diary, the JobSet and the pods disagree on the number of attempts."""
    wanted = len(job.harms) + 1
    pods: dict[int, set[str]] = {}
    for row in job.rows:
        if row.kind == "pod" and row.node:
            pods.setdefault(row.index, set()).add(row.uid or row.pod)
    counts = {"the program began": len(shown.attempts)}
    for index in range(job.nodes):
        had = len(pods.get(index, ()))
        # A gang whose node is gone may be put back once more before its new pods have begun.
        counts[f"node {index} had pods"] = had if job.lost is None else min(had, wanted)
    if job.restarts is None:
        shown.lacking.append(f"{job.name}: the JobSet's count of restarts could not be read")
    elif job.lost is None or job.restarts >= wanted:
        # Kueue puts a gang whose node is gone back into the queue, where it had none to spare at
        # once: the JobSet is then stopped and goes on, and counts nothing.
        counts["the JobSet says"] = job.restarts + 1
    reported = ", ".join(f"{what} {count} times" for what, count in counts.items())
    if max(counts.values()) > wanted:
        shown.wrong.append(("attempts", f"{wanted} attempts were to be made: {reported}"))
    elif set(counts.values()) != {wanted}:
        shown.lacking.append(f"{wanted} attempts were to be made: {reported}")


def _resumed(
    job: Trained, before: Attempt, after: Attempt, number: int, saved: list[int], shown: Shown
) -> None:
    if number > len(job.harms):
        return
    harm, newest = job.harms[number - 1], max(saved, default=0)
    last = max(before.losses, default=0)
    if last != harm.step:
        shown.lacking.append(f"step {last} was the last before the harm at step {harm.step}")
    if after.resumed < newest or after.resumed == 0:
        shown.wrong.append(
            (
                "resume",
                f"attempt {number + 1} took up at step {after.resumed}, the checkpoint of step "
                f"{newest} was written",
            )
        )
    if after.resumed > last:
        shown.lacking.append(f"attempt {number + 1} took up at step {after.resumed} after {last}")
    shown.came.append(
        Came(
            harm=harm,
            resumed=after.resumed,
            lost=last - after.resumed,
            seconds=_between(job, harm, number),
        )
    )


def _between(job: Trained, harm: Harm, number: int) -> float | None:
    """Seconds from a harm to the first line after it that says where it took up."""
    begun = [
        line.t
        for line in job.live
        if (message := words(line.text)).startswith("harm ")
        and pairs(message).get("step") == str(harm.step)
    ]
    back = [line.t for line in job.live if words(line.text).startswith("resumed ")]
    if len(begun) != 1 or len(back) < number:
        return None
    return back[number - 1] - begun[0]


def _live(job: Trained, shown: Shown) -> None:
    """Compare the lines that were followed with the diary."""
    known: dict[int, set[str]] = {}
    for attempt in shown.attempts:
        for step, loss in attempt.losses.items():
            known.setdefault(step, set()).add(loss)
    times = [line.t for line in job.live]
    if any(t < 0 for t in times) or times != sorted(times):
        shown.lacking.append("the times of its lines go back")
    for line in job.live:
        message = words(line.text)
        values = pairs(message)
        if message.startswith("step ") and values.get("n", "").isdigit():
            heard = known.get(int(values["n"]), set())
            if values.get("loss") not in heard:
                shown.lacking.append(f"the diary does not have what was heard: {message}")
                break
    for came in shown.came:
        if came.seconds is None:
            shown.lacking.append(f"when {HARMS[came.harm.kind]} and when it was back was not heard")
        elif came.seconds <= 0:
            shown.lacking.append(f"it came back {-came.seconds:g} s before {came.harm.kind}")
