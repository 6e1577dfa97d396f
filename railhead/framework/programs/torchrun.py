"""torchrun, with the exit code of its processes, in a world of the size that the job asks for.

torchrun's own process exits with 1 for any of their codes (torch 1.13 to 2.15: ChildFailedError
leaves torch/distributed/run.py), so a runtime's failure policy could not tell bad input from a dead
process. This one calls the same function and passes on the exit code. If this Python has no torch,
the torchrun on PATH runs instead.
"""

from __future__ import annotations

import os
import sys
import time

# sysexits' code for a wrong command line: a runtime does not restart after it.
WRONG_WORLD = 64
# When one process is gone, those of other pods die too. As they are not the cause, they exit later.
LATER_SECONDS = 5.0


def wrong_world(nodes: tuple[int, int], processes: int, asked: str | None) -> str:
    """Return what is wrong with the world that would be built; empty if it is as requested.

    Args:
        nodes: fewest and most; if they differ, any number between is right.
        processes: the processes of a node.
        asked: processes of all nodes that the job asked for; None if it does not say.
    """
    if asked is None or nodes[0] != nodes[1] or asked == str(nodes[1] * processes):
        return ""
    return (
        f"{nodes[1]} nodes with {processes} processes each make a world of "
        f"{nodes[1] * processes}, the job asked for {asked}: leave --nproc-per-node out, or "
        "give the job as many processes_per_node"
    )


def code_of(codes: list[int]) -> tuple[int, bool]:
    """Return the exit code for the failed processes' codes, and whether it has a meaning.

    A code that a program chose wins over 1, which any exception gives, and over signals (negative).
    """
    chosen = next((code for code in codes if code > 1), None)
    if chosen is not None:
        return chosen, True
    return (128 - codes[0] if codes[0] < 0 else codes[0]), False


def main(words: list[str]) -> int:
    """Run torchrun with these words; return the exit code."""
    # The working directory is the job's, and torchrun itself does not import from there.
    if sys.path[:1] == [""]:
        del sys.path[0]
    import traceback

    try:
        from torch.distributed import run
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    except ImportError:
        os.execvp("torchrun", ["torchrun", *words])  # noqa: S606 - the image's own
    given = run.parse_args(words)
    nodes = run.parse_min_max_nnodes(given.nnodes)
    processes = run.determine_local_world_size(given.nproc_per_node)
    if wrong := wrong_world(nodes, processes, os.environ.get("RAILHEAD_WORLD_SIZE")):
        sys.stderr.write(f"error: {wrong}\n")
        return WRONG_WORLD
    try:
        run.main(words)
    except ChildFailedError as error:
        traceback.print_exc()
        first = error.get_first_failure()[1].exitcode
        code, chosen = code_of([first, *(failure.exitcode for failure in error.failures.values())])
        if not chosen and nodes[1] > 1:
            time.sleep(LATER_SECONDS)
        return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
