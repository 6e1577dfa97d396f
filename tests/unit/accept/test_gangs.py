"""The gangs check passes a record that is right, and none that lacks something or shows a fault."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from railhead.accept.checks import gangs
from railhead.accept.checks.gangs import CHECK, Competition, Wanted
from railhead.accept.contests import draw
from railhead.accept.model import Timeline, Verdict
from railhead.accept.record import Row, of_pod, of_workload
from railhead.accept.site import Facts, Testbed

Edit = Callable[[list[dict[str, Any]]], Iterable[dict[str, Any]]]


class Tape:
    """A record as it is made, in order."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._versions = itertools.count(100)

    def gang(self, name: str, t: float, size: int, **what: Any) -> None:
        row = {"t": t, "rv": next(self._versions), "kind": "gang", "event": "MODIFIED"}
        self.rows.append(row | {"gang": name, "size": size} | what)

    def pods(self, name: str, t: float, size: int, **what: Any) -> None:
        for index in range(size):
            row = {"t": t, "rv": next(self._versions), "kind": "pod", "event": "MODIFIED"}
            row |= {"gang": name, "pod": f"{name}-{index}", "index": index, "phase": "Pending"}
            self.rows.append(row | what)

    def runs(self, name: str, t: float, size: int) -> None:
        """Admitted, placed and ended, all within two seconds."""
        self.gang(name, t, size, reserved=True, charged=size)
        self.pods(name, t, size)
        self.pods(name, t + 0.2, size, node="n")
        self.pods(name, t + 0.5, size, node="n", phase="Running")
        self.pods(name, t + 1.5, size, node="n", phase="Succeeded")
        self.gang(name, t + 1.6, size, reserved=True, charged=size, finished="Succeeded")


def name(stem: str) -> str:
    return f"accept-ab12-{stem}-abcdef"


SIZES = {"gang-0-0": 1, "gang-0-1": 2, "gang-0-2": 2, "gang-1-0": 2, "gang-1-1": 2, "gang-1-2": 1}


def tape() -> list[dict[str, Any]]:
    """Return the record of two nodes on which every gang waits for its turn."""
    made, t = Tape(), 0.0
    for turn in range(2):
        stems = [stem for stem in SIZES if stem.startswith(f"gang-{turn}")]
        for stem in stems:
            made.gang(name(stem), t + 0.1, SIZES[stem])
        for stem in stems:
            made.runs(name(stem), t + 1, SIZES[stem])
            t += 3
    made.gang(name("holder"), 30, 1, reserved=True, charged=1)
    made.pods(name("holder"), 30.2, 1, node="n")
    made.pods(name("holder"), 30.5, 1, node="n", phase="Running")
    made.gang(name("short"), 32, 2)
    made.pods(name("holder"), 41, 1, node="n", phase="Running", going=True)
    made.pods(name("holder"), 41.5, 1, node="n", phase="Failed", event="DELETED")
    made.gang(name("holder"), 41.6, 1, event="DELETED")
    made.runs(name("short"), 42, 2)
    return made.rows


def competition(rows: Iterable[dict[str, Any]], **changed: Any) -> Competition:
    wanted = [
        Wanted(name=name(stem), turn=int(stem.split("-")[1]), size=size)
        for stem, size in SIZES.items()
    ]
    wanted += [Wanted(name=name("holder"), turn=-1, size=1)]
    wanted += [Wanted(name=name("short"), turn=-1, size=2)]
    fields: dict[str, Any] = {
        "seed": 7,
        "places": 2,
        "most": 2,
        "wanted": tuple(wanted),
        "holder": name("holder"),
        "short": name("short"),
        "held": 31.0,
        "released": 40.5,
        "rows": tuple(Row.model_validate(row) for row in rows),
        "ended": {gang.name: "completed" for gang in wanted} | {name("holder"): "gone"},
    }
    return Competition.model_validate(fields | changed)


def at(rows: list[dict[str, Any]], **like: Any) -> int:
    """Return the place of the first row that is like this."""
    return next(i for i, row in enumerate(rows) if all(row.get(k) == v for k, v in like.items()))


def test_a_record_in_which_every_gang_waits_its_turn_passes(facts: Facts) -> None:
    result = CHECK.judge(competition(tape()), facts)
    assert (result.verdict, result.remedy) == (Verdict.PASSED, "")
    assert all(item.passed is not False for item in result.measured)
    (plot,) = result.plots
    assert isinstance(plot, Timeline)
    states = [span.state for span in plot.spans if span.lane == "short (2)"]
    assert states == ["waits", "starts", "runs", "ends"]


def test_evidence_is_read_again_as_it_was_written() -> None:
    result = competition(tape())
    assert Competition.model_validate_json(result.model_dump_json()) == result


def without_admission(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Gang scheduling is off: no Workload is created, and pods go where there is room."""
    return [row for row in rows if row["kind"] == "pod"]


def half(rows: list[dict[str, Any]], seconds: float = 11) -> list[dict[str, Any]]:
    """Give one pod of a gang a node and the other no place for a while."""
    place = at(rows, gang=name("gang-0-1"), kind="pod", node="n")
    bound, other = rows[place], rows[place + 1]
    refused = other | {"node": "", "refused": True, "rv": bound["rv"] + 1}
    rest = [row | {"rv": row["rv"] + 1, "t": row["t"] + seconds} for row in rows[place + 1 :]]
    return [*rows[: place + 1], refused, *rest]


def two_over_capacity(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Admit two gangs of two to two nodes for one version."""
    place = at(rows, gang=name("gang-0-1"), kind="pod", node="n")
    row = rows[place] | {"kind": "gang", "gang": name("gang-0-2"), "size": 2, "reserved": True}
    row |= {"charged": 2, "pod": "", "node": "", "phase": "", "index": 0}
    rest = [item | {"rv": item["rv"] + 1} for item in rows[place:]]
    return [*rows[:place], row, *rest]


def partly_charged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"charged": 1} if row.get("charged") == 2 else row for row in rows]


def by_the_template(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Kueue 0.15.0 charges a TrainJob by the runtime's template, one pod."""
    return [row | {"size": 1, "charged": 1} if row["kind"] == "gang" else row for row in rows]


def ran_one_short(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    place = at(rows, gang=name("short")) + 1
    row = rows[place] | {"gang": name("short"), "pod": "x", "going": False, "phase": "Pending"}
    row |= {"t": 33.0, "rv": rows[place]["rv"]}
    return [*rows[:place], row, *(item | {"rv": item["rv"] + 1} for item in rows[place:])]


def never_all_at_once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    pod = f"{name('gang-0-1')}-1"
    return [
        row | ({"node": ""} if row.get("pod") == pod and row["phase"] != "Succeeded" else {})
        for row in rows
        if not (row.get("pod") == pod and row["phase"] == "Succeeded")
    ]


@pytest.mark.parametrize(
    ("edit", "says", "remedy"),
    [
        (without_admission, "unpaid", "kueue.x-k8s.io/queue-name"),
        (half, "half_placed", "quota"),
        (two_over_capacity, "overfull", "quota"),
        (partly_charged, "partly_charged", "versions"),
        (by_the_template, "partly_charged", "versions"),
        (ran_one_short, "unpaid", "queue-name"),
        (never_all_at_once, "never_whole", "kubectl describe"),
    ],
)
def test_a_fault_in_the_record_fails(facts: Facts, edit: Edit, says: str, remedy: str) -> None:
    result = CHECK.judge(competition(edit(tape())), facts)
    assert result.verdict is Verdict.FAILED
    assert says in result.summary
    assert remedy in result.remedy


def test_brief_refusal_is_no_half_placement(facts: Facts) -> None:
    """The scheduler tries again what it refused, within its longest backoff."""
    late = {"held": 40.0, "released": 49.5}
    result = CHECK.judge(competition(half(tape(), 9), **late), facts)
    assert result.verdict is Verdict.PASSED, result.summary


def test_an_admission_one_node_short_fails(facts: Facts) -> None:
    rows = tape()
    place = at(rows, gang=name("short"))
    rows[place] |= {"reserved": True, "charged": 2}
    result = CHECK.judge(competition(rows), facts)
    assert result.verdict is Verdict.FAILED


def test_a_deadlock_of_halves_fails(facts: Facts) -> None:
    rows = half(tape())
    ended = {gang.name: "completed" for gang in competition(rows).wanted}
    result = CHECK.judge(competition(rows, ended=ended | {name("gang-0-1"): "unfinished"}), facts)
    assert result.verdict is Verdict.FAILED
    assert result.summary.startswith("deadlock")


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9])
def test_truncated_record_proves_nothing(facts: Facts, share: float) -> None:
    rows = tape()
    result = CHECK.judge(competition(rows[: int(len(rows) * share)]), facts)
    assert result.verdict is Verdict.NOT_PROVEN
    assert result.remedy


def cut(rows: list[dict[str, Any]], kind: str, stem: str, last: int = 1) -> list[dict[str, Any]]:
    mine = [row for row in rows if row["kind"] == kind and row["gang"] == name(stem)]
    return [row for row in rows if row not in mine[-last:]]


@pytest.mark.parametrize(
    "edit",
    [
        lambda rows: cut(rows, "pod", "gang-1-1"),
        lambda rows: cut(rows, "gang", "gang-1-1"),
        # A clock that goes back, one before the beginning, and versions that come twice.
        lambda rows: [*rows[:-1], rows[-1] | {"t": 1.0}],
        lambda rows: [rows[0] | {"t": -1.0}, *rows[1:]],
        lambda rows: [rows[0], rows[1] | {"rv": rows[0]["rv"]}, *rows[2:]],
    ],
)
def test_incomplete_or_false_record_proves_nothing(facts: Facts, edit: Edit) -> None:
    assert CHECK.judge(competition(edit(tape())), facts).verdict is Verdict.NOT_PROVEN


def test_unseen_pods_are_not_a_gang(facts: Facts) -> None:
    result = CHECK.judge(competition(cut(tape(), "pod", "short", 8)), facts)
    assert result.verdict is Verdict.FAILED
    assert "never_whole" in result.summary


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"gap": "too old resource version"}, "gap"),
        ({"ended": {}}, "not asked"),
        ({"released": 32.5}, "looked at for"),
        ({"held": 29.0}, "nothing held"),
        ({"places": 20, "most": 20}, "all fit"),
        ({"wanted": ()}, "not told apart"),
    ],
)
def test_unrequested_or_unseen_gangs_prove_nothing(
    facts: Facts, changed: dict[str, Any], says: str
) -> None:
    result = CHECK.judge(competition(tape(), **changed), facts)
    assert result.verdict is Verdict.NOT_PROVEN
    assert says in " ".join(item.text for item in result.evidence)


def test_a_contest_without_anyone_who_waits_proves_nothing(facts: Facts) -> None:
    rows = [r for r in tape() if not (r["kind"] == "gang" and not r.get("reserved") and r["t"] < 1)]
    result = CHECK.judge(competition(rows), facts)
    assert result.verdict is Verdict.NOT_PROVEN
    assert "contended" in result.summary


def test_malformed_number_is_refused() -> None:
    rows = tape()
    rows[3]["t"] = float("nan")
    with pytest.raises(ValueError, match="finite"):
        competition(rows)


def test_contests_come_from_their_seed_and_never_all_fit() -> None:
    for places in (2, 3, 232):
        contests = draw(5, places=places, rounds=4)
        assert contests == draw(5, places=places, rounds=4)
        assert contests != draw(6, places=places, rounds=4)
        assert all(sum(gang.size for gang in contest) > places for contest in contests)
        assert all(gang.size <= places for contest in contests for gang in contest)


def test_contest_needs_more_than_one_machine(facts: Facts) -> None:
    alone = Facts(
        contract=facts.contract,
        runtime=facts.runtime,
        pool=facts.pool,
        queue=facts.queue,
        nodes=("lab-node-0", "stand-in"),
        simulated=("stand-in",),
    )
    assert CHECK.plan(alone).missing
    assert not CHECK.plan(facts).missing


def test_objects_of_the_cluster_become_rows() -> None:
    meta = {"namespace": "training", "resourceVersion": "12", "creationTimestamp": "x"}
    owner = {"ownerReferences": [{"name": "accept-ab12-gang-0-0-abcdef"}]}
    conditions = [{"type": "QuotaReserved", "status": "True"}]
    workload = {
        "metadata": meta | owner,
        "spec": {"podSets": [{"count": 2}]},
        "status": {
            "conditions": conditions,
            "admission": {"podSetAssignments": [{"name": "node", "count": 2}]},
        },
    }
    row = of_workload("MODIFIED", workload, 1.0)
    assert row is not None
    assert (row.size, row.charged, row.reserved, row.rv) == (2, 2, True, 12)
    assert of_workload("MODIFIED", workload | {"metadata": meta}, 1.0) is None
    scheduled = {"type": "PodScheduled", "status": "False"}
    pod = {"metadata": meta | {"name": "p", "uid": "u"}, "spec": {}}
    gated = pod | {"status": {"conditions": [scheduled | {"reason": "SchedulingGated"}]}}
    refused = pod | {"status": {"conditions": [scheduled | {"reason": "Unschedulable"}]}}
    assert not of_pod("ADDED", gated, 1.0, "g").refused
    assert of_pod("ADDED", refused, 1.0, "g").refused


@pytest.mark.parametrize(("leaves", "places"), [(3, 2), (99, 0)])
def test_nodes_that_are_about_to_be_idle_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, leaves: int, places: int
) -> None:
    seconds = itertools.count()
    looks = itertools.count(1)
    monkeypatch.setattr("railhead.accept.checks.gangs.time.monotonic", lambda: next(seconds))
    monkeypatch.setattr("railhead.accept.checks.gangs.time.sleep", lambda _: None)
    monkeypatch.setattr(gangs, "idle", lambda _: (2 if next(looks) >= leaves else 0, 2, False))
    assert gangs._settled(cast("Testbed", None)) == (places, 2, False)
