"""Run by torchrun in the lab: each process takes one rail, and says what its interfaces carried.

Prints ``moved rank= node= local= rail= INTERFACE=bytes...`` for the time in which only that rail's
processes exchanged data.
"""

import os
import sys
from pathlib import Path

SHARE = int(os.environ["RAILS"])
MIB = int(os.environ.get("MIB", "16"))
ROUNDS = 4


def carried() -> dict[str, int]:
    """Bytes of each interface of the pod, received and sent."""
    results = {}
    for interface in sorted(Path("/sys/class/net").iterdir()):
        statistics = interface / "statistics"
        if interface.name != "lo" and statistics.is_dir():
            results[interface.name] = sum(
                int((statistics / f"{way}_bytes").read_text()) for way in ("rx", "tx")
            )
    return results


def main() -> None:
    """Reduce on each rail in turn, with the other rails silent."""
    import torch
    from torch import distributed

    local, node = int(os.environ["LOCAL_RANK"]), os.environ["PET_NODE_RANK"]
    rail = local % SHARE
    # Its own rail and no other; gloo binds to it when the group is made.
    os.environ["GLOO_SOCKET_IFNAME"] = f"net{rail + 1}"
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    processes = world // int(os.environ["PET_NNODES"])
    groups = [
        distributed.new_group([r for r in range(world) if r % processes % SHARE == item])
        for item in range(SHARE)
    ]
    for turn in range(SHARE):
        distributed.barrier()
        before = carried()
        if turn == rail:
            data = torch.ones(MIB << 18)
            for _ in range(ROUNDS):
                data.fill_(1.0)
                distributed.all_reduce(data, group=groups[rail])
            expected = float(distributed.get_world_size(groups[rail]))
            if not bool((data == expected).all()):
                sys.exit(f"rank {rank}: the sum is wrong")
        distributed.barrier()
        after = carried()
        reported = " ".join(f"{name}={after[name] - before[name]}" for name in after)
        sys.stdout.write(f"moved rank={rank} node={node} local={local} rail={turn} {reported}\n")
        sys.stdout.flush()
    distributed.destroy_process_group()


main()
