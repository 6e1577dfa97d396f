"""Railhead: multi-node GPU training on Kubernetes, from fabric to launcher."""

__version__ = "0.1.0"
