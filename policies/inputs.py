"""The program's inputs of each resource, for the rules that judge a whole stack.

The engine shows a rule over one resource its inputs (`Analyze`), even while the configuration of
the resource's provider is not known: its `Check` then hands back what the program gave. A rule over
a stack is shown outputs (`AnalyzeStack`: `Properties: v.Outputs`), and such a provider has none: of
a cloud stack's first preview, whose kubeconfig comes with its cluster, every Kubernetes object is
empty there (pulumi/pulumi v3.272.0, sdk/go/common/resource/plugin/provider_plugin.go, `pcfg.known`;
pkg/resource/deploy/step_generator.go, `AnalyzeResources`). So the inputs are kept as they pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

from railhead.policies.known import KNOWN, apart
from railhead.policies.plan import UNKNOWN, at, plain

# One process serves one update, and asks about every resource before it asks about the stack.
_GIVEN: Final[dict[str, Any]] = {}
# What rules made of the inputs kept last, by what it is and of which resources: the SDK hands each
# rule a copy of its own to read.
_MADE: Final[dict[tuple[str, ...], Any]] = {}
_T = TypeVar("_T")
# The engine's own, and the components of this project, which are nothing by themselves.
_NOTHING_BY_THEMSELVES = frozenset({"pulumi", "railhead"})


def remember(urn: str, props: Any) -> None:
    """Keep the program's inputs of a resource."""
    _GIVEN[urn] = plain(props)
    _MADE.clear()


def once(urns: Sequence[str], what: str, make: Callable[[], _T]) -> _T:
    """Return what ``make`` returns, made once as long as no other inputs are kept.

    Where inputs of one of ``urns`` are not kept, it is made each time.
    """
    if any(urn not in _GIVEN for urn in urns):
        return make()
    key = (what, *urns)
    try:
        result: _T = _MADE[key]
    except KeyError:
        result = _MADE[key] = make()
    return result


def forget() -> None:
    """Forget all inputs, as at the start of an update."""
    _GIVEN.clear()
    _MADE.clear()


def complete(urn: str, props: Any) -> Any:
    """Return a resource's outputs, with its inputs in place of missing or unknown ones."""
    return _filled(plain(props), _GIVEN.get(urn))


def _filled(value: Any, given: Any) -> Any:
    if value is UNKNOWN:
        return UNKNOWN if given is None else given
    if isinstance(value, dict) and isinstance(given, Mapping):
        return {
            key: _filled(value[key], given.get(key)) if key in value else given[key]
            for key in (*value, *(k for k in given if k not in value))
        }
    if isinstance(value, list) and isinstance(given, list) and len(value) == len(given):
        return [_filled(item, other) for item, other in zip(value, given, strict=True)]
    return value


def unseen(
    resource_type: str,
    urn: str,
    name: str,
    props: Any,
    *,
    component: bool = False,
    closed: bool = False,
    known: Sequence[str] = (),
) -> Iterator[str]:
    """Yield a message for a resource that cannot be judged at all.

    Args:
        resource_type: its type.
        urn: its URN.
        name: its name in the program.
        props: what the engine shows of it.
        component: whether it has no provider, and so only groups others.
        closed: whether only types that a rule knows pass, and nothing else.
        known: types that the site has looked at, as shell patterns.
    """
    package = resource_type.partition(":")[0]
    if package in _NOTHING_BY_THEMSELVES:
        return
    if not closed and apart(resource_type, component=component):
        return
    if any(fnmatchcase(resource_type, pattern) for pattern in known):
        return
    if package != "kubernetes" and resource_type not in KNOWN:
        yield (
            f"{name}: no rule of this pack looks at a {resource_type}: leave it out, or write what "
            "it may be (policies/known.py; `known` in policies.yaml)"
        )
        return
    if urn not in _GIVEN and not props:
        yield _blind(name, resource_type, "neither what it is given nor what it gives is shown")
        return
    body = complete(urn, props)
    if package == "kubernetes" and not resource_type.startswith("kubernetes:helm.sh/"):
        for key in ("apiVersion", "kind", "metadata"):
            if key == "metadata" and _autonamed(urn):
                continue
            if body.get(key, UNKNOWN) is UNKNOWN or at(body, key, "name") is UNKNOWN:
                yield _blind(name, resource_type, f"its {key} is not known before the update")
                return


def _autonamed(urn: str) -> bool:
    """Return whether the program leaves the name to Pulumi, which no rule needs to know."""
    given = _GIVEN.get(urn)
    if not isinstance(given, Mapping):
        return False
    metadata = given.get("metadata", {})
    return isinstance(metadata, Mapping) and "name" not in metadata


def _blind(name: str, resource_type: str, why: str) -> str:
    return (
        f"{name}: {why}, so no rule can judge this {resource_type}: give it values that the plan "
        "knows"
    )
