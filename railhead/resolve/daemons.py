"""The daemons that GPUDirect-TCPX and -TCPXO need beside the trainer in every pod."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from railhead.resolve.wiring import Wiring

# GKE's device injector gives a container the devices that this annotation of its pod lists.
DEVICES_ANNOTATION = "devices.gke.io/container.{}"
_LIBRARIES = "/usr/local/nvidia/lib64"
# container-engine-accelerators, gpudirect-tcpxo/best-practice.md: typically about 30 s.
_STARTUP_SECONDS = 120
_CONTROL = ("/dev/nvidiactl", "/dev/nvidia-uvm")


@dataclass(frozen=True, kw_only=True)
class Daemon:
    """A sidecar.

    Args:
        container: without its mounts of the node's file system.
        annotations: of the pod.
        shared: mounts of directories that it shares with the trainer.
    """

    container: Mapping[str, Any]
    annotations: Mapping[str, str]
    shared: tuple[Mapping[str, Any], ...]


def daemon(wired: Wiring) -> Daemon | None:
    """Return the sidecar of a pod; None where the fabric has none."""
    row = wired.sidecar
    if row is None:
        return None
    # YAML reads JSON, and a list of our own objects needs no template.
    devices = [{"path": f"/dev/nvidia{i}"} for i in range(wired.gpus)]
    devices += [{"path": path} for path in (*_CONTROL, *row.devices)]
    environment = {"LD_LIBRARY_PATH": _LIBRARIES, **dict(row.environment)}
    return Daemon(
        container={
            "name": row.name,
            "image": row.image.reference,
            "imagePullPolicy": "IfNotPresent",
            "command": list(row.command),
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "securityContext": {"capabilities": {"add": list(row.capabilities)}},
            # The trainer starts after it: a daemon that cannot serve holds the pod back, and shows.
            "startupProbe": {
                "exec": {"command": list(row.started)},
                "periodSeconds": 5,
                "failureThreshold": _STARTUP_SECONDS // 5,
            },
        },
        annotations={DEVICES_ANNOTATION.format(row.name): json.dumps(devices)},
        shared=tuple({"name": name, "mountPath": path} for name, path in row.shared),
    )
