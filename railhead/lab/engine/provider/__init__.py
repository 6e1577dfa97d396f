"""``pulumi-resource-kubernetes``: a stand-in for the official Kubernetes provider, in Python.

``servicer``
    the ResourceProvider protocol; knows Pulumi, not Kubernetes.
``objects``
    create, read, update and delete of one object of any kind.
``client``
    the API server: authentication, discovery, requests, errors.
``diffing``
    what changed, and whether it forces a replacement.
``awaiting``
    when an object is ready, as a table of rules a kind.
``helm``
    Helm releases through the `helm` program.
``properties``
    Pulumi's property values, with secrets and unknowns, to and from the wire.
"""
