"""Policies by which the API server refuses pods that could write to data sets."""

from __future__ import annotations

from typing import Any

from railhead.model.cluster import Cluster
from railhead.resolve import cel


def data_set_policies(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Return policy name -> spec; nothing if the stack has no data sets.

    A pod of a training namespace mounts a data set's claim read-only, or does not start: the access
    mode of a claim says who may mount it, and prevents no writing (core/v1, ReadOnlyMany).
    """
    if not cluster.datasets:
        return {}
    sets = sorted({f"{dataset.namespace}/{dataset.claim_name}" for dataset in cluster.datasets})
    claim = "v.persistentVolumeClaim"
    named = f"request.namespace + '/' + {claim}.claimName in {cel.strings(sets)}"
    reads = f"has({claim}.readOnly) && {claim}.readOnly"
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": cel.in_training({"": ("pods",)}, "CREATE", version="v1"),
        "validations": [
            {
                "expression": "!has(object.spec.volumes) || object.spec.volumes.all(v,"
                f" !has({claim}) || !({named}) || ({reads}))",
                "message": f"a data set is read, and not written ({', '.join(sets)}): set "
                "persistentVolumeClaim.readOnly, in a job file `mounts: {/path: CLAIM:ro}`, or let "
                "the runtime mount it",
                "reason": "Forbidden",
            }
        ],
    }
    return {"railhead-data-set": policy}
