"""Ends processes of PyTorch that train in a world of another size than the job asked for.

PyTorch calls :func:`watch` at the end of its own import, as it does all entry points of the group
``torch.backends`` (torch/__init__.py, ``_import_device_backends``, 2.5 and newer), if the
pod's PYTHONPATH has one. From then on the first step of any optimizer ends a process that trains in
no world, or in one of another size than the pod's variables say, whatever has started it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

# A wrong command line, as sysexits has it: a runtime starts nothing again after it.
WRONG_WORLD = 64


def wrong_world(nodes: str, processes: str, built: int) -> str:
    """Return what is wrong with a world of ``built`` processes; empty if it is as requested.

    Args:
        nodes: PET_NNODES; a range allows any number between; the world of one node is not checked.
        processes: PET_NPROC_PER_NODE; words such as ``auto`` allow any number.
        built: 0 for no world at all.
    """
    if not nodes.isdigit() or int(nodes) < 2:
        return ""
    if processes.isdigit():
        asked = int(nodes) * int(processes)
        if built == asked:
            return ""
        wanted = f"one world of {asked} ({nodes} nodes with {processes} processes each)"
    else:
        if built >= int(nodes) and built % int(nodes) == 0:
            return ""
        wanted = f"one world of {nodes} nodes"
    here = f"a world of {built}" if built else "a process that has joined no world"
    return (
        f"training begins in {here}, and the job asked for {wanted}: start it by torchrun without "
        "--nnodes and --nproc-per-node, and give the job as many processes; or, if each node is to "
        "train alone, set RAILHEAD_LAUNCHER=none (`launcher: none` in a job file)"
    )


def before_step(*_: Any) -> None:
    """Check the world; every optimizer calls this before each of its steps."""
    from torch import distributed

    joined = distributed.is_available() and distributed.is_initialized()
    wrong = wrong_world(
        os.environ.get("PET_NNODES", ""),
        os.environ.get("PET_NPROC_PER_NODE", ""),
        distributed.get_world_size() if joined else 0,
    )
    if wrong:
        sys.stdout.flush()
        sys.stderr.write(f"error: {wrong}\n")
        sys.stderr.flush()
        # No handler of the job's may take it for something else.
        os._exit(WRONG_WORLD)


def watch() -> None:
    """Have PyTorch call :func:`before_step`. It must not raise: PyTorch would not load."""
    if os.environ.get("RAILHEAD_LAUNCHER") == "none":
        return
    try:
        from torch.optim.optimizer import register_optimizer_step_pre_hook
    except ImportError:
        return
    register_optimizer_step_pre_hook(before_step)
