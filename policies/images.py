"""Rules for images: each must be pinned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from railhead.base.tags import moves
from railhead.policies.plan import UNKNOWN, PlannedObject, containers, plain


def unversioned(resource_type: str, name: str, props: Any) -> Iterator[str]:
    """Yield a message for a chart of a registry or repository without a version."""
    if not resource_type.startswith("kubernetes:helm.sh/"):
        return
    body = plain(props)
    chart, version = body.get("chart"), body.get("version")
    local = isinstance(chart, str) and chart.startswith(("/", "."))
    if not version and not local:
        yield f"{name}: version is missing: whatever is newest is installed; name a version"


def problems(planned: PlannedObject) -> Iterator[str]:
    """Yield a message for each image that may change without a change of the stack."""
    for pod in planned.pods:
        for path, container in containers(pod):
            image = container if container is UNKNOWN else container.get("image")
            if image is UNKNOWN:
                yield (
                    f"{planned.label}: {path}.image is not known before the update: give it a "
                    "value that the plan knows"
                )
                continue
            # Trainer fills in an image that a runtime leaves out.
            if image is not None and moves(str(image)):
                yield (
                    f"{planned.label}: {path}.image is {image!r}, which is another one tomorrow, "
                    "and on some nodes only: name a version, or a digest"
                )
