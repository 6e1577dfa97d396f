"""One line of a log: the prefixes in front of the message, and the message."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

TEXT_BYTES = 400

ANSI = re.compile(rb"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
NCCL = re.compile(
    # In threads the host is at times taken out, or replaced by a word in angle brackets.
    rb"(?P<node>[A-Za-z0-9][\w.\-]{0,253}|<[\w \-]{1,40}>|):(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) "
    rb"\[ ?(?P<gpu>-?\d{1,4}) ?\] "
)
AGAIN = re.compile(rb":\d{1,10}:\d{1,10} \[ ?-?\d{1,4} ?\] ")
# Each is tried at the start of what is left; `rank` and `node` are who wrote the line.
PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        rb"\s*>+\s",  # a quoted thread
        rb"\[pod/(?P<node>[^/\]\s]{1,253})/[^\]\s]{1,253}\]\s?",  # kubectl logs --prefix
        rb"\[(?P<node>node-\d{1,5})\] ",  # railhead logs
        rb"\[[^\s\[\],]{1,80},(?P<rank>\d{1,6})\]<std(?:out|err|diag)>:\s?",  # mpirun --tag-output
        rb"\[(?:default|rank|trainer|worker|local_rank)_?(?P<rank>\d{1,6})\]:\s?",  # torchrun
        rb"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)"
        rb"(?: std(?:out|err) [FP])?\s",  # the kubelet, CRI, collectors
        rb"\[?(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?)\]?\s?",  # Python, NCCL 2.26
        rb"[IWEF](?P<time>\d{4} \d\d:\d\d:\d\d\.\d+)\s+(?:\d+ )?(?:[\w./\-]+:\d+\] )?",  # glog
        rb"\((?:[\w.\-]{1,80}) (?:rank=(?P<rank>\d+) )?pid=\d+(?:, ip=(?P<node>[^)\s]+))?\)\s?",
        # SkyPilot; its rank is the node's.
        rb"\([\w.\-]{1,80}, rank=\d+, pid=\d+(?:, ip=(?P<node>[^)\s]+))?\)\s?",
        rb"(?P<node>[A-Za-z0-9][\w.\-]{0,253}): (?=\S*:\d+:\d+ |INFO|WARN)",  # pdsh, DeepSpeed
        rb"\s{0,5}(?P<rank>\d{1,6}):\s",  # srun --label
    )
)
JSON_KEYS = ("log", "message", "msg", "textPayload", "MESSAGE", "line", "text")


class Line(NamedTuple):
    """A message and who wrote it. ``gpu`` is NCCL's index of the device in its process."""

    message: bytes
    rank: int | None = None
    node: str | None = None
    pid: int | None = None
    tid: int | None = None
    gpu: int | None = None
    time: str | None = None


def _unwrap(raw: bytes) -> bytes:
    """Return the text inside a collector's JSON line, or the line itself."""
    try:
        held = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    if isinstance(held, dict):
        for key in JSON_KEYS:
            if isinstance(text := held.get(key), str):
                return text.encode("utf-8", "surrogatepass")
    return raw


def parse(raw: bytes) -> list[Line]:
    """Return the messages of a raw line: mostly one, more where lines were cut into each other."""
    if b"\0" in raw:
        raw = raw.replace(b"\0", b"")
    if raw[:1] == b"{" and b'"' in raw[:3]:
        raw = _unwrap(raw)
    if b"\x1b" in raw:
        raw = ANSI.sub(b"", raw)
    if b"\r" not in raw and b"\n" not in raw:
        return _split(raw) if raw else []
    results: list[Line] = []
    for part in re.split(rb"[\r\n]+", raw):
        if part:
            results.extend(_split(part))
    return results


def _split(part: bytes) -> list[Line]:
    # Most lines of a big log are one NCCL line with nothing in front.
    if (head := NCCL.match(part)) and not AGAIN.search(part, head.end()):
        return [_nccl(part[head.end() :], head)]
    rank: int | None = None
    node: str | None = None
    time: str | None = None
    at = 0
    for _ in range(6):
        for prefix in PREFIXES:
            if match := prefix.match(part, at):
                held = match.groupdict()
                if held.get("rank"):
                    rank = int(held["rank"])
                if held.get("node"):
                    node = held["node"].decode("ascii", "replace")
                if held.get("time"):
                    time = held["time"].decode()
                at = match.end()
                break
        else:
            break
    heads = list(NCCL.finditer(part, at)) if b":" in part else []
    if not heads:
        return [Line(message=part[at:], rank=rank, node=node, time=time)]
    results = []
    if lead := part[at : heads[0].start()].strip():
        results.append(Line(message=lead, rank=rank, node=node, time=time))
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        message = part[head.end() : after.start() if after else None]
        results.append(_nccl(message, head, rank=rank, time=time))
    return results


def _nccl(
    message: bytes, head: re.Match[bytes], *, rank: int | None = None, time: str | None = None
) -> Line:
    node, pid, tid, gpu = head.groups()
    return Line(
        # A message pasted from a table ends in its column's bar.
        message=message.rstrip().removesuffix(b" |"),
        rank=rank,
        node=node.decode() or None,
        pid=int(pid),
        tid=int(tid),
        gpu=int(gpu),
        time=time,
    )
