"""Runs an all-reduce of the gang before a job's command, and the command only if that proves it.

``python3 verify.py COMMAND...`` is what each pod starts. The job's own launcher starts this same
file in every process of the job's world, with the job's environment, except that NCCL's log goes to
a file of each process. The processes send each other what they would in training; the first of each
pod judges the logs of its pod by `railhead.nccl.proofs`, and all learn the verdict of every pod.
With proof the command replaces this process, its environment untouched. Without, it ends with
:data:`STOPPED`. Images have a Python from 3.8 on.

A step that fails (a lost peer, a deleted pod) is no verdict: it ends with the launcher's exit code,
and is retried as the job's own failures are.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

#: sysexits' EX_CONFIG: a code after which runtimes do not restart unless their stack says so.
STOPPED = 78
#: Exit codes of a program that does not exist, or cannot be started, as in shells.
NO_PROGRAM, NO_START = 127, 126
#: The variable with the folder of the step's files.
FOLDER = "RAILHEAD_VERIFY"
DEADLINE = timedelta(minutes=10)
MIB = 1 << 20
FAILED, NOT_PROVEN, PASSED = "failed", "not-proven", "passed"
HERE = Path(__file__).resolve().parent


def say(text: str) -> None:
    """Write one whole line at once: lines of several processes must not mix."""
    sys.stdout.write(f"railhead verify: {text}\n")
    sys.stdout.flush()


def asked() -> dict[str, Any]:
    """Return what is to be proven."""
    settings: dict[str, Any] = json.loads((HERE / "asked.json").read_text())
    return settings


# -- in every process of the job's world ----------------------------------------------------------


def exchange(torch: Any, dist: Any, device: Any, each: int) -> int:
    """All-reduce, send to the same process of the next pod; return the number of wrong values."""
    rank, world = dist.get_rank(), dist.get_world_size()
    ones = torch.ones(16 * MIB // 4, dtype=torch.float32, device=device)
    dist.all_reduce(ones)
    wrong = int((ones != float(world)).sum())
    # A ring leaves the pod by as many processes as there are rails; this leaves it by each.
    to, of = (rank + each) % world, (rank - each) % world
    out = torch.full((MIB // 4,), float(rank), dtype=torch.float32, device=device)
    got = torch.full((MIB // 4,), -1.0, dtype=torch.float32, device=device)
    both = [dist.P2POp(dist.isend, out, to), dist.P2POp(dist.irecv, got, of)]
    for transfer in dist.batch_isend_irecv(both):
        transfer.wait()
    return wrong + int((got != float(of)).sum())


def judged(folder: Path, backend: str, pod: int, each: int) -> tuple[str, str]:
    """Return what the logs of this pod's processes prove: a verdict and a line."""
    if backend != "nccl":
        return FAILED, f"the transport is TCP: no process sees a GPU, and {backend} goes by sockets"
    from railhead.nccl.proofs import judge

    wanted = asked()
    lines: list[str] = []
    for path in sorted(folder.glob("*.log")):
        lines += path.read_text(errors="replace").splitlines()
    judgement = judge(
        {pod: lines}, processes=each, proofs=wanted["proofs"], gpudirect=wanted["gpudirect"]
    )
    return judgement.verdict, judgement.text


def together(verdicts: list[tuple[str, str]]) -> tuple[str, str]:
    """Return the worst verdict of all pods, with its pod."""
    for verdict in (FAILED, NOT_PROVEN):
        bad = [(pod, text) for pod, (each, text) in enumerate(verdicts) if each == verdict]
        if bad:
            pod, text = bad[0]
            more = f", and so on {len(bad) - 1} of the other {len(verdicts) - 1} nodes"
            return verdict, f"{text} (node {pod}{more if len(bad) > 1 else ''})"
    return PASSED, verdicts[0][1] + f" of node 0, and so on all {len(verdicts)} nodes"


def prove(folder: Path) -> None:
    """Take part as one process; the first of each pod also judges and writes the verdict."""
    local, each = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    # Set before the library is loaded, which reads it once.
    os.environ["NCCL_DEBUG_FILE"] = str(folder / f"{local}.log")
    import torch
    import torch.distributed as dist

    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(local)
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    dist.init_process_group("nccl" if cuda else "gloo", timeout=DEADLINE)
    rank, world, wanted = dist.get_rank(), dist.get_world_size(), asked()["world"]
    wrong = exchange(torch, dist, device, each) if world == wanted else 0
    dist.barrier()
    mine: tuple[str, str] | None = None
    if local == 0 and world != wanted:
        mine = NOT_PROVEN, f"{world} processes met, and the job has {wanted}"
    elif local == 0:
        mine = judged(folder, dist.get_backend(), rank // each, each)
    if wrong:
        mine = FAILED, f"{wrong} values that rank {rank} got were wrong"
    verdicts: list[tuple[str, str] | None] = [None] * world
    dist.all_gather_object(verdicts, mine)
    if local == 0:
        pods = [list(filter(None, verdicts[i : i + each])) for i in range(0, world, each)]
        # The worst verdict of a pod is the first by the alphabet.
        verdict, text = together([min(of_pod) for of_pod in pods])
        (folder / "verdict.json").write_text(json.dumps([verdict, text]))
    dist.barrier()
    dist.destroy_process_group()


# -- in every pod ---------------------------------------------------------------------------------


def step(folder: Path) -> int:
    """Start the job's launcher with this file, wait, and return its exit code."""
    wanted = asked()
    environment = {**os.environ, **wanted["environment"], FOLDER: str(folder)}
    started = subprocess.Popen(wanted["start"], env=environment)
    # Only the first process of a container gets the signal of the pod's end.
    before = {
        number: signal.signal(number, lambda received, _: started.send_signal(received))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    code = started.wait()
    for number, handler in before.items():
        signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def verdict_of(folder: Path) -> tuple[str, str]:
    """Return the verdict that the pod's first process wrote."""
    try:
        verdict, text = json.loads((folder / "verdict.json").read_text())
    except (OSError, ValueError):
        return NOT_PROVEN, "the step ended without a verdict"
    return verdict, text


def given() -> dict[bytes, bytes]:
    """Return the pod's environment; Python may have added to this process's (PEP 538)."""
    words = Path("/proc/self/environ").read_bytes().split(b"\0")
    return dict(word.split(b"=", 1) for word in words if b"=" in word)


def main(command: list[str]) -> int:
    """Prove, then become the command; return an exit code where that is not possible."""
    folder = Path(tempfile.mkdtemp(prefix="railhead-verify-"))
    try:
        code = step(folder)
        verdict, text = verdict_of(folder)
    except OSError as error:
        say(f"the step did not start: {error}")
        return NO_PROGRAM
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if code:
        say(f"the step failed with {code}, so nothing is proven and the command was not started")
        return code
    if verdict != PASSED:
        say(f"stopped, {verdict}; the command was not started: {text}")
        return STOPPED
    say(f"proven: {text}")
    try:
        os.execvpe(command[0], command, given())  # noqa: S606 - the job's own words
    except OSError as error:
        say(f"{command[0]}: {error.strerror}")
        return NO_PROGRAM if isinstance(error, FileNotFoundError) else NO_START


if __name__ == "__main__":
    if FOLDER in os.environ:
        prove(Path(os.environ[FOLDER]))
    else:
        sys.exit(main(sys.argv[1:]))
