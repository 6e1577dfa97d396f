"""A bucket for GCS FUSE, which the training namespaces' pods may use by workload identity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_gcp import storage

from railhead.platform.gcp.model import BucketStorage


@dataclass(frozen=True, kw_only=True)
class TrainingBucketArgs:
    """Arguments of :class:`TrainingBucket`.

    Args:
        project: id of the GCP project.
        project_number: the project's number, which the pods' rights name.
        region: the bucket's location.
        storage: the bucket's name.
        namespaces: namespaces whose pods may read and write the bucket.
        pool: a cluster with workload identity: the first one of a project makes the project's pool
            of identities, and before that no pod can be named.
        deletion_protection: whether Pulumi refuses to delete or replace the bucket.
    """

    project: str
    project_number: str | None
    region: str
    storage: BucketStorage
    namespaces: Sequence[str]
    pool: pulumi.Resource
    deletion_protection: bool = True


def principal(project: str, project_number: str | None, namespace: str) -> str:
    """Return every service account of a namespace, as workload identity federation names them."""
    return (
        f"principalSet://iam.googleapis.com/projects/{project_number}/locations/global/"
        f"workloadIdentityPools/{project}.svc.id.goog/namespace/{namespace}"
    )


class TrainingBucket(pulumi.ComponentResource):
    """A regional bucket with folders of its own, so that a checkpoint is renamed in one step.

    Attributes:
        bucket: the bucket.
        grants: the namespaces' rights, which a pod needs before it mounts the bucket.
    """

    bucket: storage.Bucket
    grants: Sequence[storage.BucketIAMMember]

    def __init__(
        self, name: str, args: TrainingBucketArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:gcp:TrainingBucket", name, None, opts)
        self.bucket = storage.Bucket(
            f"{name}-bucket",
            name=args.storage.bucket,
            location=args.region.upper(),
            storage_class="STANDARD",
            hierarchical_namespace={"enabled": True},
            # A hierarchical namespace asks for it, and no object has a list of its own.
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            # A bucket with checkpoints in it is not deleted, whatever the stack says.
            force_destroy=False,
            opts=pulumi.ResourceOptions(parent=self, protect=args.deletion_protection),
        )
        self.grants = [
            storage.BucketIAMMember(
                f"{name}-{namespace}",
                bucket=self.bucket.name,
                role="roles/storage.objectUser",
                member=principal(args.project, args.project_number, namespace),
                opts=pulumi.ResourceOptions(parent=self, depends_on=[args.pool]),
            )
            for namespace in args.namespaces
        ]
        self.register_outputs({"bucket": self.bucket.name})
