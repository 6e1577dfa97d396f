"""Judges rules by which a bucket deletes what is in it after some time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

from railhead.review.compare import Change
from railhead.review.judged import Judged, unjudged
from railhead.review.rows import short

_GOOGLE = "gcp:storage/bucket:Bucket"


@dataclass(frozen=True)
class _Deletion:
    """A rule's deletion of objects, or of older versions, below a prefix; a date is 0 days."""

    below: str
    what: str
    days: int
    when: str


def deletions(change: Change, added: Collection[str]) -> Iterator[Judged]:
    """Yield what a bucket that was there before deletes newly, or sooner."""
    google = change.either.type == _GOOGLE
    if not (google or "ucketLifecycle" in change.either.type):
        return
    buckets = (change.either.urn,) if google else change.either.refers.get("bucket", ())
    if change.kind == "added" and buckets and all(urn in added for urn in buckets):
        return
    key, read = ("lifecycleRules", _of_google) if google else ("rules", _of_aws)
    if UNKNOWN in str((change.was.get(key), change.now.get(key))):
        yield unjudged([key])
        return
    known = list(read(change.was.get(key) or ()))
    for new in read(change.now.get(key) or ()):
        same = (old for old in known if old.what == new.what and new.below.startswith(old.below))
        first = min(same, key=lambda old: old.days, default=None)
        if first is not None and first.days <= new.days:
            continue
        where = f" below {new.below}" if new.below else ""
        sooner = f", in place of {first.when}" if first is not None else ""
        text = f"deletes every {new.what}{where} {new.when}{sooner}"
        grave = not new.below and new.what == "object"
        yield Judged("refuse" if grave else "ask", "data", text, "who reads it later")


def _of_aws(rules: Collection[Mapping[str, Any]]) -> Iterator[_Deletion]:
    for rule in rules:
        below = (rule.get("filter") or {}).get("prefix") or rule.get("prefix") or ""
        objects = rule.get("expiration") or {}
        versions = rule.get("noncurrentVersionExpiration") or {}
        if rule.get("status") != "Enabled":
            continue
        if days := objects.get("days"):
            yield _Deletion(below, "object", days, f"{days} days after it was written")
        elif date := objects.get("date"):
            yield _Deletion(below, "object", 0, f"from {date} on, however new it is")
        if days := versions.get("noncurrentDays"):
            yield _Deletion(below, "older version", days, f"{days} days after it was replaced")


def _of_google(rules: Collection[Mapping[str, Any]]) -> Iterator[_Deletion]:
    """Yield the same of Google's rules (Cloud Storage, "Object Lifecycle Management")."""
    for rule in rules:
        met = rule.get("condition") or {}
        if (rule.get("action") or {}).get("type") != "Delete":
            continue
        days, older = met.get("age"), met.get("daysSinceNoncurrentTime")
        kept = met.get("numNewerVersions")
        what = "older version" if older or kept or met.get("withState") == "ARCHIVED" else "object"
        if older:
            when = f"{older} days after it was replaced"
        elif days:
            when = f"{days} days after it was written"
        else:
            when = f"that meets {short([f'{k} {v}' for k, v in met.items()])}"
        for below in met.get("matchesPrefixes") or met.get("matchesSuffixes") or [""]:
            yield _Deletion(below, what, older or days or 0, when)
