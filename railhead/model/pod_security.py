"""Needs of a fabric's pods that the baseline Pod Security Standard refuses."""

from __future__ import annotations

from railhead.fabric.modes import FabricConfig

#: What the standard lets a container add (Kubernetes documentation, Pod Security Standards).
BASELINE_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)


def beyond_baseline(fabric: FabricConfig) -> tuple[str, ...]:
    """Return these needs in words; empty if the fabric's pods pass ``baseline``."""
    mode, plugin = fabric.row, fabric.node_plugin
    added = [row.name for row in mode.capabilities_on(fabric.kind) if fabric.lock_memory]
    added += plugin.daemon.capabilities if plugin and plugin.daemon else []
    paths = dict.fromkeys(path.host for path in mode.host_paths_on(fabric.kind))
    return (
        *(f"the capability {name}" for name in sorted(set(added) - BASELINE_CAPABILITIES)),
        *(f"the host path {path}" for path in paths),
        *(("the node's network",) if fabric.node_network is not None else ()),
    )
