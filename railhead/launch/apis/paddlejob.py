"""PaddleJob of the training operator v1, in collective mode: it has no master."""

from __future__ import annotations

from railhead.launch.apis.operator import GROUP_VERSION, INDEX, SINCE, SOURCE, OperatorJob

API = OperatorJob(
    name="paddlejob",
    api_version=GROUP_VERSION,
    kind="PaddleJob",
    plural="paddlejobs",
    index=INDEX,
    container="paddle",
    own=True,
    replicas="paddleReplicaSpecs",
    port=("master", 36543),
    since=SINCE,
    source=SOURCE,
)
