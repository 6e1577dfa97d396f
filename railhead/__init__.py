"""Railhead: multi-node GPU training on Kubernetes, from fabric to launcher."""

from railhead.base.version import __version__

__all__ = ["__version__"]
