"""Volcano's Job: its scheduler admits the gang, its plugin makes the pods' names."""

from __future__ import annotations

from railhead.launch.apis.base import Api, Object
from railhead.launch.plan import Plan


class VolcanoJob(Api):
    """One task of all of the pods, none of which starts before all can."""

    def hosts(self, plan: Plan) -> tuple[str, ...]:
        """Return the pods' names below a service of the job's (pkg/controllers/job/plugins/svc)."""
        return tuple(f"{plan.name}-node-{i}.{plan.name}" for i in range(plan.nodes))

    def spec(self, plan: Plan, template: Object) -> Object:
        """Return a spec by which a failed or evicted pod ends the job, or recreates all of it.

        Its controller counts before it compares (pkg/controllers/job/state/running.go and
        restarting.go): a job is recreated once less than ``maxRetry``.
        """
        return {
            "schedulerName": "volcano",
            "queue": plan.queue,
            "minAvailable": plan.nodes,
            "maxRetry": (plan.restarts or 0) + 1,
            "plugins": {"svc": ["--publish-not-ready-addresses=true"]},
            "policies": [
                {
                    "events": ["PodFailed", "PodEvicted"],
                    "action": "RestartJob" if plan.restarts else "AbortJob",
                },
            ],
            "tasks": [{"name": "node", "replicas": plan.nodes, "template": template}],
        }


API = VolcanoJob(
    name="volcano",
    api_version="batch.volcano.sh/v1alpha1",
    kind="Job",
    plural="jobs",
    index="volcano.sh/task-index",
    restarts=True,
    since="Volcano",
    source="Volcano v1.15.1, pkg/controllers/job",
)
