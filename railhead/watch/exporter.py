"""``python3 -m railhead.watch.exporter``: metrics that nothing else in a cluster gives.

``--guard NAME`` and ``--nodes SELECTOR``: whether the stack's guards are there and deny, and what
the node gate says of its nodes. ``--controller NAMESPACE/NAME``: how many replicas a Deployment is
to have. ``--made FILE``: whether each of the stack's objects is as the stack gives it.
``--checkpoints DIR``: when anything below each directory of a claim was last written, and what
NCCL Inspector writes there. It changes nothing, and needs Python alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any

from railhead.base.differences import differences, undoing
from railhead.gate.api import Api, ApiError, server
from railhead.gate.state import LABEL
from railhead.gate.words import say

PORT = 8080
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_TYPES = {
    "railhead_guard_bound": "1 where a guard is there and denies, else 0",
    "railhead_controller_replicas": "replicas that a controller is to have, 0 where it is gone",
    "railhead_object_as_made": "1 where an object is there and as the stack gives it, else 0",
    "railhead_node_gate": "1 for what the node gate says of a node: ready, failed or none",
    "railhead_checkpoint_newest_timestamp_seconds": "when the newest file below was written",
    "railhead_checkpoint_unreadable": "directories of a claim that may not be read",
    "nccl_bus_bandwidth_gbs": "bus bandwidth of a collective, GB/s",
    "nccl_collective_exec_time_microseconds": "time that a collective took",
}
# No checkpoints: the file system's own, and jobs' logs, which are written to all the time.
_OTHERS = ("lost+found", ".railhead")
#: How deep below a claim's own directories it looks; a new file also touches its directory.
DEPTH = 4
#: Where jobs have NCCL Inspector write, below a claim.
NCCL = ".railhead/nccl"
# The last file of a job stays after its end, so only fresh ones count; many large jobs are cut off
# at this many series.
_FRESH_SECONDS = 300.0
_MOST_SERIES = 20_000
_MOST_BYTES = 1 << 20
# As NCCL writes them: v2.30.7, plugins/profiler/inspector/inspector_prom.cc.
_COLLECTIVE = re.compile(
    r"(nccl_bus_bandwidth_gbs|nccl_collective_exec_time_microseconds)"
    r"\{([^{}]*)\} (\d+(?:\.\d+)?(?:e[+-]\d+)?)"
)
_LABEL = re.compile(r'(\w+)="([^"\\]*)"')
_KEPT = (
    "node",
    "gpu",
    "comm_name",
    "n_nodes",
    "nranks",
    "collective",
    "message_size",
    "algo_proto",
)

Sample = tuple[str, Mapping[str, str], float]


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to end; returns the exit status."""
    options = _options().parse_args(arguments)
    held = Held()
    asks = options.guard or options.controller or options.made or options.nodes
    api = Api(server=server()) if asks else None
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    serving = ThreadingHTTPServer(("", options.port), handler(held))
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    while not stop.is_set():
        turn(options, api, held)
        stop.wait(options.period)
    serving.shutdown()
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="railhead.watch.exporter", description=__doc__)
    parser.add_argument("--guard", action="append", default=[], help="a policy that must deny")
    parser.add_argument("--controller", action="append", default=[], help="NAMESPACE/DEPLOYMENT")
    parser.add_argument("--made", type=Path, help="the stack's objects, a JSON list by kind")
    parser.add_argument("--nodes", action="append", default=[], help="labels of a pool's nodes")
    parser.add_argument("--checkpoints", type=Path, help="where a claim is mounted")
    parser.add_argument("--namespace", default="", help="the claim's")
    parser.add_argument("--claim", default="", help="its name")
    parser.add_argument("--period", type=float, default=30, help="seconds between two looks")
    parser.add_argument("--port", type=int, default=PORT)
    return parser


class Held:
    """The result of the last look; empty from the moment that one fails."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._text = ""

    @property
    def text(self) -> str:
        """Samples in Prometheus' text format."""
        with self._lock:
            return self._text

    def put(self, samples: Sequence[Sample]) -> None:
        """Replace the samples."""
        text = rendered(samples)
        with self._lock:
            self._text = text


def turn(options: argparse.Namespace, api: Api | None, held: Held) -> None:
    """Take one look. What cannot be seen is left out: a missing value raises an alert."""
    looks: list[Iterable[Sample]] = []
    if api is not None:
        looks += [guards(api, options.guard), controllers(api, options.controller)]
        looks += [nodes(api, selector) for selector in options.nodes]
        if options.made is not None:
            looks.append(made(api, options.made))
    if options.checkpoints is not None:
        of = options.checkpoints, options.namespace, options.claim
        looks += [checkpoints(*of), islice(collectives(*of), _MOST_SERIES)]
    samples: list[Sample] = []
    for look in looks:
        # One that fails is left out; the others count, such as guards without Kueue's definitions.
        try:
            samples += list(look)
        except (ApiError, OSError) as error:
            say("warning", str(error))
    held.put(samples)


def guards(api: Api, names: Sequence[str]) -> Iterator[Sample]:
    """Yield whether each policy is there and some binding of it denies. Raises ApiError."""
    if not names:
        return
    there = {
        item["metadata"]["name"]
        for item in _items(api, f"{_ADMISSION}/validatingadmissionpolicies")
    }
    denying = {
        item["spec"]["policyName"]
        for item in _items(api, f"{_ADMISSION}/validatingadmissionpolicybindings")
        if "Deny" in item["spec"].get("validationActions", ())
    }
    for name in names:
        yield "railhead_guard_bound", {"policy": name}, float(name in there & denying)


def controllers(api: Api, names: Sequence[str]) -> Iterator[Sample]:
    """Yield how many replicas each ``NAMESPACE/NAME`` should have. Raises ApiError."""
    for full in names:
        namespace, _, name = full.partition("/")
        query = urllib.parse.urlencode({"fieldSelector": f"metadata.name={name}"})
        result = _items(api, f"/apis/apps/v1/namespaces/{namespace}/deployments?{query}")
        wanted = sum(item["spec"].get("replicas", 1) for item in result)
        labels = {"namespace": namespace, "deployment": name}
        yield "railhead_controller_replicas", labels, float(wanted)


def made(api: Api, file: Path) -> Iterator[Sample]:
    """Yield whether each object of a file is as the stack gives it. Raises ApiError, OSError.

    What others add, and what the API server fills in, is ignored, unless it undoes the object.
    """
    for those in json.loads(file.read_text(encoding="utf-8")):
        live = {_at(item): item for item in _items(api, those["path"])}
        for wanted in those["objects"]:
            has = live.get(_at(wanted))
            same = has is not None and not any(
                (*differences(wanted, has), *undoing(those["kind"], wanted, has))
            )
            namespace, name = _at(wanted)
            labels = {"kind": those["kind"], "namespace": namespace, "name": name}
            yield "railhead_object_as_made", labels, float(same)


def _at(body: Mapping[str, Any]) -> tuple[str, str]:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def nodes(api: Api, selector: str) -> Iterator[Sample]:
    """Yield the gate's label of each node of a pool. Raises ApiError."""
    query = urllib.parse.urlencode({"labelSelector": selector, "resourceVersion": "0"})
    for node in _items(api, f"/api/v1/nodes?{query}"):
        state = node["metadata"].get("labels", {}).get(LABEL, "none")
        yield "railhead_node_gate", {"node": node["metadata"]["name"], "state": state}, 1.0


def _items(api: Api, path: str) -> list[Mapping[str, Any]]:
    result: list[Mapping[str, Any]] | None = api.call("GET", path)["items"]
    return result or []


def checkpoints(root: Path, namespace: str, claim: str) -> Iterator[Sample]:
    """Yield the newest file below each directory of a claim. Raises OSError if not mounted."""
    labels = {"namespace": namespace, "claim": claim}
    name = "railhead_checkpoint_newest_timestamp_seconds"
    unreadable, reported = 0, False
    for entry in sorted(os.scandir(root), key=lambda item: item.name):
        if not entry.is_dir(follow_symlinks=False) or entry.name.startswith(_OTHERS):
            continue
        newest, refused = _newest(Path(entry.path), DEPTH)
        unreadable += refused
        if newest is not None:
            reported = True
            yield name, {**labels, "directory": entry.name}, newest
    if not reported:
        # Of a claim to which no job has saved anything: since when there could be something.
        yield name, {**labels, "directory": "."}, root.stat().st_mtime
    yield "railhead_checkpoint_unreadable", labels, float(unreadable)


def _newest(directory: Path, depth: int) -> tuple[float | None, int]:
    """Return when the newest file was written, and how many directories could not be read."""
    newest: float | None = None
    unreadable = 0
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return None, 1
    for entry in entries:
        try:
            result = entry.stat(follow_symlinks=False)
        except OSError:
            # Gone since: old checkpoints are deleted while we look.
            continue
        if entry.is_dir(follow_symlinks=False):
            written, refused = _newest(Path(entry.path), depth - 1) if depth else (None, 0)
            unreadable += refused
            written = result.st_mtime if written is None and not depth else written
        else:
            written = result.st_mtime
        if written is not None and (newest is None or written > newest):
            newest = written
    return newest, unreadable


def collectives(root: Path, namespace: str, claim: str) -> Iterator[Sample]:
    """Yield what NCCL Inspector wrote of running jobs to a claim. Raises OSError if unreadable.

    The files belong to jobs: lines in another form than NCCL's are left out, and the claim's name
    is not taken from them.
    """
    folder = root / NCCL
    if not folder.is_dir():
        return
    for entry in sorted(os.scandir(folder), key=lambda item: item.name):
        result = entry.stat(follow_symlinks=False)
        fresh = time.time() - result.st_mtime < _FRESH_SECONDS
        if not (fresh and entry.is_file(follow_symlinks=False) and result.st_size < _MOST_BYTES):
            continue
        for line in Path(entry.path).read_text(errors="replace").splitlines():
            if match := _COLLECTIVE.fullmatch(line):
                texts = dict(_LABEL.findall(match[2]))
                kept = {key: texts[key] for key in _KEPT if key in texts}
                yield match[1], {"namespace": namespace, "claim": claim, **kept}, float(match[3])


def rendered(samples: Sequence[Sample]) -> str:
    """Return samples in Prometheus' text format, those of a name together."""
    lines = []
    for name, text in _TYPES.items():
        of_name = [(labels, value) for other, labels, value in samples if other == name]
        if of_name:
            lines += [f"# HELP {name} {text}\n", f"# TYPE {name} gauge\n"]
        for labels, value in of_name:
            inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            lines.append(f"{name}{{{inner}}} {value:.17g}\n")
    return "".join(lines)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def handler(held: Held) -> type[BaseHTTPRequestHandler]:
    """Return the class that answers /metrics and, after the first look, /ready."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path in ("/metrics", "/ready")
            text = held.text if known else "only /metrics is here\n"
            ready = self.path != "/ready" or bool(text)
            self.send_response(200 if known and ready else 404 if not known else 503)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Log nothing: scrapes are not worth a line each."""

    return Answers


if __name__ == "__main__":
    sys.exit(main())
