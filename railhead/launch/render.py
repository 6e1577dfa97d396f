"""Turns a plan into the objects that the API server gets. Plain data, no templates."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railhead.base.errors import InputError
from railhead.base.names import JOB_LABEL, TRAINER_API
from railhead.framework.base import Expanded
from railhead.launch.job import MAX_FILES_BYTES, WORKSPACE, Payload
from railhead.launch.patches import avoiding, placed
from railhead.launch.plan import Plan
from railhead.launch.programs.keep import POD, RUN
from railhead.launch.proof import PLACE
from railhead.launch.schedulers import SCHEDULERS

Object = dict[str, Any]

MANAGED_BY = {"app.kubernetes.io/managed-by": "railhead"}
VOLUME = "railhead-files"
PROOF_VOLUME = "railhead-verify"
SHM = "/dev/shm"  # noqa: S108 - not a temporary file
SHM_VOLUME = "railhead-shm"


def literal(text: str) -> str:
    """Protect text from the kubelet, which expands ``$(NAME)`` in commands and environments.

    The kubelet turns ``$$`` into ``$`` (k8s.io/kubernetes/third_party/forked/golang/expansion). A
    word that is :class:`~railhead.framework.base.Expanded` is meant for it.
    """
    if isinstance(text, Expanded):
        return str(text)
    return re.sub(r"\$(?=[$(])", "$$", text)


def files_name(job: str, part: int = 0) -> str:
    """Return the name of a ConfigMap that carries a job's files; most need one, ``part`` 0."""
    return f"{job}-files-{part}" if part else f"{job}-files"


def _labels(plan: Plan) -> dict[str, str]:
    return MANAGED_BY | {JOB_LABEL: plan.name}


def _parts(files: Sequence[Payload]) -> list[list[Payload]]:
    """Return the files in ConfigMaps' worth of bytes, in their order."""
    parts: list[list[Payload]] = []
    room = 0
    for payload in files:
        # Keys and places count too, a little.
        size = len(payload.data) + 2 * len(payload.name)
        if not parts or size > room:
            parts.append([])
            room = MAX_FILES_BYTES
        parts[-1].append(payload)
        room -= size
    return parts


@dataclass(frozen=True, kw_only=True)
class _Sent:
    """Files that lie together in the pods, and the ConfigMaps that carry them from ``first`` on."""

    volume: str
    path: str
    first: int
    parts: list[list[Payload]]

    @property
    def flat(self) -> bool:
        """One ConfigMap whose keys are the files' names: all that plain files need."""
        return len(self.parts) == 1 and not any("/" in payload.name for payload in self.parts[0])

    def maps(self) -> list[tuple[int, dict[str, Payload]]]:
        """Return each ConfigMap's number and what it holds, by key."""
        return [
            (number, {p.name if self.flat else f"file-{i}": p for i, p in enumerate(part)})
            for number, part in enumerate(self.parts, self.first)
        ]


def _sent(plan: Plan) -> list[_Sent]:
    """Return the job's own files, and what proves the fabric before its command."""
    results: list[_Sent] = []
    proof = plan.proof.files if plan.proof else ()
    first = 0
    for volume, path, files in ((VOLUME, WORKSPACE, plan.files), (PROOF_VOLUME, PLACE, proof)):
        if parts := _parts(files):
            results.append(_Sent(volume=volume, path=path, first=first, parts=parts))
            first += len(parts)
    return results


def owner_reference(owner: Object) -> Object:
    """Return the reference by which an object is deleted together with ``owner``, which exists."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }


def config_maps(plan: Plan) -> list[Object]:
    """Return the ConfigMaps with the job's files; none when it has none."""
    return [_config_map(plan, number, held) for sent in _sent(plan) for number, held in sent.maps()]


def _config_map(plan: Plan, number: int, part: Mapping[str, Payload]) -> Object:
    text: dict[str, str] = {}
    binary: dict[str, str] = {}
    for key, payload in part.items():
        try:
            text[key] = payload.data.decode("utf-8")
        except UnicodeDecodeError:
            binary[key] = base64.b64encode(payload.data).decode()
    metadata: Object = {
        "name": files_name(plan.name, number),
        "namespace": plan.namespace,
        "labels": _labels(plan),
    }
    result: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    if text:
        result["data"] = text
    if binary:
        result["binaryData"] = binary
    return result


def _volume(plan: Plan, sent: _Sent) -> Object:
    """Return all files in one directory, with their folders."""
    if sent.flat:
        name = files_name(plan.name, sent.first)
        return {"name": sent.volume, "configMap": {"name": name, "defaultMode": 0o555}}
    sources = [
        {
            "configMap": {
                "name": files_name(plan.name, number),
                "items": [{"key": key, "path": payload.name} for key, payload in held.items()],
            }
        }
        for number, held in sent.maps()
    ]
    return {"name": sent.volume, "projected": {"sources": sources, "defaultMode": 0o555}}


def _shared_memory(plan: Plan) -> tuple[list[Object], list[Object]]:
    """Return the volume at ``/dev/shm`` in the job's size, by its name in the runtime's pods."""
    if plan.shm is None:
        return [], []
    containers = plan.template["spec"]["containers"]
    own = [
        mount["name"]
        for container in containers
        if container["name"] == plan.container
        for mount in container.get("volumeMounts", ())
        if mount["mountPath"] == SHM
    ]
    name = own[0] if own else SHM_VOLUME
    volume = {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": plan.shm}}
    return [volume], [] if own else [{"name": name, "mountPath": SHM}]


def volumes_of(plan: Plan) -> tuple[list[Object], list[Object]]:
    """Return the volumes and mounts that the job adds to its runtime's, or has in their place."""
    volumes, mounts = _shared_memory(plan)
    for sent in _sent(plan):
        volumes.append(_volume(plan, sent))
        mounts.append({"name": sent.volume, "mountPath": sent.path, "readOnly": True})
    # One volume a claim: for the second kubelet waits for ever (kubernetes issue 127004).
    names = {
        volume["persistentVolumeClaim"]["claimName"]: volume["name"]
        for volume in plan.template["spec"].get("volumes", ())
        if "persistentVolumeClaim" in volume
    }
    for number, (path, given) in enumerate(plan.mounts.items()):
        claim, _, mode = given.partition(":")
        if claim not in names:
            names[claim] = f"railhead-mount-{number}"
            source = {"claimName": claim}
            volumes.append({"name": names[claim], "persistentVolumeClaim": source})
        only = {"readOnly": True} if mode else {}
        mounts.append({"name": names[claim], "mountPath": path, **only})
    return volumes, mounts


def _placement(plan: Plan) -> Object:
    """Return the pod patch with the job's mounts and labels, as the cluster's Trainer reads it."""
    pod: Object = {}
    metadata: Object = {}
    if plan.pod_labels:
        metadata["labels"] = dict(plan.pod_labels)
    if plan.annotations is not None:
        # Trainer merges strategically, and a pod with two of the placement annotations is refused:
        # the runtime's goes only with all of its annotations (Trainer 2.1 and 2.3,
        # pkg/runtime/core/trainingruntime.go, StrategicMergePatch).
        metadata["annotations"] = {"$patch": "replace", **plan.annotations}
    if metadata:
        pod["metadata"] = metadata
    volumes, mounts = volumes_of(plan)
    if mounts or volumes:
        pod["spec"] = ({"volumes": volumes} if volumes else {}) | {
            "containers": [{"name": plan.container, "volumeMounts": mounts}],
        }
    if plan.avoid:
        pod["spec"] = pod.get("spec", {}) | {"affinity": avoiding(plan.avoid)}
    if not pod:
        return {}
    return placed(plan.pods_of, pod, plan.placement_field)


def from_secret(name: str, source: str) -> Object:
    """Return a variable whose value is a key of a Secret, ``secret/key``."""
    secret, _, key = source.partition("/")
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def job_labels(plan: Plan) -> Object:
    """Return the labels of the job's object, whose it is, and what its scheduler reads."""
    return _labels(plan) | plan.labels | SCHEDULERS[plan.scheduler].labels(plan)


# Which pod this is and of which JobSet, for what keeps the logs; the job's command gets neither.
_WHICH = tuple(
    {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    for name, path in (
        (POD, "metadata.uid"),
        # JobSet v0.10.1, site/content/en/docs/concepts: on the jobs and pods of each.
        (RUN, "metadata.labels['jobset.sigs.k8s.io/jobset-uid']"),
    )
)


def check_one_role(plan: Plan) -> None:
    """Check that a kind of job whose pods are alike says all of the plan.

    Raises:
        InputError: it has other roles.
    """
    if plan.roles:
        raise InputError(
            f"roles: {', '.join(part.role for part in plan.roles)}: only a JobSet has pods of "
            "several roles",
            remedy="leave --api out: launch then submits a JobSet",
        )


def train_job(plan: Plan) -> Object:
    """Return the TrainJob (trainer.kubeflow.org/v1alpha1) of a plan.

    Raises:
        InputError: the job's image would not reach all of its pods, or it has several roles.
    """
    check_one_role(plan)
    if plan.image is not None and len(plan.pods_of) > 1:
        raise InputError(
            f"image: {plan.image!r} would reach the first pod alone, and the others' processes run "
            "in the runtime's: Trainer gives a job's image to its launcher (v2.1.0, "
            "pkg/runtime/framework/plugins/jobset/builder.go, Trainer)",
            remedy="leave it out, name a runtime of that image, or have the job written as another "
            "kind, such as --api mpijob",
        )
    words = (*plan.keeping, *plan.words)
    trainer: Object = {
        "command": [literal(words[0])],
        "numNodes": plan.nodes,
        "numProcPerNode": plan.processes_per_node,
        "env": [
            *({"name": name, "value": literal(value)} for name, value in plan.env.items()),
            *(from_secret(name, source) for name, source in plan.secrets.items()),
            *({"name": name, "value": value} for name, value in plan.wiring.items()),
            *(_WHICH if plan.logs_claim else ()),
        ],
    }
    if len(words) > 1:
        trainer["args"] = [literal(word) for word in words[1:]]
    if plan.resized:
        # Complete, and only where the job differs: Trainer rebuilds the container's resources
        # from them, without the runtime's claims (pkg/runtime/framework/plugins/jobset of 2.1,
        # pkg/runtime/core of 2.3).
        trainer["resourcesPerNode"] = plan.resources
    if plan.image is not None:
        trainer["image"] = plan.image
    spec = {
        "runtimeRef": {
            "apiGroup": TRAINER_API.partition("/")[0],
            "kind": "ClusterTrainingRuntime",
            "name": plan.runtime,
        },
        "trainer": trainer,
        **_placement(plan),
    }
    return {
        "apiVersion": TRAINER_API,
        "kind": "TrainJob",
        "metadata": {
            "name": plan.name,
            "namespace": plan.namespace,
            "labels": job_labels(plan),
        },
        "spec": SCHEDULERS[plan.scheduler].queued(plan, spec),
    }
