"""A pod template with the fabric in it: the one function that every runtime goes through."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from railhead.catalog.parts import HostPath
from railhead.resolve.daemons import daemon
from railhead.resolve.wiring import PROFILE_DIRECTORY, Wiring

# The profile of the fabric, in every training namespace (railhead.resolve.namespaces).
PROFILE = "railhead-nccl"
PROFILE_VOLUME = "nccl-profile"
# What a runtime's framework has each process' Python load.
PYTHON_DIRECTORY = "/etc/railhead/python"
# NCCL reads it by itself, in processes too that lost their environment (mpirun, ssh, sudo).
NCCL_CONF = "/etc/nccl.conf"


def wire(template: Mapping[str, Any], wired: Wiring, *, container: str) -> dict[str, Any]:
    """Return the pod template with the wiring in it; the given one is left as it is.

    Args:
        template: ``metadata`` and ``spec`` of a pod; requests and limits of the devices are its
            own to say (see :meth:`Wiring.requests`), since charging reads them too.
        wired: what the pod gets.
        container: name of the container that trains.
    """
    wired_template: dict[str, Any] = copy.deepcopy(dict(template))
    spec = wired_template["spec"]
    annotations = wired_template.setdefault("metadata", {}).setdefault("annotations", {})
    annotations |= wired.annotations
    trainer = next(c for c in spec["containers"] if c["name"] == container)
    volumes = spec.setdefault("volumes", [])
    if wired.capabilities:
        security = trainer.setdefault("securityContext", {})
        security.setdefault("capabilities", {})["add"] = list(wired.capabilities)
    if wired.host_network:
        spec["hostNetwork"] = True
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    if wired.claims:
        spec["resourceClaims"] = [
            {"name": name, "resourceClaimTemplateName": template}
            for name, template in wired.claims.items()
        ]
        trainer.setdefault("resources", {})["claims"] = [{"name": name} for name in wired.claims]
    _mount_profile(trainer, volumes)
    for path in wired.host_paths:
        if path.name not in {volume["name"] for volume in volumes}:
            volumes.append({"name": path.name, "hostPath": {"path": path.host}})
    trainer.setdefault("volumeMounts", []).extend(_mounts(wired.host_paths, "trainer"))
    if sidecar := daemon(wired):
        annotations |= sidecar.annotations
        mounts = _mounts(wired.host_paths, sidecar.container["name"]) + list(sidecar.shared)
        trainer["volumeMounts"].extend(sidecar.shared)
        volumes.extend({"name": mount["name"], "emptyDir": {}} for mount in sidecar.shared)
        # It starts before the trainer and ends after it: a job is done when its trainer is.
        spec.setdefault("initContainers", []).append(
            dict(sidecar.container) | {"volumeMounts": mounts, "restartPolicy": "Always"}
        )
    return wired_template


def _mount_profile(trainer: dict[str, Any], volumes: list[dict[str, Any]]) -> None:
    volumes.append({"name": PROFILE_VOLUME, "configMap": {"name": PROFILE}})
    trainer.setdefault("volumeMounts", []).extend(
        [
            {"name": PROFILE_VOLUME, "mountPath": PROFILE_DIRECTORY, "readOnly": True},
            {
                "name": PROFILE_VOLUME,
                "mountPath": NCCL_CONF,
                "subPath": "nccl.conf",
                "readOnly": True,
            },
        ]
    )


def _mounts(paths: tuple[HostPath, ...], container: str) -> list[dict[str, Any]]:
    return [
        {"name": path.name, "mountPath": path.mount}
        | ({"readOnly": True} if path.read_only else {})
        for path in paths
        if path.container == container
    ]
