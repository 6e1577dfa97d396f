"""JAXJob of the training operator v1; what it says has other names than JAX and Trainer have."""

from __future__ import annotations

from railhead.launch.apis.operator import GROUP_VERSION, INDEX, SINCE, SOURCE, OperatorJob

API = OperatorJob(
    name="jaxjob",
    api_version=GROUP_VERSION,
    kind="JAXJob",
    plural="jaxjobs",
    index=INDEX,
    container="jax",
    own=True,
    replicas="jaxReplicaSpecs",
    port=("jaxjob-port", 29500),
    since=SINCE,
    source=SOURCE,
)
