"""Platforms of clusters: one folder each, with its model and its checks."""
