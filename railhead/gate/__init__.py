"""The node gate: a node must prove its fabric before jobs are placed on it.

It runs on the nodes themselves, in any image with Python: it needs only the standard library and
`railhead.base.finding`. `components/guards/node_gate.py` ships the files.
"""
