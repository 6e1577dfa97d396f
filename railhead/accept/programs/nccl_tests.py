"""One of nccl-tests' programs as one rank of an MPI job: found in the image, run, its end told.

mpirun starts it once a rank. MPI is initialised by the program alone, which is this one's child; it
was built with `MPI=1`, or every rank would call itself rank 0 (NVIDIA/nccl-tests, README.md).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

#: Where images keep them: NVIDIA's, with the suffix `_mpi`; AWS' and Azure's; Google's; dstack's of
#: EFA. They are on PATH in some; sshd gives a rank of another node a PATH of its own.
FOLDERS = (
    "/usr/local/bin",
    "/opt/nccl-tests/build",
    "/third_party/nccl-tests-mpi/build",
    "/root/nccl-tests/build",
)


def program(collective: str, path: str, folders: tuple[str, ...] = FOLDERS) -> str | None:
    """Return the path of a collective's program; None where the image has none."""
    places = os.pathsep.join([path, *folders])
    named = (shutil.which(f"{collective}_perf{end}", path=places) for end in ("_mpi", ""))
    return next((item for item in named if item), None)


def main(collective: str, *words: str) -> int:
    """Run it and say how it ended, once for all ranks; the exit code is its own."""
    result = program(collective, os.environ.get("PATH", os.defpath))
    status = subprocess.run([result, *words], check=False).returncode if result else 0
    if os.environ.get("OMPI_COMM_WORLD_RANK") == "0":
        texts = {"kind": "tests", "program": result or "", "status": status}
        sys.stdout.write(f"\nrdma: {json.dumps(texts)}\n")
        sys.stdout.flush()
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
