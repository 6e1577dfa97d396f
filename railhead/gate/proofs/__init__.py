"""The proofs of a node: each module of this package is one.

Each has ``ORDER``, the order in which one would look for a fault, and ``prove(node, expected)``,
which returns its findings, or nothing if nothing of the kind is expected. A finding whose
``passed`` is None is held: a pod uses what would prove it.
"""
