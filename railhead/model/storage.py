"""Mounts of training pods, in a stack's file: checkpoints, data sets, scratch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from railhead.base.fields import AbsolutePath, Bytes, Model, Name


class RetentionConfig(Model):
    """The nightly removal of old checkpoints from a claim, of those that their run marked as whole.

    Of each run the newest ``keep`` stay, and those marked within the last ``days``. Nothing is
    removed unless ``delete`` is true: until then the log says what would be.
    """

    days: Annotated[int, Field(strict=True, ge=1, le=3650)]
    keep: Annotated[int, Field(strict=True, ge=1, le=1000)]
    delete: Annotated[bool, Field(strict=True)] = False


class CheckpointConfig(Model):
    """A ReadWriteMany claim; ``size`` is a Kubernetes quantity.

    ``claim`` is what the claim is called in the cluster, None for ``name``. Kubernetes renames
    nothing: to call a claim something else in this file, change ``name`` and keep what it was
    called as ``claim``; the data stays where it is. ``retention`` is what goes from it by age,
    nothing where it is left out.
    """

    name: Name
    claim: Name | None = None
    namespace: Name
    storage_class: Name
    size: Bytes
    mount_path: AbsolutePath
    retention: RetentionConfig | None = None

    @property
    def claim_name(self) -> str:
        """Name of the claim in the cluster."""
        return self.claim or self.name


class DatasetConfig(Model):
    """Data that the pods of runtimes read and nobody's pod writes.

    ``claim`` is what the claim is called in the cluster, None for ``name``. With ``volume``, a
    PersistentVolume that is there and allows ``ReadOnlyMany``, the stack makes the claim on it;
    without, the claim is there already.
    """

    name: Name
    claim: Name | None = None
    namespace: Name
    volume: Name | None = None
    mount_path: AbsolutePath

    @property
    def claim_name(self) -> str:
        """Name of the claim in the cluster."""
        return self.claim or self.name


class ScratchConfig(Model):
    """A directory of the node for as long as a pod lives, at ``mount_path``.

    It lies where kubelet keeps its files: on local NVMe where the stack's nodes have some. A pod
    that fills more than ``size`` is evicted.
    """

    size: Bytes
    mount_path: AbsolutePath = "/scratch"
