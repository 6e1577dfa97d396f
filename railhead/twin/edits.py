"""Edits that operators make, each on a stack's section as its file has it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from railhead.twin.steps import SkippedError

Section = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One edit.

    Args:
        name: for ``--only``, after ``edit:``.
        does: what the operator does, for people.
        change: edits the section in place.
        keeps_jobs: whether a running job must go on through it untouched.
        nodes: by how many nodes it changes the first pool.
    """

    name: str
    does: str
    change: Callable[[Section], None]
    keeps_jobs: bool = True
    nodes: int = 0


def _nodes_up(section: Section) -> None:
    _room_for_one_more(section)
    section["pools"][0]["nodes"] += 1


def _room_for_one_more(section: Section) -> None:
    # A reservation and a capacity block are for a number of machines that the cloud knows.
    pool = section["pools"][0]
    kind = (pool.get("purchase") or pool.get("capacity") or {}).get("kind", "")
    if kind in ("reservation", "capacity-block"):
        raise SkippedError(f"the first pool is a {kind} of exactly its nodes")


def _nodes_down(section: Section) -> None:
    pool = section["pools"][0]
    pool["nodes"] -= 1
    if section["platform"]["kind"] == "gcp":
        # GKE takes the nodes away at once, so that the edit asks for the jobs on them.
        section["removals"] = [{"kind": "pool", "name": pool["name"], "loses": ["jobs"]}]
    for key in ("min_nodes", "initial_nodes"):
        if key in pool:
            pool[key] = min(pool[key], pool["nodes"])
    for team in section.get("teams", ()):
        for share in team["shares"]:
            if share["pool"] == pool["name"] and share["nodes"] > 1:
                share["nodes"] -= 1
                share["lend"] = min(share.get("lend", 0), share["nodes"])
                return


def _team_more(section: Section) -> None:
    pool = section["pools"][0]["name"]
    if "teams" in section:
        section["teams"].append(
            {
                "name": "extra",
                "namespaces": ["extra"],
                "researchers": ["extra-researchers"],
                "shares": [{"pool": pool, "nodes": 0, "borrow": 1}],
            }
        )
    else:
        section["namespaces"].append("extra")
        queue = copy.deepcopy(section["queues"][0])
        section["queues"].append(queue | {"name": "extra", "namespace": "extra"})
    for claim in _of_runtimes(section):
        section["checkpoints"].append({**claim, "namespace": "extra"})


def _of_runtimes(section: Section) -> list[Mapping[str, Any]]:
    """Return the claims that runtimes mount, which each of their namespaces must have."""
    names = {runtime.get("checkpoint") for runtime in section["runtimes"]}
    first = _namespaces(section)[0]
    return [
        claim
        for claim in section.get("checkpoints", ())
        if claim["name"] in names and claim["namespace"] == first
    ]


def _namespaces(section: Section) -> list[str]:
    if "teams" in section:
        return [name for team in section["teams"] for name in team["namespaces"]]
    return list(section["namespaces"])


def _team_less(section: Section) -> None:
    if "extra" not in _namespaces(section):
        raise SkippedError("the team could not be added before")
    removals = [{"kind": "namespace", "name": "extra", "loses": ["jobs"]}]
    for claim in section.get("checkpoints", ()):
        if claim["namespace"] == "extra":
            name = f"extra/{claim.get('claim', claim['name'])}"
            removals.append({"kind": "checkpoint", "name": name, "loses": ["data"]})
    if "teams" in section:
        section["teams"] = [team for team in section["teams"] if team["name"] != "extra"]
    else:
        section["namespaces"].remove("extra")
        section["queues"] = [q for q in section["queues"] if q["name"] != "extra"]
    gone = [c for c in section["checkpoints"] if c["namespace"] == "extra"]
    section["checkpoints"] = [c for c in section["checkpoints"] if c not in gone]
    section["removals"] = removals


def _claim_dropped(section: Section) -> None:
    named = {runtime.get("checkpoint") for runtime in section["runtimes"]}
    spare = [c for c in section.get("checkpoints", ()) if c["name"] not in named]
    if not spare:
        raise SkippedError("every claim of this stack is mounted by a runtime")
    claim = spare[0]
    section["checkpoints"].remove(claim)
    name = f"{claim['namespace']}/{claim.get('claim', claim['name'])}"
    section["removals"] = [{"kind": "checkpoint", "name": name, "loses": ["data"]}]


def _administrators(section: Section) -> list[Any]:
    administrators = section["platform"].get("administrators")
    if not isinstance(administrators, list) or len(administrators) < 2:
        raise SkippedError("this stack names no two administrators")
    return administrators


def _administrator_out(section: Section) -> None:
    del _administrators(section)[0]


def _researcher_in(section: Section) -> None:
    researchers = section["platform"].get("researchers")
    if not isinstance(researchers, list) or not researchers:
        raise SkippedError("this stack's platform names no researchers")
    researchers.insert(0, "arn:aws:iam::123456789012:role/new-researchers")


def _zone_more(section: Section) -> None:
    network = section["platform"].get("network") or {}
    zones = network.get("availability_zones")
    if not zones:
        raise SkippedError("this stack names no zones")
    unused = [f"{zones[0][:-1]}{letter}" for letter in "abcdef"]
    zones.append(next(zone for zone in unused if zone not in zones))


def _tag_more(section: Section) -> None:
    platform = section["platform"]
    tags = platform.get("tags") or platform.get("labels")
    if not isinstance(tags, dict):
        raise SkippedError("this stack has no tags")
    tags["owner"] = "rehearsal"
    if platform["kind"] == "gcp":
        # GKE recreates GPU nodes for their resource labels, so that the edit asks for their jobs.
        section["removals"] = [
            {"kind": "pool", "name": pool["name"], "loses": ["jobs"]} for pool in section["pools"]
        ]


EDITS: tuple[Edit, ...] = (
    Edit(name="nodes-up", does="one node more in the first pool", change=_nodes_up, nodes=1),
    Edit(
        name="nodes-down",
        does="one node less in the first pool",
        change=_nodes_down,
        nodes=-1,
        keeps_jobs=False,
    ),
    Edit(name="team-more", does="a team more", change=_team_more),
    Edit(name="team-less", does="the team is taken away again", change=_team_less),
    Edit(
        name="claim-dropped",
        does="a claim that no runtime mounts is dropped",
        change=_claim_dropped,
    ),
    Edit(
        name="administrator-out",
        does="the first administrator is taken out",
        change=_administrator_out,
    ),
    Edit(
        name="researcher-in",
        does="a role of researchers is put first",
        change=_researcher_in,
    ),
    Edit(name="tag-more", does="a tag more on everything", change=_tag_more),
    Edit(name="zone-more", does="a zone more in the network", change=_zone_more),
)
