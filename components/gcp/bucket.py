"""A bucket for GCS FUSE, which the training namespaces' pods may use by workload identity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import storage

from railhead.platform.gcp.model import BucketStorage, GcpPlatform


@dataclass(frozen=True, kw_only=True)
class TrainingBucketArgs:
    """Arguments of :class:`TrainingBucket`; pods of ``namespaces`` may read and write it.

    ``pool`` brings the project's workload identity pool, without which nobody of it can be named.
    """

    platform: GcpPlatform
    storage: BucketStorage
    namespaces: Sequence[str]
    pool: pulumi.Resource


def principal(platform: GcpPlatform, namespace: str) -> str:
    """Every service account of a namespace, as workload identity federation names them."""
    return (
        f"principalSet://iam.googleapis.com/projects/{platform.project_number}/locations/global/"
        f"workloadIdentityPools/{platform.project}.svc.id.goog/namespace/{namespace}"
    )


class TrainingBucket(pulumi.ComponentResource):
    """A regional bucket with folders of its own, so that a checkpoint is renamed in one step."""

    bucket: storage.Bucket
    grants: Sequence[storage.BucketIAMMember]

    def __init__(
        self, name: str, args: TrainingBucketArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:TrainingBucket", name, None, opts)
        platform = args.platform
        self.bucket = storage.Bucket(
            f"{name}-bucket",
            name=args.storage.bucket,
            location=platform.region.upper(),
            storage_class="STANDARD",
            hierarchical_namespace={"enabled": True},
            # A hierarchical namespace asks for it, and no object has a list of its own.
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            # A bucket with checkpoints in it is not deleted, whatever the stack says.
            force_destroy=False,
            opts=pulumi.ResourceOptions(parent=self, protect=platform.deletion_protection),
        )
        self.grants = [
            storage.BucketIAMMember(
                f"{name}-{namespace}",
                bucket=self.bucket.name,
                role="roles/storage.objectUser",
                member=principal(platform, namespace),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[args.pool]),
            )
            for namespace in args.namespaces
        ]
        self.register_outputs({"bucket": self.bucket.name})
