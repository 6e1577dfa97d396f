"""The ResourceProvider service: Pulumi's protocol on one side, :mod:`objects` on the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2

from railhead.kube.errors import UnreachableError
from railhead.lab.engine.provider import (
    awaiting,
    diffing,
    invokes,
    naming,
    properties,
    readiness,
)
from railhead.lab.engine.provider.client import NoMatchError, load_kubeconfig
from railhead.lab.engine.provider.objects import (
    ObjectOperations,
    OperationError,
    PreviewUnavailableError,
)
from railhead.lab.engine.provider.plugin import VERSION, KubernetesPlugin, reporting
from railhead.lab.engine.provider.state import (
    API_VERSION,
    FIELD_MANAGER,
    InitFailedError,
    checkpoint,
    detailed_diff,
    diff_response,
    parse_checkpoint,
)


class KubernetesProvider(KubernetesPlugin):
    """One configured provider; the engine starts a process for each."""

    def __init__(self, engine_address: str = "") -> None:
        super().__init__(engine_address)
        # What this run learnt of each resource's old object: its uids and its last known name.
        self._known_uids: dict[str, set[str]] = {}
        self._old_names: dict[str, str] = {}

    def _see(self, urn: str, live: Mapping[str, Any]) -> None:
        uid = (live.get("metadata") or {}).get("uid")
        if isinstance(uid, str) and uid:
            self._known_uids.setdefault(urn, set()).add(uid)
        if name := naming.object_name(live):
            self._old_names[urn] = name

    def _uids(self, urn: str) -> frozenset[str]:
        return frozenset(self._known_uids.get(urn, ()))

    def _manager(self, urn: str, state: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
        if not self.settings.server_side:
            return "pulumi-kubernetes"
        if named := naming.annotation(inputs, naming.PATCH_FIELD_MANAGER):
            return named
        kept = properties.plain(state.get(FIELD_MANAGER))
        return kept if isinstance(kept, str) and kept else naming.field_manager(urn)

    @reporting
    def Check(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Name the object, put it into its namespace, bring the inputs into one form."""
        urn = request.urn
        olds = properties.decode(request.olds)
        news = properties.decode(request.news)
        if naming.urn_type(urn) == naming.HELM_RELEASE:
            checked, problems = self.releases().check(urn, olds, news)
            return provider_pb2.CheckResponse(
                inputs=properties.encode(checked, secrets=self.accept_secrets),
                failures=[
                    provider_pb2.CheckFailure(property=name, reason=reason)
                    for name, reason in problems
                ],
            )
        if naming.is_list(urn):
            raise ValueError(
                "list resources exist for compatibility with YAML manifests and Helm charts, and "
                "cannot be created directly. Use the underlying resource type instead"
            )
        if self._skipping(urn):
            return provider_pb2.CheckResponse(inputs=request.olds)
        inputs = diffing.normalize(properties.to_cluster(news))
        old_inputs = properties.to_cluster(olds)
        patch = naming.is_patch(urn, str(inputs.get("kind")))
        if patch and not self.settings.server_side:
            raise ValueError(
                "patch resources require Server-Side Apply mode, which is enabled using the "
                "`enableServerSideApply` Provider config"
            )
        if patch and not naming.is_named(inputs):
            raise ValueError("patch resources require the `.metadata.name` field to be set")
        metadata = inputs.get("metadata")
        generated = isinstance(metadata, dict) and metadata.get("generateName")
        if generated and not naming.is_named(inputs) and self.settings.server_side:
            raise ValueError(
                "the `.metadata.generateName` field is not supported in Server-Side Apply mode"
            )
        self._name(urn, inputs, old_inputs, request)
        self._place(urn, inputs)
        result = properties.to_pulumi(inputs)
        properties.mark_secrets(result, news)
        return provider_pb2.CheckResponse(
            inputs=properties.encode(result, secrets=self.accept_secrets)
        )

    def _skipping(self, urn: str) -> bool:
        if not self.settings.skip_update_unreachable:
            return False
        try:
            self.objects()
        except UnreachableError:
            self.report.warning(
                "Cluster is unreachable but skipUpdateUnreachable flag is set to true, skipping...",
                urn,
            )
            return True
        return False

    def _name(
        self,
        urn: str,
        inputs: dict[str, Any],
        old_inputs: Mapping[str, Any],
        request: provider_pb2.CheckRequest,
    ) -> None:
        if naming.is_named(inputs):
            return
        if old_inputs and naming.is_true(old_inputs, naming.AUTONAMED):
            _set_autoname(inputs, naming.object_name(old_inputs))
            return
        options = request.autonaming if request.HasField("autonaming") else None
        modes = provider_pb2.CheckRequest.AutonamingOptions
        if options is not None and options.mode == modes.DISABLE:
            raise ValueError(
                "autonaming is disabled, resource requires the .metadata.name field to be set"
            )
        if options is not None and options.proposed_name:
            _set_autoname(inputs, options.proposed_name)
            return
        _set_autoname(inputs, naming.autoname(urn, self._old_names.get(urn, "")))

    def _default_namespace(self) -> str:
        # Read once: a stack checks hundreds of objects.
        if self._context_namespace is None:
            try:
                result = load_kubeconfig(self.settings.client).namespace or "default"
            except UnreachableError:
                result = ""
            self._context_namespace = self.settings.namespace or result
        return self._context_namespace

    def _place(self, urn: str, inputs: dict[str, Any]) -> None:
        metadata = inputs.setdefault("metadata", {})
        if not isinstance(metadata, dict) or metadata.get("namespace") is not None:
            return
        default = self._default_namespace()
        if not default:
            return
        try:
            resource = self.objects().client.resource_type(
                str(inputs.get("apiVersion")), str(inputs.get("kind"))
            )
            namespaced = resource.namespaced
        except UnreachableError:
            namespaced = naming.is_builtin_namespaced(urn)
        except NoMatchError:
            # Its CRD is on its way; the next check, when it is there, will know.
            namespaced = False
        if namespaced:
            metadata["namespace"] = default

    @reporting
    def Diff(
        self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext
    ) -> provider_pb2.DiffResponse:
        """Compare the inputs of the state with the program's."""
        urn = request.urn
        olds = properties.decode(request.olds)
        news = properties.decode(request.news)
        ignore = list(request.ignoreChanges)
        if naming.urn_type(urn) == naming.HELM_RELEASE:
            return self.releases().diff(olds, news, ignore)
        old_inputs, old_live = parse_checkpoint(olds)
        old_inputs = diffing.normalize(old_inputs)
        inputs = diffing.normalize(properties.to_cluster(news))
        self._see(urn, old_live)
        self._same_namespace(urn, old_inputs, old_live, inputs)
        if naming.object_name(inputs) and isinstance(old_inputs.get("metadata"), dict):
            old_inputs["metadata"]["name"] = naming.object_name(old_live)
        patch = naming.is_patch(urn, str(inputs.get("kind")))
        forced = (
            diffing.identity_paths()
            if patch
            else diffing.force_new_paths(
                inputs,
                secret_mutable=self.settings.secret_mutable,
                config_map_mutable=self.settings.config_map_mutable,
            )
        )
        changes, replaces = detailed_diff(old_inputs, inputs, forced=forced, ignored=ignore)
        if naming.is_true(inputs, naming.REPLACE_UNREADY):
            replaces += self._replace_unready(urn, inputs, old_live)
        in_place = (
            bool(replaces)
            and naming.is_named(inputs)
            and not naming.is_true(inputs, naming.AUTONAMED)
            and naming.object_name(inputs) == naming.object_name(old_live)
            and (naming.object_namespace(inputs) or naming.object_namespace(old_live))
            == naming.object_namespace(old_live)
        )
        return diff_response(changes, replaces, in_place=in_place)

    def _same_namespace(
        self,
        urn: str,
        old_inputs: dict[str, Any],
        old_live: Mapping[str, Any],
        inputs: dict[str, Any],
    ) -> None:
        # No namespace and the namespace where the object lies by default are the same.
        lives = naming.object_namespace(old_live)
        for obj in (old_inputs, inputs):
            metadata = obj.get("metadata")
            if not isinstance(metadata, dict):
                continue
            if not lives:
                metadata.pop("namespace", None)
            elif metadata.get("namespace") in (None, ""):
                default = self._default_namespace() or "default"
                metadata["namespace"] = lives if obj is old_inputs else default

    def _replace_unready(
        self, urn: str, inputs: Mapping[str, Any], old_live: Mapping[str, Any]
    ) -> list[str]:
        if inputs.get("kind") != "Job":
            self.report.warning("replaceUnready annotation is not supported for this resource", urn)
            return []
        objects = self.objects_or_none(urn)
        if objects is None:
            return []
        live = objects.read(old_live)
        if live is None:
            return []
        entry = readiness.entry_for(live)
        if entry is None:
            return []
        verdict = entry.rule(readiness.Look(client=objects.client, live=live))
        return [] if verdict.ready else ['.metadata.annotations["pulumi.com/replaceUnready"]']

    @reporting
    def Create(
        self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CreateResponse:
        """Create, or preview the creation by a server-side dry run."""
        urn = request.urn
        news = properties.decode(request.properties)
        if naming.urn_type(urn) == naming.HELM_RELEASE:
            identifier, state = self.releases().create(
                urn, news, preview=request.preview, timeout_s=request.timeout
            )
            return self._created("" if request.preview else identifier, state)
        inputs = properties.to_cluster(news)
        manager = self._manager(urn, {}, inputs)
        api_version = str(inputs.get("apiVersion"))
        if request.preview:
            objects = self.objects_or_none(urn)
            patch = naming.is_patch(urn, str(inputs.get("kind")))
            if (
                objects is None
                or patch
                or properties.has_unknown(inputs)
                or not self.settings.server_side
            ):
                return provider_pb2.CreateResponse(properties=request.properties)
            try:
                live = objects.preview_create(urn, inputs, manager, self._uids(urn))
            except PreviewUnavailableError as error:
                if error.note:
                    self.report.warning(error.note, urn)
                return provider_pb2.CreateResponse(properties=request.properties)
            return self._created("", checkpoint(inputs, live, news, api_version, manager))
        objects = self.objects()
        live = objects.create(
            urn, inputs, manager, known_uids=self._uids(urn), timeout_s=request.timeout
        )
        identifier = naming.object_id(live)
        try:
            live = objects.waiter(urn, live).until_ready(
                inputs, live, custom_timeout_s=request.timeout, updating=False
            )
        except awaiting.NotReadyError as error:
            raise InitFailedError(
                f"resource {urn!r} was successfully created, but the Kubernetes API server "
                f"reported that it failed to fully initialize or become live: {error.problem}",
                error.reasons,
                identifier,
                checkpoint(inputs, error.live, news, api_version, manager),
            ) from error
        except ValueError as error:
            raise InitFailedError(
                f"resource {urn!r} was created, but cannot be waited for: {error}",
                [],
                identifier,
                checkpoint(inputs, live, news, api_version, manager),
            ) from error
        if live.get("kind") == "CustomResourceDefinition":
            objects.client.forget_discovery()
        return self._created(identifier, checkpoint(inputs, live, news, api_version, manager))

    def _created(self, identifier: str, state: Mapping[str, Any]) -> provider_pb2.CreateResponse:
        return provider_pb2.CreateResponse(
            id=identifier, properties=properties.encode(state, secrets=self.accept_secrets)
        )

    @reporting
    def Read(
        self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ReadResponse:
        """Read the live object, for refresh, import and ``.get``."""
        urn = request.urn
        state = properties.decode(request.properties)
        marked = properties.decode(request.inputs)
        try:
            objects = self.objects()
        except UnreachableError as error:
            return self._read_unreachable(request, error)
        if naming.urn_type(urn) == naming.HELM_RELEASE:
            match = self.releases().read(urn, request.id, state)
            if match is None:
                return provider_pb2.ReadResponse()
            identifier, release, inputs = match
            return provider_pb2.ReadResponse(
                id=identifier,
                properties=properties.encode(release, secrets=self.accept_secrets),
                inputs=properties.encode(inputs, secrets=self.accept_secrets),
            )
        namespace, name = naming.parse_id(request.id)
        if not name:
            raise ValueError(f"the id {request.id!r} is not of the form namespace/name or name")
        old_inputs = diffing.normalize(properties.to_cluster(marked))
        kept_inputs, old_live = parse_checkpoint(state)
        if not old_inputs:
            old_inputs = diffing.normalize(kept_inputs)
        importing = not old_inputs and not old_live
        wanted = {
            "apiVersion": old_inputs.get("apiVersion") or old_live.get("apiVersion"),
            "kind": old_inputs.get("kind") or old_live.get("kind"),
            "metadata": {"name": name, "namespace": namespace},
        }
        if not wanted["apiVersion"] or not wanted["kind"]:
            api_version, kind = naming.token_kind(urn)
            wanted.update(apiVersion=api_version, kind=kind)
            if not self._served(objects, wanted) and kind.endswith("Patch"):
                wanted["kind"] = kind.removesuffix("Patch")
        live = objects.read(wanted)
        if live is None:
            return provider_pb2.ReadResponse()
        manager = self._manager(urn, state, old_inputs)
        api_version = str(properties.plain(state.get(API_VERSION)) or live.get("apiVersion"))
        if importing or not old_inputs:
            inputs = diffing.imported_inputs(live)
        else:
            owned = diffing.managed_fields(old_live, manager) or None
            inputs = diffing.live_inputs(old_inputs, old_live, live, owned)
        secrets = marked or state
        fresh = checkpoint(inputs, live, secrets, api_version, manager)
        result: dict[str, Any] = properties.to_pulumi(inputs)
        properties.mark_secrets(result, secrets)
        self._see(urn, live)
        if not importing and not naming.is_patch(urn, str(live.get("kind"))):
            verdict = objects.waiter(urn, live).verdict_now(live, inputs)
            if not verdict.ready:
                raise InitFailedError(
                    f"Resource '{name}' was created but failed to initialize",
                    list(verdict.errors) or [verdict.message],
                    request.id,
                    fresh,
                    result,
                )
        return provider_pb2.ReadResponse(
            id=request.id,
            properties=properties.encode(fresh, secrets=self.accept_secrets),
            inputs=properties.encode(result, secrets=self.accept_secrets),
        )

    def _served(self, objects: ObjectOperations, obj: Mapping[str, Any]) -> bool:
        return objects.exists_kind(obj)

    def _read_unreachable(
        self, request: provider_pb2.ReadRequest, error: UnreachableError
    ) -> provider_pb2.ReadResponse:
        self.report.warning(f"configured Kubernetes cluster is unreachable: {error}", request.urn)
        if self.settings.delete_unreachable:
            self.report.info(
                "configured Kubernetes cluster is unreachable and the `deleteUnreachable` option "
                "is enabled. Deleting the unreachable resource from Pulumi state",
                request.urn,
            )
            return provider_pb2.ReadResponse()
        if self.settings.skip_update_unreachable:
            self.report.info(
                "configured Kubernetes cluster is unreachable and the `skipUnreachable` option is "
                "enabled. Returned data could not reflect the actual cluster configuration.",
                request.urn,
            )
            return provider_pb2.ReadResponse(
                id=request.id, properties=request.properties, inputs=request.inputs
            )
        raise OperationError(
            "failed to read resource state due to unreachable cluster. If the cluster was deleted, "
            "you can remove this resource from Pulumi state by rerunning the operation with the "
            f'PULUMI_K8S_DELETE_UNREACHABLE environment variable set to "true" ({error})'
        ) from error

    @reporting
    def Update(
        self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext
    ) -> provider_pb2.UpdateResponse:
        """Apply the inputs, or preview that by a server-side dry run."""
        urn = request.urn
        olds = properties.decode(request.olds)
        news = properties.decode(request.news)
        if naming.urn_type(urn) == naming.HELM_RELEASE:
            state = self.releases().update(
                urn, olds, news, preview=request.preview, timeout_s=request.timeout
            )
            return provider_pb2.UpdateResponse(
                properties=properties.encode(state, secrets=self.accept_secrets)
            )
        inputs = diffing.normalize(properties.to_cluster(news))
        old_inputs, old_live = parse_checkpoint(olds)
        api_version = str(properties.plain(olds.get(API_VERSION)) or inputs.get("apiVersion"))
        old_manager = self._manager(urn, olds, old_inputs)
        manager = self._manager(urn, olds, inputs)
        self._see(urn, old_live)
        name = naming.object_name(old_live) or naming.object_name(inputs)
        if request.preview:
            objects = self.objects_or_none(urn)
            if objects is None or properties.has_unknown(inputs):
                return provider_pb2.UpdateResponse(properties=request.news)
            try:
                live = objects.update(
                    urn,
                    inputs,
                    name,
                    manager,
                    ignore=list(request.ignoreChanges),
                    preview=True,
                )
            except PreviewUnavailableError as error:
                if error.note:
                    self.report.warning(error.note, urn)
                return provider_pb2.UpdateResponse(properties=request.news)
            return self._updated(checkpoint(inputs, live, news, api_version, manager))
        objects = self.objects()
        live = objects.update(
            urn,
            inputs,
            name,
            manager,
            ignore=list(request.ignoreChanges),
            timeout_s=request.timeout,
        )
        if manager != old_manager and self.settings.server_side:
            objects.relinquish(live, old_manager)
        try:
            live = objects.waiter(urn, live).until_ready(
                inputs, live, custom_timeout_s=request.timeout, updating=True
            )
        except (awaiting.NotReadyError, ValueError) as error:
            reasons = error.reasons if isinstance(error, awaiting.NotReadyError) else []
            seen = error.live if isinstance(error, awaiting.NotReadyError) else live
            identifier = naming.object_id(seen)
            raise InitFailedError(
                f"the Kubernetes API server reported that {identifier!r} failed to fully "
                f"initialize or become live: {error}",
                reasons,
                identifier,
                checkpoint(inputs, seen, news, api_version, manager),
            ) from error
        if live.get("kind") == "CustomResourceDefinition":
            objects.client.forget_discovery()
        return self._updated(checkpoint(inputs, live, news, api_version, manager))

    def _updated(self, state: Mapping[str, Any]) -> provider_pb2.UpdateResponse:
        return provider_pb2.UpdateResponse(
            properties=properties.encode(state, secrets=self.accept_secrets)
        )

    @reporting
    def Delete(
        self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        """Delete the object; a Patch only gives its fields up."""
        urn = request.urn
        state = properties.decode(request.properties)
        old_inputs, old_live = parse_checkpoint(state)
        try:
            objects = self.objects()
        except UnreachableError as error:
            self.report.warning(f"configured Kubernetes cluster is unreachable: {error}", urn)
            if self.settings.delete_unreachable:
                self.report.info(
                    "configured Kubernetes cluster is unreachable and the `deleteUnreachable` "
                    "option is enabled. Deleting the unreachable resource from Pulumi state",
                    urn,
                )
                return empty_pb2.Empty()
            raise OperationError(
                "configured Kubernetes cluster is unreachable. If the cluster was deleted, you can "
                "remove this resource from Pulumi state by rerunning the operation with the "
                'PULUMI_K8S_DELETE_UNREACHABLE environment variable set to "true"'
            ) from error
        if naming.urn_type(urn) == naming.HELM_RELEASE:
            self.releases().delete(urn, state, request.timeout)
            return empty_pb2.Empty()
        namespace, name = naming.parse_id(request.id)
        live = dict(old_live)
        live["metadata"] = {**(live.get("metadata") or {}), "name": name}
        if namespace:
            live["metadata"]["namespace"] = namespace
        if naming.is_patch(urn, str(live.get("kind"))):
            objects.relinquish(live, self._manager(urn, state, old_inputs))
            return empty_pb2.Empty()
        try:
            objects.delete(urn, old_inputs, live, request.timeout)
        except awaiting.NotReadyError as error:
            manager = self._manager(urn, state, old_inputs)
            api_version = str(properties.plain(state.get(API_VERSION)) or "")
            raise InitFailedError(
                error.problem,
                error.reasons,
                request.id,
                checkpoint(old_inputs, error.live, state, api_version, manager),
            ) from error
        if live.get("kind") == "CustomResourceDefinition":
            objects.client.forget_discovery()
        return empty_pb2.Empty()

    # Functions and components

    @reporting
    def Invoke(
        self, request: provider_pb2.InvokeRequest, context: grpc.ServicerContext
    ) -> provider_pb2.InvokeResponse:
        """Return the functions that the SDK's YAML and Helm helpers call."""
        arguments = properties.plain(properties.decode(request.args))
        result = invokes.call(request.tok, arguments, self)
        encoded = properties.encode(result, secrets=self.accept_secrets)
        response = provider_pb2.InvokeResponse()
        # `return` is a word of Python, so the field is reached by name.
        getattr(response, "return").CopyFrom(encoded)
        return response

    def Call(
        self, request: provider_pb2.CallRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CallResponse:
        """Refuse: resources have no methods."""
        context.abort(grpc.StatusCode.UNIMPLEMENTED, f"there is no method {request.tok}")
        raise AssertionError("abort returned")

    @reporting
    def Construct(
        self, request: provider_pb2.ConstructRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConstructResponse:
        """Component resources that the official provider serves."""
        # The component machinery of the SDK is loaded by those who use it.
        from railhead.lab.engine.provider import components

        if request.type not in components.SERVED:
            raise OperationError(
                f"Railhead's stand-in for the Kubernetes provider does not serve {request.type}; "
                f"it serves {', '.join(components.SERVED)}, or use the official provider"
            )
        return components.construct(
            request,
            engine_address=self._engine_address,
            version=VERSION,
            place=lambda objects, namespace: invokes.place(
                objects, namespace or self._default_namespace(), self
            ),
            render=lambda values: self.releases().render_chart(values),
        )


def _set_autoname(inputs: dict[str, Any], name: str) -> None:
    metadata = inputs.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        return
    metadata["name"] = name
    annotations = metadata.get("annotations")
    if annotations is None:
        annotations = metadata["annotations"] = {}
    if isinstance(annotations, dict):
        annotations[naming.AUTONAMED] = "true"
