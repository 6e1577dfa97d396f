"""``pulumi-resource-kubernetes``: a stand-in for the official Kubernetes provider, in Python.

It follows the official provider 4.34 in types, inputs, outputs, names of errors and waits.

``plugin``, ``servicer``
    the ResourceProvider protocol: the plugin and its configuration; the resources.
``objects``
    create, read, update and delete of one object of any kind.
``client``
    the API server: authentication, discovery, requests, errors.
``state``, ``diffing``
    what is kept of a resource, what changed, and whether it forces a replacement.
``readiness``, ``awaiting``
    when an object is ready, as a table of rules a kind; the waiting.
``helm``, ``helm_process``
    Helm releases through the `helm` program.
``components``, ``invokes``
    ConfigGroup, ConfigFile and Chart; the functions that the SDK's helpers call.
``properties``
    Pulumi's property values, with secrets and unknowns, to and from the wire.

What the official provider does and this one does not: rendering to YAML files
(``renderYamlToDirectory``, refused), Kustomize, CRD parameterization, the ``List`` protocol call,
converting from Terraform, `kubeClientSettings` other than the time-out, warnings of removed API
versions other than the API server's own, and fetching manifests from URLs in ConfigFile.
What it does and the official one does not: it carries on with what a killed run left (see
``objects`` and ``helm``) and retries while an admission webhook is not up yet.
"""
