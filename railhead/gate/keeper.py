"""``python3 -m railhead.gate.keeper``: withdraw the label of nodes that no gate checks any more.

A gate that ends removes its label; one that was killed, evicted or lost its image cannot. A node
that is not checked is not proven, so a node that is labelled ready and has no ready gate pod for
longer than the grace period loses its label, and gets no new jobs, until its gate is back.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from railhead.gate.api import Api, ApiError, server
from railhead.gate.state import ANNOTATION, LABEL, READY, report
from railhead.gate.words import now, say

# The objects of nodes are large; only their names are needed.
_NAMES = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the keeper; returns the exit status."""
    parser = argparse.ArgumentParser(prog="railhead.gate.keeper", description=__doc__)
    parser.add_argument("--namespace", required=True, help="the namespace of the gates' pods")
    parser.add_argument("--selector", required=True, help="the labels of the gates' pods")
    parser.add_argument("--period", type=float, default=60, help="seconds between two checks")
    parser.add_argument("--grace", type=float, default=300, help="seconds without a ready gate")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    run(Api(server=server()), options, stop)
    return 0


def run(api: Api, options: argparse.Namespace, stop: threading.Event) -> None:
    """Check the nodes until ``stop`` is set."""
    unwatched: dict[str, float] = {}
    warned = ""
    while not stop.is_set():
        try:
            turn(api, options, unwatched, time.monotonic())
            warned = ""
        except ApiError as error:
            if str(error) != warned:
                say("warning", str(error))
            warned = str(error)
        stop.wait(options.period)


def turn(
    api: Api, options: argparse.Namespace, unwatched: dict[str, float], at: float
) -> list[str]:
    """Check the nodes once; return those whose label was withdrawn.

    ``unwatched`` is node -> since when it has no gate, kept between checks.
    """
    path = f"/api/v1/namespaces/{options.namespace}/pods"
    pods = _items(api, path, options.selector)
    watched = {p.get("spec", {}).get("nodeName") for p in pods if _is_ready(p)}
    ready = {
        n["metadata"]["name"] for n in _items(api, "/api/v1/nodes", f"{LABEL}={READY}", _NAMES)
    }
    for node in list(unwatched):
        if node in watched or node not in ready:
            del unwatched[node]
    withdrawn = []
    for node in sorted(ready - watched):
        if at - unwatched.setdefault(node, at) <= options.grace:
            continue
        note = f"no gate looked at it for {options.grace:.0f} s"
        api.label(node, {LABEL: None}, {ANNOTATION: report((), now(), note, READY)})
        say("warning", f"{node}: {note}; label withdrawn")
        withdrawn.append(node)
        del unwatched[node]
    return withdrawn


def _items(
    api: Api, path: str, selector: str, accept: str = "application/json"
) -> list[Mapping[str, Any]]:
    # From the API server's own cache, as watches have it.
    query = urllib.parse.urlencode({"labelSelector": selector, "resourceVersion": "0"})
    # An empty list of names comes as null.
    items: list[Mapping[str, Any]] | None = api.call("GET", f"{path}?{query}", accept=accept)[
        "items"
    ]
    return items or []


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


if __name__ == "__main__":
    sys.exit(main())
