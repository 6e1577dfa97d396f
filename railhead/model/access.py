"""Access of people to training namespaces, in a stack's file."""

from __future__ import annotations

from typing import Annotated, Literal

from railhead.base.fields import Group, Model, Name, Positive, matching

#: Who may: everybody who submits, those who lead, or nobody but the cluster's administrators.
Who = Literal["researchers", "leads", "nobody"]


#: Strictest last (Kubernetes documentation, Pod Security Standards).
LEVELS = ("privileged", "baseline", "restricted")
PodSecurityLevel = Literal["privileged", "baseline", "restricted"]

ConfigKey = Annotated[
    str, matching(r"^[A-Za-z][A-Za-z0-9_-]*$", "a configuration key, such as 'registryLogin'")
]


class PullSecretConfig(Model):
    """The login of a registry, for the pods of every training namespace.

    ``name`` is a Secret of type ``kubernetes.io/dockerconfigjson``. ``config`` is the key of the
    stack's configuration that has its content, a ``~/.docker/config.json``, put there with ``pulumi
    config set --secret railhead:KEY``; without it someone else creates the Secret in each training
    namespace. The content is never in this file's plain text, nor in the contract.
    """

    name: Name
    config: ConfigKey | None = None


class AccessConfig(Model):
    """The rights of people beyond what their jobs need; docs/access.md lists them all.

    ``leads`` and ``viewers`` are groups for the stack's own ``namespaces``, beside ``researchers``;
    a team of ``teams`` has groups of its own. ``exec`` is who may run commands in the pods of jobs
    and forward ports to them: RBAC cannot tell one's own pods from a colleague's, so this covers
    all pods of a namespace.

    ``pod_security`` is the Pod Security level that training namespaces enforce; None takes the
    strictest that the stack's own pods pass. ``image_pull_secrets`` are logins of registries.
    ``objects`` is how many ConfigMaps, and how many Secrets, a training namespace may hold: each
    may have 1 MiB, and etcd has 2 GiB in all by default. Of Jobs and Services it may hold ten
    times as many.
    """

    leads: tuple[Group, ...] = ()
    viewers: tuple[Group, ...] = ()
    exec: Who = "researchers"
    pod_security: PodSecurityLevel | None = None
    image_pull_secrets: tuple[PullSecretConfig, ...] = ()
    objects: Positive = 500
