"""Names, identifiers and annotations, as the official provider spells them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from railhead.lab.engine.provider.properties import Unknown

AUTONAMED = "pulumi.com/autonamed"
SKIP_AWAIT = "pulumi.com/skipAwait"
WAIT_FOR = "pulumi.com/waitFor"
TIMEOUT_SECONDS = "pulumi.com/timeoutSeconds"
REPLACE_UNREADY = "pulumi.com/replaceUnready"
PATCH_FORCE = "pulumi.com/patchForce"
PATCH_FIELD_MANAGER = "pulumi.com/patchFieldManager"
DELETION_PROPAGATION = "pulumi.com/deletionPropagationPolicy"

_TOKEN = re.compile(r"^kubernetes:(?P<group>.+)/(?P<version>[^/:]+):(?P<kind>[^:]+)$")
HELM_RELEASE = "kubernetes:helm.sh/v3:Release"


def urn_type(urn: str) -> str:
    """Return the resource's own type token: the last of the parent types in the URN."""
    parts = urn.split("::")
    return parts[2].split("$")[-1] if len(parts) > 2 else ""


def urn_name(urn: str) -> str:
    """Return the resource's logical name."""
    return urn.split("::", 3)[-1]


def token_kind(urn: str) -> tuple[str, str]:
    """Return ``(apiVersion, kind)`` of the URN's type token, a Patch suffix included.

    Raises:
        ValueError: the token names no Kubernetes kind.
    """
    token = urn_type(urn)
    match = _TOKEN.match(token)
    if match is None:
        raise ValueError(
            f"resource type {token!r} is not of the form kubernetes:group/version:Kind"
        )
    group = match["group"]
    prefix = "" if group == "core" else f"{group}/"
    return f"{prefix}{match['version']}", match["kind"]


def is_patch(urn: str, kind: str) -> bool:
    """Return whether the resource is of a Patch kind, such as ConfigMapPatch for a ConfigMap."""
    type_kind = urn_type(urn).rpartition(":")[2]
    return type_kind.endswith("Patch") and kind != type_kind


def is_list(urn: str) -> bool:
    """Return whether the type is a list kind of a built-in group, such as ConfigMapList."""
    token = urn_type(urn)
    kind = token.rpartition(":")[2]
    group = token.removeprefix("kubernetes:").rpartition("/")[0]
    builtin = "." not in group or group.endswith(".k8s.io")
    return builtin and kind.endswith("List") and kind != "List"


# Cluster-scoped kinds of the API server's own groups.
_CLUSTER_SCOPED = frozenset(
    "APIService CSIDriver CSINode CertificateSigningRequest ClusterRole ClusterRoleBinding"
    " ComponentStatus CustomResourceDefinition DeviceClass FlowSchema IPAddress IngressClass"
    " MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration Namespace"
    " Node PersistentVolume PriorityClass PriorityLevelConfiguration ResourceSlice RuntimeClass"
    " ServiceCIDR StorageClass ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"
    " ValidatingWebhookConfiguration VolumeAttachment VolumeAttributesClass".split()
)


def is_builtin_namespaced(urn: str) -> bool:
    """Return whether the type is a namespaced kind of Kubernetes itself, as known offline.

    False for custom resources: only their definition says.
    """
    token = urn_type(urn)
    kind = token.rpartition(":")[2].removesuffix("Patch")
    group = token.removeprefix("kubernetes:").rpartition("/")[0]
    builtin = "." not in group or group.endswith(".k8s.io")
    return builtin and kind not in _CLUSTER_SCOPED


def annotation(obj: Mapping[str, Any], key: str) -> str:
    """Return an annotation's value; empty when it is absent or unknown."""
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    value = annotations.get(key) if isinstance(annotations, Mapping) else None
    return value if isinstance(value, str) else ""


def is_true(obj: Mapping[str, Any], key: str) -> bool:
    """Return whether an annotation is the string ``true``."""
    return annotation(obj, key) == "true"


def object_name(obj: Mapping[str, Any]) -> str:
    """Return ``metadata.name``; empty when absent or unknown."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""


def object_namespace(obj: Mapping[str, Any]) -> str:
    """Return ``metadata.namespace``; empty when absent or unknown."""
    metadata = obj.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    return namespace if isinstance(namespace, str) else ""


def is_named(obj: Mapping[str, Any]) -> bool:
    """Return whether the object has a name, known or not."""
    metadata = obj.get("metadata")
    if isinstance(metadata, Unknown):
        return True
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return isinstance(name, Unknown) or bool(name)


def object_id(obj: Mapping[str, Any]) -> str:
    """Return the Pulumi id: ``namespace/name``, or ``name`` without a namespace."""
    namespace = object_namespace(obj)
    return f"{namespace}/{object_name(obj)}" if namespace else object_name(obj)


def parse_id(identifier: str) -> tuple[str, str]:
    """Return ``(namespace, name)`` of a Pulumi id."""
    namespace, _, name = identifier.rpartition("/")
    return namespace, name


def autoname(urn: str, salt: str = "") -> str:
    """Return ``<logical name>-<8 hex digits>``, the same for the same URN and salt.

    Deterministic on purpose: a creation that was killed before its state was written is found again
    under the same name. ``salt`` is the name of the object being replaced, so that a replacement
    made before its predecessor is deleted has another name.
    """
    digest = hashlib.sha256(f"{urn}\0{salt}".encode()).hexdigest()[:8]
    return f"{urn_name(urn)}-{digest}"


def field_manager(urn: str) -> str:
    """Return ``pulumi-kubernetes-<8 hex digits>``, the same for the same URN."""
    return f"pulumi-kubernetes-{hashlib.sha256(urn.encode()).hexdigest()[:8]}"
