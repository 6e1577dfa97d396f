"""Where clusters live: one folder a platform, each with its model and its checks."""
