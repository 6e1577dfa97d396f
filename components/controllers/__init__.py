"""The controllers of the cluster, as Helm releases."""
