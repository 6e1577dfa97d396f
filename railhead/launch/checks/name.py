"""Is the name free, of jobs and of leftovers?"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.base.names import JOB_LABEL
from railhead.kube import client as kube
from railhead.kube import jobs
from railhead.launch import render
from railhead.launch.asked import Asked, Object

ORDER = 60
_ANOTHER = "launch under another name with --name"


def check(asked: Asked) -> list[Finding]:
    """Return a TrainJob, a JobSet and a ConfigMap of that name."""
    cluster, plan = asked.cluster, asked.plan
    name, namespace = plan.name, plan.namespace
    taken = cluster.find(kube.trainjobs(namespace, name))
    jobset = None if taken else cluster.find(kube.jobset(namespace, name))
    if jobset is not None:
        taken = next(iter(jobs.of_roles([jobset])), None)
    if taken is not None:
        return _refused(
            f"a job called {name!r} {_state(taken)} in namespace {namespace}",
            remedy=f"{_ANOTHER}, or remove it first: `railhead cancel {name}`",
        )
    if jobset is not None:
        return _refused(
            f"a JobSet called {name!r} that is no TrainJob's exists already in namespace "
            f"{namespace}"
        )
    if plan.files or plan.proof:
        files = cluster.find(kube.core(namespace, "configmaps", render.files_name(name)))
        labels = ((files or {}).get("metadata") or {}).get("labels") or {}
        if files is not None and labels.get(JOB_LABEL) != name:
            return _refused(
                f"ConfigMap {render.files_name(name)!r} in namespace {namespace} is someone else's"
            )
    return [Finding(name="name", passed=True, text=f"name {name!r} is free")]


def _refused(text: str, remedy: str = _ANOTHER) -> list[Finding]:
    return [Finding(name="name", passed=False, text=f"name: {text}", remedy=remedy)]


def _state(job: Object) -> str:
    if (job.get("metadata") or {}).get("deletionTimestamp"):
        return "is still being removed"
    conditions = (job.get("status") or {}).get("conditions") or []
    done = [c["type"] for c in conditions if c.get("status") == "True"]
    ended = [c for c in done if c in ("Complete", "Completed", "Failed")]
    return f"exists already ({ended[0].lower() if ended else 'not finished'})"
