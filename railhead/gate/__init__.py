"""The node gate: what a node must prove of its fabric before jobs are placed on it.

Runs on the nodes themselves, in whatever image has a Python: standard library only, and of the rest
of Railhead `railhead.base.finding` alone. `components/guards/node_gate.py` ships the files.
"""
