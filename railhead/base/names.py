"""Names that several components, the guards and the controllers must agree on."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

# Only namespaces with this label may hold training jobs.
TRAINING_LABEL = "railhead.dev/training"
# On a pod with GPUs: it trains by itself, though a job of several pods made it.
SINGLE_NODE_LABEL = "railhead.dev/single-node"
# On pods, with the value `none`: their job needs no training fabric and may run elsewhere.
FABRIC_LABEL = "railhead.dev/fabric"
# On a job, with the value `own`: the job starts its processes in its own way.
LAUNCHER_LABEL = "railhead.dev/launcher"
# On a namespace that is not a training namespace, with the value `true`: its pods may take GPUs.
UNCHARGED_LABEL = "railhead.dev/uncharged"
# In the pods of a runtime: what becomes of the output of jobs that do not say it, `pods` or `bare`.
LOGS = "RAILHEAD_LOGS"
# A claim of a pod, for a channel to GPU memory of other nodes.
NVLINK_CLAIM = "nvlink"
# A ClusterTrainingRuntime that this stack published.
PUBLISHED_LABEL = "railhead.dev/published"
# On what `railhead launch` makes: the job's name.
JOB_LABEL = "railhead.dev/job"
# The ConfigMap of a training namespace that owns its jobs.
JOBS_OWNER = "railhead-jobs"
# On a claim that holds checkpoints.
CHECKPOINT_LABEL = "railhead.dev/checkpoint"
# On a claim, with its own name as the value: someone wants it deleted.
DELETE_ANNOTATION = "railhead.dev/delete"
TRAINER_API = "trainer.kubeflow.org/v1alpha1"
KUEUE_API = "kueue.x-k8s.io/v1beta2"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
# The LocalQueue of jobs that name none (kueue, pkg/controller/constants, DefaultLocalQueueName).
DEFAULT_QUEUE = "default"
# Names a WorkloadPriorityClass (kueue, pkg/controller/constants).
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
# How the pods of a pod set lie to each other; a pod has one of the three at most
# (kueue, apis/kueue/v1beta2/topology_types.go; pkg/controller/jobframework/tas_validation.go).
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
UNCONSTRAINED_TOPOLOGY = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE_TOPOLOGY = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
# Two pod sets of this name are placed within one domain, one of them of a single pod; without ranks
# within it, so it is for required levels alone (pkg/cache/scheduler/tas_flavor_snapshot.go).
GROUPED_TOPOLOGY = "kueue.x-k8s.io/podset-group-name"
# Where a stack asks for it, Kueue ends pods with this annotation on a node that does not answer.
ENDED_WHEN_LOST = "kueue.x-k8s.io/safe-to-forcefully-delete"
# Kueue adds it to every pod of a workload that it admitted.
PODSET_LABEL = "kueue.x-k8s.io/podset"
# On the pods of a runtime's jobs where their scheduler marks none of them by itself.
GANG_LABEL = "railhead.dev/gang"
VOLCANO_API = "scheduling.volcano.sh/v1beta1"
# Where a TrainJob, or a pod, says its Queue (volcano, staging/src/volcano.sh/apis/pkg/apis/
# scheduling/v1beta1/labels.go, QueueNameAnnotationKey; trainer, pkg/runtime/framework/plugins/
# volcano, Build).
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"
# On a pod: its PodGroup (the same file, KubeGroupNameAnnotationKey).
POD_GROUP = "scheduling.k8s.io/group-name"
# The one replicated job of a runtime (Trainer's pkg/constants, Node), and the container that
# Trainer fills in.
TRAINER_JOB = "node"
# Beside it, where one of the pods starts the others' processes (Launcher).
TRAINER_LAUNCHER = "launcher"
TRAINER_CONTAINER = "node"
# As the charts name the Deployments of controllers: theirs of the lab's versions, which
# production's have too.
KUEUE_DEPLOYMENT = "kueue-controller-manager"
JOBSET_DEPLOYMENT = "jobset-controller"
TRAINER_DEPLOYMENT = "kubeflow-trainer-controller-manager"


def versioned(name: str, spec: Any) -> str:
    """Return ``name`` with six hexadecimal digits of a hash of its specification.

    For objects that cannot be changed in place: a changed object gets a new name, so that it is
    created before its users move over and the old one is deleted.
    """
    text = json.dumps(spec, sort_keys=True)
    return f"{name[:50]}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def physical_name(*parts: str, limit: int = 63) -> str:
    """Return ``parts`` joined with ``-`` as a name for clouds (RFC 1035), at most ``limit`` long.

    It starts with a letter, ends with a letter or a digit, and has only lower-case letters, digits
    and ``-`` in it. If that drops a character, the name ends with six hexadecimal digits of a hash
    of all ``parts``, so that two names cut to the same text still differ. Never change its results:
    a resource with another name is another resource, and the old one is deleted.

    >>> physical_name("llm", "rdma")
    'llm-rdma'
    >>> physical_name("a-very-long-name-of-a-cluster", "system", limit=20)
    'a-very-long-n-e792af'

    Raises:
        ValueError: ``limit`` leaves no room for a letter and the digits.
    """
    # A letter, a dash and six digits.
    if limit < 8:
        raise ValueError(f"a name of {limit} characters is too short to be unique")
    wanted = "-".join(parts)
    name = re.sub(r"[^a-z0-9]+", "-", wanted.lower()).strip("-")
    if not name[:1].isalpha():
        name = f"r{name}"
    if name == wanted and len(name) <= limit:
        return name
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:6]
    return f"{name[: limit - 7].rstrip('-')}-{digest}"
