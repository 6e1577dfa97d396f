"""The provider's configuration, from what the engine sends to typed settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from railhead.kube.errors import UnreachableError
from railhead.lab.engine.provider.client import ClientSettings, load_kubeconfig
from railhead.lab.engine.provider.properties import Unknown, plain

# Options with an environment variable of the official provider; the option wins.
_ENVIRONMENT = {
    "deleteUnreachable": "PULUMI_K8S_DELETE_UNREACHABLE",
    "skipUpdateUnreachable": "PULUMI_K8S_SKIP_UPDATE_UNREACHABLE",
    "enableServerSideApply": "PULUMI_K8S_ENABLE_SERVER_SIDE_APPLY",
    "enablePatchForce": "PULUMI_K8S_ENABLE_PATCH_FORCE",
    "upsertExistingObjects": "PULUMI_K8S_UPSERT_EXISTING_OBJECTS",
    "enableConfigMapMutable": "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE",
    "enableSecretMutable": "PULUMI_K8S_ENABLE_SECRET_MUTABLE",
    "suppressDeprecationWarnings": "PULUMI_K8S_SUPPRESS_DEPRECATION_WARNINGS",
    "suppressHelmHookWarnings": "PULUMI_K8S_SUPPRESS_HELM_HOOK_WARNINGS",
}
_UNSUPPORTED = ("renderYamlToDirectory",)


@dataclass(frozen=True, kw_only=True)
class ProviderConfig:
    """The provider's settings; names and defaults are the official provider's."""

    client: ClientSettings = field(default_factory=ClientSettings)
    namespace: str = ""
    server_side: bool = True
    delete_unreachable: bool = False
    skip_update_unreachable: bool = False
    patch_force: bool = False
    upsert: bool = False
    config_map_mutable: bool = False
    secret_mutable: bool = False
    suppress_deprecation: bool = False
    suppress_helm_hooks: bool = False
    helm: Mapping[str, Any] = field(default_factory=dict)
    unsupported: tuple[str, ...] = ()


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, Unknown) else str(value)


def _flag(values: Mapping[str, Any], name: str, default: bool) -> bool:
    value = values.get(name)
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value:
        return value == "true"
    from_environment = os.environ.get(_ENVIRONMENT.get(name, ""))
    return default if from_environment is None else from_environment == "true"


def _object(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = values.get(name)
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ValueError(f"failed to unmarshal {name} option: {error}") from error
    return dict(value) if isinstance(value, Mapping) else {}


def parse(arguments: Mapping[str, Any], variables: Mapping[str, str]) -> ProviderConfig:
    """Return the settings of ConfigureRequest's ``args``, else those of ``variables``.

    Raises:
        ValueError: a nested option is not valid JSON.
    """
    values: dict[str, Any] = {
        key.removeprefix("kubernetes:config:"): value for key, value in variables.items()
    }
    values.update(plain(arguments))
    client = _object(values, "kubeClientSettings")
    return ProviderConfig(
        client=ClientSettings(
            kubeconfig=_text(values.get("kubeconfig")),
            context=_text(values.get("context")),
            cluster=_text(values.get("cluster")),
            timeout_s=float(
                client.get("timeout") or os.environ.get("PULUMI_K8S_CLIENT_TIMEOUT") or 0
            ),
        ),
        namespace=_text(values.get("namespace")),
        server_side=_flag(values, "enableServerSideApply", True),
        delete_unreachable=_flag(values, "deleteUnreachable", False),
        skip_update_unreachable=_flag(values, "skipUpdateUnreachable", False),
        patch_force=_flag(values, "enablePatchForce", False),
        upsert=_flag(values, "upsertExistingObjects", False),
        config_map_mutable=_flag(values, "enableConfigMapMutable", False),
        secret_mutable=_flag(values, "enableSecretMutable", False),
        suppress_deprecation=_flag(values, "suppressDeprecationWarnings", False),
        suppress_helm_hooks=_flag(values, "suppressHelmHookWarnings", False),
        helm=_object(values, "helmReleaseSettings"),
        unsupported=tuple(name for name in _UNSUPPORTED if values.get(name)),
    )


def replaces(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the ``(changed, replacing)`` keys of the provider's own configuration.

    A provider is replaced, and with it every object, when it points at another cluster: when
    ``clusterIdentifier`` changes, or without one when the active cluster of the kubeconfig does.
    """
    before, after = plain(dict(old)), plain(dict(new))
    for key in ("version", "__internal"):
        before.pop(key, None)
        after.pop(key, None)
    changed = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    if not changed:
        return [], []
    old_id, new_id = before.get("clusterIdentifier"), after.get("clusterIdentifier")
    if old_id and new_id:
        return changed, ["clusterIdentifier"] if old_id != new_id else []
    connection = [key for key in ("kubeconfig", "context", "cluster") if key in changed]
    if any(isinstance(after.get(key), Unknown) for key in ("kubeconfig", "context", "cluster")):
        return changed, connection
    replacing: list[str] = []
    if connection:
        was, will = _cluster_of(before), _cluster_of(after)
        # A kubeconfig that cannot be read says nothing about the cluster: keep the objects.
        if was is not None and will is not None and was != will:
            replacing = connection
    if "renderYamlToDirectory" in changed:
        replacing.append("renderYamlToDirectory")
    return changed, replacing


def _cluster_of(values: Mapping[str, Any]) -> Mapping[str, Any] | None:
    settings = ClientSettings(
        kubeconfig=_text(values.get("kubeconfig")),
        context=_text(values.get("context")),
        cluster=_text(values.get("cluster")),
    )
    try:
        return load_kubeconfig(settings).cluster
    except UnreachableError:
        return None
