"""What each mode makes in the cluster: one file a mode, found by its name."""
