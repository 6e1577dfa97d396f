"""JobSet, which Trainer makes of a TrainJob, by itself."""

from __future__ import annotations

from railhead.launch.apis.base import Api, Object
from railhead.launch.plan import Plan


class JobSet(Api):
    """One indexed Job of all of the pods."""

    def hosts(self, plan: Plan) -> tuple[str, ...]:
        """pkg/controllers/jobset_controller.go: a headless service of the JobSet's name."""
        return tuple(f"{plan.name}-node-0-{i}.{plan.name}" for i in range(plan.nodes))

    def spec(self, plan: Plan, template: Object) -> Object:
        """The gang fails whole; what starts it again is the runtime's to say, for a TrainJob."""
        job = {
            "backoffLimit": 0,
            "completionMode": "Indexed",
            "parallelism": plan.nodes,
            "completions": plan.nodes,
            "template": template,
        }
        return {"replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": job}}]}


API = JobSet(
    name="jobset",
    api_version="jobset.x-k8s.io/v1alpha2",
    kind="JobSet",
    plural="jobsets",
    index="batch.kubernetes.io/job-completion-index",
    since="JobSet",
    source="JobSet v0.10.1 and v0.12.0, api/jobset/v1alpha2",
)
