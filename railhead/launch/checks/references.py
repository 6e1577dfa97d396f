"""Are the Secrets and claims that a job names there, with the keys that it wants?"""

from __future__ import annotations

from railhead.base.errors import did_you_mean
from railhead.base.finding import Finding
from railhead.kube import client as kube
from railhead.launch.asked import Asked

ORDER = 55
_WITHOUT = "its pods would wait for it for ever"


def check(asked: Asked) -> list[Finding]:
    """One finding a Secret and one a claim."""
    plan = asked.plan
    wanted: dict[str, dict[str, str]] = {}
    for variable, source in plan.secrets.items():
        secret, _, key = source.partition("/")
        wanted.setdefault(secret, {})[key] = variable
    found = [_secret(asked, name, keys) for name, keys in wanted.items()]
    claims = dict.fromkeys(given.partition(":")[0] for given in plan.mounts.values())
    return [*found, *(_claim(asked, name) for name in claims)]


def _secret(asked: Asked, name: str, keys: dict[str, str]) -> Finding:
    namespace = asked.plan.namespace
    what = f"Secret {namespace}/{name}"
    try:
        found = asked.cluster.find(kube.core(namespace, "secrets", name))
    except kube.ApiError as error:
        if error.status != 403:
            raise
        # Least rights: a pod may have what its owner may not read.
        return Finding(name="secrets", passed=None, text=f"{what} may not be read")
    if found is None:
        return Finding(
            name="secrets",
            passed=False,
            text=f"secrets: {what} is not there; {_WITHOUT}",
            remedy="have it made, or name another",
        )
    known = [*(found.get("data") or {})]
    if missing := sorted(set(keys) - set(known)):
        near = did_you_mean(missing[0], known)
        return Finding(
            name="secrets",
            passed=False,
            text=f"secrets: {what} has no key {', '.join(missing)}{near}; {_WITHOUT}",
            remedy=f"name one of its keys: {', '.join(sorted(known)) or 'it has none'}",
        )
    return Finding(name="secrets", passed=True, text=f"{what} has what the job wants")


def _claim(asked: Asked, name: str) -> Finding:
    plan = asked.plan
    what = f"claim {plan.namespace}/{name}"
    try:
        found = asked.cluster.find(kube.core(plan.namespace, "persistentvolumeclaims", name))
    except kube.ApiError as error:
        if error.status != 403:
            raise
        return Finding(name="mounts", passed=None, text=f"{what} may not be read")
    if found is None:
        return Finding(
            name="mounts",
            passed=False,
            text=f"mounts: {what} is not there; {_WITHOUT}",
            remedy="name a claim of the namespace: `kubectl get pvc`",
        )
    modes = (found.get("spec") or {}).get("accessModes") or []
    if plan.nodes > 1 and modes and not set(modes) & {"ReadWriteMany", "ReadOnlyMany"}:
        return Finding(
            name="mounts",
            passed=False,
            text=f"mounts: {what} is for one node ({', '.join(modes)}), the job has {plan.nodes}",
            remedy="name a claim that is ReadWriteMany or ReadOnlyMany",
        )
    return Finding(name="mounts", passed=True, text=f"{what} is there")
