"""JobSet, which Trainer makes of a TrainJob, by itself."""

from __future__ import annotations

from railhead.launch.apis.base import Api, Object
from railhead.launch.plan import Plan


class JobSet(Api):
    """One indexed Job of all of the pods."""

    def hosts(self, plan: Plan) -> tuple[str, ...]:
        """Return names below the JobSet's service (pkg/controllers/jobset_controller.go)."""
        return tuple(f"{plan.name}-node-0-{i}.{plan.name}" for i in range(plan.nodes))

    def spec(self, plan: Plan, template: Object) -> Object:
        """Return a spec whose gang fails as a whole, and is recreated as often as the job says."""
        job = {
            "backoffLimit": 0,
            "completionMode": "Indexed",
            "parallelism": plan.nodes,
            "completions": plan.nodes,
            "template": template,
        }
        jobs = {"replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": job}}]}
        if not plan.restarts:
            return jobs
        # No pod of the new gang before the last of the old one is gone.
        policy = {"maxRestarts": plan.restarts, "restartStrategy": "BlockingRecreate"}
        return {"failurePolicy": policy} | jobs


API = JobSet(
    name="jobset",
    api_version="jobset.x-k8s.io/v1alpha2",
    kind="JobSet",
    plural="jobsets",
    index="batch.kubernetes.io/job-completion-index",
    restarts=True,
    since="JobSet",
    source="JobSet v0.10.1 and v0.12.0, api/jobset/v1alpha2",
)
