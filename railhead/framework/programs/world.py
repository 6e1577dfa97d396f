"""Keeps PyTorch's processes in the world that the job asked for, and passes on their exit codes.

PyTorch calls :func:`watch` at the end of its own import, as it does all entry points of the group
``torch.backends`` (torch/__init__.py, ``_import_device_backends``, 2.5 and newer), if the
pod's PYTHONPATH has one. So it runs in every process, whatever has started it: in a launcher, also
one by a path, by uv, conda, a shell or a profiler, and in those that train.

torchrun's own process exits with 1 for any code of its processes (torch 1.13 to 2.15:
ChildFailedError leaves torch/distributed/run.py), so a runtime's failure policy could not tell bad
input from a dead process. Here it exits with theirs. The first step of any optimizer ends a process
that trains in no world, or in one of another size than the pod's variables say.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from typing import Any

# A wrong command line, as sysexits has it: a runtime starts nothing again after it.
WRONG_WORLD = 64
# When one process is gone, those of other pods die too. As they are not the cause, they exit later.
LATER_SECONDS = 5.0
_ARGUMENT = r"--{}(?:=|$)(.*)"
# torchrun's arguments that have no value (torch 2.15, torch/distributed/run.py).
_FLAGS = frozenset(("--standalone", "-m", "--module", "--no-python", "--run-path"))
# An endpoint that each node finds at itself.
_HERE = re.compile(r"(localhost|127\.0\.0\.1)?(:\d*)?")
# Not empty once a step was in the right world. The hook stays: PyTorch walks its hooks as it calls
# them (torch 2.15, torch/optim/optimizer.py, profile_hook_step), and none can go meanwhile.
_CHECKED: list[bool] = []


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


def _own(words: list[str]) -> list[str]:
    """Return torchrun's arguments without the program's, which begin at the first bare word."""
    is_value = False
    for at, word in enumerate(words):
        if not is_value and not word.startswith("-"):
            return words[:at]
        # -t3 and --nnodes=2 have their values.
        bare = "=" not in word and (word.startswith("--") or len(word) == 2)
        is_value = not is_value and bare and word.replace("_", "-") not in _FLAGS
    return words


def _value(words: list[str], name: str, default: str) -> str:
    """Return the last value of an argument, in whose name ``.`` is ``-`` or ``_``."""
    result = default
    for at, word in enumerate(words):
        if match := re.match(_ARGUMENT.format(name), word):
            result = match[1] or "".join(words[at + 1 : at + 2])
    return result


def wrong_meeting(words: list[str], variables: Mapping[str, str]) -> str:
    """Return why this node would wait for the others at itself; empty if it does not.

    The first node may, for the others can come there. c10d without an endpoint takes localhost
    (torch 2.15, torch/distributed/elastic/rendezvous/utils.py, parse_rendezvous_endpoint).

    Args:
        words: torchrun's arguments, which win over the variables.
        variables: the pod's.
    """
    own = _own(words)

    def value(name: str, default: str) -> str:
        return _value(own, name, variables.get(f"PET_{name.replace('.', '_').upper()}", default))

    nodes = value("nnodes", "1")
    if variables.get("PET_NODE_RANK", "0") == "0" or not nodes.isdigit() or int(nodes) < 2:
        return ""
    backend, place = value("rdzv.backend", "static"), value("rdzv.endpoint", "")
    if backend == "static":
        place = place or value("master.addr", "")
    if "--standalone" in own:
        backend, place = "c10d", ""
    if backend not in ("static", "c10d") or not _HERE.fullmatch(place):
        return ""
    return (
        f"torchrun waits at {place or 'localhost'} for {nodes} nodes, and each node would at "
        "itself: leave out --standalone, --rdzv-backend, --rdzv-endpoint and --master-addr, and "
        "they meet at the job's first node; or, if each node is to train alone, say --nnodes=1 and "
        "set RAILHEAD_LAUNCHER=none (`launcher: none` in a job file)"
    )


def wrong_launch(words: list[str], nodes: str, processes: str, asked: str) -> str:
    """Return what is wrong with the world that torchrun would build; empty if it is as requested.

    Args:
        words: torchrun's arguments, which win over the variables (argparse_util.py).
        nodes: PET_NNODES.
        processes: PET_NPROC_PER_NODE.
        asked: processes of all nodes that the job asked for; empty if it does not say.
    """
    own = _own(words)
    nodes = _value(own, "nnodes", nodes)
    processes = _value(own, "nproc.per.node", processes)
    if not (nodes.isdigit() and processes.isdigit() and asked.isdigit()):
        return ""
    built = int(nodes) * int(processes)
    if built == int(asked):
        return ""
    return (
        f"{nodes} nodes with {processes} processes each make a world of {built}, the job asked for "
        f"{asked}: leave --nproc-per-node out, or give the job as many processes_per_node"
    )


def code_of(codes: list[int]) -> tuple[int, bool]:
    """Return the exit code for the failed processes' codes, and whether it has a meaning.

    A code that a program chose wins over 1, which any exception gives, and over signals (negative).
    """
    chosen = next((code for code in codes if code > 1), None)
    if chosen is not None:
        return chosen, True
    return (128 - codes[0] if codes[0] < 0 else codes[0]), False


def before_step(*_: Any) -> None:
    """Check the world before the first step; every optimizer calls this before each of its own."""
    if _CHECKED:
        return
    from torch import distributed

    joined = distributed.is_available() and distributed.is_initialized()
    wrong = wrong_world(
        os.environ.get("PET_NNODES", ""),
        os.environ.get("PET_NPROC_PER_NODE", ""),
        distributed.get_world_size() if joined else 0,
    )
    if wrong:
        _end(wrong)
    _CHECKED.append(True)


def _end(wrong: str) -> None:
    sys.stdout.flush()
    sys.stderr.write(f"error: {wrong}\n")
    sys.stderr.flush()
    # No handler of the job's may take it for something else.
    os._exit(WRONG_WORLD)


def _pass_on_codes() -> None:
    """Have a launcher exit with its processes' code; Python takes a hook's SystemExit as its own.

    Python 3.8 to 3.14, Python/pythonrun.c, _PyErr_PrintEx.
    """
    shown = sys.excepthook

    def hook(kind: Any, error: Any, trace: Any) -> None:
        shown(kind, error, trace)
        if kind.__name__ != "ChildFailedError":
            return
        first = error.get_first_failure()[1].exitcode
        codes = [first, *(failure.exitcode for failure in error.failures.values())]
        code, chosen = code_of(codes)
        if not chosen and os.environ.get("PET_NNODES", "1") not in ("1", "1:1"):
            time.sleep(LATER_SECONDS)
        sys.exit(code)

    sys.excepthook = hook


def _is_torchrun() -> bool:
    """Return whether this process is torchrun; ``python -m`` shows its module nowhere else."""
    module = "torch.distributed.run" in getattr(sys, "orig_argv", ())
    return sys.argv[0].rpartition("/")[2] == "torchrun" or (sys.argv[0] == "-m" and module)


def watch() -> None:
    """Have PyTorch and Python call the above. It must not raise: PyTorch would not load."""
    _pass_on_codes()
    if os.environ.get("RAILHEAD_LAUNCHER") == "none":
        return
    if _is_torchrun():
        names = ("PET_NNODES", "PET_NPROC_PER_NODE", "RAILHEAD_WORLD_SIZE")
        sizes = (os.environ.get(name, "") for name in names)
        words = sys.argv[1:]
        if wrong := wrong_launch(words, *sizes) or wrong_meeting(words, os.environ):
            _end(wrong)
    try:
        from torch.optim.optimizer import register_optimizer_step_pre_hook
    except ImportError:
        return
    register_optimizer_step_pre_hook(before_step)
