"""TFJob of the training operator v1, which says each pod its TF_CONFIG."""

from __future__ import annotations

from railhead.launch.apis.operator import GROUP_VERSION, INDEX, SINCE, SOURCE, OperatorJob

API = OperatorJob(
    name="tfjob",
    api_version=GROUP_VERSION,
    kind="TFJob",
    plural="tfjobs",
    index=INDEX,
    container="tensorflow",
    own=True,
    replicas="tfReplicaSpecs",
    port=("tfjob-port", 2222),
    since=SINCE,
    source=SOURCE,
)
