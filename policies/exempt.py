"""Exemptions of the stack's own objects from the rules, each with its reason.

An exemption covers one object, by kind, namespace and name, and only the listed accesses to its
node, or one IAM document that is not known before the update. The catalogue lists the directories
that training pods may mount from their node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railhead.fabric.kinds import FABRICS
from railhead.fabric.modes import MODES
from railhead.policies.clouds import CloudResource
from railhead.policies.plan import UNKNOWN, PlannedObject, Pod, containers


@dataclass(frozen=True, kw_only=True)
class Path:
    """A directory of the node; ``container`` None means any of the pod's."""

    path: str
    container: str | None = None
    read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Exemption:
    """One object's permitted accesses to its node.

    Args:
        kind: of the object.
        namespace: of the object; None for cluster-wide kinds.
        name: a regular expression that its whole name matches.
        flags: fields of the pod's spec, and ``privileged`` for its containers.
        paths: directories of the node; None for any.
        reason: why.
    """

    kind: str
    namespace: str | None
    name: str
    flags: frozenset[str] = frozenset()
    paths: tuple[Path, ...] | None = ()
    reason: str


# Fabrics whose vendor puts a plugin onto nodes.
_PLUGINS = "|".join(sorted(f.name for f in FABRICS.values() if f.plugin))

EXEMPTIONS: tuple[Exemption, ...] = (
    Exemption(
        kind="DaemonSet",
        namespace="railhead-gate",
        name="gate-.*",
        # A port's lossless settings can be read only in its own network namespace.
        flags=frozenset({"hostNetwork"}),
        # /home/kubernetes/bin shows whether a vendor's installer has put its plugin there,
        # /run/railhead how many devices carry Lustre since the node's boot.
        paths=tuple(
            Path(path=path, read_only=True)
            for path in ("/sys", "/dev", "/home/kubernetes/bin", "/run/railhead")
        ),
        reason="the node gate looks at the node's devices, read-only, as nobody",
    ),
    Exemption(
        kind="DaemonSet",
        namespace="kube-system",
        name=f"railhead-({_PLUGINS})-installer|railhead-device-injector",
        flags=frozenset({"hostNetwork", "hostPID", "privileged"}),
        paths=None,
        reason="Google's own installers load modules and put the plugin on the node",
    ),
    Exemption(
        kind="ClusterTrainingRuntime",
        namespace=None,
        name=".*",
        paths=tuple(
            Path(
                path=path.host,
                container=None if path.container == "trainer" else path.container,
                read_only=path.read_only,
            )
            for mode in MODES.values()
            for path in mode.host_paths
        ),
        reason="what the fabric's mode cannot do without, by the catalogue",
    ),
)


# EFS' driver may create access points only on the stack's file systems, whose ARNs end in ids that
# EFS assigns: the first preview after their creation judges the document.
_NAMED_LATER = ("aws:iam/rolePolicy:RolePolicy", r".*-aws-efs-csi-driver-role-policy")


def named_later(resource: CloudResource) -> bool:
    """Return whether a document may be unknown, because it names what this update creates."""
    kind, name = _NAMED_LATER
    return resource.kind == kind and re.fullmatch(name, resource.name) is not None


def exemption(planned: PlannedObject) -> Exemption | None:
    """Return the exemption of an object, if it has one."""
    metadata = planned.body.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    name, namespace = metadata.get("name"), metadata.get("namespace")
    for item in EXEMPTIONS:
        if (
            planned.kind == item.kind
            and isinstance(name, str)
            and re.fullmatch(item.name, name)
            and namespace == item.namespace
        ):
            return item
    return None


def may_mount(exemption: Exemption | None, pod: Pod, volume: Mapping[str, Any]) -> bool:
    """Return whether a hostPath volume is exempt, mounted as it is by the pod's containers."""
    if exemption is None:
        return False
    if exemption.paths is None:
        return True
    path = volume["hostPath"].get("path") if isinstance(volume["hostPath"], Mapping) else None
    return any(
        allowed.path == path and _mounted_so(allowed, pod, volume.get("name"))
        for allowed in exemption.paths
    )


def _mounted_so(allowed: Path, pod: Pod, volume: Any) -> bool:
    for _, container in containers(pod):
        if container is UNKNOWN:
            return False
        mounts = container.get("volumeMounts", ())
        if mounts is UNKNOWN or not isinstance(mounts, Sequence):
            return False
        for mount in mounts:
            if mount is UNKNOWN or mount.get("name") is UNKNOWN:
                return False
            if mount.get("name") != volume:
                continue
            if allowed.container not in (None, container.get("name")):
                return False
            if allowed.read_only and mount.get("readOnly") is not True:
                return False
    return True
