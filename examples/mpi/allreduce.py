"""MPI from a description alone: every rank adds its number, and all must know the sum."""

from __future__ import annotations

import os
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
asked = int(os.environ["RAILHEAD_WORLD_SIZE"])
if world.size != asked:
    sys.exit(f"error: world size is {world.size}, the job asked for {asked}")
total = world.allreduce(world.rank + 1)
if total != world.size * (world.size + 1) // 2:
    sys.exit(f"error: the sum is {total}")
line = f"rank={world.rank} world_size={world.size} host={MPI.Get_processor_name()} sum={total}"
sys.stdout.write(f"{line}\n")
sys.stdout.flush()
