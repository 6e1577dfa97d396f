"""The twin of a stack's cluster: it answers as the cluster would, and a stack is rehearsed on it.

Rows of what nodes are and what clouds refuse lie in ``truth``; each has its source, and none was
written from what components expect.
"""
