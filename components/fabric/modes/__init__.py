"""The objects of each mode in the cluster: one file a mode, found by its name."""
