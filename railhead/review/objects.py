"""Judges changed objects of Kubernetes: networks, guards, namespaces, queues, pods, charts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from railhead.base.names import TRAINING_LABEL
from railhead.base.quantity import parse
from railhead.base.secrets import token
from railhead.base.tags import MOVING, moves
from railhead.catalog.switches import SWITCHES
from railhead.review import rights
from railhead.review.compare import Change
from railhead.review.judged import Judged, few
from railhead.review.judges import program
from railhead.review.model import Level
from railhead.review.rows import flat, less, lost, lowered, parts, prefix, several, short, told

_LEVELS = ("privileged", "baseline", "restricted")
# A whole word at its end: TOKENIZERS_PARALLELISM and MAX_TOKENS hold no secret.
_SECRET = re.compile(
    r"(TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_?KEY|CREDENTIALS?)(?![A-Z])", re.I
)
_OUTSIDE = ("LoadBalancer", "NodePort")  # Types of a service that is reached from there.
_ENFORCE = "pod-security.kubernetes.io/enforce"
_FABRIC = (
    *("NCCL_", "TORCH_NCCL_", "NVSHMEM_", "FI_", "UCX_", "OMPI_", "GLOO_", "RDMAV_", "CUDA_"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD"),
)


def network_policies(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield traffic that a network policy newly allows, or no longer."""
    was, now = change.was.get("spec") or {}, change.now.get("spec") or {}
    lost = set(was.get("policyTypes") or ()) - set(now.get("policyTypes") or ())
    if change.stays:
        if lost:
            yield Judged("refuse", "network", f"no longer holds for {', '.join(sorted(lost))}")
        if was.get("podSelector") != now.get("podSelector"):
            yield Judged("refuse", "network", "holds for other pods")
    for direction, peers in (("egress", "to"), ("ingress", "from")):
        before, after = was.get(direction) or [], now.get(direction) or []
        for rule in after:
            if rule in before:
                continue
            yield from _opened(rule, direction, peers, known=before, code=code)
        if change.after and any(rule not in after for rule in before):
            old = [rule for rule in before if rule not in after]
            if not any(_contains(rule, row) for row in old for rule in after):
                ports = _ports(old[0].get("ports") or [{"protocol": "every", "port": "port"}])
                left = [_ports(rule["ports"]) for rule in after if rule.get("ports")]
                text = f"refuses {direction} that it allowed, on {ports}"
                text += f": what is left is {few(left, 3)}" if left else ""
                yield Judged("ask", "network", text, "its jobs")


def _contains(rule: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Return whether every peer and port of an old rule is in a new one."""
    return all(
        not rule.get(key)
        or all(any(_within(item, new) for new in rule[key]) for item in old.get(key) or [None])
        for key in ("to", "from", "ports")
    )


def _within(old: Any, new: Any) -> bool:
    """Return whether a peer is another, or selects what that does by fewer values of a label."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return all(map(_within, old, new))
    if not (isinstance(old, Mapping) and isinstance(new, Mapping) and old.keys() == new.keys()):
        return bool(old == new)
    if old.get("operator") == "In":
        rest = [{**of, "values": None} for of in (old, new)]
        return rest[0] == rest[1] and set(old["values"]) <= set(new["values"])
    return all(_within(value, new[key]) for key, value in old.items())


def _opened(
    rule: Mapping[str, Any], direction: str, peers: str, *, known: list[Any], code: bool
) -> Iterator[Judged]:
    ports = rule.get("ports")
    where = f"{direction} on {_ports(ports)}" if ports else f"{direction} on every port"
    named = rule.get(peers)
    if not named:
        # Ports that everyone may reach are an exporter's where the stack's file asks for one.
        if ports and (direction == "egress" or not code):
            anyone = "to anywhere" if direction == "egress" else "for anyone"
            exports = direction == "ingress" and not known
            yield Judged("note" if exports else "ask", "network", f"opens {where} {anyone}")
        else:
            yield Judged("refuse", "network", f"opens {where}, for anyone")
        return
    listed = [p for row in known if row.get("ports") == ports for p in row.get(peers) or ()]
    if not ports and any(row.get("ports") and row.get(peers) == named for row in known):
        yield Judged("refuse", "network", f"opens {where} to those that it named ports for")
        return
    for peer in named:
        if peer in listed:
            continue
        block = (peer.get("ipBlock") or {}).get("cidr")
        if block is not None:
            length = prefix(block)
            level: Level = (
                "refuse" if length < 8 and not ports else "ask" if length < 16 else "note"
            )
            yield Judged(level, "network", f"opens {where} for {block}")
        elif peer.get("namespaceSelector") == {} and not peer.get("podSelector"):
            yield Judged("refuse", "network", f"opens {where} for pods of every namespace")
        elif peer == {"podSelector": {}}:
            yield Judged("note", "network", f"opens {where} within its namespace")
        else:
            yield Judged("note", "network", f"opens {where} for {short(dict(flat(peer)))}")


def _ports(ports: list[Mapping[str, Any]]) -> str:
    return ", ".join(f"{p.get('protocol', 'TCP')} {p.get('port', 'any')}" for p in ports[:4])


def guards(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield what an admission policy no longer refuses."""
    was, now = change.was.get("spec") or {}, change.now.get("spec") or {}
    if not change.stays or was == now:
        return
    who = f"nobody, until what it refuses is done{_refuses(was)}"
    before = {v.get("expression"): v for v in was.get("validations") or ()}
    after = {v.get("expression"): v for v in now.get("validations") or ()}
    lost, added = before.keys() - after.keys(), after.keys() - before.keys()
    if len(after) < len(before):
        count = len(before) - len(after)
        yield Judged("refuse", "guards", f"checks {count} things fewer: {short(sorted(lost))}", who)
    elif any(_always(text) for text in added):
        yield Judged("refuse", "guards", "has a check that everything passes", who)
    elif lost and code:
        yield Judged("refuse", "guards", f"checks otherwise: {short(sorted(added))}", who)
    if was.get("matchConstraints") != now.get("matchConstraints"):
        old, new = _matched(was), _matched(now)
        if gone := sorted(old - new):
            yield Judged("refuse", "guards", f"is no longer asked about {short(gone)}", who)
        elif code:
            yield Judged("ask", "guards", "is asked about other objects", who)
    conditions = [
        c for c in now.get("matchConditions") or () if c not in (was.get("matchConditions") or ())
    ]
    if conditions and code:
        yield Judged("refuse", "guards", "is asked under another condition only", who)
    for key in (
        *("validationActions", "failurePolicy", "matchResources", "policyName", "variables"),
        *("paramKind", "paramRef"),
    ):
        if was.get(key) != now.get(key) and (code or key != "variables"):
            level: Level = "ask" if key == "variables" else "refuse"
            text = f"{key}: {short(was.get(key))} -> {short(now.get(key))}"
            text += ": what it cannot evaluate passes" * (now.get(key) == "Ignore")
            yield Judged(level, "guards", text, who)


def _refuses(spec: Mapping[str, Any]) -> str:
    """Return what a policy says when it refuses, for a sentence; empty where it says nothing."""
    rows = [v for v in spec.get("validations") or () if isinstance(v, Mapping)]
    words = [str(v.get("message") or v.get("messageExpression") or "") for v in rows]
    return f" ({short(next(filter(None, words)))})" if any(words) else ""


def _always(text: Any) -> bool:
    flattened = str(text).strip().strip("()")
    return flattened == "true" or flattened.endswith("|| true") or flattened.startswith("true ||")


def _matched(spec: Mapping[str, Any]) -> set[str]:
    rules = (spec.get("matchConstraints") or {}).get("resourceRules") or ()
    return {
        f"{operation} of {resource}"
        for rule in rules
        for operation in rule.get("operations") or ()
        for resource in rule.get("resources") or ()
    }


def namespaces(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield labels whose loss opens a namespace."""
    was = (change.was.get("metadata") or {}).get("labels") or {}
    now = (change.now.get("metadata") or {}).get("labels") or {}
    if change.kind == "deleted":
        return
    if was.get(TRAINING_LABEL) == "true" and now.get(TRAINING_LABEL) != "true":
        yield Judged("refuse", "guards", f"loses {TRAINING_LABEL}: no guard looks at its jobs")
    before, after = was.get(_ENFORCE), now.get(_ENFORCE)
    if before in _LEVELS and (after not in _LEVELS or _LEVELS.index(after) < _LEVELS.index(before)):
        yield Judged("refuse", "guards", f"admits {after or 'any'} pods in place of {before} ones")
    if change.kind == "added" and after == "privileged":
        yield Judged("ask" if code else "note", "guards", "admits privileged pods")
    if code and (gone := sorted(set(was) - set(now) - {TRAINING_LABEL, _ENFORCE})):
        yield Judged("ask", "guards", f"loses labels {', '.join(gone)}")


def limits(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield limits of a namespace that rise or go."""
    was = (change.was.get("spec") or {}).get("hard") or {}
    now = (change.now.get("spec") or {}).get("hard") or {}
    if change.kind == "deleted":
        return
    if change.kind == "added" and code and now:
        text = f"allows at most {short([f'{v} {k}' for k, v in now.items()])}"
        if any(key.startswith("requests.") and "/" in key for key in now):
            text += ": no queue counts that, and it admits gangs of which pods are then refused"
        yield Judged("ask", "quota", text)
    for key, value in was.items():
        if key not in now or less(now[key], value):
            opened = str(value) == "0" or key not in now
            level: Level = "refuse" if opened else "ask" if code else "note"
            yield Judged(level, "guards", f"allows {now.get(key, 'any')} {key} in place of {value}")
        elif less(value, now[key]):
            yield Judged("ask", "quota", f"allows {now[key]} {key} in place of {value}")


def queues(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield what a cluster queue's jobs lose in ways that the stack's file does not say."""
    was, now = change.was.get("spec") or {}, change.now.get("spec") or {}
    if not change.stays:
        return
    level: Level = "refuse" if code else "note"
    for key in ("cohort", "cohortName", "preemption", "fairSharing", "queueingStrategy"):
        if was.get(key) != now.get(key):
            text = f"{key}: {short(was.get(key))} -> {short(now.get(key))}"
            yield Judged("ask" if code else "note", "quota", text)
    if was.get("namespaceSelector") != now.get("namespaceSelector"):
        yield Judged("refuse", "quota", "serves jobs of other namespaces")
    before, after = _quotas(was), _quotas(now)
    for resource, quota in before.items():
        new = after.get(resource)
        if new is None:
            yield Judged("refuse", "quota", f"has no quota of {resource} any more", "its jobs wait")
        elif new < quota and code:
            text = f"has {_amount(new)} {resource} in place of {_amount(quota)}"
            yield Judged(level, "quota", text, "jobs that no longer fit wait for ever")
        elif new > quota and code:
            text = f"has {_amount(new)} {resource} in place of {_amount(quota)}"
            yield Judged("refuse", "quota", text, "gangs that are admitted and find no nodes")


def _amount(amount: float) -> str:
    """Return a quantity for people: bytes in GiB."""
    return f"{amount / 2**30:,.0f}Gi" if amount >= 2**30 else f"{amount:g}"


def _quotas(spec: Mapping[str, Any]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for row in flavor.get("resources") or ():
                quota = float(parse(str(row.get("nominalQuota", 0))))
                totals[row["name"]] = totals.get(row["name"], 0) + quota
    return totals


def alerts(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield alerts that are there no more."""
    if change.stays and (lost := _alerts(change.was) - _alerts(change.now)):
        text = f"no longer has {short(sorted(lost))}"
        level: Level = "refuse" if code else "ask"
        yield Judged(level, "guards", text, "nobody, until it would have warned")


def _alerts(inputs: Mapping[str, Any]) -> set[str]:
    groups = (inputs.get("spec") or {}).get("groups") or ()
    return {
        f"{key} {rule[key]}"
        for group in groups
        for rule in group.get("rules") or ()
        for key in ("alert", "record")
        if key in rule
    }


def services(change: Change, **_: bool) -> Iterator[Judged]:
    """Yield services that are reached from outside of the cluster."""
    was, now = change.was.get("spec") or {}, change.now.get("spec") or {}
    kind = now.get("type")
    if kind in _OUTSIDE and was.get("type") != kind:
        notes = (change.now.get("metadata") or {}).get("annotations") or {}
        ranges = {"loadBalancerSourceRanges": now.get("loadBalancerSourceRanges")}
        level: Level = "ask" if _narrowed({**notes, **ranges}) else "refuse"
        yield Judged(level, "network", f"is reached from outside of the cluster, as a {kind}")
        return
    before, after = (of.get("loadBalancerSourceRanges") or [] for of in (was, now))
    opened = [n for n in after if n not in before] if after else ["0.0.0.0/0"] if before else []
    if kind == "LoadBalancer" and opened:
        wide = any(prefix(network) < 16 for network in opened)
        level = "refuse" if wide else "ask"
        yield Judged(level, "network", f"is reached from {short(opened)} from now on")


def _narrowed(fields: Mapping[str, Any]) -> bool:
    """Return whether annotations and fields of a service let in only some networks."""
    return any(
        "internal" in f"{key}={value}".lower()
        or (value and key.endswith("loadBalancerSourceRanges"))
        for key, value in fields.items()
    )


def secrets(change: Change, **_: bool) -> Iterator[Judged]:
    """Yield secrets whose content is in the repository."""
    for key in ("stringData", "data"):
        if change.now.get(key) and change.now.get(key) != change.was.get(key):
            # The SDK marks the content of every Secret, so the plan does not show it.
            if "[secret]" in str(change.now[key]):
                yield Judged("ask", "rights", "has content that the plan does not show")
                continue
            names = ", ".join(sorted(change.now[key]))
            text = f"has {names} in plain text, in the repository and in the state"
            yield Judged("refuse", "rights", text, "everyone who reads the repository")


def pods(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield what changes in the pods of a workload or a runtime."""
    before, after = dict(_pods(change.was)), dict(_pods(change.now))
    for path, spec in after.items():
        old = before.get(path)
        yield from _pod(old, spec, code=code)
    was, now = change.was.get("spec") or {}, change.now.get("spec") or {}
    if change.stays and less(was.get("replicas"), now.get("replicas")):
        level: Level = "refuse" if now.get("replicas") == 0 else "ask"
        yield Judged(level, "jobs", f"has {now.get('replicas')} replicas, not {was['replicas']}")
    if change.stays and code and was.get("updateStrategy") != now.get("updateStrategy"):
        yield Judged("ask", "jobs", "is rolled out otherwise")
    if code and change.stays:
        yield from _deleted_sooner(change)


_ENDED = "ttlSecondsAfterFinished"


def _deleted_sooner(change: Change) -> Iterator[Judged]:
    """Yield a shorter time for which an ended job's pods stay."""
    for path, was, now in parts("spec", change.was.get("spec"), change.now.get("spec")):
        if not path.endswith(_ENDED) or not isinstance(now, int | float):
            continue
        if not isinstance(was, int | float) or now < was:
            kept = f"for {was / 3600:g} hours" if isinstance(was, int | float) else "for good"
            text = f"keeps an ended job's pods and logs for {now / 3600:g} hours, not {kept}"
            yield Judged("ask", "jobs", text, "who looks for why a job ended")
            return


def _pods(value: Any, path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(value, Mapping):
        if isinstance(value.get("containers"), list):
            yield path, value
            return
        for key, inner in value.items():
            yield from _pods(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _pods(inner, f"{path}[{index}]")


def _pod(was: Mapping[str, Any] | None, now: Mapping[str, Any], *, code: bool) -> Iterator[Judged]:
    old = {c.get("name"): c for c in _containers(was or {})}
    for container in _containers(now):
        yield from _container(old.get(container.get("name")), container, code=code)
    if was is None:
        return
    for key, says in (
        ("tolerations", "no longer tolerates taints of its nodes"),
        ("volumes", "loses volumes"),
        ("initContainers", "loses steps before it starts"),
        ("imagePullSecrets", "loses pull secrets"),
    ):
        if key == "tolerations" and _EVERY_TAINT in several(now.get(key)):
            if code and _EVERY_TAINT not in several(was.get(key)):
                yield Judged("ask", "jobs", "tolerates every taint: it runs on every node")
            continue
        gone = [r for r in was.get(key) or () if r not in (now.get(key) or ())]
        names = [r.get("name") or r.get("key") for r in gone]
        kept = [r.get("name") or r.get("key") for r in now.get(key) or ()]
        if lost := [n for n in names if n not in kept]:
            yield Judged("refuse" if code else "ask", "jobs", f"{says}: {short(lost)}")
        elif gone and key == "volumes":
            yield from _volumes(gone, now.get(key) or [], code=code)
    for key in ("nodeSelector", "affinity", "topologySpreadConstraints", "schedulerName"):
        if was.get(key) != now.get(key) and code:
            yield Judged("ask", "jobs", f"runs on other nodes: {key}")
    for key in ("priorityClassName", "serviceAccountName", "runtimeClassName", "hostNetwork"):
        if was.get(key) != now.get(key):
            text = f"{key}: {short(was.get(key))} -> {short(now.get(key))}"
            yield Judged("ask", "jobs", text)
    grace = was.get("terminationGracePeriodSeconds"), now.get("terminationGracePeriodSeconds")
    if less(*grace):
        text = f"has {grace[1]} s to write its last checkpoint, not {grace[0]}"
        yield Judged("ask", "data", text, "runs that are stopped")
    if dict(flat(was.get("securityContext") or {})) != dict(flat(now.get("securityContext") or {})):
        yield Judged("ask", "rights", "has another security context")


def _volumes(before: list[Any], after: list[Any], *, code: bool) -> Iterator[Judged]:
    now = {row.get("name"): row for row in after}
    for row in before:
        new = now.get(row.get("name"), {})
        limits = [(r.get("emptyDir") or {}).get("sizeLimit") for r in (row, new)]
        if less(*limits):
            text = f"has {limits[1]} of shared memory, not {limits[0]}"
            yield Judged("ask", "jobs", text, "data loaders and NCCL, in the middle of a run")
        claims = [(r.get("persistentVolumeClaim") or {}).get("claimName") for r in (row, new)]
        if claims[0] and claims[0] != claims[1]:
            text = f"mounts {claims[1]} in place of {claims[0]}"
            # The guard of edits judges what the file says.
            level: Level = "refuse" if code else "ask"
            yield Judged(level, "data", text, "runs that resume: they start at step 0")


def _containers(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        c
        for key in ("initContainers", "containers")
        for c in spec.get(key) or ()
        if isinstance(c, Mapping)
    ]


def _container(
    was: Mapping[str, Any] | None, now: Mapping[str, Any], *, code: bool
) -> Iterator[Judged]:
    image = now.get("image")
    if image and (was is None or was.get("image") != image):
        yield from _image(was and was.get("image"), str(image))
    old = {e["name"]: e for e in (was or {}).get("env") or () if "name" in e}
    new = {e["name"]: e for e in now.get("env") or () if "name" in e}
    for name, row in new.items():
        value = row.get("value")
        if row == old.get(name):
            continue
        named = _SECRET.search(name) and not name.upper().endswith(("_FILE", "_PATH"))
        if value and (named or token(str(value))):
            yield Judged("refuse", "rights", f"has {name} in plain text", "everyone who reads it")
        elif was is not None and name.startswith(_FABRIC):
            text = f"sets {name}={value} in place of {old.get(name, {}).get('value', 'nothing')}"
            text += f": {reason}" if (reason := _chooses([name])) else ""
            yield Judged("ask", "network", text, "its jobs, by their speed")
    if was is not None:
        yield from _weaker(was, now, code=code)


def _weaker(was: Mapping[str, Any], now: Mapping[str, Any], *, code: bool) -> Iterator[Judged]:
    """Yield what a container loses."""
    old = {e.get("name") for e in was.get("env") or ()}
    new = {e.get("name") for e in now.get("env") or ()}
    if lost := sorted(old - new):
        fabric = [name for name in lost if name.startswith(_FABRIC)]
        level: Level = "refuse" if fabric else "ask"
        text = f"loses variables {short(lost)}"
        if reason := _chooses(lost):
            text += f": jobs may go over TCP, and still complete ({reason})"
        who = "nobody, but by their speed" if fabric else ""
        yield Judged(level, "network" if fabric else "jobs", text, who)
    for kind, has in (("limits", "may take"), ("requests", "is promised")):
        before = (was.get("resources") or {}).get(kind) or {}
        after = (now.get("resources") or {}).get(kind) or {}
        none = "any" if kind == "limits" else "no"
        for name, amount in before.items():
            if "/" in name and name not in after:
                yield Judged("refuse", "network", f"no longer asks for {name}", "its jobs")
            elif "/" in name and less(amount, after.get(name)):
                yield Judged("refuse", "network", f"asks for {after[name]} {name}, not {amount}")
            elif less(amount, after.get(name)):
                yield Judged("ask", "jobs", f"{has} {after.get(name, none)} {name}, not {amount}")
    before, after = was.get("securityContext") or {}, now.get("securityContext") or {}
    if before != after:
        text = told(parts("securityContext", before, after))
        yield Judged("ask", "rights", f"has another security context ({text})")
    for key in ("volumeMounts", "livenessProbe", "readinessProbe"):
        gone = [m for m in several(was.get(key)) if m not in several(now.get(key))]
        if gone and code:
            yield Judged("ask", "jobs", f"loses or changes {key}")
    for key in ("command", "args"):
        if was.get(key) != now.get(key) and code:
            words = [[str(word) for word in several(of.get(key))] for of in (was, now)]
            left, came = ([w for w in words[n] if w not in words[1 - n]] for n in (0, 1))
            text = f"runs something else: {key} {short(left)} -> {short(came)}"
            yield Judged("ask", "jobs", text)


def _chooses(names: Sequence[str]) -> str:
    """Return what the first of some variables that choose a job's network does."""
    return next((SWITCHES[name].reason for name in names if name in SWITCHES), "")


def _image(was: Any, now: str) -> Iterator[Judged]:
    if moves(now):
        text = f"runs {now}, whose tag moves: another image tomorrow, and on some nodes only"
        yield Judged("refuse", "jobs", text)
    elif was and str(was).partition("/")[0] != now.partition("/")[0]:
        yield Judged("ask", "rights", f"runs {now} in place of {was}: another registry")
    elif was:
        yield Judged("note", "jobs", f"runs {now} in place of {was}")


# Settings of Kueue (apis/config/v1beta2/configuration_types.go): path, what its change does.
_KUEUE: tuple[tuple[str, str], ...] = (
    ("manageJobsWithoutQueueName", "jobs without a queue run past every quota"),
    ("managedJobsNamespaceSelector", "jobs of other namespaces are managed, or of none"),
    ("waitForPodsReady", "a gang whose pods do not start keeps its quota"),
    ("integrations.frameworks", "jobs of a kind run past every quota"),
    ("integrations.externalFrameworks", "jobs of a kind run past every quota"),
    ("featureGates", "Kueue admits otherwise"),
    ("fairSharing", "quota is shared otherwise"),
    ("resources", "resources are counted otherwise"),
    ("clientConnection", "admission has another speed"),
    ("controller", "admission has another speed"),
    ("leaderElection", "two controllers may admit at once"),
    ("webhook", "jobs are not checked"),
)
_WEAKER = re.compile(
    r"(insecure|privileged|hostnetwork|failurepolicy|verify|webhook|rbac|networkpolic|tls"
    r"|serviceaccount|securitycontext|leaderelect)",
    re.I,
)
# Of those, switches that loosen where they are on.
_LOOSENS = re.compile(r"insecure|privileged|hostnetwork|skip|disable", re.I)
_EVERY_TAINT = {"operator": "Exists"}


def _tolerates_less(was: Any, now: Any) -> bool:
    """Return whether a toleration is gone that no other has taken the place of."""
    return _EVERY_TAINT not in several(now) and lost(was, now)


_KILLED = "it is killed, or slow, where it needs more, and what it serves with it"
# Values that charts pass on to their pods, as `helm create` lays them out, and what is lost then.
_SERVED = "jobs that ask for what its pods serve"
_PLACED: tuple[tuple[re.Pattern[str], Callable[[Any, Any], bool], str], ...] = (
    (
        re.compile(r"tolerations$", re.I),
        _tolerates_less,
        "its pods no longer run on nodes with that taint: devices, drivers and metrics that they "
        "serve there are gone, and jobs that ask for them wait",
    ),
    (
        re.compile(r"(nodeSelector|affinity)\b", re.I),
        lost,
        "its pods run on other nodes, where what they serve is not needed, or no more where it is",
    ),
    (re.compile(r"replica(s|Count)$", re.I), less, "one lost node or restart stops it"),
    (re.compile(r"resources\.limits\.(memory|cpu)$", re.I), lowered, _KILLED),
    (re.compile(r"resources\.requests\.(memory|cpu)$", re.I), less, _KILLED),
    (re.compile(r"priorityClassName$", re.I), lost, "it is evicted where others need room"),
)
# Such as Grafana's `auth.anonymous` and Argo CD's `users.anonymous.enabled`.
_ANONYMOUS = re.compile(r"anonymous[._]?enabled$|(allow|enable)_?anonymous\w*$", re.I)


def charts(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield what changes in a Helm release: its chart, its version, its values."""
    if change.kind == "deleted":
        return
    yield from _release(change, code=code)
    before, after = _values(change.was), _values(change.now)
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        if code and (opened := _lets_in(path, after)):
            yield opened
        elif change.kind != "added":
            yield _value(path, old, new, code=code)


def _release(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield what changes in a release but for its values."""
    was, now = change.was, change.now
    chart = str(now.get("chart", ""))
    local = chart.startswith(("/", "."))
    if not now.get("version") and not local and (was.get("version") or change.kind == "added"):
        yield Judged("refuse", "jobs", "has no version: whatever is newest is installed")
    if change.kind == "added":
        if code:
            text = f"installs {chart}: nobody looked at what its templates run"
            yield Judged("ask", "jobs", text)
        return
    if was.get("version") != now.get("version") and now.get("version"):
        text = f"goes from {was.get('version')} to {now['version']}"
        yield Judged("ask", "jobs", f"{text}: see docs/upgrading.md", "jobs, while it restarts")
    if was.get("timeout") != now.get("timeout"):
        text = f"may take {now.get('timeout')} s to come up, not {was.get('timeout')}"
        yield Judged("note", "jobs", text)
    for key in ("chart", "repositoryOpts", "namespace"):
        if was.get(key) != now.get(key):
            yield Judged("refuse", "jobs", f"{key}: {short(was.get(key))} -> {short(now.get(key))}")


def _values(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a release's values by path; a value that is YAML text is read as such."""
    values: dict[str, Any] = {}
    for path, value in flat(inputs.get("values") or {}):
        parsed = None
        if isinstance(value, str) and "\n" in value:
            try:
                parsed = yaml.safe_load(value)
            except (yaml.YAMLError, ValueError):
                parsed = None
        if isinstance(parsed, Mapping):
            values.update(flat(parsed, path))
        else:
            values[path] = value
    return values


def _lets_in(path: str, values: Mapping[str, Any]) -> Judged | None:
    """Return the verdict on a value by which a chart lets people in; None on another one."""
    value = values.get(path)
    text = f"value {path}: {short(value)}"
    key = path.rpartition(".")[2]
    if key.lower().endswith("type") and value in _OUTSIDE:
        section = path.removesuffix(key)
        beside = {name: v for name, v in values.items() if name.startswith(section)}
        level: Level = "ask" if _narrowed(beside) else "refuse"
        return Judged(level, "network", f"{text}: it is reached from outside of the cluster")
    if _ANONYMOUS.search(path) and value in (True, "true"):
        return Judged("refuse", "rights", f"{text}: people without an account are let in")
    return None


def _value(path: str, was: Any, now: Any, *, code: bool) -> Judged:
    # One that goes is the chart's, or that of the program which reads it.
    text = f"value {path}: {short(was)} -> {'its default' if now is None else short(now)}"
    within = path.rpartition("controllerManagerConfigYaml.")[2]
    for key, meaning in _KUEUE if within != path else ():
        if within == key or within.startswith(f"{key}."):
            level = _level_of_kueue(key, was, now, code=code)
            return Judged(level, "quota", f"{text}: {meaning}", "teams with quota")
    if path.endswith("autoUpgrade") and now is True:
        text = f"{text}: a new version is rolled over the nodes by itself, and ends the jobs there"
        return Judged("refuse" if code else "ask", "jobs", text, "every job on those nodes")
    if path.endswith("tag") and (str(now) in MOVING or now in (None, "")):
        return Judged("refuse", "jobs", f"{text}: a tag that moves")
    if now is False and was is True and path.endswith(("enabled", "Enabled")):
        return Judged("refuse" if code else "ask", "jobs", f"{text}: it is switched off")
    for pattern, holds, says in _PLACED:
        if pattern.search(path) and holds(was, now):
            return Judged("refuse" if code else "ask", "jobs", f"{text}: {says}", _SERVED)
    if path.lower().endswith("tolerations") and _EVERY_TAINT in several(now):
        return Judged("ask" if code else "note", "jobs", text)
    if isinstance(was, list) and any(item not in several(now) for item in was):
        return Judged("ask", "jobs", f"{text}: something is no longer there")
    if _WEAKER.search(path) and not _stronger(path, now):
        return Judged("refuse" if code else "ask", "guards", text)
    return Judged("ask" if code else "note", "jobs", text)


def _level_of_kueue(key: str, was: Any, now: Any, *, code: bool) -> Level:
    """Return how grave a change of a setting of Kueue is."""
    if key == "manageJobsWithoutQueueName" and now is not True:
        return "refuse"
    if key == "waitForPodsReady" and now is not None:
        return "ask" if code else "note"
    if key in ("clientConnection", "controller", "featureGates", "fairSharing"):
        return "ask"
    if isinstance(was, list) and isinstance(now, list) and set(was) <= set(now):
        return "note"
    return "refuse" if code else "ask"


def _stronger(path: str, now: Any) -> bool:
    """Return whether a switch of a chart's security is set to the side that refuses more."""
    if isinstance(now, bool):
        return now is not bool(_LOOSENS.search(path))
    return bool(now == "Fail")


def config_maps(change: Change, *, code: bool) -> Iterator[Judged]:
    """Yield a file that pods or `railhead` read, where code changes it."""
    if change.kind != "changed" or not code:
        return
    was, now = change.was.get("data") or {}, change.now.get("data") or {}
    for name in sorted({*was, *now}):
        before, after = was.get(name), now.get(name)
        if before == after or _same(name, before, after):
            continue
        more = bool(panels := _panels(before)) and panels <= _panels(after)
        level: Level = "note" if more else "ask"
        # A script's text says nothing in a table, and a list in another order has no part to name.
        both = isinstance(before, Mapping) and isinstance(after, Mapping)
        text = told(parts(name, before, after)) if both else ""
        yield Judged(level, "jobs", f"differs: {text or name}", "pods and jobs that read it")


def _panels(dashboard: Any) -> set[tuple[str, str]]:
    """Return (title, query) of each query of a dashboard of Grafana; nothing of another text."""
    if isinstance(dashboard, str):
        try:
            dashboard = json.loads(dashboard)
        except ValueError:
            return set()
    rows = dashboard.get("panels") if isinstance(dashboard, Mapping) else ()
    return {
        (str(panel.get("title")), str(target.get("expr")))
        for panel in several(rows)
        if isinstance(panel, Mapping)
        for target in panel.get("targets") or ()
    }


def _same(name: str, before: Any, after: Any) -> bool:
    return name.endswith(".py") and program(str(before)) == program(str(after))


Rule = Callable[..., Iterator[Judged]]
WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet", "Job", "CronJob", "Pod", "ReplicaSet")
BY_KIND: Mapping[str, tuple[Rule, ...]] = {
    "NetworkPolicy": (network_policies,),
    "ValidatingAdmissionPolicy": (guards,),
    "ValidatingAdmissionPolicyBinding": (guards,),
    "MutatingAdmissionPolicy": (guards,),
    "MutatingAdmissionPolicyBinding": (guards,),
    "Namespace": (namespaces,),
    "ResourceQuota": (limits,),
    "ClusterQueue": (queues,),
    "ConfigMap": (config_maps,),
    "Service": (services,),
    "Secret": (secrets,),
    "PrometheusRule": (alerts,),
    "Release": (charts,),
    "ClusterTrainingRuntime": (pods,),
    "TrainingRuntime": (pods,),
    "Role": (rights.roles,),
    "ClusterRole": (rights.roles,),
    "RoleBinding": (rights.bindings,),
    "ClusterRoleBinding": (rights.bindings,),
    **dict.fromkeys(WORKLOADS, (pods,)),
}

_OF_CONTAINERS = (
    r"ontainers\[[^]]*\]\.(image$|resources|securityContext|volumeMounts|livenessProbe|readinessProbe"
    rf"|command|args|env\[({'|'.join(_FABRIC)}))"
)
_PODS = (
    rf"{_OF_CONTAINERS}|\.initContainers(\[[^]]*\])?$"
    r"|\.(tolerations|imagePullSecrets|nodeSelector|affinity"
    r"|topologySpreadConstraints|schedulerName|priorityClassName|serviceAccountName"
    r"|runtimeClassName|hostNetwork|terminationGracePeriodSeconds)\b|\.sizeLimit$|\.claimName$"
    rf"|{_ENDED}$"
    r"|^spec\.(replicas|updateStrategy)\b|\.spec\.securityContext"
)
_GUARDS = (
    r"^spec\.(validations|matchConstraints|matchConditions|failurePolicy|matchResources|policyName"
    r"|variables|paramKind|paramRef|validationActions)"
)
#: Kind -> the parts of an object that its rules read, as a pattern of paths.
READ: Mapping[str, str] = {
    "NetworkPolicy": r"^spec\.(policyTypes|podSelector|egress|ingress)",
    "Namespace": r"^metadata\.labels",
    "ResourceQuota": r"^spec\.hard",
    "ClusterQueue": r"^spec\.(cohort|preemption|fairSharing|queueingStrategy|namespaceSelector)"
    r"|\.nominalQuota$",
    "ConfigMap": r"^data\b",
    "Service": r"^spec\.(type|loadBalancerSourceRanges)",
    "Secret": r"^(data|stringData)\b",
    "Release": r"^(values|chart|version|timeout|repositoryOpts|namespace)\b",
    **dict.fromkeys(("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"), _GUARDS),
    **dict.fromkeys(
        ("ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding"), _GUARDS
    ),
    **dict.fromkeys(("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"), "webhooks"),
    **dict.fromkeys(("Role", "ClusterRole"), r"^rules"),
    **dict.fromkeys(("RoleBinding", "ClusterRoleBinding"), r"^(subjects|roleRef)"),
    **dict.fromkeys(("ClusterTrainingRuntime", "TrainingRuntime", *WORKLOADS), _PODS),
}
