"""JobSet, which Trainer makes of a TrainJob, by itself."""

from __future__ import annotations

from railhead.base import retries
from railhead.launch.apis.base import Api, Object
from railhead.launch.plan import Plan, hosts


class JobSet(Api):
    """One indexed Job of all of the pods, or of all of a role's."""

    def hosts(self, plan: Plan) -> tuple[str, ...]:
        """Return names below the JobSet's service."""
        return hosts(plan.name, plan.role, plan.nodes)

    def spec(self, plan: Plan, template: Object) -> Object:
        """Return a spec whose gang fails as a whole, and is recreated as often as the job says."""
        several = bool(plan.roles)
        own = _replicated(plan, template, several=several)
        if plan.finished_days is not None:
            # As a runtime's Job has it (railhead.resolve.restarts, job_policy); no role's has, for
            # a JobSet that runs on makes a Job again that is gone (v0.10.1 and v0.12.0,
            # jobset_controller.go, shouldCreateJob), and the role would run a second time.
            own["template"]["spec"]["ttlSecondsAfterFinished"] = plan.finished_days * 86400
        jobs = [own]
        jobs += [_replicated(role, self.template(role), several=several) for role in plan.roles]
        spec: Object = {"replicatedJobs": jobs}
        if plan.roles:
            # When these have succeeded, JobSet deletes the others (jobset_controller.go).
            ends = {"operator": "All", "targetReplicatedJobs": [plan.role]}
            spec = {"successPolicy": ends} | spec
        if plan.restarts or plan.roles:
            # No pod of the new gang before the last of the old one is gone.
            policy: Object = {
                "maxRestarts": plan.restarts or 0,
                "restartStrategy": "BlockingRecreate",
            }
            # Launch submits those of several roles, to a JobSet that has such rules.
            codes = {code for part in plan.parts for code in part.never_on}
            rules = {"rules": retries.of_job_set([*codes])} if plan.roles else {}
            spec = {"failurePolicy": policy | rules} | spec
        return spec


def _replicated(plan: Plan, template: Object, *, several: bool) -> Object:
    ends = retries.of_job(plan.never_on, plan.container) if several else {"backoffLimit": 0}
    job: Object = {
        **ends,
        "completionMode": "Indexed",
        "parallelism": plan.nodes,
        "completions": plan.nodes,
        "template": template,
    }
    return {"name": plan.role, "replicas": 1, "template": {"spec": job}}


API = JobSet(
    name="jobset",
    api_version="jobset.x-k8s.io/v1alpha2",
    kind="JobSet",
    plural="jobsets",
    index="batch.kubernetes.io/job-completion-index",
    restarts=True,
    several_roles=True,
    since="JobSet",
    source="JobSet v0.10.1 and v0.12.0, api/jobset/v1alpha2",
)
