"""Are the Secrets and claims that a job names there, with the keys that it wants?"""

from __future__ import annotations

from railhead.base.errors import did_you_mean
from railhead.base.finding import Finding
from railhead.kube import client as kube
from railhead.launch.asked import Asked, existing
from railhead.launch.plan import Plan

ORDER = 55
_WITHOUT = "its pods would wait for it for ever"


def check(asked: Asked) -> list[Finding]:
    """Return one finding a Secret and one a claim."""
    plan = asked.plan
    wanted: dict[str, dict[str, str]] = {}
    for variable, source in plan.secrets.items():
        secret, _, key = source.partition("/")
        wanted.setdefault(secret, {})[key] = variable
    results = [_secret(asked, name, keys) for name, keys in wanted.items()]
    # The checkpoint claim has a check of its own.
    claims = [name for name in _claims(plan) if name != plan.checkpoint_claim]
    return [*results, *(_claim(asked, name) for name in claims)]


def _claims(plan: Plan) -> list[str]:
    """Return the claims that its pods mount, the job's and then the runtime's."""
    named = [given.partition(":")[0] for given in plan.mounts.values()]
    volumes = (plan.template.get("spec") or {}).get("volumes") or []
    of_runtime = [(v.get("persistentVolumeClaim") or {}).get("claimName") for v in volumes]
    return list(dict.fromkeys(name for name in (*named, *of_runtime) if name))


def _secret(asked: Asked, name: str, keys: dict[str, str]) -> Finding:
    # Least rights: a pod may have what its owner may not read.
    namespace = asked.plan.namespace
    what = f"secrets: Secret {namespace}/{name}"
    path = kube.core(namespace, "secrets", name)
    fix = "have it made, or name another"
    there, result = existing(asked, "secrets", path, what, without=_WITHOUT, remedy=fix)
    if result is None:
        return there
    known = [*(result.get("data") or {})]
    if missing := sorted(set(keys) - set(known)):
        near = did_you_mean(missing[0], known)
        return Finding(
            name="secrets",
            passed=False,
            text=f"{what} has no key {', '.join(missing)}{near}; {_WITHOUT}",
            remedy=f"name one of its keys: {', '.join(sorted(known)) or 'it has none'}",
        )
    return there


def _claim(asked: Asked, name: str) -> Finding:
    plan = asked.plan
    what = f"mounts: claim {plan.namespace}/{name}"
    path = kube.core(plan.namespace, "persistentvolumeclaims", name)
    fix = "name a claim of the namespace: `kubectl get pvc`"
    there, result = existing(asked, "mounts", path, what, without=_WITHOUT, remedy=fix)
    modes = ((result or {}).get("spec") or {}).get("accessModes") or []
    nodes = sum(part.nodes for part in asked.parts if name in _claims(part))
    if nodes > 1 and modes and not set(modes) & {"ReadWriteMany", "ReadOnlyMany"}:
        return Finding(
            name="mounts",
            passed=False,
            text=f"{what} is for one node ({', '.join(modes)}), the job has {nodes}",
            remedy="name a claim that is ReadWriteMany or ReadOnlyMany",
        )
    return there
