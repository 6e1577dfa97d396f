"""The one Kubernetes client, which cluster is meant, and its nodes."""
