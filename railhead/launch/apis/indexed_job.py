"""Kubernetes' own Job with an index for each pod, and a service for their names."""

from __future__ import annotations

from railhead.launch.apis.base import Api, Object, headless
from railhead.launch.plan import Plan


class IndexedJob(Api):
    """One Job of all of the pods."""

    def hosts(self, plan: Plan) -> tuple[str, ...]:
        """Return the pods' hostnames: the Job's name and an index (batch/v1, completionMode)."""
        return tuple(f"{plan.name}-{i}.{plan.name}" for i in range(plan.nodes))

    def spec(self, plan: Plan, template: Object) -> Object:
        """Return the first pod that fails ends the others."""
        template["spec"]["subdomain"] = plan.name
        return {
            "backoffLimit": 0,
            "completionMode": "Indexed",
            "parallelism": plan.nodes,
            "completions": plan.nodes,
            "template": template,
        }

    def others(self, plan: Plan) -> list[Object]:
        """Return the pods' names."""
        return [headless(plan, {"batch.kubernetes.io/job-name": plan.name})]


API = IndexedJob(
    name="indexed-job",
    api_version="batch/v1",
    kind="Job",
    plural="jobs",
    index="batch.kubernetes.io/job-completion-index",
    since="Kubernetes",
    source="Kubernetes v1.35.8, pkg/controller/job/indexed_job_utils.go",
)
