"""Refusals of clouds, by the rows of truth: names that are taken, things that others need.

A module a cloud has the tables; each check names the row that it follows, and the row has the
source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from railhead.twin.account import Account, Dependants, Made, Unique, at, flat, refuse
from railhead.twin.refusals import aws, gcp

UNIQUE: Mapping[str, Unique] = {**aws.UNIQUE, **gcp.UNIQUE}
DEPENDANTS: Mapping[str, Dependants] = {**aws.DEPENDANTS, **gcp.DEPENDANTS}
CREATE: Mapping[str, tuple[Callable[[Account, Made], None], ...]] = {**aws.CREATE, **gcp.CREATE}
UPDATE: Mapping[str, tuple[Callable[[Account, Made, Made], None], ...]] = {
    **aws.UPDATE,
    **gcp.UPDATE,
}


def on_create(account: Account, made: Made) -> None:
    """Judge a creation.

    Raises:
        RefusalError: the cloud refuses it.
    """
    rule = UNIQUE.get(made.type)
    if rule is not None:
        mine = tuple(at(made.inputs, key) for key in rule.keys)
        for other in account.of(made.type):
            theirs = tuple(at(other.inputs, key) for key in rule.keys)
            if mine[-1] is not None and mine == theirs:
                refuse(rule.row, f" ({mine[-1]})")
    for check in CREATE.get(made.type, ()):
        check(account, made)


def on_update(account: Account, before: Made | None, made: Made) -> None:
    """Judge a change in place.

    Raises:
        RefusalError: the cloud refuses it.
    """
    if before is None:
        return
    for check in UPDATE.get(made.type, ()):
        check(account, before, made)


def on_delete(account: Account, made: Made) -> None:
    """Judge a deletion.

    Raises:
        RefusalError: something still depends on it.
    """
    for check in gcp.DELETE.get(made.type, ()):
        check(account, made)
    rule = DEPENDANTS.get(made.type)
    if rule is None:
        return
    names = {made.id, made.inputs.get("name")} - {None}
    for token, keys in rule.users.items():
        for user in account.of(token):
            for key in keys:
                if key == "*" or names & set(flat(at(user.inputs, key))):
                    refuse(rule.row, f": {user.name} is still there")


def rows() -> set[str]:
    """Return the ids of all rows that a check here follows."""
    unique = {rule.row for rule in UNIQUE.values()}
    return unique | {rule.row for rule in DEPENDANTS.values()} | {*aws.CHECKED, *gcp.CHECKED}
