"""The ResourceProvider service: Pulumi's protocol on one side, :mod:`objects` on the other."""

from __future__ import annotations

import functools
import json
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol, TypeVar

import grpc
from google.protobuf import any_pb2, empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from railhead.lab.engine.provider import (
    awaiting,
    config,
    diffing,
    invokes,
    naming,
    properties,
)
from railhead.lab.engine.provider.client import (
    ApiError,
    KubeClient,
    NoMatchError,
    UnreachableError,
    context_namespace,
    load_kubeconfig,
)
from railhead.lab.engine.provider.objects import (
    ApplySettings,
    Objects,
    OperationError,
    PreviewUnavailableError,
)
from railhead.lab.engine.serving import EngineLog

# The release of the official provider whose behaviour this one follows.
VERSION = "4.34.2"
STAND_IN = (
    "railhead: the Kubernetes provider is Railhead's stand-in for pulumi-resource-kubernetes; "
    "install the official plugin to replace it"
)
INPUTS = "__inputs"
API_VERSION = "__initialApiVersion"
FIELD_MANAGER = "__fieldManager"
_LOOK_AGAIN_S = 20.0

_Kind = provider_pb2.PropertyDiff
_KINDS = {
    (diffing.Change.ADD, False): _Kind.ADD,
    (diffing.Change.ADD, True): _Kind.ADD_REPLACE,
    (diffing.Change.DELETE, False): _Kind.DELETE,
    (diffing.Change.DELETE, True): _Kind.DELETE_REPLACE,
    (diffing.Change.UPDATE, False): _Kind.UPDATE,
    (diffing.Change.UPDATE, True): _Kind.UPDATE_REPLACE,
}


class InitFailedError(Exception):
    """The resource exists but is not in order; its state must be kept all the same.

    Args:
        problem: one sentence.
        reasons: what stands in the way.
        identifier: the resource's id.
        state: its outputs.
        inputs: its inputs, on a read; None otherwise.
    """

    def __init__(
        self,
        problem: str,
        reasons: list[str],
        identifier: str,
        state: Mapping[str, Any],
        inputs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.reasons = reasons
        self.identifier = identifier
        self.state = state
        self.inputs = inputs


class ReleaseHandler(Protocol):
    """What serves ``helm.sh/v3:Release`` (see :mod:`railhead.lab.engine.provider.helm`)."""

    def check(
        self, urn: str, olds: dict[str, Any], news: dict[str, Any]
    ) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Inputs with defaults, and failures as ``(property, reason)``."""

    def diff(
        self, olds: dict[str, Any], news: dict[str, Any], ignore: list[str]
    ) -> provider_pb2.DiffResponse:
        """What an update would change."""

    def create(
        self, urn: str, news: dict[str, Any], *, preview: bool, timeout_s: float
    ) -> tuple[str, dict[str, Any]]:
        """Install; returns the id and the state."""

    def read(
        self, urn: str, identifier: str, state: dict[str, Any]
    ) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
        """The id, state and inputs of the live release; None when it is gone."""

    def update(
        self,
        urn: str,
        olds: dict[str, Any],
        news: dict[str, Any],
        *,
        preview: bool,
        timeout_s: float,
    ) -> dict[str, Any]:
        """Upgrade; returns the state."""

    def delete(self, urn: str, state: dict[str, Any], timeout_s: float) -> None:
        """Uninstall; a release that is gone counts as done."""

    def template(self, options: dict[str, Any]) -> str:
        """The manifest of a chart, rendered without installing it."""

    def render_chart(self, values: Mapping[str, Any]) -> str:
        """The manifest of a ``helm.sh/v4:Chart``'s inputs."""

    def stop(self) -> None:
        """End running Helm processes."""


_Self = TypeVar("_Self", bound="KubernetesProvider")
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")
_Method = Callable[[_Self, _Request, grpc.ServicerContext], _Response]


def _reporting(
    method: _Method[_Self, _Request, _Response],
) -> _Method[_Self, _Request, _Response]:
    """Turn this module's exceptions into the statuses that the engine understands."""

    @functools.wraps(method)
    def wrapper(self: _Self, request: _Request, context: grpc.ServicerContext) -> _Response:
        try:
            return method(self, request, context)
        except InitFailedError as error:
            _abort_init_failed(context, error, secrets=self.accept_secrets)
        except (OperationError, UnreachableError, ApiError, NoMatchError, ValueError) as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except Exception as error:
            # abort() itself raises a bare Exception, which must pass.
            if type(error) is Exception:
                raise
            context.abort(
                grpc.StatusCode.INTERNAL,
                f"railhead's Kubernetes provider failed unexpectedly: {error!r}\n"
                + "".join(traceback.format_exception(error)),
            )
        raise AssertionError("abort returned")

    return wrapper


def _abort_init_failed(
    context: grpc.ServicerContext, error: InitFailedError, *, secrets: bool
) -> NoReturn:
    detail = provider_pb2.ErrorResourceInitFailed(
        id=error.identifier,
        properties=properties.encode(error.state, secrets=secrets),
        reasons=[error.problem, *error.reasons],
    )
    if error.inputs is not None:
        detail.inputs.CopyFrom(properties.encode(error.inputs, secrets=secrets))
    packed = any_pb2.Any()
    packed.Pack(detail)
    code = grpc.StatusCode.UNKNOWN
    status = status_pb2.Status(code=code.value[0], message=error.problem, details=[packed])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(code, error.problem)
    raise AssertionError("abort returned")


def checkpoint(
    inputs: Mapping[str, Any],
    live: Mapping[str, Any],
    marked: Mapping[str, Any],
    api_version: str,
    manager: str,
) -> dict[str, Any]:
    """A resource's state: the live object, the inputs and the provider's own notes.

    Args:
        inputs: plain inputs, as Kubernetes spells them.
        live: the live object.
        marked: the inputs with their secret marks.
        api_version: the version that the resource was created with.
        manager: its field manager.
    """
    state: dict[str, Any] = properties.to_pulumi(dict(live))
    kept: dict[str, Any] = properties.to_pulumi(dict(inputs))
    properties.mark_secrets(state, marked)
    properties.mark_secrets(kept, marked)
    state[INPUTS] = kept
    state[API_VERSION] = api_version
    state[FIELD_MANAGER] = manager
    return state


def parse_checkpoint(state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """``(inputs, live)`` of a state, plain and as Kubernetes spells them."""
    live: dict[str, Any] = properties.to_cluster(state)
    inputs = live.pop(INPUTS, None) or {}
    live.pop(API_VERSION, None)
    live.pop(FIELD_MANAGER, None)
    return inputs, live


class KubernetesProvider(provider_pb2_grpc.ResourceProviderServicer):
    """One configured provider; the engine starts a process for each."""

    def __init__(self, engine_address: str = "") -> None:
        self._engine_address = engine_address
        self.report = EngineLog(engine_address)
        self.cancelled = threading.Event()
        self.accept_secrets = True
        self.settings = config.ProviderConfig()
        self._lock = threading.Lock()
        self._objects: Objects | None = None
        self._releases: ReleaseHandler | None = None
        self._unreachable = ""
        self._unreachable_at = 0.0
        self._context_namespace: str | None = None
        self._unreachable_told = False
        self._said_stand_in = False
        # What this run learnt of each resource's old object: its uids and its last known name.
        self._known_uids: dict[str, set[str]] = {}
        self._old_names: dict[str, str] = {}

    def close(self) -> None:
        """End every wait and every Helm process."""
        self.cancelled.set()
        releases = self._releases
        if releases is not None:
            releases.stop()

    # The plugin itself

    def Handshake(
        self, request: provider_pb2.ProviderHandshakeRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ProviderHandshakeResponse:
        """Take the engine's address."""
        self._engine_address = request.engine_address
        self.report.connect(request.engine_address)
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=True,
            accept_resources=False,
            accept_outputs=False,
            supports_autonaming_configuration=True,
        )

    def Attach(
        self, request: plugin_pb2.PluginAttach, context: grpc.ServicerContext
    ) -> empty_pb2.Empty:
        """Take the engine's address, when the engine attaches to a running provider."""
        self._engine_address = request.address
        self.report.connect(request.address)
        return empty_pb2.Empty()

    def GetPluginInfo(
        self, request: empty_pb2.Empty, context: grpc.ServicerContext
    ) -> plugin_pb2.PluginInfo:
        """The version of the official provider that this one follows."""
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetSchema(
        self, request: provider_pb2.GetSchemaRequest, context: grpc.ServicerContext
    ) -> provider_pb2.GetSchemaResponse:
        """A schema without types: kinds are found by asking the API server."""
        schema = {
            "name": "kubernetes",
            "version": VERSION,
            "description": STAND_IN,
            "config": {},
            "provider": {},
            "resources": {},
        }
        return provider_pb2.GetSchemaResponse(schema=json.dumps(schema))

    def GetMapping(
        self, request: provider_pb2.GetMappingRequest, context: grpc.ServicerContext
    ) -> provider_pb2.GetMappingResponse:
        """No mappings from other tools."""
        return provider_pb2.GetMappingResponse()

    def GetMappings(
        self, request: provider_pb2.GetMappingsRequest, context: grpc.ServicerContext
    ) -> provider_pb2.GetMappingsResponse:
        """No mappings from other tools."""
        return provider_pb2.GetMappingsResponse()

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """End what is under way; each operation reports the state it reached."""
        threading.Thread(target=self.close, daemon=True).start()
        return empty_pb2.Empty()

    # Configuration

    @_reporting
    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        """Refuse what this stand-in cannot do; everything else is left as it is."""
        news = properties.decode(request.news)
        failures = []
        if properties.plain(news).get("renderYamlToDirectory"):
            failures.append(
                provider_pb2.CheckFailure(
                    property="renderYamlToDirectory",
                    reason="Railhead's stand-in for the Kubernetes provider does not render YAML; "
                    "use the official provider for it",
                )
            )
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    @_reporting
    def DiffConfig(
        self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext
    ) -> provider_pb2.DiffResponse:
        """Replace the provider, and so everything, only when it points at another cluster."""
        changed, replacing = config.replaces(
            properties.decode(request.olds), properties.decode(request.news)
        )
        some = provider_pb2.DiffResponse.DIFF_SOME
        none = provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=some if changed else none, diffs=changed, replaces=replacing
        )

    @_reporting
    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        """Keep the settings; the cluster is contacted when it is first needed."""
        self.settings = config.parse(properties.decode(request.args), dict(request.variables))
        self.accept_secrets = request.acceptSecrets
        if not self._said_stand_in:
            self._said_stand_in = True
            self.report.debug(STAND_IN)
        return provider_pb2.ConfigureResponse(
            acceptSecrets=True,
            supportsPreview=True,
            acceptResources=False,
            acceptOutputs=False,
            supports_autonaming_configuration=True,
        )

    def objects(self) -> Objects:
        """The operations on the configured cluster, connecting on the first call.

        Raises:
            UnreachableError: the cluster cannot be reached.
        """
        with self._lock:
            if self._objects is not None:
                return self._objects
            # Remembered for a moment: hundreds of objects must not each wait for a time-out.
            if self._unreachable and time.monotonic() - self._unreachable_at < _LOOK_AGAIN_S:
                raise UnreachableError(self._unreachable)
            try:
                kubeconfig = load_kubeconfig(self.settings.client)
                namespace = self.settings.namespace or context_namespace(kubeconfig)
                client = KubeClient(kubeconfig, self.settings.client)
                client.version()
            except (UnreachableError, ApiError) as error:
                refused = "the API server refused: " if isinstance(error, ApiError) else ""
                self._unreachable = f"{refused}{error}"
                self._unreachable_at = time.monotonic()
                raise UnreachableError(self._unreachable) from error
            self._objects = Objects(
                client=client,
                settings=ApplySettings(
                    server_side=self.settings.server_side,
                    force=self.settings.patch_force,
                    upsert=self.settings.upsert,
                    namespace=namespace or "default",
                    mute_warnings=self.settings.suppress_deprecation,
                ),
                report=self.report,
                cancel=self.cancelled,
            )
            return self._objects

    def objects_or_none(self, urn: str) -> Objects | None:
        """The operations; None, said once as a warning, when the cluster cannot be reached."""
        try:
            return self.objects()
        except UnreachableError as error:
            if not self._unreachable_told:
                self._unreachable_told = True
                self.report.warning(
                    f"configured Kubernetes cluster is unreachable: {error}; this preview is made "
                    "from the program alone",
                    urn,
                )
            return None

    def releases(self) -> ReleaseHandler:
        """The handler of Helm releases."""
        with self._lock:
            if self._releases is None:
                from railhead.lab.engine.provider.helm import HelmReleases

                self._releases = HelmReleases(
                    settings=self.settings, report=self.report, cancel=self.cancelled
                )
            return self._releases

    # One resource

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

    @_reporting
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
                found = context_namespace(load_kubeconfig(self.settings.client)) or "default"
            except UnreachableError:
                found = ""
            self._context_namespace = self.settings.namespace or found
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

    @_reporting
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
        ignored = [diffing.parse_path(path) for path in ignore]
        detailed: dict[str, provider_pb2.PropertyDiff] = {}
        replaces: list[str] = []
        for path, (change, value) in diffing.diff(old_inputs, inputs).items():
            if any(diffing.path_contains(outer, path) for outer in ignored):
                continue
            force = diffing.replaces(path, value, change, forced)
            text = diffing.path_text(path)
            detailed[text] = provider_pb2.PropertyDiff(kind=_KINDS[(change, force)], inputDiff=True)
            if force:
                replaces.append(text)
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
        some = detailed or replaces
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME
            if some
            else provider_pb2.DiffResponse.DIFF_NONE,
            replaces=replaces,
            deleteBeforeReplace=in_place,
            diffs=sorted({path.split(".")[0].split("[")[0] for path in detailed}),
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

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
        entry = awaiting.entry_for(live)
        if entry is None:
            return []
        verdict = entry.rule(awaiting.Look(client=objects.client, live=live))
        return [] if verdict.ready else ['.metadata.annotations["pulumi.com/replaceUnready"]']

    @_reporting
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
        live = objects.create(urn, inputs, manager, known_uids=self._uids(urn))
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

    @_reporting
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
            found = self.releases().read(urn, request.id, state)
            if found is None:
                return provider_pb2.ReadResponse()
            identifier, release, inputs = found
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

    def _served(self, objects: Objects, obj: Mapping[str, Any]) -> bool:
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

    @_reporting
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
        live = objects.update(urn, inputs, name, manager, ignore=list(request.ignoreChanges))
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

    @_reporting
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

    @_reporting
    def Invoke(
        self, request: provider_pb2.InvokeRequest, context: grpc.ServicerContext
    ) -> provider_pb2.InvokeResponse:
        """The functions that the SDK's YAML and Helm helpers call."""
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
        """Methods of resources: there are none."""
        context.abort(grpc.StatusCode.UNIMPLEMENTED, f"there is no method {request.tok}")
        raise AssertionError("abort returned")

    @_reporting
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
