"""Judges each change of a stack's resources."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

from railhead.base.names import JOBS_OWNER
from railhead.machines import MACHINES
from railhead.review import expiry, reach, rights
from railhead.review.added import ADDED, QUIET
from railhead.review.compare import Change, Planned, lost_order
from railhead.review.gone import OTHER, OWNER, gone, size
from railhead.review.judged import Judged, few, unjudged
from railhead.review.model import Level
from railhead.review.objects import BY_KIND, READ, WORKLOADS
from railhead.review.rows import MARKS, differing, fields, flat, several, short, told, unread

# Networks of pods' rails: a stack's file changes them too, and no other row says what they lose.
_RAILS = (
    *("NetworkAttachmentDefinition", "SriovNetworkNodePolicy", "SriovNetwork", "SriovIBNetwork"),
    *("IPPool", "CIDRPool", "NicClusterPolicy", "MacvlanNetwork", "HostDeviceNetwork"),
    *("Network", "GKENetworkParamSet"),
)
# Parts of a cloud's resources that the rules of rights read.
_RIGHTS = r"^(policy|policyDocument|assumeRolePolicy|managedPolicyArns|policyArn|role|members?)\b"
_ASIDE = (*MARKS, "description")
_SECRET = "[secret]"  # noqa: S105 - as plans print one


def judged(
    change: Change,
    after: Mapping[str, Planned],
    *,
    code: bool,
    named: Collection[tuple[str, str]],
    added: Collection[str] = (),
) -> Iterator[tuple[str, Judged]]:
    """Yield (rule, verdict) on a change.

    Args:
        change: what differs.
        after: all of the head.
        code: whether code made it, and not the stack's own file.
        named: what the guard of edits names already, as (kind, name), with all that goes with it.
        added: URNs of what is new in the head.
    """
    if change.kind in ("deleted", "replaced"):
        yield from _lost(change, code=code, named=named)
    yield from _options(change)
    if code:
        yield from _manner(change)
    yield from _plain(change)
    yield from _order(change, after)
    kind = change.either.type.rpartition(":")[2].removesuffix("Patch")
    made = [after[urn] for urn in added if urn in after] if kind in WORKLOADS else []
    own = {p.identity[-1] for p in made if p.type.endswith(":PersistentVolumeClaim") and p.identity}
    for result in _verdicts(change, kind, code=code, added=added, own=own):
        yield result.rule or f"{result.loss}-{kind.lower()}", result


def _verdicts(
    change: Change, kind: str, *, code: bool, added: Collection[str], own: Collection[str]
) -> Iterator[Judged]:
    """Yield what the rules of a type say, the rows of fields, and what neither reads."""
    yield from fields(change)
    try:
        if change.either.type.startswith("kubernetes:"):
            yield from _by_kind(change, kind, code=code, own=own)
        else:
            yield from _by_cloud(change, code=code, added=added)
    except (AttributeError, KeyError, TypeError, ValueError):
        inputs = {**dict(flat(change.was)), **dict(flat(change.now))}
        unknown = [path for path, value in inputs.items() if UNKNOWN in str(value)]
        text = "could not be judged: a field of it has another form than its API takes"
        yield unjudged(unknown) if unknown else Judged("unjudged", "judges", text)
    yield from _rest(change, kind, code=code)


def _by_cloud(change: Change, *, code: bool, added: Collection[str]) -> Iterator[Judged]:
    """Yield what the rules of a cloud's resources say."""
    type_ = change.either.type
    if type_.startswith("aws:"):
        for rule in rights.OF_AWS:
            yield from rule(change, code=code)
    elif type_.startswith("gcp:") and "iam" in type_.lower():
        yield from rights.google(change)
    yield from _purchases(change, code=code)
    if change.kind == "added" and code:
        yield from _clocks(change)
    yield from reach.networks(change)
    yield from expiry.deletions(change, added)


def _by_kind(change: Change, kind: str, *, code: bool, own: Collection[str]) -> Iterator[Judged]:
    """Yield what the rules of a kind say."""
    for rule in BY_KIND.get(kind, ()):
        yield from rule(change, code=code)
    for rule in ADDED.get(kind, ()):
        yield from rule(change, code=code, own=own)
    if code and change.kind == "added" and kind not in (*BY_KIND, *ADDED, *QUIET):
        yield Judged("ask", "jobs", f"is added, and no rule knows what a {kind} does")


# Type -> how many machines it starts, and of which kind: paths of inputs.
_STARTS: tuple[tuple[str, str, str], ...] = (
    ("aws:eks/nodeGroup:NodeGroup", "scalingConfig.desiredSize", "instanceTypes"),
    ("aws:ec2/instance:Instance", "", "instanceType"),
    ("aws:ec2/spotInstanceRequest:SpotInstanceRequest", "", "instanceType"),
    ("aws:autoscaling/group:Group", "desiredCapacity", ""),
    ("gcp:container/nodePool:NodePool", "nodeCount", "nodeConfig.machineType"),
    ("gcp:compute/instance:Instance", "", "machineType"),
    ("gcp:compute/instanceGroupManager:InstanceGroupManager", "targetSize", ""),
)


def _purchases(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield machines that are paid for from now on, used or not."""
    type_, inputs = change.either.type, change.now
    if change.kind != "added":
        return
    if "apacityBlockReservation" in type_:
        yield Judged("refuse", "capacity", "is bought by this: it is paid in full")
    elif type_.startswith("aws:ec2/capacityReservation:") and code:
        text = f"reserves {_machines(inputs.get('instanceCount'), inputs.get('instanceType'))}: "
        text += f"paid for, used or not, until {inputs.get('endDate') or 'someone cancels it'}"
        yield Judged("ask", "capacity", text, "who pays")
    elif code and (row := next((row for row in _STARTS if row[0] == type_), None)):
        values = dict(flat(inputs))
        count, kind = values.get(row[1], 1), next(iter(several(values.get(row[2]))), "")
        machine = MACHINES.get(str(kind))
        text = (
            f"starts {_machines(count, kind or 'of another resource')} beside the stack's pools, "
        )
        text += "paid for while they are there"
        if machine and machine.gpus:
            text += ": no queue counts their GPUs, no gate proves them, and jobs cannot have them"
        yield Judged("refuse" if machine and machine.gpus else "ask", "capacity", text, "who pays")


# Type -> when it acts, to how many machines (paths of inputs), and how many where none is said.
_CLOCKS: Mapping[str, tuple[str, str, int | None]] = {
    # hashicorp/terraform-provider-aws, internal/service/autoscaling/schedule.go: -1 is not sent.
    "aws:autoscaling/schedule:Schedule": ("recurrence", "desiredCapacity", 0),
    "aws:appautoscaling/scheduledAction:ScheduledAction": (
        "schedule",
        "scalableTargetAction.maxCapacity",
        None,
    ),
    "aws:scheduler/schedule:Schedule": ("scheduleExpression", "", None),
    "gcp:compute/resourcePolicy:ResourcePolicy": (
        "instanceSchedulePolicy.vmStopSchedule.schedule",
        "",
        None,
    ),
}


def _clocks(change: Change) -> Iterator[Judged]:
    """Yield what starts or stops machines by the clock."""
    row = _CLOCKS.get(change.either.type)
    values = dict(flat(change.now))
    if row is None or not (when := values.get(row[0])):
        return
    count = values.get(row[1], row[2])
    number = f"{count:g}" if isinstance(count, int | float) else short(count)
    does = "acts" if count in (None, -1) else f"sets its group to {number} machines"
    text = f"{does} by itself ({short(when)}): jobs on machines that it stops end then, and what "
    text += "is reserved is paid for all the same"
    yield Judged("refuse" if count == 0 else "ask", "jobs", text, "jobs that run at that hour")


def _machines(count: Any, kind: Any) -> str:
    machine = MACHINES.get(str(kind))
    gpus = machine.gpus * int(count) if machine and isinstance(count, int | float) else 0
    number = int(count) if isinstance(count, float) else count
    return f"{number} machines {kind}{f' ({gpus} GPUs)' if gpus else ''}"


def _lost(
    change: Change, *, code: bool, named: Collection[tuple[str, str]]
) -> Iterator[tuple[str, Judged]]:
    resource = change.before or change.either
    row = OWNER if resource.identity[-1:] == (JOBS_OWNER,) else gone(resource.type)
    amount = f" ({much})" if (much := size(resource)) else ""
    kind = resource.type.rpartition(":")[2].lower()
    level: Level = row.level
    if _is_named(resource, named):
        return
    if level == "ask" and code and row.loss in ("network", "access"):
        level = "refuse"
    if change.kind == "deleted":
        kept = ", though Pulumi leaves the object where it is" if resource.retain else ""
        yield (
            f"deleted-{kind}",
            Judged(level, row.loss, f"is deleted{amount}: {row.what}{kept}", row.who),
        )
        return
    if change.forced_by == ("URN",):
        moved = resource.name == change.either.name
        text = f"has another {'parent' if moved else 'name'} in the program: it is recreated, and "
        text += "then deleted as the old one" if resource.identity else f"then {row.what}"
    else:
        text = (
            f"is replaced{amount}, because of {', '.join(change.forced_by)}: meanwhile {row.what}"
        )
    yield f"replaced-{kind}", Judged(level, row.loss, text, row.who)


def _is_named(resource: Planned, named: Collection[tuple[str, str]]) -> bool:
    metadata = resource.inputs.get("metadata")
    space = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    name = str((metadata.get("name") if isinstance(metadata, Mapping) else "") or "")
    for kind, other in named:
        if kind == "cluster":
            return True
        last = other.rpartition("/")[2]
        if kind == "namespace" and other in (space, name):
            return True
        parts = resource.urn.rsplit("::", 1)[-1].split("-")
        if kind in ("pool", "storage", "queue", "checkpoint") and (
            last in (name, name.rpartition("-")[0]) or f"-{last}" in f"-{'-'.join(parts)}"
        ):
            return True
    return False


def _options(change: Change) -> Iterator[tuple[str, Judged]]:
    old, new = change.before, change.after
    if old is None or new is None:
        return
    row = gone(new.type)
    if old.protect and not new.protect:
        text = f"loses its protection (protect): one edit can delete it, and then {row.what}"
        yield "protect", Judged("refuse", row.loss, text, row.who)
    if old.retain and not new.retain:
        text = "loses retain_on_delete: what is deleted from the stack is deleted for good"
        yield "retain", Judged("refuse", row.loss, text, row.who)
    if lost := sorted(old.ignores - new.ignores):
        text = f"no longer ignores changes of {', '.join(lost)}: the next update puts them back"
        yield (
            "ignores",
            Judged("refuse", "jobs", text, "who changed them by hand or by autoscaling"),
        )
    if ignored := sorted(new.ignores - old.ignores):
        text = f"ignores changes of {', '.join(ignored)} from now on: no edit reaches the cluster"
        yield "ignores", Judged("ask", "file", text, "who edits it next")


def _manner(change: Change) -> Iterator[tuple[str, Judged]]:
    """Yield options that code takes away, of which nothing shows on the day."""
    old, new = change.before, change.after
    if old is None or new is None:
        return
    row = gone(new.type)
    if any(not _has_alias(new, urn, old.name) for urn in old.aliases - {new.urn}):
        text = (
            "has fewer aliases than before: a stack that has it by an earlier name deletes it and "
        )
        text += f"makes another, and then {row.what}"
        yield "alias", Judged("ask", row.loss, text, "stacks that have had no `up` since")
    if old.manner is None or new.manner is None:
        return
    was, now = old.manner, new.manner
    if was.provider != now.provider:
        text = f"is made by {_of(now.provider)}, not {_of(was.provider)}: where that has another "
        text += f"account, region or cluster it is recreated there, and then {row.what}"
        yield "provider", Judged("refuse", row.loss, text, row.who)
    if lost := sorted(was.secret - now.secret):
        text = f"has its outputs {', '.join(lost)} in plain text in the stack's state"
        yield "secret", Judged("refuse", "rights", text, "nobody, until someone reads them")
    if was.goes_first and not now.goes_first:
        text = "is replaced by one that is made before it goes: where its name or its machines "
        text += "are taken until then, that fails"
        yield "goes-first", Judged("ask", "jobs", text, "who changes it next")
    if now.goes_first and not was.goes_first:
        text = f"goes before its successor is made, when it is replaced: meanwhile {row.what}"
        yield "goes-first", Judged("ask", row.loss, text, row.who)
    if lost := sorted(was.replaced_for - now.replaced_for):
        text = f"is not replaced any more when {', '.join(lost)} changes: that cannot be updated"
        yield "replaced-for", Judged("ask", "jobs", text, "who changes it next")
    if more := sorted(now.replaced_for - was.replaced_for):
        text = f"is replaced when {', '.join(more)} changes: meanwhile {row.what}"
        yield "replaced-for", Judged("ask", row.loss, text, row.who)
    for what, seconds in sorted(was.limits.items()):
        if what not in now.limits or now.limits[what] < seconds:
            text = f"has {_time(now.limits.get(what))} for its {what}, not {_time(seconds)}: then "
            text += "`up` ends in an error while the work goes on"
            yield "limit", Judged("ask", "jobs", text, "who runs an `up` that takes longer")
    if was.deleted_with != now.deleted_with:
        yield "deleted-with", _going(was.deleted_with, now.deleted_with)


def _has_alias(new: Planned, urn: str, name: str) -> bool:
    """Return whether a resource still has an alias of what was called ``name``.

    One by another type has the resource's own name, as SDKs give it for other versions of an API.
    """
    if urn in new.aliases:
        return True
    type_, its = _type_and_name(urn)
    return its == name and (type_, new.name) in map(_type_and_name, new.aliases)


def _type_and_name(urn: str) -> tuple[str, str]:
    before, _, name = urn.rpartition("::")
    return before.rpartition("::")[2].rpartition("$")[2], name


def _plain(change: Change) -> Iterator[tuple[str, Judged]]:
    """Yield inputs that were secret and are not any more."""
    shown = [
        path
        for path, (was, now) in (differing(change) if change.stays else {}).items()
        if _SECRET in str(was) and now is not None and _SECRET not in str(now)
    ]
    if shown:
        text = f"is no secret any more in {few(shown, 4)}: it lies in plain text in the stack's "
        text += "state, and previews print it"
        yield "secret", Judged("refuse", "rights", text, "nobody, until someone reads it")


def _going(was: str, now: str) -> Judged:
    if not now:
        text = f"is deleted by itself, not with {_of(was)}: `destroy` waits for it, and stops "
        text += "where what would let it go is away"
    else:
        text = f"is not deleted by itself but with {_of(now)}: where that stays, so does it"
    return Judged("ask", "jobs", text, "the next `destroy`")


def _of(urn: str) -> str:
    return urn.rsplit("::", 1)[-1] if urn else "the default provider"


def _time(seconds: float | None) -> str:
    return "what its provider gives" if seconds is None else f"{seconds / 60:g} minutes"


def _order(change: Change, after: Mapping[str, Planned]) -> Iterator[tuple[str, Judged]]:
    old, new = change.before, change.after
    if old is None or new is None or not (gone_ := lost_order(old, new, after)):
        return
    names = [after[urn].label for urn in gone_]
    text = f"no longer waits for {few(names, 4)}: it may be made before them and deleted after them"
    yield "order", Judged("ask", "jobs", text, "the next `up` or `destroy`, now and then")


def _rest(change: Change, kind: str, *, code: bool) -> Iterator[Judged]:
    """Yield a look at the parts that no rule reads, where code changes them, and at rails."""
    rails = kind in _RAILS
    if not (change.stays and (code or rails)):
        return
    type_ = change.either.type
    if type_.startswith("kubernetes:"):
        rest = unread(change, READ.get(kind, ""))
    else:
        rest = unread(change, reach.READ if kind in reach.KINDS else _RIGHTS)
    # What replaces it is said with the replacement.
    rest = {path: values for path, values in rest.items() if not path.startswith(change.forced_by)}
    if not rest:
        return
    text = told((path, *values) for path, values in rest.items())
    aside = not type_.startswith("kubernetes:") and all(p.startswith(_ASIDE) for p in rest)
    loss = "network" if rails else gone(type_).loss if gone(type_) is not OTHER else "jobs"
    yield Judged("note" if aside else "ask", loss, text)
