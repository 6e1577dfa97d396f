"""The rights of a training namespace's pods in S3, as the statements of an IAM policy."""

from __future__ import annotations

import json
from typing import Any

from railhead.platform.aws.model import Bucket, S3Access

_READ = ("s3:GetObject",)
# A large object goes up in parts, and what was begun is taken back.
_WRITE = (
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
)


def statements(access: S3Access, partition: str) -> list[dict[str, Any]]:
    """Return the statements of a namespace's policy: its buckets, below their prefixes.

    Actions and condition keys as the Service Authorization Reference lists them for S3 and KMS.
    """
    return [item for bucket in access.buckets for item in _bucket(bucket, f"arn:{partition}:s3:::")]


def size(access: S3Access, partition: str) -> int:
    """Return the characters of a namespace's policy as IAM counts them: without white space."""
    document = {"Version": "2012-10-17", "Statement": statements(access, partition)}
    return len(json.dumps(document, separators=(",", ":")))


def _bucket(bucket: Bucket, prefix: str) -> list[dict[str, Any]]:
    arn = f"{prefix}{bucket.name}"
    listing: dict[str, Any] = {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": arn}
    if bucket.prefix:
        listing["Condition"] = {"StringLike": {"s3:prefix": [f"{bucket.prefix}*"]}}
    results = [
        listing,
        {
            "Effect": "Allow",
            "Action": [*_READ, *(_WRITE if bucket.write else ())],
            "Resource": f"{arn}/{bucket.prefix}*",
        },
    ]
    if bucket.kms_key is not None:
        results.append(
            {
                "Effect": "Allow",
                "Action": ["kms:Decrypt", *(["kms:GenerateDataKey"] if bucket.write else [])],
                "Resource": bucket.kms_key,
            }
        )
    return results
