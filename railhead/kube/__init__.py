"""The one Kubernetes client, the choice of the cluster, and its nodes."""
