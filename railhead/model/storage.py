"""What pods of training mount, in a stack's file: checkpoints, data sets, scratch."""

from __future__ import annotations

from railhead.base.fields import AbsolutePath, Bytes, Model, Name


class CheckpointConfig(Model):
    """A ReadWriteMany claim; ``size`` is a Kubernetes quantity.

    ``claim`` is what the claim is called in the cluster, None for ``name``. Kubernetes renames
    nothing: to call a claim something else in this file, change ``name`` and keep what it was
    called as ``claim``; the data stays where it is.
    """

    name: Name
    claim: Name | None = None
    namespace: Name
    storage_class: Name
    size: Bytes
    mount_path: AbsolutePath

    @property
    def claim_name(self) -> str:
        """What the claim is called in the cluster."""
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
        """What the claim is called in the cluster."""
        return self.claim or self.name


class ScratchConfig(Model):
    """A directory of the node for as long as a pod lives, at ``mount_path``.

    It lies where kubelet keeps its files: on local NVMe where the stack's nodes have some. A pod
    that fills more than ``size`` is evicted.
    """

    size: Bytes
    mount_path: AbsolutePath = "/scratch"
