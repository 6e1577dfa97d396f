"""Judges rights that a change gives or takes: RBAC, IAM of AWS and of Google."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

from railhead.base.rbac import POWERS, TAKES_ALL, WRITES
from railhead.review.compare import Change
from railhead.review.judged import Judged, few, unjudged
from railhead.review.model import Level
from railhead.review.rows import names, several, short

#: A right: its API group, resource and verb, and the one object that it is for; empty for all.
_Right = tuple[str, str, str, str]


def _rights(inputs: Mapping[str, Any]) -> set[_Right]:
    rights = set()
    for rule in inputs.get("rules") or ():
        for verb in rule.get("verbs") or ():
            for resource in (*(rule.get("resources") or ()), *(rule.get("nonResourceURLs") or ())):
                for group in rule.get("apiGroups") or ("",):
                    for name in rule.get("resourceNames") or ("",):
                        rights.add((str(group), str(resource), str(verb), str(name)))
    return rights


def _beyond(rights: set[_Right], others: set[_Right]) -> set[_Right]:
    """Return the rights that are not among others, nor within one of them for every object."""
    return {right for right in rights - others if (*right[:3], "") not in others}


def roles(change: Change, *, code: bool = True) -> Iterator[Judged]:
    """Yield rights that a Role or ClusterRole gains or loses.

    A namespace that the stack's file adds has the same roles as the others, within itself.
    """
    was, now = _rights(change.was), _rights(change.now)
    gained, gone = _beyond(now, was), _beyond(was, now)
    if gained:
        given = _by_resource(gained)
        reasons = sorted({why for row in gained for why in _grave(row)})
        own = change.kind == "added" and not code and change.either.type.endswith(":Role")
        if own:
            yield Judged("note", "rights", f"gains {given}")
        elif reasons:
            yield Judged("refuse", "rights", f"gains {given}: its holder can {reasons[0]}")
        elif any(verb in WRITES for _, _, verb, _ in gained):
            yield Judged("ask", "rights", f"gains {given}")
        else:
            yield Judged("note", "rights", f"gains {given}")
    if gone and change.kind != "deleted":
        yield Judged(
            "ask",
            "access",
            f"loses {_by_resource(gone)}",
            "its holders, when they are refused what worked until now",
        )


def _grave(row: _Right) -> Iterator[str]:
    _, resource, verb, _ = row
    if verb == "*" or verb in TAKES_ALL:
        yield "take every other right"
    for power in POWERS:
        if verb in ("*", *power.verbs) and (resource in power.resources or resource == "*"):
            yield power.can


def _by_resource(rows: set[_Right]) -> str:
    verbs: dict[str, list[str]] = {}
    for group, resource, verb, name in sorted(rows):
        of = f"{resource}{'.' * bool(group)}{group}{f' {name}' if name else ''}"
        verbs.setdefault(of, []).append(verb)
    texts = [f"{'/'.join(v)} of {name}" for name, v in verbs.items()]
    return few(texts, 6)


# The role of those who may delete pods, make secrets and name any priority (docs/access.md).
_LEADS = "railhead-leads"


def bindings(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield people and accounts that a binding gains or loses, and the role that it names."""
    was = {_who(s) for s in change.was.get("subjects") or ()}
    now = {_who(s) for s in change.now.get("subjects") or ()}
    role = (change.now.get("roleRef") or change.was.get("roleRef") or {}).get("name", "a role")
    if change.stays and change.was.get("roleRef") != change.now.get("roleRef"):
        before = (change.was.get("roleRef") or {}).get("name")
        yield Judged("refuse", "rights", f"binds {role} in place of {before}")
    if gained := sorted(now - was):
        grave = role in ("cluster-admin", "admin", "edit") or any(
            name.rpartition(" ")[2].startswith("system:") and "serviceaccount" not in name
            for name in gained
        )
        # The stack's file names its people.
        named = change.kind == "added" or not code
        leads = role == _LEADS and change.kind != "added"
        level: Level = "refuse" if grave else "note" if named and not leads else "ask"
        may = ": they may stop and overtake the jobs of all others there" if role == _LEADS else ""
        yield Judged(level, "rights", f"gives {role} to {', '.join(gained)}{may}")
    if change.kind != "deleted" and (gone := sorted(was - now)):
        yield Judged(
            "ask", "access", f"takes {role} from {', '.join(gone)}", f"{', '.join(gone)}, at once"
        )


def _who(subject: Mapping[str, Any]) -> str:
    space = f"{subject['namespace']}/" if subject.get("namespace") else ""
    return f"{subject.get('kind')} {space}{subject.get('name')}"


_WHO = ("Principal", "NotPrincipal", "NotResource", "NotAction")


def _grants(document: Any, effect: str = "Allow") -> dict[tuple[str, str], Any]:
    """(action, resource) -> who and when, of each statement that allows, or denies, something."""
    grants: dict[tuple[str, str], Any] = {}
    statements = document.get("Statement") if isinstance(document, Mapping) else None
    for row in several(statements):
        if row.get("Effect") == effect:
            actions = several(row.get("Action")) or ["everything but the named"]
            for action in actions:
                for resource in several(row.get("Resource")) or ["*"]:
                    rest = {k: row[k] for k in ("Condition", *_WHO) if row.get(k)}
                    grants[str(action), str(resource)] = rest
    return grants


def _statements(change: Change, was: Any, now: Any, **_: bool) -> Iterator[Judged]:
    """Yield what a document allows in addition or no longer, and what it no longer denies."""
    before, after = _grants(was), _grants(now)
    yield from _allowed(sorted(after.keys() - before.keys()), added=change.kind == "added")
    if freed := [pair for pair in after if _freed(before.get(pair), after[pair])]:
        rows = [tuple(of[pair].get("Condition") for of in (before, after)) for pair in freed]
        text = f"the condition of {_pairs(freed)} changes, or who has it"
        yield Judged("refuse", "rights", f"{text}{_no_more(rows)}")
    fewer = [
        pair for pair in after if pair not in freed and _narrowed(before.get(pair), after[pair])
    ]
    if fewer:
        text = f"allows {_pairs(fewer)} under more conditions only: {_conditions(after, fewer)}"
        yield Judged("ask", "access", text, "what uses the role, where they do not hold")
    denied, denies = _grants(was, "Deny"), _grants(now, "Deny")
    undone = sorted(pair for pair, row in denied.items() if denies.get(pair) != row)
    if undone and change.kind == "changed":
        yield Judged("refuse", "rights", f"no longer denies, or otherwise, {_pairs(undone)}")
    gone = sorted(before.keys() - after.keys())
    wider = all(any(_covers(a, g) for a in after) for g in gone)
    if change.kind != "deleted" and not wider:
        text = f"no longer allows {_pairs(gone)}"
        yield Judged("ask", "access", text, "what uses the role, at its next call")


def _allowed(gained: list[tuple[str, str]], *, added: bool) -> Iterator[Judged]:
    """Yield how grave it is that a document newly allows actions on resources."""
    grave = [pair for pair in gained if _is_grave(*pair)]
    wide = [pair for pair in gained if pair[1] == "*" and not reads(pair[0])]
    if grave:
        yield Judged("refuse", "rights", f"allows {_pairs(grave)}")
    elif wide:
        yield Judged("ask", "rights", f"allows {_pairs(wide)}")
    elif gained:
        writes = any(not reads(action) for action, _ in gained)
        level: Level = "ask" if writes and not added else "note"
        yield Judged(level, "rights", f"allows {_pairs(gained)}")


def _trust(change: Change, was: Any, now: Any, *, code: bool) -> Iterator[Judged]:
    """Yield who may newly take a role, or no longer; a service takes those that it needs."""
    before, after = _takers(was), _takers(now)
    gained = [
        who for who, when in after.items() if who not in before or _loosened(before[who], when)
    ]
    people = [who for who in gained if not who.startswith("Service ")]
    loose = [who for who in people if who.startswith("Federated ") and _is_loose(after[who])]
    if change.kind == "deleted":
        return
    if change.kind != "added" and gained:
        text = f"may be taken by others than before: {short(gained)}"
        rows = [(before.get(who), after[who]) for who in gained]
        yield Judged("refuse", "rights", f"{text}{_no_more(rows)}")
    elif change.kind != "added" and (lost := sorted(before.keys() - after.keys())):
        yield Judged("ask", "access", f"may no longer be taken by {short(lost)}")
    elif change.kind != "added":
        fewer = [who for who, when in after.items() if before[who] != when]
        text = f"may be taken by {short(fewer)} under more conditions only"
        yield Judged("ask", "access", text, "who takes it, where they do not hold")
    elif loose and code:
        named = ", ".join(f"{who} ({short(_subjects(after[who]))})" for who in loose)
        text = f"may be taken by whatever is of {named}: name one repository or account in `sub`"
        yield Judged("refuse", "rights", text)
    elif people and code:
        yield Judged("ask", "rights", f"may be taken by {short(people)}")


_DOCUMENTS: Mapping[str, Callable[..., Iterator[Judged]]] = {
    "policy": _statements,
    "policyDocument": _statements,
    "assumeRolePolicy": _trust,
}


def documents(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield what the IAM documents of a resource say otherwise.

    The policy pack judges unknown documents of what the stack's file adds.
    """
    for key, rule in _DOCUMENTS.items():
        was, now = change.was.get(key), change.now.get(key)
        if was == now:
            continue
        if UNKNOWN not in str(now):
            yield from rule(change, was, now, code=code)
        elif code or change.kind != "added":
            yield unjudged([key])


# One repository, or the accounts of one namespace.
_OF_ONE = re.compile(r"repo:[^/*]+/[^:*]+:|system:serviceaccount:[^:*]+:")


def _subjects(condition: Any) -> list[str]:
    """Return the subjects of tokens that a condition lets in."""
    tests = condition.values() if isinstance(condition, Mapping) else ()
    rows = [item for test in tests if isinstance(test, Mapping) for item in test.items()]
    return [str(value) for key, values in rows if key.endswith(":sub") for value in several(values)]


def _is_loose(condition: Any) -> bool:
    """Return whether tokens of more than one repository or namespace are let in."""
    subjects = _subjects(condition)
    return not subjects or any("*" in text and not _OF_ONE.match(text) for text in subjects)


def _takers(document: Any) -> dict[str, Any]:
    """Return who may take a role -> under which condition."""
    statements = document.get("Statement") if isinstance(document, Mapping) else None
    takers = {}
    for row in several(statements):
        named = row.get("Principal") if row.get("Effect") == "Allow" else None
        kinds = named if isinstance(named, Mapping) else {"": named}
        for kind, who in kinds.items():
            for name in several(who):
                takers[f"{kind} {name}".strip()] = row.get("Condition")
    return takers


def _no_more(rows: Iterable[tuple[Any, ...]]) -> str:
    """Return the tests of conditions, before and after, that hold nobody back any more."""
    gone = {
        f"{key} {name} {short(sorted(values))}" if (name, key) in _tests(now) else key
        for was, now in rows
        for (name, key), values in _tests(was).items()
        if _tests(now).get((name, key)) != values
    }
    return f": no longer limited by {few(sorted(gone), 4, '; ')}" if gone else ""


def _conditions(grants: Mapping[tuple[str, str], Any], of: list[tuple[str, str]]) -> str:
    tests = {
        test: values
        for pair in of
        for test, values in _tests(grants[pair].get("Condition")).items()
    }
    texts = [
        f"{key} {test} {short(sorted(values))}" for (test, key), values in sorted(tests.items())
    ]
    return few(texts, 4, "; ")


def _freed(was: Any, now: Any) -> bool:
    """Return whether a grant holds where it did not, or for others; not one that holds for less."""
    return was is not None and (
        _loosened(was.get("Condition"), now.get("Condition"))
        or any(was.get(key) != now.get(key) for key in _WHO)
    )


def _loosened(was: Any, now: Any) -> bool:
    return bool(was) and was != now and not narrower(was, now)


def _narrowed(was: Any, now: Any) -> bool:
    """Return whether a grant holds under more conditions than before."""
    return was is not None and was.get("Condition") != now.get("Condition")


def narrower(was: Any, now: Any) -> bool:
    """Return whether what meets a condition met the other too.

    All tests of a condition must hold; one holds if a value of its list does, and with ``Not`` in
    its name if none does (IAM user guide, "Conditions with multiple context keys or values").
    """
    old, new = _tests(was), _tests(now)
    return bool(old) and all(
        test in new and (values <= new[test] if "Not" in test[0] else new[test] <= values)
        for test, values in old.items()
    )


def _tests(condition: Any) -> dict[tuple[str, str], set[str]]:
    rows = condition.items() if isinstance(condition, Mapping) else ()
    return {
        (str(test), str(key).lower()): {str(value) for value in several(values)}
        for test, keys in rows
        if isinstance(keys, Mapping)
        for key, values in keys.items()
    }


def _covers(wide: tuple[str, str], narrow: tuple[str, str]) -> bool:
    return all(fnmatchcase(n, w) for n, w in zip(narrow, wide, strict=True))


def reads(action: str) -> bool:
    """Return whether an action of IAM changes nothing."""
    verb = action.partition(":")[2]
    return verb.startswith(("Describe", "List", "Get")) and action != "s3:*"


def _is_grave(action: str, resource: str) -> bool:
    service, _, verb = action.partition(":")
    if verb in ("*", "") or action == "everything but the named":
        return True
    loose = resource == "*" or resource.endswith((":role/*", ":*:*", ":::*"))
    return loose and (
        action in ("sts:AssumeRole", "iam:PassRole", "kms:Decrypt", "s3:GetObject", "s3:PutObject")
        or (service in ("iam", "organizations", "secretsmanager") and not reads(action))
        or (service in ("secretsmanager", "ssm") and verb.startswith("Get"))
        or verb.startswith(("Delete", "Terminate", "*"))
    )


def _pairs(pairs: list[tuple[str, str]]) -> str:
    """Return actions by resource; those that only read come last."""
    actions: dict[str, list[str]] = {}
    for action, resource in sorted(pairs, key=lambda pair: (reads(pair[0]), pair)):
        actions.setdefault(resource, []).append(action)
    texts = [f"{', '.join(names)} on {resource}" for resource, names in actions.items()]
    return few(texts, 5, "; ")


_POLICY_KINDS = (
    *("AccessPolicyAssociation", "GroupPolicyAttachment", "PolicyAttachment"),
    *("RolePolicyAttachment", "UserPolicyAttachment"),
)
# Kind -> the field that lists whom it puts together with its one user or group.
_MEMBERS = {"GroupMembership": "users", "UserGroupMembership": "groups"}


def memberships(change: Change, **_: bool) -> Iterator[Judged]:
    """Yield users who get the rights of a group."""
    key = _MEMBERS.get(change.either.type.rpartition(":")[2], "")
    for name in several(change.now.get(key)):
        if name not in several(change.was.get(key)):
            user, group = change.now.get("user", name), change.now.get("group", name)
            yield Judged("ask", "rights", f"gives {short(user)} what {short(group)} may")


def attachments(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield managed policies that someone gains, by a whole service or a whole cluster."""
    kind = change.either.type.rpartition(":")[2]
    if kind == "AccessEntry" and change.kind == "added":
        yield Judged("note", "access", f"lets {change.now.get('principalArn')} log in")
    if kind not in _POLICY_KINDS:
        was, now = (set(several(of.get("managedPolicyArns"))) for of in (change.was, change.now))
        for gained in sorted(now - was):
            yield from _managed(change, str(gained), code=code)
        return
    arn = str(change.now.get("policyArn", ""))
    if UNKNOWN in arn and (made := change.either.refers.get("policyArn", ())):
        arn = ", ".join(names(made))
    if change.now and arn != change.was.get("policyArn"):
        yield from _managed(change, arn, code=code)


def _managed(change: Change, arn: str, *, code: bool) -> Iterator[Judged]:
    name = arn.rpartition("/")[2]
    holders = ("principalArn", "role", "user", "group")
    who = next((change.now[key] for key in holders if change.now.get(key)), change.either.name)
    who = change.either.name if UNKNOWN in str(who) else who
    if name in ("AmazonEKSClusterAdminPolicy", "AmazonEKSAdminPolicy"):
        # The stack's file names its administrators.
        level: Level = "ask" if change.kind == "added" and not code else "refuse"
        yield Judged(level, "rights", f"makes {who} an administrator of the whole cluster")
    elif name.endswith(("FullAccess", "PowerUserAccess", "AdministratorAccess", "Administrator")):
        yield Judged("refuse", "rights", f"gives {who} {name}, all of a service")
    else:
        yield Judged("ask", "rights", f"gives {who} {name}")


#: Rules of what AWS' resources give.
OF_AWS = (documents, memberships, attachments)


def _members(inputs: Mapping[str, Any]) -> list[str]:
    return [str(m) for m in (*several(inputs.get("member")), *several(inputs.get("members")))]


def google(change: Change) -> Iterator[Judged]:
    """Yield roles of Google that someone gains."""
    role = str(change.now.get("role", ""))
    known = _members(change.was) if role == change.was.get("role") else []
    gained = [member for member in _members(change.now) if member not in known]
    if not change.now or not role or not gained:
        return
    if UNKNOWN in role:
        yield unjudged(["role"])
        return
    who = ", ".join(gained)
    if UNKNOWN in who:
        who = ", ".join(names(change.either.refers.get("member", ()))) or "its account"
    grave = role.lower().endswith(("admin", "owner", "editor")) or "tokenCreator" in role
    # `/*` ends a set of all identities of a pool (IAM documentation, principal identifiers); of
    # PROJECT.svc.id.goog these are all pods of the project's clusters.
    everyone = ("allUsers", "allAuthenticatedUsers", "/*")
    grave = grave or any(member.endswith(everyone) for member in gained)
    level: Level = "refuse" if grave else "ask"
    yield Judged(level, "rights", f"gives {who or 'its account'} {role}")
