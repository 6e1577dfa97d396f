"""The life of pods' tokens, where Multus writes its own to the node once and never again.

The network operator's Multus does (v26.4.1, manifests/state-multus-cni: --skip-config-watch; its
issue #1363, open). kubelet renews the token in Multus' pod, and nothing reads it there. The API
server makes tokens of pods last a year, unless --service-account-extend-token-expiration is false:
then no pod gets a network on the node an hour after Multus started. The gate's token is of the same
kind as that of Multus.
"""

from __future__ import annotations

import base64
import binascii
import json

from railhead.base.finding import Finding
from railhead.gate.expectation import Expectation
from railhead.gate.node import Node, text_of

ORDER = 70
_DAY = 86400


def prove(node: Node, expected: Expectation) -> list[Finding]:
    """Check that tokens outlive a day, if Multus depends on it."""
    return [_token(text_of(node.token))] if expected.lasting_tokens else []


def _token(token: str) -> Finding:
    subject = "tokens of pods"
    seconds = _life(token)
    if seconds is None:
        return Finding(
            name=subject,
            passed=False,
            text="the gate's own says of no time that it is made for",
            remedy="look at how the gate's pod gets the token of its service account",
        )
    if seconds > _DAY:
        return Finding(name=subject, passed=True, text=f"valid for {seconds // _DAY} days")
    return Finding(
        name=subject,
        passed=False,
        text=f"valid for {seconds // 60} minutes, and Multus never renews the one that it wrote to "
        "the node: then no pod gets a network here",
        remedy="`--service-account-extend-token-expiration=true` for the API server (RKE2 with "
        "`profile: cis` says false: `kube-apiserver-arg`); where nobody can say it, as on AKS, a "
        "mode without rails, or a Multus that renews its token and no `network_operator`",
    )


def _life(token: str) -> int | None:
    """Return for how many seconds a token was made (RFC 7519); None if it does not say."""
    _, _, rest = token.partition(".")
    body, _, _ = rest.partition(".")
    try:
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return int(claims["exp"]) - int(claims["iat"])
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None
