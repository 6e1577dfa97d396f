"""What a Helm release made, held against the manifest that Helm keeps of it."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from railhead.base.differences import differences
from railhead.drift.objects import Api, Discovery, Drift, Object, Severity, gone, subject

# Without them the release's controllers do not see, or do not decide, what is submitted.
_GUARDING = frozenset(
    {"Deployment", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
)


def release(
    namespace: str, name: str, api: Api, discovery: Discovery, ours: Sequence[Object]
) -> Iterator[Drift]:
    """What of a release is gone or changed; fields that ``ours`` give are the stack's, not Helm's.

    The engine does not look into a release, so no update puts any of it back.
    """
    yield from _stopped(namespace, name, api, discovery)
    secrets = discovery.path("v1", "Secret", namespace)
    selector = f"owner=helm,name={name},status=deployed"
    records = api.list(secrets, selector=selector) if secrets else []
    if not records:
        yield Drift(
            severity=Severity.GUARD,
            subject=f"Release {namespace}/{name}",
            stack="deployed",
            live="gone",
        )
        return
    own = {(one["kind"], one["metadata"].get("name")): one for one in ours}
    there = manifest(records[-1])
    revision = (records[-1]["metadata"].get("labels") or {}).get("version", "")
    if there is None:
        yield Drift(
            severity=Severity.GUARD,
            subject=f"Release {namespace}/{name}",
            field="manifest",
            stack="what the chart made",
            live="not readable",
            remedy=f"helm -n {namespace} get manifest {name} says why",
        )
    for made in there or ():
        patched = own.get((made["kind"], made["metadata"].get("name")), {})
        for row in _object(_said(made, patched), namespace, api, discovery):
            yield replace(
                row,
                remedy="the engine does not look into a Helm release: "
                f"helm -n {namespace} rollback {name} {revision}, then `pulumi up --refresh`",
            )


def _stopped(namespace: str, name: str, api: Api, discovery: Discovery) -> Iterator[Drift]:
    """Controllers of a release that are scaled to nothing.

    Helm marks what it makes with the release's name (helm v3, pkg/action/validate.go).
    """
    path = discovery.path("apps/v1", "Deployment", namespace)
    for one in api.list(path) if path else []:
        marks = one["metadata"].get("annotations") or {}
        if marks.get("meta.helm.sh/release-name") == name and one["spec"].get("replicas", 1) == 0:
            yield Drift(
                severity=Severity.GUARD,
                subject=subject({**one, "kind": "Deployment"}),
                field="spec.replicas",
                stack="what the chart says",
                live="0",
                remedy=f"kubectl -n {namespace} scale deployment {one['metadata']['name']} "
                "--replicas=1: the engine does not look into a Helm release",
            )


def _object(wanted: Object, namespace: str, api: Api, discovery: Discovery) -> Iterator[Drift]:
    metadata = wanted["metadata"]
    within = metadata.get("namespace") or namespace
    path = discovery.path(str(wanted["apiVersion"]), str(wanted["kind"]), within)
    live = api.find(f"{path}/{metadata['name']}") if path else None
    guard = wanted["kind"] in _GUARDING
    if live is None:
        yield gone(wanted, guard=guard)
        return
    # Charts give one to objects that have none as well.
    bare = {key: value for key, value in metadata.items() if key != "namespace"}
    for field, says, has in differences({**wanted, "metadata": bare}, live):
        # Of one that is scaled to nothing it is told already.
        if (field, has) != ("spec.replicas", "0"):
            yield Drift(
                severity=Severity.GUARD if guard else Severity.CHANGED,
                subject=subject({**live, "kind": wanted["kind"]}),
                field=field,
                stack=says,
                live=has,
            )


def _said(made: Object, patched: Object) -> Object:
    """What a chart says of an object and nobody else does after it."""
    said: Object = _without(made, patched)
    said |= {"apiVersion": made["apiVersion"], "kind": made["kind"]}
    said["metadata"] = _without(made["metadata"], None)
    if "aggregationRule" in said:
        # Filled in by the API server's own controller.
        said.pop("rules", None)
    if said["kind"] == "Secret":
        # Controllers write their certificates into it, and nothing of it is to be shown.
        said.pop("data", None)
    return said


def _without(made: Any, patched: Any) -> Any:
    """A value without what is null, and without what is patched."""
    if isinstance(made, Mapping):
        theirs = patched if isinstance(patched, Mapping) else {}
        return {
            key: _without(value, theirs.get(key))
            for key, value in made.items()
            if value is not None and (key not in theirs or isinstance(value, Mapping))
        }
    return [_without(one, None) for one in made] if isinstance(made, list) else made


def manifest(record: Mapping[str, Any]) -> list[Object] | None:
    """The objects of Helm's record of a release; None where it cannot be read.

    A Secret's value of base64 of gzip of JSON (helm v3, pkg/storage/driver/util.go, encodeRelease).
    """
    try:
        packed = base64.b64decode((record.get("data") or {})["release"])
        body = json.loads(gzip.decompress(base64.b64decode(packed)))
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        documents = list(yaml.load_all(body["manifest"], Loader=loader))
    except (KeyError, TypeError, ValueError, OSError, binascii.Error, yaml.YAMLError):
        return None
    return [one for one in documents if isinstance(one, dict) and one.get("kind")]
