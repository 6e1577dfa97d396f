"""Simulates the interruptions of jobs on whole pools, and prints how many outlast a month.

    $ python -m benchmarks.restarts

Machines fail independently of each other, at the rate of Llama 3's training; each failure ends the
gang, which is recreated unless its restarts are used up. What a drain or a preemption ends is not
counted, so it is no part of it.
"""

from __future__ import annotations

import random

from railhead.model.restarts import RestartConfig

DAYS = 30
GPUS_PER_NODE = 8
#: Hours between two interruptions of one GPU: 419 in 54 days on 16384 (arXiv 2407.21783, 3.3.4).
HOURS_OF_A_GPU = 54 * 24 * 16384 / 419


def alive(gpus: int, restarts: int, runs: int) -> float:
    """Return the share of runs that last, one interruption after the other."""
    chance = random.Random(26)
    lasted = 0
    for _ in range(runs):
        hours, count = 0.0, -1
        while hours < DAYS * 24:
            hours += chance.expovariate(gpus / HOURS_OF_A_GPU)
            count += 1
        lasted += count <= restarts
    return lasted / runs


def main() -> None:
    """Print the table of docs/launching.md."""
    print("| nodes of 8 GPUs | interruptions in 30 days | restarts | alive | with 3 restarts |")
    print("| --- | --- | --- | --- | --- |")
    for nodes in (2, 32, 64, 128):
        gpus = nodes * GPUS_PER_NODE
        restarts = RestartConfig().most(gpus)
        mean = DAYS * 24 * gpus / HOURS_OF_A_GPU
        share, few = (alive(gpus, number, 100_000) for number in (restarts, 3))
        print(f"| {nodes} | {mean:.1f} | {restarts} | {share:.1%} | {few:.1%} |")


if __name__ == "__main__":
    main()
