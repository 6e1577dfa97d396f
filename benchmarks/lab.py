"""Cost of the lab on this machine: start times, memory at idle, the last builds.

    .venv/bin/python benchmarks/lab.py --runs 3 --nodes 2

Everything is measured from outside, by the commands that a user runs and by /proc: the wall-clock
seconds of `railhead lab up`, and the proportional set size (PSS: shared pages are counted once) of
every process of the lab, containers included. The lab is called `bench` and is taken down again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from railhead.base import paths

MIB = 2**20


def parents() -> dict[int, int]:
    """Return every process of this machine and its parent."""
    results = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            # The name in parentheses may hold blanks; the parent is the second field after it.
            results[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return results


def descendants(root: int) -> Iterator[int]:
    """``root`` and every process below it, those in inner PID namespaces too."""
    children = defaultdict(list)
    for pid, parent in parents().items():
        children[parent].append(pid)
    queue = [root]
    while queue:
        pid = queue.pop()
        yield pid
        queue += children[pid]


def pss_bytes(pid: int) -> int:
    """Return the process's proportional set size in bytes; 0 for one that has just ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    match = re.search(r"^Pss:\s+(\d+) kB$", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def program(pid: int) -> str:
    """Return the process's program, by the name of its executable."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return "?"
    return Path(words[0].decode(errors="replace")).name or "?"


def memory(root: int) -> dict[str, int]:
    """Bytes of PSS by program, of every process at and below ``root``."""
    results: dict[str, int] = defaultdict(int)
    for pid in descendants(root):
        if used := pss_bytes(pid):
            results[program(pid)] += used
    return dict(results)


def railhead(*args: str, quiet: bool = True) -> str:
    """Run a Railhead command; ends this script with its error where it fails."""
    done = subprocess.run(
        ["railhead", *args],
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.STDOUT if quiet and "--json" not in args else None,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"railhead {' '.join(args)} ended with {done.returncode}\n{done.stdout or ''}")
    return done.stdout or ""


def last_build() -> dict[str, Any]:
    """Return the seconds of each step of the last build that did anything, or an empty dict."""
    try:
        build: dict[str, Any] = json.loads((paths.cache_root() / "timings.json").read_text())
    except FileNotFoundError:
        return {}
    return build


def measure(nodes: int, runs: int, settle: float) -> dict[str, Any]:
    """Start the lab ``runs`` times; seconds of each start and stop, and bytes at idle."""
    lab = ("--name", "bench")
    railhead("lab", "build", quiet=False)
    railhead("lab", "down", *lab)
    ups, downs = [], []
    used: dict[str, int] = {}
    phases: dict[str, list[float]] = defaultdict(list)
    for run in range(runs):
        start = time.monotonic()
        railhead("lab", "up", *lab, "--nodes", str(nodes))
        ups.append(time.monotonic() - start)
        print(f"start {run + 1} of {runs}: {ups[-1]:.1f} s", file=sys.stderr, flush=True)
        status = json.loads(railhead("lab", "status", *lab, "--json"))
        for phase, seconds in status["up_seconds"].items():
            phases[phase].append(seconds)
        if run == runs - 1:
            print(f"waiting {settle:.0f} s for it to be idle", file=sys.stderr, flush=True)
            time.sleep(settle)
            used = memory(int(status["init_pid"]))
        start = time.monotonic()
        railhead("lab", "down", *lab)
        downs.append(time.monotonic() - start)
    return {
        "machine": {
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "load_before": os.getloadavg()[0],
        },
        "nodes": nodes,
        "up_s": ups,
        "phases_s": dict(phases),
        "down_s": downs,
        "memory_bytes": dict(sorted(used.items(), key=lambda item: -item[1])),
        "memory_total_bytes": sum(used.values()),
        "last_build": last_build(),
    }


def show(result: dict[str, Any], console: Console) -> None:
    """Print the figures as tables."""
    machine = result["machine"]
    console.print(
        f"{machine['cores']} cores, Linux {machine['kernel']}, {result['nodes']} nodes, "
        f"load {machine['load_before']:.1f}"
    )
    times = Table(title="Warm start and stop, seconds", title_justify="left")
    for column in ("what", "median", "least", "most", "runs"):
        times.add_column(column, justify="left" if column == "what" else "right")
    rows = [("railhead lab up", result["up_s"])]
    rows += [(f"  {phase}", seconds) for phase, seconds in result["phases_s"].items()]
    rows += [("railhead lab down", result["down_s"])]
    for what, seconds in rows:
        figures = (statistics.median(seconds), min(seconds), max(seconds))
        times.add_row(what, *(f"{figure:.1f}" for figure in figures), str(len(seconds)))
    console.print(times)
    used = Table(title="Memory at idle, MiB of PSS", title_justify="left", show_footer=True)
    used.add_column("program", footer="in all")
    used.add_column("MiB", justify="right", footer=f"{result['memory_total_bytes'] / MIB:.0f}")
    for name, size in result["memory_bytes"].items():
        used.add_row(name, f"{size / MIB:.0f}")
    console.print(used)
    if build := result["last_build"]:
        steps = Table(
            title="The last build, seconds",
            title_justify="left",
            show_footer=True,
            caption="Steps run side by side; one that was in the cache already is not listed.",
        )
        steps.add_column("step", footer="in all, by the clock")
        steps.add_column("seconds", justify="right", footer=f"{build['seconds']:.0f}")
        for step in sorted(build["steps"], key=lambda step: -step["seconds"]):
            steps.add_row(step["title"], f"{step['seconds']:.0f}")
        console.print(steps)


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=2, help="real nodes (default: 2)")
    parser.add_argument("--runs", type=int, default=3, help="starts to time (default: 3)")
    parser.add_argument("--settle", type=float, default=30, help="seconds before memory is read")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    # The command of this very environment, whether or not it is activated.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    result = measure(options.nodes, options.runs, options.settle)
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        show(result, Console())


if __name__ == "__main__":
    main()
