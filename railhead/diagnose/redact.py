"""Removes secrets from what leaves the cluster, and all that is not known to be harmless."""

from __future__ import annotations

import re
from typing import Any

from railhead.base.secrets import SECRET_NAME
from railhead.base.secrets import TOKENS as TEXT

Object = dict[str, Any]

MASK = "REDACTED"
# Variables whose values explain a run and are no secret; the value is still searched for tokens.
KEPT_VARIABLES = re.compile(
    r"^(?:NCCL|GLOO|UCX|FI|OFI_NCCL|OMPI_MCA|TORCH|PET|RDMAV|SHARP|CUDA|NVIDIA_VISIBLE|OMP|PMI)_|"
    r"^(?:MASTER_ADDR|MASTER_PORT|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|"
    r"LD_LIBRARY_PATH|LD_PRELOAD|PYTHONUNBUFFERED|PYTORCH_CUDA_ALLOC_CONF)$"
)
# A name that says secret, then its value: `HF_TOKEN=...`, `"password": "..."`, `--api-key ...`.
_NAMES = r"(?:token|passwd|password|secret|api[-_]?key|access[-_]?key|private[-_]?key|credential)"
_VALUE = r"([^\s\"',;}{\])]{4,500})"
NAMED = (
    re.compile(rf"(?i)({_NAMES}[\w.-]{{0,20}}[\"']?\s{{0,3}}[=:]\s{{0,3}}[\"']?){_VALUE}"),
    re.compile(rf"(?i)(--[\w-]{{0,40}}{_NAMES}[\w-]{{0,20}}[\"']?,?\s{{1,3}}[\"']?){_VALUE}"),
)
# Words that follow such a name in prose and are no secret.
HARMLESS = re.compile(
    r"(?i)^(?:none|null|true|false|not|is|was|set|unset|missing|by|from|in|to|\d+)$"
)
# Kept of an annotation; the others may hold anything, the whole of a manifest for one.
KEPT_ANNOTATIONS = re.compile(
    r"^(?:k8s\.v1\.cni\.cncf\.io/|networking\.gke\.io/|devices\.gke\.io/|sidecar\.istio\.io/|"
    r"batch\.kubernetes\.io/|jobset\.sigs\.k8s\.io/|kueue\.x-k8s\.io/|railhead\.dev/)"
)


def _named(match: re.Match[str]) -> str:
    return match[0] if HARMLESS.match(match[2]) else match[1] + MASK


def text(line: str) -> str:
    """Return a line or a value without anything that looks like a token, key or password."""
    for pattern in TEXT:
        line = pattern.sub(MASK, line)
    for pattern in NAMED:
        line = pattern.sub(_named, line)
    return line


def variable(entry: Object) -> Object:
    """Return an entry of a container's ``env``: its name, and its value only if harmless."""
    name = str(entry.get("name") or "")
    if "value" not in entry:
        return {key: entry[key] for key in ("name", "valueFrom") if key in entry}
    kept = KEPT_VARIABLES.match(name) and not SECRET_NAME.search(name)
    return {"name": name, "value": text(str(entry["value"])) if kept else MASK}


def _metadata(held: Any) -> Any:
    if not isinstance(held, dict):
        return held
    kept = {k: v for k, v in held.items() if k not in ("managedFields", "annotations")}
    annotations = held.get("annotations")
    if isinstance(annotations, dict):
        kept["annotations"] = {
            key: text(str(value)) if KEPT_ANNOTATIONS.match(key) else MASK
            for key, value in annotations.items()
        }
    return kept


def manifest(held: Any) -> Any:
    """Return an object of the cluster without values of variables, annotations and tokens."""
    if isinstance(held, list):
        return [manifest(item) for item in held]
    if not isinstance(held, dict):
        return text(held) if isinstance(held, str) else held
    # A Secret's or a ConfigMap's content is never needed.
    kept: Object = {}
    for key, value in held.items():
        if key == "metadata":
            kept[key] = _metadata(value)
        elif key == "env" and isinstance(value, list):
            kept[key] = [variable(item) if isinstance(item, dict) else MASK for item in value]
        elif key in ("data", "stringData", "binaryData") and isinstance(value, dict):
            kept[key] = dict.fromkeys(value, MASK)
        elif key == "environment" and isinstance(value, dict):
            kept[key] = {
                name: variable({"name": name, "value": item})["value"]
                for name, item in value.items()
            }
        elif SECRET_NAME.search(str(key)) and isinstance(value, str) and key != "secretName":
            kept[key] = MASK
        else:
            kept[key] = manifest(value)
    return kept
