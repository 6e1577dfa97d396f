"""Can the job's nodes use the checkpoint claim that the runtime mounts, and share it?"""

from __future__ import annotations

from railhead.base.finding import Finding
from railhead.contract import Checkpoint
from railhead.kube import client as kube
from railhead.launch.asked import Asked
from railhead.storage import live
from railhead.storage.claims import PROVE, SHARED_ANNOTATION, findings

ORDER = 50


def check(asked: Asked) -> list[Finding]:
    """Check the job's checkpoint claim, if it has one."""
    plan = asked.plan
    if plan.checkpoint_claim is None:
        return []
    name = f"{plan.namespace}/{plan.checkpoint_claim}"
    row = Checkpoint(claim=plan.checkpoint_claim, namespace=plan.namespace, mount_path="", size="")
    try:
        claim, events = live.claim(asked.cluster, row)
    except kube.ApiError as error:
        if error.status != 403:
            raise
        text = f"checkpoint claim {name} may not be read"
        return [Finding(name="checkpoints", passed=None, text=text)]
    # That nobody has tried yet whether nodes share it is the platform team's to mend, and would be
    # said of every job: `railhead storage` and `railhead accept` say it.
    annotations = ((claim or {}).get("metadata") or {}).get("annotations") or {}
    tried = SHARED_ANNOTATION in annotations
    sharing = [part for part in asked.parts if part.checkpoint_claim == plan.checkpoint_claim]
    nodes = sum(part.nodes for part in sharing)
    every = findings(name, claim, nodes=nodes, events=events)
    results = [item for item in every if tried or item.remedy != PROVE]
    text = f"checkpoint claim {name} is there"
    return results or [Finding(name="checkpoints", passed=True, text=text)]
