"""Names that several components, the guards and the controllers must agree on."""

from __future__ import annotations

import hashlib
import json
from typing import Any

# A namespace with it may hold training jobs, and only such a namespace.
TRAINING_LABEL = "railhead.dev/training"
# A ClusterTrainingRuntime that this stack published.
PUBLISHED_LABEL = "railhead.dev/published"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
# Kueue puts it on every pod of a workload that it admitted.
PODSET_LABEL = "kueue.x-k8s.io/podset"
# The one replicated job of a runtime, and the container that Trainer fills in.
TRAINER_JOB = "node"
TRAINER_CONTAINER = "node"


def versioned(name: str, spec: Any) -> str:
    """``name`` with six hexadecimal digits of its specification.

    For objects that cannot be changed in place: a changed one gets a new name, so that it is made
    before what refers to it moves over and the old one goes.
    """
    text = json.dumps(spec, sort_keys=True)
    return f"{name[:50]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
