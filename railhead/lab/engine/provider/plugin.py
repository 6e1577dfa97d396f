"""The plugin around the resources: its identity, its configuration, its connections, its errors."""

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

from railhead.kube.errors import ApiError, UnreachableError
from railhead.lab.engine.provider import config, properties
from railhead.lab.engine.provider.client import KubeClient, NoMatchError, load_kubeconfig
from railhead.lab.engine.provider.objects import ApplySettings, ObjectOperations, OperationError
from railhead.lab.engine.provider.patience import StillAwayError
from railhead.lab.engine.provider.state import InitFailedError
from railhead.lab.engine.serving import EngineLog

# The release of the official provider whose behaviour this one follows.
VERSION = "4.34.2"
STAND_IN = (
    "railhead: the Kubernetes provider is Railhead's stand-in for pulumi-resource-kubernetes; "
    "install the official plugin to replace it"
)
_LOOK_AGAIN_S = 20.0


class ReleaseHandler(Protocol):
    """The server of ``helm.sh/v3:Release`` (see :mod:`railhead.lab.engine.provider.helm`)."""

    def check(
        self, urn: str, olds: dict[str, Any], news: dict[str, Any]
    ) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Return the inputs with defaults, and failures as ``(property, reason)``."""

    def diff(
        self, olds: dict[str, Any], news: dict[str, Any], ignore: list[str]
    ) -> provider_pb2.DiffResponse:
        """Return what an update would change."""

    def create(
        self, urn: str, news: dict[str, Any], *, preview: bool, timeout_s: float
    ) -> tuple[str, dict[str, Any]]:
        """Install; returns the id and the state."""

    def read(
        self, urn: str, identifier: str, state: dict[str, Any]
    ) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
        """Return the id, state and inputs of the live release; None when it is gone."""

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
        """Return the manifest of a chart, rendered without installing it."""

    def render_chart(self, values: Mapping[str, Any]) -> str:
        """Return the manifest of a ``helm.sh/v4:Chart``'s inputs."""

    def stop(self) -> None:
        """End running Helm processes."""


_Self = TypeVar("_Self", bound="KubernetesPlugin")
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")
_Method = Callable[[_Self, _Request, grpc.ServicerContext], _Response]


def reporting(
    method: _Method[_Self, _Request, _Response],
) -> _Method[_Self, _Request, _Response]:
    """Turn this module's exceptions into the statuses that the engine understands."""

    @functools.wraps(method)
    def wrapper(self: _Self, request: _Request, context: grpc.ServicerContext) -> _Response:
        try:
            return method(self, request, context)
        except InitFailedError as error:
            _abort_init_failed(context, error, secrets=self.accept_secrets)
        except (
            OperationError,
            StillAwayError,
            UnreachableError,
            ApiError,
            NoMatchError,
            ValueError,
        ) as error:
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


class KubernetesPlugin(provider_pb2_grpc.ResourceProviderServicer):
    """The engine's general requests, and the connection; the servicer has the resources."""

    def __init__(self, engine_address: str = "") -> None:
        self._engine_address = engine_address
        self.report = EngineLog(engine_address)
        self.cancelled = threading.Event()
        self.accept_secrets = True
        self.settings = config.ProviderConfig()
        self._lock = threading.Lock()
        self._objects: ObjectOperations | None = None
        self._releases: ReleaseHandler | None = None
        self._unreachable = ""
        self._unreachable_at = 0.0
        self._context_namespace: str | None = None
        self._unreachable_told = False
        self._said_stand_in = False

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
        """Return the version of the official provider that this one follows."""
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetSchema(
        self, request: provider_pb2.GetSchemaRequest, context: grpc.ServicerContext
    ) -> provider_pb2.GetSchemaResponse:
        """Return a schema without types: kinds are found by asking the API server."""
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
        """Return no mappings from other tools."""
        return provider_pb2.GetMappingResponse()

    def GetMappings(
        self, request: provider_pb2.GetMappingsRequest, context: grpc.ServicerContext
    ) -> provider_pb2.GetMappingsResponse:
        """Return no mappings from other tools."""
        return provider_pb2.GetMappingsResponse()

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """End what is under way; each operation reports the state it reached."""
        threading.Thread(target=self.close, daemon=True).start()
        return empty_pb2.Empty()

    # Configuration

    @reporting
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

    @reporting
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

    @reporting
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

    def objects(self) -> ObjectOperations:
        """Return the operations on the configured cluster, connecting on the first call.

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
                namespace = self.settings.namespace or kubeconfig.namespace
                client = KubeClient(kubeconfig, self.settings.client)
                client.version()
            except (UnreachableError, ApiError) as error:
                refused = "the API server refused: " if isinstance(error, ApiError) else ""
                self._unreachable = f"{refused}{error}"
                self._unreachable_at = time.monotonic()
                raise UnreachableError(self._unreachable) from error
            self._objects = ObjectOperations(
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

    def objects_or_none(self, urn: str) -> ObjectOperations | None:
        """Return the operations, or None, with one warning, when the cluster is unreachable."""
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
        """Return the handler of Helm releases."""
        with self._lock:
            if self._releases is None:
                from railhead.lab.engine.provider.helm import HelmReleases

                self._releases = HelmReleases(
                    settings=self.settings, report=self.report, cancel=self.cancelled
                )
            return self._releases
