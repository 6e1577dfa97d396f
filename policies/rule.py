"""Makers of rules: their facts once, and a check over one resource or over the whole plan.

Each rule takes the parameters of its configuration schema and, where it looks at Kubernetes objects
of a namespace, ``exempt``: namespaces that it leaves alone until a day, each with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, TypeVar

from pulumi_policy import (
    EnforcementLevel,
    PolicyComplianceFramework,
    PolicyConfigSchema,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    Severity,
    StackValidationArgs,
    StackValidationPolicy,
)

from railhead.base.version import __version__
from railhead.base.wide import network_of
from railhead.policies import inputs
from railhead.policies.clouds import CloudResource, cloud_resource
from railhead.policies.plan import PlannedObject, at, planned

#: Where each rule has a page of its own.
PAGES = "https://railhead.dev/rules"
_STACK = "pulumi:pulumi:Stack"
_EXEMPT: Mapping[str, Any] = {
    "type": "array",
    "description": "Namespaces that the rule leaves alone until a day, each with its reason.",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["namespace", "reason", "until"],
        "properties": {
            "namespace": {"type": "string", "minLength": 1},
            "reason": {"type": "string", "minLength": 1},
            "until": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"},
        },
    },
}

_UNREAD = "an input has another form than its API takes, and could not be judged: correct it"
_Row = TypeVar("_Row")

Config = Mapping[str, Any]
OfObject = Callable[[PlannedObject, Config], Iterable[str]]
OfCloud = Callable[[CloudResource, Config], Iterable[str]]
OfRelease = Callable[[str, str, Any], Iterable[str]]
OfObjects = Callable[[Sequence[PlannedObject]], Iterable[tuple[str, str]]]
OfResources = Callable[[Sequence[PolicyResource], Config], Iterable[tuple[str, str]]]


def each(
    name: str,
    *,
    objects: OfObject | None = None,
    clouds: OfCloud | None = None,
    releases: OfRelease | None = None,
    config: Mapping[str, Any] | None = None,
    **facts: Any,
) -> ResourceValidationPolicy:
    """Return a rule over one resource at a time."""
    parameters = {**(config or {}), **({"exempt": _EXEMPT} if objects else {})}

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        given = args.get_config()
        if args.resource_type == _STACK:
            _report(_wrong(name, given, parameters), args.urn, report)
        elif args.resource_type.startswith("kubernetes:"):
            item = _object(args) if objects else None
            if objects and item and not _exempt(item, given):
                _report(_read(_UNREAD, objects, item, given), args.urn, report)
            if releases:
                of = (args.resource_type, args.name, args.props)
                _report(_read(_UNREAD, releases, *of), args.urn, report)
        elif clouds and (resource := _cloud(args)):
            _report(_read(_UNREAD, clouds, resource, given), args.urn, report)

    return ResourceValidationPolicy(name, validate=validate, **_facts(name, parameters, **facts))


def whole(
    name: str,
    *,
    objects: OfObjects | None = None,
    resources: OfResources | None = None,
    config: Mapping[str, Any] | None = None,
    **facts: Any,
) -> StackValidationPolicy:
    """Return a rule over the whole plan: its Kubernetes objects, or all resources."""
    parameters = {**(config or {}), **({"exempt": _EXEMPT} if objects else {})}

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        given = args.get_config()
        _report(_wrong(name, given, parameters), None, report)
        if objects:
            items = _objects(args.resources)
            left_alone = {item.urn for item in items if _exempt(item, given)}
            for message, urn in _read((_UNREAD, ""), objects, items):
                if urn not in left_alone:
                    report(message, urn or None)
        if resources:
            for message, urn in _read((_UNREAD, ""), resources, args.resources, given):
                report(message, urn or None)

    return StackValidationPolicy(name, validate=validate, **_facts(name, parameters, **facts))


def _facts(
    name: str,
    parameters: Mapping[str, Any],
    *,
    title: str,
    description: str,
    severity: Severity,
    tags: Sequence[str],
    remedy: str,
    level: EnforcementLevel = EnforcementLevel.MANDATORY,
    framework: PolicyComplianceFramework | None = None,
) -> dict[str, Any]:
    """Return what both kinds of rules say of themselves."""
    return {
        "description": description,
        "display_name": title,
        "enforcement_level": level,
        "severity": severity,
        "tags": ["railhead", *tags],
        "remediation_steps": remedy,
        "url": f"{PAGES}/{name}",
        "framework": framework or PolicyComplianceFramework("Railhead", __version__, PAGES, title),
        "config_schema": PolicyConfigSchema(dict(parameters)) if parameters else None,
    }


def _read(unread: _Row, judge: Callable[..., Iterable[_Row]], *args: Any) -> Iterator[_Row]:
    """Yield what a rule reports, and ``unread`` where it cannot read a form of input."""
    try:
        yield from judge(*args)
    except (AttributeError, KeyError, TypeError, ValueError):
        yield unread


def _report(messages: Iterable[str], urn: str | None, report: ReportViolation) -> None:
    for message in messages:
        report(message, urn)


def _wrong(name: str, given: Config, parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each unknown parameter, each wrong day and each wrong network.

    The engine checks types (gojsonschema), and takes names that it does not know in silence.
    """
    for key in given:
        if key not in parameters:
            known = ", ".join(parameters) or "none"
            yield f"{name} has no parameter {key!r}; it has: {known}: correct the configuration"
    for row in given.get("exempt") or ():
        try:
            date.fromisoformat(row["until"])
        except ValueError:
            yield f"{name}: exempt: until is {row['until']!r}, which is not a day: write YYYY-MM-DD"
    for network in given.get("networks") or ():
        if network_of(network) is None:
            yield f"{name}: networks: {network!r} is not a CIDR: write one, such as 10.0.0.0/8"


def _exempt(item: PlannedObject, given: Config) -> bool:
    """Return whether the site has the object's namespace left alone today."""
    namespace = at(item.body, "metadata", "namespace")
    today = datetime.now(UTC).date().isoformat()
    return any(
        row["namespace"] == namespace and today <= row["until"] for row in given.get("exempt") or ()
    )


def _object(args: ResourceValidationArgs) -> PlannedObject | None:
    return inputs.once(
        (args.urn,),
        "object",
        lambda: planned(args.resource_type, args.urn, args.name, args.props),
    )


def _cloud(args: ResourceValidationArgs) -> CloudResource | None:
    return inputs.once(
        (args.urn,),
        "cloud",
        lambda: cloud_resource(
            args.resource_type, args.urn, args.name, args.props, protect=args.opts.protect
        ),
    )


def _objects(resources: Sequence[PolicyResource]) -> list[PlannedObject]:
    """Return the Kubernetes objects of the plan, made once for all rules over it."""

    def make() -> list[PlannedObject]:
        rows = (
            planned(r.resource_type, r.urn, r.name, inputs.complete(r.urn, r.props))
            for r in resources
            if r.resource_type.startswith("kubernetes:")
        )
        return [row for row in rows if row is not None]

    return inputs.once([r.urn for r in resources], "objects", make)
