"""The node gate: what a node must prove of its fabric before jobs are placed on it.

Runs on the nodes themselves, in whatever image has a Python: standard library only, and nothing of
the rest of Railhead. `components/node_gate.py` ships these files to the cluster.
"""
