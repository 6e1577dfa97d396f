"""What a node proves: one file a proof, found by being here.

Each has ``ORDER``, in which one would look for a fault, and ``prove(node, expected)``, which gives
its findings and none where nothing of the kind is expected. In a finding ``passed`` None is held:
what would prove it is in use by a pod.
"""
