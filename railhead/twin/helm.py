"""Helm in a twin: the real one, on charts of this machine, with programs outside of pods.

The provider calls it as it would call Helm. A registry's chart is replaced: Kueue's, JobSet's,
Trainer's, NFD's and the SR-IOV operator's by those of Go modules, all others by small charts of
``charts``, which make of their values what upstream's make. What Helm renders passes
:func:`rendered`, as a post-renderer: webhooks and conversions are answered on a port of this
machine, since no pod runs.

Run as ``python -m railhead.twin.helm ARGUMENTS``; ``RAILHEAD_TWIN`` names the twin's settings.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from railhead.base.errors import PrerequisiteError

SETTINGS = "RAILHEAD_TWIN"
CHARTS = Path(__file__).resolve().parent / "charts"
#: The charts whose programs run: release -> the key of its port in the settings.
PROGRAMS = ("kueue", "jobset", "kubeflow-trainer")
#: Commands of containers whose programs run, whichever chart has them; of each its program's name.
OPERATORS = ("sriov-network-operator", "nfd-master", "nfd-gc")
PROGRAM_LABEL = "twin.railhead.dev/program"
#: What of a chart's pods is played on every node: the command of its container.
_NODES = ("nfd-worker",)
#: The namespace of the service that leads to the program's webhooks.
KUEUE_SPACE = "twin-kueue"
_PLAYED = "twin.railhead.dev/played"
_PLAYER = "twin.railhead.dev/player"
_WITH_CHART = ("install", "upgrade", "template", "pull", "lint")
_VALUE_FLAGS = ("--version", "--repo", "--ca-file", "--cert-file", "--key-file", "--keyring")


def main(arguments: Sequence[str] | None = None) -> None:
    """Replace this process by Helm on a local chart; post-render where asked to."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    settings = json.loads(Path(os.environ[SETTINGS]).read_text())
    if words[:1] == ["post-render"]:
        bodies = yaml.load_all(sys.stdin, Loader=yaml.CSafeLoader)
        yaml.dump_all(rendered(bodies, words[1], settings), sys.stdout, Dumper=yaml.CSafeDumper)
        return
    try:
        words = local(words, settings)
    except PrerequisiteError as error:
        sys.exit(f"Error: {error}")
    os.execv(settings["helm"], [settings["helm"], *words])  # noqa: S606 - no shell


def local(words: Sequence[str], settings: Mapping[str, Any]) -> list[str]:
    """Return Helm's arguments with the chart that is on this machine."""
    verb = words[0] if words else ""
    place = {"show": 2}.get(verb, 2 if verb in _WITH_CHART else -1)
    if place < 0 or len(words) <= place:
        return list(words)
    version = next((w.partition("=")[2] for w in words if w.startswith("--version=")), "")
    name = Path(words[place].rstrip("/")).name
    there = [*words[:place], str(chart(name, version, settings)), *words[place + 1 :]]
    kept = [w for w in there if not w.startswith(tuple(f"{flag}=" for flag in _VALUE_FLAGS))]
    if verb in ("install", "upgrade"):
        release = words[1]
        kept += [f"--post-renderer={settings['post_renderer']}"]
        kept += [f"--post-renderer-args={word}" for word in ("post-render", release)]
    return kept


def chart(name: str, version: str, settings: Mapping[str, Any]) -> Path:
    """Return the directory of a chart of the version asked for, made on the first call.

    Raises:
        PrerequisiteError: it is one of those that are built, and is not there.
    """
    target = Path(settings["charts"]) / f"{name}-{version or 'any'}"
    if (target / "Chart.yaml").is_file():
        return target
    making = target.with_name(f"{target.name}.{os.getpid()}")
    source = _built(name, settings) if name in settings["modules"] else CHARTS / name
    if not source.is_dir():
        source = CHARTS / "unknown"
    shutil.copytree(source, making)
    file = making / "Chart.yaml"
    body: dict[str, Any] = {"apiVersion": "v2"}
    if file.is_file():
        body = yaml.safe_load(file.read_text())
    body |= {"name": name, "version": version or body.get("version", "0.0.0")}
    for dependency in body.get("dependencies", ()):
        inside = making / "charts" / dependency["name"]
        shutil.copytree(_built(dependency["name"], settings), inside)
        dependency["version"] = yaml.safe_load((inside / "Chart.yaml").read_text())["version"]
    file.write_text(yaml.safe_dump(body, sort_keys=False))
    definitions = making / "definitions.yaml"
    if definitions.is_file():
        (making / "crds").mkdir(exist_ok=True)
        for row in yaml.safe_load(definitions.read_text()):
            # A file each: of a file with one that another chart has made, Helm awaits none.
            body = definition(row)
            file = making / "crds" / f"{body['metadata']['name']}.yaml"
            file.write_text(yaml.safe_dump(body, sort_keys=False))
    try:
        making.replace(target)
    except OSError:
        shutil.rmtree(making)
    return target


def _built(name: str, settings: Mapping[str, Any]) -> Path:
    source = Path(settings["modules"][name])
    if not source.is_dir():
        raise PrerequisiteError(
            f"the chart {name} is not in {source}, where it is built to",
            remedy="run `railhead lab build`, then rehearse again, which builds the operators'",
        )
    return source


def definition(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a definition that takes any field: schemas are held by other tests."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    kind = row["kind"]
    plural = row.get("plural", f"{kind.lower()}s")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{row['group']}"},
        "spec": {
            "group": row["group"],
            "scope": "Namespaced" if row.get("namespaced", True) else "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": row["version"],
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                    "subresources": {"status": {}} if row.get("status", True) else {},
                }
            ],
        },
    }


def rendered(
    bodies: Iterable[Mapping[str, Any] | None], release: str, settings: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Return a release's objects as the twin needs them; only those of programs change."""
    made = [body for body in bodies if body]
    if release not in PROGRAMS:
        for body in made:
            _operated(body)
        return made
    port = settings["ports"][release]
    changed = [dict(body) for body in made]
    for body in changed:
        kind, spec = body["kind"], body.get("spec") or {}
        if kind.endswith("WebhookConfiguration"):
            for webhook in body["webhooks"]:
                _answered_here(webhook["clientConfig"], release, port, settings["authority"])
        elif kind == "CustomResourceDefinition" and "webhook" in (spec.get("conversion") or {}):
            config = spec["conversion"]["webhook"]["clientConfig"]
            _answered_here(config, release, port, settings["authority"])
        elif kind == "APIService" and spec.get("service"):
            spec["service"]["port"] = settings["ports"]["aggregated"]
        elif kind == "Service" and body["metadata"]["name"].endswith("visibility-server"):
            body["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        elif kind == "Deployment":
            metadata = spec["template"].setdefault("metadata", {})
            metadata.setdefault("labels", {})[PROGRAM_LABEL] = release
            metadata.setdefault("annotations", {})[_PLAYED] = release
    return [*changed]


def _operated(body: Mapping[str, Any]) -> None:
    """Mark the pods whose program runs, and those that are played."""
    template = (body.get("spec") or {}).get("template") or {}
    containers = (template.get("spec") or {}).get("containers") or [{}]
    name = next(iter(containers[0].get("command") or ()), "")
    metadata = template.get("metadata") or {}
    if name in OPERATORS:
        metadata.setdefault("labels", {})[PROGRAM_LABEL] = name
        metadata.setdefault("annotations", {})[_PLAYED] = name
    elif name in _NODES:
        metadata["labels"][_PLAYER] = name


def _answered_here(config: dict[str, Any], release: str, port: int, authority: str) -> None:
    if release == "kueue":
        # It has a certificate of its own making, for the name of a service.
        config["service"] |= {"namespace": KUEUE_SPACE, "port": port}
        return
    service = config.pop("service", {})
    config["url"] = f"https://127.0.0.1:{port}{service.get('path', '')}"
    config["caBundle"] = authority


def install(folder: Path, settings: Path, python: str, checkout: Path) -> Path:
    """Write the launcher ``helm`` in ``folder``; return it."""
    boot = (
        "import runpy, sys; sys.path[0] = sys.argv.pop(1); "
        "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
    )
    words = [python, "-c", boot, str(checkout), "railhead.twin.helm"]
    launcher = folder / "helm"
    launcher.write_text(
        f"#!/bin/sh\n{SETTINGS}={shlex.quote(str(settings))}\nexport {SETTINGS}\n"
        f'exec {shlex.join(words)} "$@"\n'
    )
    launcher.chmod(0o755)
    return launcher


if __name__ == "__main__":
    main()
