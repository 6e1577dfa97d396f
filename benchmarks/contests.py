"""200 contests of gangs that cannot all fit, in a lab whose stack is up: what the record shows.

    .venv/bin/python benchmarks/contests.py --lab test --count 200 --out contests

The record, one change of a Workload or pod a line in the API server's order, is left beside the
figures: `OUT.jsonl` and `OUT.json`. What is asserted of them is in tests/lab/test_contests.py.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from tests.lab.contests import conduct, fresh_nodes, waits


def main() -> None:
    """Run the contests and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", default="test")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--arenas", type=int, default=20)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--out", type=Path, default=Path("contests"))
    parser.add_argument("--no-loss", action="store_true", help="take no node away")
    parser.add_argument("--real", action="store_true", help="no simulated pods at all: slow")
    given = parser.parse_args()
    nodes = fresh_nodes(given.lab, 3)
    done = conduct(
        given.lab,
        seed=given.seed,
        count=given.count,
        arenas=given.arenas,
        nodes=nodes,
        record=given.out.with_suffix(".jsonl"),
        lose=not given.no_loss,
        simulated=not given.real,
    )
    waited = sorted(waits(done.rows))
    figures = {
        "contests": given.count,
        "gangs": sum(len(contest.gangs) for contest in done.contests),
        "seconds": round(done.seconds, 1),
        "lost_node": done.lost,
        "contests_that_lost_pods": len(done.struck),
        "wait_s": {
            "median": round(statistics.median(waited), 2),
            "p95": round(waited[int(len(waited) * 0.95)], 2),
            "most": round(waited[-1], 2),
        },
        "ended": {how: list(done.ended.values()).count(how) for how in set(done.ended.values())},
        **done.verdict.to_json(),
    }
    text = json.dumps(figures, indent=1, default=str)
    given.out.with_suffix(".json").write_text(text + "\n")
    print(text)
    if done.verdict.wrong:
        sys.exit("the cluster did not keep its word")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd} ended with {error.returncode}\n{error.stderr}")
