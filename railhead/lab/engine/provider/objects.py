"""Create, read, update and delete one object of any kind.

Ownership. Every resource has one field manager, ``pulumi-kubernetes-<hash of the URN>``, which is
kept in its state. A creation is a plain create under that manager, so that an object which exists
already is an error and never silently changed; its fields are handed to server-side apply at once.

Crashes. When `pulumi up` is killed after the API server created the object and before the state was
written, the next run creates it again and finds it there. It is recognised by the field manager,
which only this stack's resource of this URN uses, and adopted. An object that the running operation
already knows as the resource's old one (by uid) is never adopted.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from railhead.kube.connection import Reply
from railhead.kube.errors import ApiError, NoAnswerError
from railhead.lab.engine.provider import awaiting, diffing, naming
from railhead.lab.engine.provider.client import (
    APPLY,
    JSON_PATCH,
    KubeClient,
    NoMatchError,
    ResourceType,
    dry_run_unsupported,
)
from railhead.lab.engine.provider.patience import AWAY_S, is_away, patiently
from railhead.lab.engine.provider.readiness import timeout_of

_RETRIES = 6
_OLD_GONE_WITHIN_S = 300.0
# Managers whose fields a resource takes over when it is first updated (await.go,
# fixCSAFieldManagers): kubectl's, and the official provider's before server-side apply.
_TAKEN_OVER = (
    ("kubectl", "Apply"),
    ("kubectl", "Update"),
    ("before-first-apply", "Update"),
    ("pulumi-kubernetes", "Update"),
    ("pulumi-kubernetes.exe", "Update"),
    ("pulumi-resource-kubernetes", "Update"),
)
EXISTS_HINT = """

The resource already exists in the cluster. This can happen when:

  - Renaming a Pulumi resource: use an alias to preserve the identity,
    or use deleteBeforeReplace if the resource needs replacement.
  - Managing an existing resource: use a Patch resource (e.g. NamespacePatch)
    to manage specific fields without owning the resource lifecycle.
  - Adopting a resource into Pulumi: use `pulumi import`. Note that
    protected resources (e.g. kube-system) cannot be deleted on destroy.
  - Intentional upsert: set upsertExistingObjects on the provider to allow
    server-side apply to update existing objects on create."""


_NOT_PREVIEWED = "not previewed on the server, which is not well: "


class OperationError(Exception):
    """The operation failed and nothing, or nothing new, is in the cluster."""


class PreviewUnavailableError(Exception):
    """The API server cannot preview this object; fall back to the inputs.

    Args:
        note: what to tell the user; empty for cases that are ordinary.
    """

    def __init__(self, note: str = "") -> None:
        super().__init__(note)
        self.note = note


@dataclass(frozen=True, kw_only=True)
class ApplySettings:
    """Provider settings that concern applying objects.

    Args:
        server_side: the provider's ``enableServerSideApply``.
        force: the provider's ``enablePatchForce``.
        upsert: the provider's ``upsertExistingObjects``.
        namespace: where namespaced objects without a namespace go.
        mute_warnings: the provider's ``suppressDeprecationWarnings``.
    """

    server_side: bool = True
    force: bool = False
    upsert: bool = False
    namespace: str = "default"
    mute_warnings: bool = False


@dataclass(kw_only=True)
class ObjectOperations:
    """The operations, against one API server.

    Args:
        client: the API server.
        settings: how to apply.
        log: where progress and warnings go.
        cancel: set when the user cancels.
    """

    client: KubeClient
    settings: ApplySettings
    report: awaiting.StatusLog
    cancel: threading.Event
    _warned: set[str] = field(default_factory=set)

    def locate(self, obj: Mapping[str, Any]) -> tuple[ResourceType, str, dict[str, Any]]:
        """Return the object's type, its namespace, and the object as it can be sent.

        Raises:
            NoMatchError: the API server does not serve the kind.
        """
        resource = self.client.resource_type(str(obj.get("apiVersion")), str(obj.get("kind")))
        body = copy.deepcopy(dict(obj))
        metadata = body.setdefault("metadata", {})
        if not resource.namespaced:
            metadata.pop("namespace", None)
            return resource, "", body
        namespace = naming.object_namespace(obj) or self.settings.namespace or "default"
        metadata["namespace"] = namespace
        return resource, namespace, body

    def waiter(self, urn: str, obj: Mapping[str, Any]) -> awaiting.Waiter:
        """Return a waiter for the object."""
        resource, namespace, _ = self.locate(obj)
        return awaiting.Waiter(
            client=self.client,
            report=self.report,
            cancel=self.cancel,
            urn=urn,
            path=resource.path(namespace, naming.object_name(obj)),
        )

    def exists_kind(self, obj: Mapping[str, Any]) -> bool:
        """Return whether the API server serves the object's kind."""
        try:
            self.locate(obj)
        except NoMatchError:
            return False
        return True

    def is_namespaced(self, obj: Mapping[str, Any]) -> bool:
        """Return whether the kind is namespaced; taken to be so while the kind is not served."""
        try:
            return self.client.resource_type(
                str(obj.get("apiVersion")), str(obj.get("kind"))
            ).namespaced
        except NoMatchError:
            return True

    # Creation

    def preview_create(
        self, urn: str, inputs: Mapping[str, Any], manager: str, known_uids: frozenset[str]
    ) -> dict[str, Any]:
        """Return the object as the API server would make it, by a dry run.

        Raises:
            PreviewUnavailableError: it cannot say.
            OperationError: the creation would fail.
        """
        try:
            resource, namespace, body = self.locate(inputs)
        except NoMatchError as error:
            raise PreviewUnavailableError from error
        query = {"dryRun": "All", "fieldManager": manager, "fieldValidation": "Warn"}
        try:
            if self.settings.upsert and self.settings.server_side:
                query["force"] = "true"
                path = resource.path(namespace, naming.object_name(inputs))
                reply = self.client.request(
                    "PATCH", path, query=query, body=body, content_type=APPLY
                )
            else:
                reply = self.client.request(
                    "POST", resource.path(namespace), query=query, body=body
                )
        except NoAnswerError as error:
            raise PreviewUnavailableError(f"{_NOT_PREVIEWED}{error}") from error
        except ApiError as error:
            self._cannot_preview(error, resource, namespace, inputs, manager, known_uids)
            raise OperationError(
                f"resource {urn!r} would not be created by the Kubernetes API server: {error}"
            ) from error
        self._warn(urn, reply)
        live: dict[str, Any] = reply.body
        live.pop("status", None)
        return live

    def _cannot_preview(
        self,
        error: ApiError,
        resource: ResourceType,
        namespace: str,
        inputs: Mapping[str, Any],
        manager: str,
        known_uids: frozenset[str],
    ) -> None:
        if error.not_found or error.status == 403 or dry_run_unsupported(error):
            raise PreviewUnavailableError from error
        if is_away(error):
            raise PreviewUnavailableError(f"{_NOT_PREVIEWED}{error}") from error
        if error.already_exists:
            path = resource.path(namespace, naming.object_name(inputs))
            live = self._get(path)
            uid = ((live or {}).get("metadata") or {}).get("uid")
            if live is None or uid in known_uids or _is_ours(live, manager):
                raise PreviewUnavailableError from error
            raise PreviewUnavailableError(
                f"{resource.kind} {naming.object_id(live)} exists already and is not managed by "
                "this resource: `pulumi up` will refuse to create it"
            ) from error

    def create(
        self,
        urn: str,
        inputs: Mapping[str, Any],
        manager: str,
        *,
        known_uids: frozenset[str] = frozenset(),
        timeout_s: float = 0.0,
    ) -> dict[str, Any]:
        """Create the object, or adopt the one that an interrupted run of this resource made.

        Raises:
            OperationError: it was not created.
            StillAwayError: the API server, or what it asks, was away for too long.
        """
        patch = naming.is_patch(urn, str(inputs.get("kind")))

        def attempt() -> dict[str, Any]:
            resource, namespace, body = self.locate(inputs)
            path = resource.path(namespace, naming.object_name(inputs))
            if self.settings.server_side and (patch or self.settings.upsert):
                return self._apply(urn, path, body, manager, force=self._force(inputs))
            query = {"fieldManager": manager, "fieldValidation": "Warn"}

            def post() -> Reply:
                return self.client.request("POST", resource.path(namespace), query=query, body=body)

            try:
                reply = post()
            except ApiError as error:
                if not error.already_exists:
                    raise
                if self._wait_for_old(urn, path, manager, known_uids):
                    reply = post()
                else:
                    adopted = self._adopt(urn, path, body, manager, known_uids)
                    if adopted is None:
                        raise
                    return adopted
            self._warn(urn, reply)
            live: dict[str, Any] = reply.body
            if self.settings.server_side:
                created = resource.path(namespace, naming.object_name(live))
                live = self._hand_to_apply(created, live, manager, taken=((manager, "Update"),))
            return live

        try:
            return self._patiently(urn, inputs, timeout_s, lambda: self._retry(urn, attempt))
        except NoMatchError as error:
            raise OperationError(
                f"creation of resource {urn!r} with kind {inputs.get('apiVersion')}/"
                f"{inputs.get('kind')} failed because the Kubernetes API server reported that the "
                "apiVersion for this resource does not exist. Verify that any required CRDs have "
                f"been created: {error}"
            ) from error
        except ApiError as error:
            hint = EXISTS_HINT if error.already_exists else ""
            raise OperationError(
                f"resource {urn!r} was not successfully created by the Kubernetes API server: "
                f"{_explain(error, manager)}{hint}"
            ) from error

    def _patiently(
        self,
        urn: str,
        inputs: Mapping[str, Any],
        timeout_s: float,
        attempt: Callable[[], dict[str, Any]],
    ) -> dict[str, Any]:
        limit_s = timeout_of(inputs, timeout_s, AWAY_S)
        return patiently(attempt, report=self.report, cancel=self.cancel, urn=urn, limit_s=limit_s)

    def _retry(self, urn: str, attempt: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        # A namespace or a CRD may be on its way, as in charts and manifests: 16 s, as in the
        # official provider.
        wait_s = 0.25
        number = 0
        while True:
            try:
                result = attempt()
            except (ApiError, NoMatchError) as error:
                number += 1
                missing = isinstance(error, NoMatchError) or error.not_found
                if not missing or number > _RETRIES:
                    raise
                self.report.status(f"Retry #{number}; creation failed: {error}", urn)
                if self.cancel.wait(wait_s):
                    raise
                wait_s = min(wait_s * 2, 8.0)
                continue
            if number:
                self.report.status("", urn)
            return result

    def _wait_for_old(self, urn: str, path: str, manager: str, known_uids: frozenset[str]) -> bool:
        """Return whether the name is free after waiting for this resource's own old object to go.

        It is still on its way out when its deletion was not awaited, by `pulumi.com/skipAwait` or
        because that run was killed.
        """
        live = self._get(path)
        if live is None:
            return True
        metadata = live.get("metadata") or {}
        own = metadata.get("uid") in known_uids or _is_ours(live, manager)
        if not metadata.get("deletionTimestamp") or not own:
            return False
        self.report.status("Waiting for the old object to be deleted", urn)
        try:
            self.waiter(urn, live).until_gone({}, live, custom_timeout_s=_OLD_GONE_WITHIN_S)
        except awaiting.NotReadyError as error:
            raise OperationError(f"{error.problem}: {'; '.join(error.reasons)}") from error
        return True

    def _adopt(
        self,
        urn: str,
        path: str,
        body: Mapping[str, Any],
        manager: str,
        known_uids: frozenset[str],
    ) -> dict[str, Any] | None:
        live = self._get(path)
        if live is None:
            return None
        metadata = live.get("metadata") or {}
        if metadata.get("uid") in known_uids or not _is_ours(live, manager):
            return None
        self.report.warning(
            "carrying on with the object that an interrupted run of this resource created", urn
        )
        if not self.settings.server_side:
            return live
        live = self._hand_to_apply(path, live, manager, taken=((manager, "Update"),))
        return self._apply(urn, path, body, manager, force=True)

    # Update

    def update(
        self,
        urn: str,
        inputs: Mapping[str, Any],
        name: str,
        manager: str,
        *,
        ignore: Sequence[str] = (),
        preview: bool = False,
        timeout_s: float = 0.0,
    ) -> dict[str, Any]:
        """Apply the inputs to the existing object called ``name``.

        Raises:
            OperationError: it was not changed; the message says why.
            PreviewUnavailableError: the API server cannot preview it.
            StillAwayError: the API server, or what it asks, was away for too long.
        """
        try:
            resource, namespace, body = self.locate(inputs)
        except NoMatchError as error:
            if preview:
                raise PreviewUnavailableError from error
            raise OperationError(
                f"update of resource {urn!r} failed because the Kubernetes API server reported "
                "that the apiVersion for this resource does not exist. Verify that any required "
                f"CRDs have been created: {error}"
            ) from error
        path = resource.path(namespace, name)
        patch = naming.is_patch(urn, str(inputs.get("kind")))

        def attempt() -> dict[str, Any]:
            live: dict[str, Any] = self.client.request("GET", path).body
            if not self.settings.server_side:
                return self._replace(urn, path, body, live, preview=preview)
            own = ((manager, "Update"), *_TAKEN_OVER)
            if not preview and not patch:
                live = self._hand_to_apply(path, live, manager, taken=own)
            _leave_ignored(body, live, manager, ignore)
            force = self._force(inputs) or not (live["metadata"].get("managedFields"))
            if preview and not force:
                managers = {
                    (entry.get("manager"), entry.get("operation"))
                    for entry in live["metadata"].get("managedFields") or []
                }
                force = any(entry in managers for entry in own[:1] + _TAKEN_OVER[3:])
            return self._apply(urn, path, body, manager, force=force, preview=preview)

        try:
            return attempt() if preview else self._patiently(urn, inputs, timeout_s, attempt)
        except NoAnswerError as error:
            if preview:
                raise PreviewUnavailableError(f"{_NOT_PREVIEWED}{error}") from error
            raise
        except ApiError as error:
            if preview and (error.status == 403 or dry_run_unsupported(error)):
                raise PreviewUnavailableError from error
            if preview and is_away(error):
                raise PreviewUnavailableError(f"{_NOT_PREVIEWED}{error}") from error
            hint = ""
            if error.not_found:
                hint = " (run `pulumi refresh` if it was deleted outside Pulumi)"
            elif error.status == 422 and "immutable" in error.message:
                hint = " (use the replaceOnChanges resource option for this field)"
            raise OperationError(
                f"update of resource {urn!r} failed: {_explain(error, manager)}{hint}"
            ) from error

    def _replace(
        self,
        urn: str,
        path: str,
        body: Mapping[str, Any],
        live: Mapping[str, Any],
        *,
        preview: bool,
    ) -> dict[str, Any]:
        # Without server-side apply: a JSON merge patch of the inputs.
        query = {"fieldManager": "pulumi-kubernetes"}
        if preview:
            query["dryRun"] = "All"
        reply = self.client.request(
            "PATCH", path, query=query, body=body, content_type="application/merge-patch+json"
        )
        self._warn(urn, reply)
        result: dict[str, Any] = reply.body
        return result

    def _force(self, inputs: Mapping[str, Any]) -> bool:
        return self.settings.force or naming.is_true(inputs, naming.PATCH_FORCE)

    def _apply(
        self,
        urn: str,
        path: str,
        body: Mapping[str, Any],
        manager: str,
        *,
        force: bool,
        preview: bool = False,
    ) -> dict[str, Any]:
        query = {"fieldManager": manager, "fieldValidation": "Warn"}
        query["force"] = "true" if force else "false"
        if preview:
            query["dryRun"] = "All"
        reply = self.client.request("PATCH", path, query=query, body=body, content_type=APPLY)
        self._warn(urn, reply)
        live: dict[str, Any] = reply.body
        return live

    def _hand_to_apply(
        self,
        path: str,
        live: Mapping[str, Any],
        manager: str,
        *,
        taken: Sequence[tuple[str, str]],
    ) -> dict[str, Any]:
        """Make ``manager`` own, by apply, what the ``taken`` managers own; returns the object.

        An update and an apply of the same manager count as two managers, so without this the next
        apply would conflict with the resource's own creation.
        """
        current = dict(live)
        for _ in range(4):
            entries = (current.get("metadata") or {}).get("managedFields") or []
            moved = [
                entry
                for entry in entries
                if not entry.get("subresource")
                and (entry.get("manager"), entry.get("operation")) in taken
            ]
            if not moved:
                return current
            fields: dict[str, Any] = {}
            mine = [
                entry
                for entry in entries
                if entry.get("manager") == manager
                and entry.get("operation") == "Apply"
                and not entry.get("subresource")
            ]
            for entry in (*mine, *moved):
                fields = diffing.merge_fields(fields, entry.get("fieldsV1") or {})
            merged = {**moved[0], "manager": manager, "operation": "Apply", "fieldsV1": fields}
            rest = [entry for entry in entries if entry not in moved and entry not in mine]
            patch = [
                {
                    "op": "test",
                    "path": "/metadata/resourceVersion",
                    "value": current["metadata"]["resourceVersion"],
                },
                {"op": "replace", "path": "/metadata/managedFields", "value": [*rest, merged]},
            ]
            try:
                return dict(
                    self.client.request(
                        "PATCH",
                        path,
                        body=patch,
                        content_type=JSON_PATCH,
                        query={"fieldManager": manager},
                    ).body
                )
            except ApiError as error:
                # A controller wrote in between, or the object has gone; nothing is lost, because
                # the next update tries again.
                if error.status not in (409, 422):
                    return current
                fresh = self._get(path)
                if fresh is None:
                    return current
                current = fresh
        return current

    # Read and delete

    def _get(self, path: str) -> dict[str, Any] | None:
        try:
            body: dict[str, Any] = self.client.request("GET", path).body
        except ApiError as error:
            if error.not_found:
                return None
            raise
        return body

    def read(self, obj: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the live object; None when it, or its kind, is gone."""
        try:
            resource, namespace, _ = self.locate(obj)
        except NoMatchError:
            return None
        return self._get(resource.path(namespace, naming.object_name(obj)))

    def delete(
        self, urn: str, inputs: Mapping[str, Any], live: Mapping[str, Any], timeout_s: float
    ) -> None:
        """Delete the object and wait until it is gone; gone already counts as done.

        Raises:
            awaiting.NotReadyError: it is still there when time runs out.
            OperationError: the API server refused.
            StillAwayError: the API server, or what it asks, was away for too long.
        """
        try:
            resource, namespace, _ = self.locate(live)
        except NoMatchError:
            return
        path = resource.path(namespace, naming.object_name(live))
        policies = {"orphan": "Orphan", "background": "Background"}
        wanted = naming.annotation(inputs, naming.DELETION_PROPAGATION).lower()
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": policies.get(wanted, "Foreground"),
        }

        def attempt() -> dict[str, Any]:
            result: dict[str, Any] = self.client.request("DELETE", path, body=options).body
            return result

        try:
            self._patiently(urn, inputs, timeout_s, attempt)
        except ApiError as error:
            if error.not_found:
                return
            # A namespace that is already being deleted answers with a conflict.
            if not (error.status == 409 and self._is_terminating(path)):
                raise OperationError(f"deletion of {path} was refused: {error}") from error
        if naming.is_true(inputs, naming.SKIP_AWAIT) and _skip_await_on_delete(live):
            return
        self.waiter(urn, live).until_gone(inputs, live, custom_timeout_s=timeout_s)

    def _is_terminating(self, path: str) -> bool:
        live = self._get(path)
        return live is None or bool(live["metadata"].get("deletionTimestamp"))

    def relinquish(self, live: Mapping[str, Any], manager: str) -> None:
        """Give up every field that ``manager`` owns; the object stays.

        Raises:
            OperationError: a required field has no other owner.
        """
        try:
            resource, namespace, _ = self.locate(live)
        except NoMatchError:
            return
        path = resource.path(namespace, naming.object_name(live))
        metadata = {"name": naming.object_name(live)}
        if namespace:
            metadata["namespace"] = namespace
        body = {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": metadata}
        if self._get(path) is None:
            return
        try:
            self.client.request(
                "PATCH",
                path,
                query={"fieldManager": manager, "force": "false"},
                body=body,
                content_type=APPLY,
            )
        except ApiError as error:
            if error.status == 422 and "Required value" in error.message:
                raise OperationError(
                    "this Patch resource is currently managing a required field, so it can't be "
                    "deleted directly. Either set the `retainOnDelete` resource option, or "
                    f"transfer ownership of the field before deleting: {error}"
                ) from error
            if not error.not_found:
                raise OperationError(f"the fields could not be released: {error}") from error

    def _warn(self, urn: str, reply: Reply) -> None:
        for text in reply.warnings:
            deprecated = "deprecated" in text
            if (deprecated and self.settings.mute_warnings) or (urn + text) in self._warned:
                continue
            self._warned.add(urn + text)
            self.report.warning(text, urn)


def _is_ours(live: Mapping[str, Any], manager: str) -> bool:
    entries = (live.get("metadata") or {}).get("managedFields") or []
    return any(
        entry.get("manager") == manager and not entry.get("subresource") for entry in entries
    )


def _explain(error: ApiError, manager: str) -> str:
    if not error.conflict:
        return str(error)
    causes = error.details.get("causes") or []
    conflicts = [cause for cause in causes if cause.get("reason") == "FieldManagerConflict"]
    if not conflicts:
        return str(error)
    lines = [
        "server-side apply field conflict detected: the resource managed by field manager "
        f"{manager!r} had an apply conflict: {error}"
    ]
    lines += [f"  - field {cause.get('field')}: {cause.get('message')}" for cause in conflicts]
    lines.append(
        f'  Set the annotation {naming.PATCH_FORCE}: "true" to take the fields over, leave them '
        "out of the program, or use a Patch resource."
    )
    return "\n".join(lines)


def _leave_ignored(
    body: dict[str, Any], live: Mapping[str, Any], manager: str, ignore: Sequence[str]
) -> None:
    """Make the ignored fields of ``body`` change nothing, as handleSSAIgnoreFields of await.go.

    A field that only others own is left out of the apply; any other keeps its live value.
    """
    entries = (live.get("metadata") or {}).get("managedFields") or []
    theirs: dict[str, Any] = {}
    for entry in entries:
        if entry.get("manager") != manager:
            theirs = diffing.merge_fields(theirs, entry.get("fieldsV1") or {})
    ours = diffing.managed_fields(live, manager)
    for text in ignore:
        path = diffing.parse_path(text)
        if not path or not all(isinstance(part, str) and part != "*" for part in path):
            continue
        keys = [str(part) for part in path]
        if _has_field(theirs, keys) and not _has_field(ours, keys):
            _remove(body, keys)
            continue
        result, value = _lookup(live, keys)
        if result:
            _set(body, keys, copy.deepcopy(value))


def _has_field(fields: Mapping[str, Any], keys: Sequence[str]) -> bool:
    current: Any = fields
    for key in keys:
        if not isinstance(current, Mapping) or f"f:{key}" not in current:
            return False
        current = current[f"f:{key}"]
    return True


def _lookup(obj: Mapping[str, Any], keys: Sequence[str]) -> tuple[bool, Any]:
    current: Any = obj
    for key in keys:
        if not isinstance(current, Mapping) or key not in current:
            return False, None
        current = current[key]
    return True, current


def _remove(obj: dict[str, Any], keys: Sequence[str]) -> None:
    result, parent = _lookup(obj, keys[:-1])
    if result and isinstance(parent, dict):
        parent.pop(keys[-1], None)


def _set(obj: dict[str, Any], keys: Sequence[str], value: Any) -> None:
    current = obj
    for key in keys[:-1]:
        inner = current.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        current = inner
    current[keys[-1]] = value


def _skip_await_on_delete(live: Mapping[str, Any]) -> bool:
    # The official provider keeps this for the kinds that had it before its version 4.19.
    group, _ = diffing.split_api_version(str(live.get("apiVersion", "")))
    return (group, live.get("kind")) in {
        ("", "Namespace"),
        ("", "Pod"),
        ("", "ReplicationController"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
    }
