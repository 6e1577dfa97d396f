"""The proof that two nodes share a claim: one writes, the other reads, and both tell their mount.

What was written is read after the writer has closed it, as NFS promises no more (close-to-open,
RFC 7530, 10.3). Content alone proves nothing: two nodes on one host, or one path of a host, pass.
So the mount counts: a file system of a network, from the same source on both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from railhead.base.names import QUEUE_LABEL

#: File systems that one server serves to many nodes, as mountinfo calls them (proc(5)).
NETWORKED = frozenset(
    {
        "nfs", "nfs4", "lustre", "gpfs", "wekafs", "beegfs", "ceph", "cifs", "smb3", "9p",
        "virtiofs", "panfs", "orangefs", "pvfs2", "glusterfs", "gcsfuse", "afs",
    }
)  # fmt: skip
FOLDER = ".railhead-proof"
MIB = 32
DEADLINE_S = 150

# Runs in a runtime's own image: nothing but Python's library.
SCRIPT = r"""
import hashlib, json, os, sys, time
role, nonce, mib = sys.argv[1], sys.argv[2], int(sys.argv[3])
root = "/claim"
folder = os.path.join(root, ".railhead-proof")
path = os.path.join(folder, nonce)
told = {"role": role, "node": os.environ.get("NODE", "")}
best = None
with open("/proc/self/mountinfo") as lines:
    for line in lines:
        left, right = line.rstrip("\n").split(" - ", 1)
        if left.split()[4] == root:
            best = (left.split(), right.split())
if best:
    told |= {"device": best[0][2], "path": best[0][3], "type": best[1][0], "source": best[1][1]}
try:
    if role == "write":
        os.makedirs(folder, exist_ok=True)
        block = os.urandom(1 << 20)
        begin = time.monotonic()
        with open(path, "wb") as out:
            for _ in range(mib):
                out.write(block)
            out.write(nonce.encode())
            out.flush()
            os.fsync(out.fileno())
        told["seconds"] = round(time.monotonic() - begin, 3)
    with open(path, "rb") as got:
        data = got.read()
    told["sha256"] = hashlib.sha256(data).hexdigest()
    told["size"] = len(data)
    if role == "read":
        os.unlink(path)
except OSError as error:
    told["error"] = f"{error.strerror} ({error.filename})"
room = os.statvfs(root)
told["free"] = room.f_bavail * room.f_frsize
told["total"] = room.f_blocks * room.f_frsize
with open("/dev/termination-log", "w") as out:
    json.dump(told, out)
print(json.dumps(told))
sys.exit(1 if "error" in told else 0)
"""

Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class PodReport:
    """Report of one pod; ``error`` is empty if it wrote or read. Sizes in bytes."""

    node: str
    type: str = ""
    source: str = ""
    path: str = ""
    sha256: str = ""
    error: str = ""
    seconds: float = 0.0
    free: int = 0
    total: int = 0

    @classmethod
    def of(cls, message: str) -> PodReport:
        """Parse a container's termination message; one that is malformed becomes an error."""
        try:
            data = json.loads(message)
            return cls(**{k: v for k, v in data.items() if k in cls.__dataclass_fields__})
        except (ValueError, TypeError, AttributeError):
            return cls(node="", error=f"said {message[:200]!r}" if message else "said nothing")


@dataclass(frozen=True, kw_only=True)
class SharingVerdict:
    """``yes``, ``no`` or ``unproven``, and why."""

    shared: Literal["yes", "no", "unproven"]
    why: str


def verdict(writer: PodReport, reader: PodReport) -> SharingVerdict:
    """Return whether what the two said proves that their nodes share the claim."""
    for item in (writer, reader):
        if item.error:
            # Read after the writer's close: what is not there is not shared.
            absent = item is reader and "No such file" in item.error
            if absent:
                return SharingVerdict(
                    shared="no",
                    why=f"what {writer.node} wrote is not there on {reader.node}, "
                    f"{_mount(writer)} against {_mount(reader)}",
                )
            return SharingVerdict(
                shared="unproven", why=f"on {item.node or 'a node'}: {item.error}"
            )
    if writer.node == reader.node:
        return SharingVerdict(shared="unproven", why=f"both pods were on {writer.node}")
    if writer.sha256 != reader.sha256:
        return SharingVerdict(
            shared="no", why=f"{reader.node} reads other bytes than {writer.node} wrote"
        )
    if not (_networked(writer) and _networked(reader)):
        return SharingVerdict(
            shared="unproven",
            why=f"{reader.node} reads what {writer.node} wrote, but the mount is a local file "
            f"system ({_mount(writer)}), as two nodes of one machine would have it",
        )
    if (writer.type, writer.source) != (reader.type, reader.source):
        return SharingVerdict(
            shared="unproven", why=f"two mounts: {_mount(writer)} and {_mount(reader)}"
        )
    return SharingVerdict(
        shared="yes", why=f"{writer.node} wrote and {reader.node} read, {_mount(writer)}"
    )


def _networked(told: PodReport) -> bool:
    return told.type in NETWORKED or told.type.startswith("fuse.")


def _mount(told: PodReport) -> str:
    return f"{told.type} {told.source}" if told.type else "no mount of its own"


def job(
    role: Literal["write", "read"],
    *,
    name: str,
    nonce: str,
    namespace: str,
    claim: str,
    node: str,
    image: str,
    queue: str,
    tolerations: list[Object],
    annotations: Mapping[str, str],
) -> Object:
    """Return a Job of one pod on ``node``, through the queue as any other."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {QUEUE_LABEL: queue}},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": DEADLINE_S,
            "ttlSecondsAfterFinished": 600,
            "template": {
                **({"metadata": {"annotations": dict(annotations)}} if annotations else {}),
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "nodeSelector": {"kubernetes.io/hostname": node},
                    "tolerations": tolerations,
                    "containers": [
                        {
                            "name": "proof",
                            "image": image,
                            "imagePullPolicy": "IfNotPresent",
                            "command": ["python3", "-c", SCRIPT, role, nonce, str(MIB)],
                            "env": [
                                {
                                    "name": "NODE",
                                    "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
                                }
                            ],
                            "resources": {
                                "requests": {"cpu": "100m", "memory": "128Mi"},
                                "limits": {"memory": "256Mi"},
                            },
                            "securityContext": {"allowPrivilegeEscalation": False},
                            "volumeMounts": [{"name": "claim", "mountPath": "/claim"}],
                        }
                    ],
                    "volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": claim}}],
                },
            },
        },
    }
