"""Paddle's launcher, told of its master by address and not by name.

On the first node it serves the others only where the master is that node's own IP (Paddle 3.3.1,
python/paddle/distributed/launch/controllers/master.py, HTTPMaster.lazy_init, and context/node.py):
with the name of its pod, which is all that is known of it before it is there, nobody would serve,
and every node wait.
"""

from __future__ import annotations

import os
import runpy
import socket
import sys
import time

# A pod's name is known to the cluster's DNS once the pod has an address.
PATIENCE_SECONDS = 600.0


def addressed(master: str) -> str:
    """``host:port`` with the host's IP; waits for a name that is not known yet."""
    host, _, port = master.rpartition(":")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return f"{socket.gethostbyname(host)}:{port}"
        except OSError as error:
            if time.monotonic() > deadline:
                sys.exit(f"the first node's name, {host}, is not known here: {error}")
            time.sleep(1)


def main() -> None:
    """Start the launcher with this program's arguments."""
    if "PADDLE_MASTER" in os.environ:
        os.environ["PADDLE_MASTER"] = addressed(os.environ["PADDLE_MASTER"])
    # Where the job's own files are, they would be the launcher's modules.
    if sys.path[:1] == [""]:
        del sys.path[0]
    runpy.run_module("paddle.distributed.launch", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
