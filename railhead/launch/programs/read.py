"""Prints what a claim has of a job's logs, as lines of JSON that fit into a container's log.

Runs in a pod of the namespace that mounts the claim read-only, in a runtime's image: Python's
library alone, from 3.7 on.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from pathlib import Path
from typing import Any

# Container runtimes cut longer lines (containerd, max_container_log_line_size: 16 KiB).
MOST_OF_A_LINE = 8 << 10
BEFORE = ".before"


def age(run: Path) -> float:
    """Return the time at which something was last added to a run."""
    return max((path.stat().st_mtime for path in run.iterdir()), default=0.0)


def newest_lines(path: Path, most: int) -> bytes:
    """Return the end of a start's log, from a whole line on."""
    parts = (path.with_name(path.name + BEFORE), path)
    data = b"".join(part.read_bytes() for part in parts if part.exists())
    # The first line, too, follows an end: what follows the first end within reach is whole.
    return (b"\n" + data)[-most - 1 :].partition(b"\n")[2]


def tell(**frame: Any) -> None:
    """Print one line."""
    sys.stdout.write(json.dumps(frame) + "\n")


def main(asked: dict[str, Any]) -> None:
    """Print the newest ``runs`` in ``folder``, of one ``node`` if given, ``most`` bytes in all."""
    folder = Path(asked["folder"])
    every = filter(Path.is_dir, folder.iterdir()) if folder.is_dir() else ()
    runs = sorted(every, key=age, reverse=True)[: asked["runs"]]
    mine = "*-*.log" if asked["node"] is None else f"{asked['node']}-*.log"
    files = [(run, path) for run in runs for path in sorted(run.glob(mine))]
    count = 0
    for run, path in files:
        about = run / "about.json"
        data = newest_lines(path, asked["most"] // len(files))
        text = base64.b64encode(zlib.compress(data)).decode()
        head = {"run": run.name, "at": age(run), "file": path.name}
        head["about"] = json.loads(about.read_text()) if about.exists() else {}
        tell(**head)
        for start in range(0, len(text), MOST_OF_A_LINE):
            tell(data=text[start : start + MOST_OF_A_LINE])
            count += 1
    tell(end=count)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
