"""Would the cluster's own admission take the job? Asked as a dry run; nothing is stored."""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.kube import client as kube
from railhead.kube import jobs
from railhead.launch.apis import submitted
from railhead.launch.asked import Asked

ORDER = 90
UNLESS_OTHERS = True


def check(asked: Asked) -> list[Finding]:
    """Ask the cluster's admission; last of all, as its messages are the least readable."""
    plan = asked.plan
    if asked.gang is not None:
        return []
    try:
        body = submitted(plan)
        asked.cluster.create(jobs.folder_of(body), body, dry_run=True)
    except kube.ApiError as error:
        if error.status in kube.TRANSIENT:
            raise
        text = f"the cluster refuses the job: {error.message}"
        remedy = error.remedy or "the message above names the field"
        return [Finding(name="admission", passed=False, text=text, remedy=remedy)]
    text = "the cluster's admission takes the job"
    return [Finding(name="admission", passed=True, text=text)]
