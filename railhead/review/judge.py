"""Judges each change of a stack's resources."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

from railhead.base.names import JOBS_OWNER
from railhead.machines import MACHINES
from railhead.review import rights
from railhead.review.added import ADDED, QUIET
from railhead.review.compare import Change, Planned, lost_order
from railhead.review.gone import OTHER, OWNER, gone, size
from railhead.review.judged import Judged, unjudged
from railhead.review.model import Level
from railhead.review.objects import BY_KIND, READ
from railhead.review.rows import (
    MARKS,
    differing,
    fields,
    flat,
    prefix,
    several,
    short,
    told,
    unread,
)

# Networks of pods' rails: a stack's file changes them too, and no other row says what they lose.
_RAILS = (
    *("NetworkAttachmentDefinition", "SriovNetworkNodePolicy", "SriovNetwork", "SriovIBNetwork"),
    *("IPPool", "CIDRPool", "NicClusterPolicy", "MacvlanNetwork", "HostDeviceNetwork"),
    *("Network", "GKENetworkParamSet"),
)
# Parts of a cloud's resources that the rules of rights read, and those that :func:`_reach` does.
_RIGHTS = r"^(policy|policyDocument|assumeRolePolicy|managedPolicyArns|policyArn|role|members?)\b"
_REACH = r"^(cidr|prefixList|sourceRanges|ingress|ipv6Cidr)|ort|rotocol|allows|ecurityGroup"
_REACHED = (
    *("DefaultSecurityGroup", "Firewall", "SecurityGroup", "SecurityGroupRule"),
    *("SecurityGroupEgressRule", "SecurityGroupIngressRule"),
)
_ASIDE = (*MARKS, "description")
_GOOGLE_BUCKET = "gcp:storage/bucket:Bucket"


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
    yield from _order(change, after)
    type_ = change.either.type
    kind = type_.rpartition(":")[2].removesuffix("Patch")
    results: list[Judged] = []
    if type_.startswith("kubernetes:"):
        results += _by_kind(change, kind, code=code)
    results += fields(change)
    if type_.startswith("aws:"):
        for rule in (rights.documents, rights.trusts, rights.attachments):
            results += rule(change, code=code)
        results += [*_reach(change), *_expiry(change, added)]
    if type_.startswith("gcp:") and "iam" in type_.lower():
        results += rights.google(change)
    elif type_.startswith("gcp:compute/firewall"):
        results += _reach(change)
    elif type_ == _GOOGLE_BUCKET:
        results += _expiry(change, added)
    if "apacityBlockReservation" in type_ and change.kind == "added":
        results.append(Judged("refuse", "capacity", "is bought by this: it is paid in full"))
    elif type_.startswith("aws:ec2/capacityReservation:") and change.kind == "added" and code:
        results.append(_reserved(change.now))
    results += _rest(change, kind, code=code)
    for result in results:
        yield result.rule or f"{result.loss}-{kind.lower()}", result


def _by_kind(change: Change, kind: str, *, code: bool) -> Iterator[Judged]:
    """Yield what the rules of a kind say; an unknown part that they cannot read is unjudged."""
    try:
        for rule in BY_KIND.get(kind, ()):
            yield from rule(change, code=code)
        for rule in ADDED.get(kind, ()):
            yield from rule(change, code=code)
        if code and change.kind == "added" and kind not in (*BY_KIND, *ADDED, *QUIET):
            yield Judged("ask", "jobs", f"is added, and no rule knows what a {kind} does")
    except (AttributeError, TypeError):
        inputs = {**dict(flat(change.was)), **dict(flat(change.now))}
        unknown = [path for path, value in inputs.items() if UNKNOWN in str(value)]
        if not unknown:
            raise
        yield unjudged(unknown)


def _reserved(inputs: Mapping[str, Any]) -> Judged:
    """Return what a reservation of machines costs from its first minute on."""
    count, type_ = inputs.get("instanceCount"), str(inputs.get("instanceType"))
    machine = MACHINES.get(type_)
    gpus = f" ({machine.gpus * int(count)} GPUs)" if machine and isinstance(count, int) else ""
    until = inputs.get("endDate") or "someone cancels it"
    text = f"reserves {count} machines {type_}{gpus}: paid for, used or not, until {until}"
    return Judged("ask", "capacity", text, "who pays")


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
        text = "has another name in the program: it is recreated, and then deleted as the old one"
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


def _order(change: Change, after: Mapping[str, Planned]) -> Iterator[tuple[str, Judged]]:
    old, new = change.before, change.after
    if old is None or new is None or not (gone_ := lost_order(old, new, after)):
        return
    names = [after[urn].label for urn in gone_]
    listed = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    text = f"no longer waits for {listed}: it may be made before them and deleted after them"
    yield "order", Judged("ask", "jobs", text, "the next `up` or `destroy`, now and then")


def _reach(change: Change) -> Iterator[Judged]:
    """Yield networks that a rule of a security group or firewall newly lets in."""
    kind = change.either.type.rpartition(":")[2]
    if not change.now or kind not in _REACHED:
        return
    way_in = "Egress" not in kind and change.now.get("direction") != "EGRESS"
    was, now = set(_networks(change.was)), set(_networks(change.now))
    for network in sorted(now - was):
        if way_in and UNKNOWN in network:
            yield unjudged([network.partition("=")[0]])
        elif network.startswith("pl-"):
            yield Judged("ask", "network", f"lets in {network}: the list was not read")
        elif way_in and prefix(network) < 16:
            yield Judged("refuse", "network", f"lets in {network}, {_hosts(network)} addresses")
        elif way_in and change.kind != "added":
            yield Judged("ask", "network", f"lets in {network}")
        else:
            text = f"{'lets in' if way_in else 'reaches'} {short(network)}"
            yield Judged("note", "network", text)
    if change.before and change.after:
        for path, (old, new) in differing(change).items():
            if "ort" in path or "rotocol" in path or "allows" in path or "ecurityGroup" in path:
                text = f"{path}: {short(old)} -> {short(new)}"
                yield Judged("refuse", "network", text, "who sends what is refused")


def _expiry(change: Change, added: Collection[str]) -> Iterator[Judged]:
    """Yield rules that newly, or sooner, delete what is in a bucket that was there before."""
    google = change.either.type == _GOOGLE_BUCKET
    buckets = (change.either.urn,) if google else change.either.refers.get("bucket", ())
    fresh = change.kind == "added" and buckets and all(urn in added for urn in buckets)
    if fresh or not (google or "ucketLifecycle" in change.either.type):
        return
    key, read = ("lifecycleRules", _expiring_of_google) if google else ("rules", _expiring)
    if UNKNOWN in str((change.was.get(key), change.now.get(key))):
        yield unjudged([key])
        return
    known = dict(read(change.was))
    for (below, what), when in read(change.now):
        before = min(
            (w for (p, k), w in known.items() if k == what and below.startswith(p)), default=None
        )
        if before is not None and before[0] <= when[0]:
            continue
        where = f" below {below}" if below else ""
        text = f"deletes every {what}{where} {when[1]}"
        sooner = f", in place of {before[1]}" if before is not None else ""
        grave = not below and what == "object"
        yield Judged("refuse" if grave else "ask", "data", text + sooner, "who reads it later")


def _expiring(inputs: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], tuple[int, str]]]:
    """Yield ((prefix, what is deleted), (after how many days, in words)); a date is 0 days."""
    for rule in inputs.get("rules") or ():
        below = (rule.get("filter") or {}).get("prefix") or rule.get("prefix") or ""
        objects = rule.get("expiration") or {}
        versions = rule.get("noncurrentVersionExpiration") or {}
        if rule.get("status") != "Enabled":
            continue
        if days := objects.get("days"):
            yield (below, "object"), (days, f"{days} days after it was written")
        elif date := objects.get("date"):
            yield (below, "object"), (0, f"from {date} on, however new it is")
        if days := versions.get("noncurrentDays"):
            yield (below, "older version"), (days, f"{days} days after it was replaced")


def _expiring_of_google(
    inputs: Mapping[str, Any],
) -> Iterator[tuple[tuple[str, str], tuple[int, str]]]:
    """Yield the same of a bucket of Google's (Cloud Storage, "Object Lifecycle Management")."""
    for rule in inputs.get("lifecycleRules") or ():
        when = rule.get("condition") or {}
        if (rule.get("action") or {}).get("type") != "Delete":
            continue
        days, older = when.get("age"), when.get("daysSinceNoncurrentTime")
        kept = when.get("numNewerVersions")
        what = "older version" if older or kept or when.get("withState") == "ARCHIVED" else "object"
        if older:
            text = f"{older} days after it was replaced"
        elif days:
            text = f"{days} days after it was written"
        else:
            text = f"that meets {short([f'{k} {v}' for k, v in when.items()])}"
        for below in when.get("matchesPrefixes") or when.get("matchesSuffixes") or [""]:
            yield (below, what), (older or days or 0, text)


def _hosts(network: str) -> str:
    return f"{ipaddress.ip_network(network, strict=False).num_addresses:,}"


def _networks(inputs: Mapping[str, Any]) -> Iterator[str]:
    """Yield each network of a rule, and ``key=UNKNOWN`` for what is not known yet."""
    for key in ("cidrIpv4", "cidrIpv6", "prefixListId"):
        if inputs.get(key):
            yield _known(key, inputs[key])
    for key in ("cidrBlocks", "ipv6CidrBlocks", "sourceRanges", "prefixListIds"):
        for network in several(inputs.get(key)):
            yield _known(key, network)
    for rule in several(inputs.get("ingress")):
        if isinstance(rule, Mapping):
            yield from _networks(rule)
        else:
            yield _known("ingress", rule)


def _known(key: str, network: Any) -> str:
    return f"{key}={UNKNOWN}" if UNKNOWN in str(network) else str(network)


def _rest(change: Change, kind: str, *, code: bool) -> Iterator[Judged]:
    """Yield a look at the parts that no rule reads, where code changes them, and at rails."""
    rails = kind in _RAILS
    if not (change.before and change.after and (code or rails)):
        return
    type_ = change.either.type
    if type_.startswith("kubernetes:"):
        rest = unread(change, READ.get(kind, ""))
    else:
        rest = unread(change, _REACH if kind in _REACHED else _RIGHTS)
    # What replaces it is said with the replacement.
    rest = {path: values for path, values in rest.items() if not path.startswith(change.forced_by)}
    if not rest:
        return
    text = told((path, *values) for path, values in rest.items())
    aside = not type_.startswith("kubernetes:") and all(p.startswith(_ASIDE) for p in rest)
    loss = "network" if rails else gone(type_).loss if gone(type_) is not OTHER else "jobs"
    yield Judged("note" if aside else "ask", loss, text)
