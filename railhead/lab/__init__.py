"""A whole cluster on one machine, from real parts."""
