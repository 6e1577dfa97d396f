"""Start time of the command line: `--help`, and the imports that a cluster command adds.

    .venv/bin/python benchmarks/startup.py --runs 10

Wall-clock seconds of whole processes, interpreter included; the median and the slowest of each.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

CASES = {
    "python -c pass": ["-c", "pass"],
    "railhead --help": ["-m", "railhead", "--help"],
    "railhead launch --help": ["-m", "railhead", "launch", "--help"],
    "imports of a cluster command": [
        "-c",
        "import railhead.cli, railhead.launch.preflight, railhead.launch.job, "
        "railhead.launch.logs.stream, railhead.launch.submit",
    ],
}


def seconds(arguments: list[str]) -> float:
    """Wall-clock seconds of one process."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    """Measure every case in turn, so that a busy moment of the machine meets them all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    taken: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(runs):
        for name, arguments in CASES.items():
            taken[name].append(seconds(arguments))
    for name, values in taken.items():
        print(f"{name:32} median {statistics.median(values):.3f} s  slowest {max(values):.3f} s")


if __name__ == "__main__":
    main()
