"""Compares the objects of a Helm release with the manifest that Helm keeps of it."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from railhead.base.data import LOADER
from railhead.base.differences import (
    differences,
    is_secret,
    merged_lists,
    short,
    surplus,
    undoing,
)
from railhead.drift.certificates import certificates
from railhead.drift.objects import (
    Api,
    Discovery,
    Drift,
    Object,
    Severity,
    gone,
    leaving,
    subject,
    taken_out,
)

# Without them the release's controllers do not see, or do not decide, what is submitted.
_GUARDING = frozenset(
    {"Deployment", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
)

# AKS' own controller, and the labels of the namespaces that it takes from every webhook (Azure/AKS
# #1771; Azure's FAQ, Admissions Enforcer).
_ENFORCER = "admissionsenforcer"
_ENFORCED = frozenset({"control-plane", "kubernetes.azure.com/managedby"})


@dataclass(frozen=True, kw_only=True)
class Release:
    """A Helm release as the stack's state gives it; ``given`` are the inputs of its resource."""

    namespace: str
    name: str
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """Kind, namespace and name."""
        return f"Release {self.namespace}/{self.name}"


def release(
    one: Release, api: Api, discovery: Discovery, ours: Sequence[Object]
) -> Iterator[Drift]:
    """Yield what of a release is gone or changed; fields in ``ours`` are the stack's, not Helm's.

    The engine does not look into a release, so no update restores its objects.
    """
    records = _records(one, api, discovery)
    read = _read(records[-1]) if records else None
    body, made = read or ({}, [])
    yield from _stopped(one, made, api, discovery)
    if not records:
        yield Drift(severity=Severity.GUARD, subject=one.subject, stack="deployed", live="gone")
        return
    if read is None:
        yield Drift(
            severity=Severity.GUARD,
            subject=one.subject,
            field="manifest",
            stack="what the chart made",
            live="not readable",
            remedy=f"helm -n {one.namespace} get manifest {one.name} says why",
        )
        return
    yield from _upgraded(one, body)
    yield from _definitions(one, body, api, discovery)
    own = {(row["kind"], row["metadata"].get("name")): row for row in ours}
    revision = (records[-1]["metadata"].get("labels") or {}).get("version", "")
    for wanted in made:
        patched = own.get((wanted["kind"], wanted["metadata"].get("name")), {})
        for row in _object(_said(wanted, patched), one.namespace, api, discovery):
            yield replace(row, remedy=row.remedy or _back(one, wanted, revision))


def _back(one: Release, made: Object, revision: str) -> str:
    """Return how to restore an object of a release as the chart makes it."""
    if made["kind"] == "CustomResourceDefinition":
        # Helm compares two revisions of it, never the live one (helm v3, pkg/kube/client.go,
        # createPatch).
        return (
            f"helm -n {one.namespace} get manifest {one.name} | kubectl apply -n {one.namespace} "
            "--server-side --force-conflicts -f -: neither the engine nor a rollback of Helm's "
            "looks at it"
        )
    return (
        "the engine does not look into a Helm release: "
        f"helm -n {one.namespace} rollback {one.name} {revision}, then `pulumi up --refresh`"
    )


def _upgraded(one: Release, body: Mapping[str, Any]) -> Iterator[Drift]:
    """Yield values and a chart version that a user gave the release (`helm upgrade`)."""
    values, config = one.given.get("values") or {}, body.get("config") or {}
    chart = (body.get("chart") or {}).get("metadata") or {}
    rows = list(differences(values, config, "values"))
    if one.given.get("version"):
        rows += differences(one.given["version"], chart.get("version"), "version")
    for where, says, has in rows:
        yield Drift(severity=Severity.GUARD, subject=one.subject, field=where, stack=says, live=has)
    if not is_secret(values) and (more := surplus(values, config)):
        yield Drift(
            severity=Severity.GUARD,
            subject=one.subject,
            field="values",
            live=short(more),
            remedy=f"helm -n {one.namespace} history {one.name}, and rollback to the revision "
            "before it was given",
        )


def _definitions(
    one: Release, body: Mapping[str, Any], api: Api, discovery: Discovery
) -> Iterator[Drift]:
    """Yield definitions of the chart's `crds` folder that are gone or changed.

    Helm installs them once, and no update puts them back. What was pruned from a schema is dropped
    from objects, or refused, without a word of the controller.

    They are in no manifest; the record has the chart's own files, without its subcharts'.
    """
    back = (
        "`railhead drift STACK --definitions | kubectl apply --server-side --force-conflicts -f -`"
    )
    for made in _of_chart(one, body):
        path = discovery.path(str(made["apiVersion"]), str(made["kind"]))
        if path is None:
            continue
        live = api.find(f"{path}/{made['metadata']['name']}")
        if live is None:
            yield replace(
                gone(made, guard=True),
                remedy=f"{back}, then `pulumi up --refresh`: Helm installs them once, and all "
                "that was of this kind is gone",
            )
            continue
        rows = list(differences(made.get("spec") or {}, live.get("spec") or {}, "spec"))
        for where, says, has in rows[:1]:
            more = f", and {len(rows) - 1} fields more" if rows[1:] else ""
            yield Drift(
                severity=Severity.GUARD,
                subject=subject(made),
                field=where,
                stack=short(says),
                live=f"{short(has)}{more}",
                remedy=f"{back}: Helm installs them once",
            )


def definitions(one: Release, api: Api, discovery: Discovery) -> Iterator[Object]:
    """Yield the definitions of the `crds` folder of a release's chart, from Helm's own record."""
    for record in _records(one, api, discovery)[-1:]:
        body, _ = _read(record) or ({}, [])
        yield from _of_chart(one, body)


def _records(one: Release, api: Api, discovery: Discovery) -> list[Object]:
    secrets = discovery.path("v1", "Secret", one.namespace)
    selector = f"owner=helm,name={one.name},status=deployed"
    return api.list(secrets, selector=selector) if secrets else []


def _of_chart(one: Release, body: Mapping[str, Any]) -> Iterator[Object]:
    if one.given.get("skipCrds"):
        return
    for file in (body.get("chart") or {}).get("files") or ():
        if str(file.get("name")).startswith("crds/"):
            yield from _objects(base64.b64decode(file.get("data") or "").decode())


def _stopped(
    one: Release, made: Sequence[Object], api: Api, discovery: Discovery
) -> Iterator[Drift]:
    """Controllers of a release that are scaled to nothing.

    Helm marks what it makes with the release's name (helm v3, pkg/action/validate.go).
    """
    texts = {
        m["metadata"]["name"]: m["spec"].get("replicas", 1)
        for m in made
        if m["kind"] == "Deployment"
    }
    path = discovery.path("apps/v1", "Deployment", one.namespace)
    for live in api.list(path) if path else []:
        marks, name = live["metadata"].get("annotations") or {}, live["metadata"]["name"]
        if marks.get("meta.helm.sh/release-name") == one.name and live["spec"].get(
            "replicas", 1
        ) == 0 != texts.get(name):
            yield Drift(
                severity=Severity.GUARD,
                subject=subject({**live, "kind": "Deployment"}),
                field="spec.replicas",
                stack="what the chart says",
                live="0",
                remedy=f"kubectl -n {one.namespace} scale deployment {name} "
                f"--replicas={texts.get(name, 1)}: the engine does not look into a Helm release",
            )


def _object(wanted: Object, namespace: str, api: Api, discovery: Discovery) -> Iterator[Drift]:
    metadata = wanted["metadata"]
    within = metadata.get("namespace") or namespace
    path = discovery.path(str(wanted["apiVersion"]), str(wanted["kind"]), within)
    live = api.find(f"{path}/{metadata['name']}") if path else None
    severity = Severity.GUARD if wanted["kind"] in _GUARDING else Severity.CHANGED
    if live is None:
        yield replace(gone(wanted, guard=severity is Severity.GUARD), remedy="")
        return
    live = _before_aks(live)
    kept = {**live, "kind": wanted["kind"]}
    if ending := leaving(kept):
        yield replace(ending, severity=severity)
        return
    # Charts give one to objects that have none as well.
    own = {key: value for key, value in metadata.items() if key != "namespace"}
    bare = {**wanted, "metadata": own}
    for where, says, has in differences(bare, live, merged=merged_lists(live)):
        # An object that is scaled to nothing is reported already.
        if (where, has) != ("spec.replicas", "0"):
            yield Drift(
                severity=severity,
                subject=subject(kept),
                field=where,
                stack=says,
                live=has,
                remedy="" if says else taken_out(kept),
            )
    for where, has in undoing(wanted["kind"], bare, live):
        yield Drift(
            severity=severity, subject=subject(kept), field=where, live=has, remedy=taken_out(kept)
        )
    yield from certificates(kept, namespace)


def _before_aks(live: Object) -> Object:
    """Return webhooks without the namespaces that AKS takes from them; others as they are."""
    owners = {entry.get("manager") for entry in live["metadata"].get("managedFields") or ()}
    if _ENFORCER not in owners:
        return live
    hooks = []
    for hook in live.get("webhooks") or ():
        selector = dict(hook.get("namespaceSelector") or {})
        asked = selector.pop("matchExpressions", ())
        if rest := [row for row in asked if row["key"] not in _ENFORCED]:
            selector["matchExpressions"] = rest
        hooks.append({**hook, "namespaceSelector": selector})
    return {**live, "webhooks": hooks}


def _said(made: Object, patched: Object) -> Object:
    """Return what a chart sets in an object, without what others set later."""
    text: Object = _without(made, patched)
    text |= {"apiVersion": made["apiVersion"], "kind": made["kind"]}
    text["metadata"] = _without(made["metadata"], None)
    if "aggregationRule" in text:
        # Filled in by the API server's own controller.
        text.pop("rules", None)
    if text["kind"] == "Secret":
        # Controllers write their certificates into it, and nothing of it is to be shown.
        text.pop("data", None)
    return text


def _without(made: Any, patched: Any) -> Any:
    """Return a value without what is null, and without what is patched."""
    if isinstance(made, Mapping):
        theirs = patched if isinstance(patched, Mapping) else {}
        return {
            key: _without(value, theirs.get(key))
            for key, value in made.items()
            if value is not None and (key not in theirs or isinstance(value, Mapping))
        }
    return [_without(item, None) for item in made] if isinstance(made, list) else made


def _read(record: Mapping[str, Any]) -> tuple[dict[str, Any], list[Object]] | None:
    """Helm's record of a release, and the objects of its manifest; None where it cannot be read.

    A Secret's value of base64 of gzip of JSON (helm v3, pkg/storage/driver/util.go, encodeRelease).
    """
    try:
        packed = base64.b64decode((record.get("data") or {})["release"])
        body: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
        return body, _objects(body["manifest"])
    except (KeyError, TypeError, ValueError, OSError, binascii.Error, yaml.YAMLError):
        return None


def _objects(text: str) -> list[Object]:
    return [
        item
        for item in yaml.load_all(text, Loader=LOADER)
        if isinstance(item, dict) and item.get("kind")
    ]
