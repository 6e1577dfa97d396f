"""What watches the cluster."""
