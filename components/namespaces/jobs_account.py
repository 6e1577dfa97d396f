"""The account that jobs run as: no token of its own, and the logins of registries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from railhead.base.errors import InputError
from railhead.config import PROJECT
from railhead.resolve.fences import PullSecret

# What pods run as that say nothing of it, as those of the published runtimes do.
ACCOUNT = "default"
_LOGIN = "kubernetes.io/dockerconfigjson"


@dataclass(frozen=True, kw_only=True)
class JobsAccountArgs:
    """Arguments of :class:`JobsAccount`.

    Args:
        namespace: the training namespace.
        pull_secrets: logins of registries: the name of each Secret, and the key of the stack's
            configuration that has the login, or None for a Secret that is there already.
        after: resources that must exist before the account, such as the namespace.
    """

    namespace: str
    pull_secrets: Sequence[PullSecret]
    after: Sequence[pulumi.Resource] = ()


def login(key: str) -> pulumi.Output[str]:
    """Return the secret of the stack's configuration, never in plain text on its way.

    Raises:
        InputError: it is missing, or was set without ``--secret``.
    """
    whole = f"{PROJECT}:{key}"
    value = pulumi.Config(PROJECT).get_secret(key)
    remedy = f"pulumi config set --secret {whole} < ~/.docker/config.json"
    if value is None:
        raise InputError(
            f"{whole} is missing, and access.image_pull_secrets names it", remedy=remedy
        )
    if not pulumi.runtime.is_config_secret(whole):
        raise InputError(
            f"{whole} is in the stack's file in plain text, for all who read it",
            remedy=f"{remedy}, and give the registry another password",
        )
    return value


class JobsAccount(pulumi.ComponentResource):
    """The namespace's ``default`` account, as far as it is the stack's, and the Secrets it uses."""

    def __init__(
        self, name: str, args: JobsAccountArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("railhead:index:JobsAccount", name, None, opts)
        for secret in args.pull_secrets:
            if secret.config is not None:
                kubernetes.core.v1.Secret(
                    f"{name}-pull-{secret.name}",
                    metadata={"name": secret.name, "namespace": args.namespace},
                    type=_LOGIN,
                    string_data={".dockerconfigjson": login(secret.config)},
                    opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
                )
        # Kubernetes makes it itself in every namespace, so only fields of it are the stack's.
        kubernetes.core.v1.ServiceAccountPatch(
            f"{name}-account",
            metadata={"name": ACCOUNT, "namespace": args.namespace},
            # Training code has no business with the API server.
            automount_service_account_token=False,
            image_pull_secrets=[{"name": secret.name} for secret in args.pull_secrets],
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        self.register_outputs({"account": ACCOUNT})
