"""A Ray cluster of a job's pods: the head in the first, on which the program runs once all joined.

Not by ``ray symmetric-run`` (Ray 2.60.0, python/ray/scripts/symmetric_run.py): there a worker whose
raylet dies exits with 0, as the failure of ``ray start --block`` is caught, SIGTERM reaches neither
program nor raylet, and a pod that comes later than 30 seconds is too late.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

# Ports of Ray's agents, which would choose their own, and be abandoned if they take 15 s to report
# them (ray-project/ray issue 65983); a pod has its ports for itself.
AGENTS = (
    "--dashboard-agent-listen-port=6380",
    "--dashboard-agent-grpc-port=6381",
    "--runtime-env-agent-port=6382",
    "--metrics-export-port=6383",
    "--disable-usage-stats",
)
# From Ray's port: where the head says that the program has ended well.
OVER = 5
PATIENCE_SECONDS = 600.0
# A `ray start` that ends sooner has not joined: the head was not there yet.
JOINING_SECONDS = 15.0
TELLING_SECONDS = 60.0
PAUSE_SECONDS = 2.0
# Whether this pod must end.
ENDING = threading.Event()


def head(words: list[str], nodes: int, port: int) -> int:
    """Start the head, wait for all nodes, run the program; return its exit code."""
    subprocess.run(["ray", "start", "--head", f"--port={port}", *AGENTS], check=True)
    try:
        if not whole(nodes):
            return 1
        code = _following(signal.SIGTERM, signal.SIGINT)(words).wait()
        if code == 0 and ENDING.is_set():
            # It has saved and is not over: a gang whose pods all end well counts as complete.
            return 128 + signal.SIGTERM
        if code == 0:
            tell(nodes - 1, port + OVER)
        return code if code >= 0 else 128 - code
    finally:
        subprocess.run(["ray", "stop"], check=False)


def _following(*numbers: int) -> Callable[[list[str]], subprocess.Popen[bytes]]:
    """Return what starts programs, the last of which gets these signals from now on."""
    processes: list[subprocess.Popen[bytes]] = []

    def forward(number: int, _: Any) -> None:
        ENDING.set()
        for process in processes[-1:]:
            process.send_signal(number)

    for number in numbers:
        signal.signal(number, forward)

    def start(words: list[str]) -> subprocess.Popen[bytes]:
        processes.append(subprocess.Popen(words))
        if ENDING.is_set():
            # The signal came before there was a process to get it.
            processes[-1].send_signal(signal.SIGTERM)
        return processes[-1]

    return start


def whole(nodes: int) -> bool:
    """Wait until so many nodes are alive; return whether they came in time."""
    import ray

    deadline = time.monotonic() + PATIENCE_SECONDS
    ray.init(address="auto", log_to_driver=False)
    try:
        while (alive := sum(bool(node["Alive"]) for node in ray.nodes())) < nodes:
            if time.monotonic() > deadline:
                sys.stderr.write(f"error: {alive} of {nodes} nodes joined the Ray cluster\n")
                return False
            time.sleep(PAUSE_SECONDS)
    finally:
        ray.shutdown()
    return True


def tell(workers: int, port: int) -> None:
    """Let each worker know, by a connection, that the program has ended well."""
    deadline = time.monotonic() + TELLING_SECONDS
    with socket.create_server(("", port), backlog=max(1, workers)) as server:
        untold = {str(rank).encode() for rank in range(1, workers + 1)}
        while untold and (left := deadline - time.monotonic()) > 0:
            server.settimeout(left)
            try:
                connection, _ = server.accept()
            except OSError:
                break
            # A stranger that connects, or does not speak, must not fail a job that has ended well.
            with connection, suppress(OSError):
                connection.settimeout(PAUSE_SECONDS)
                untold.discard(connection.recv(64))


def over(host: str, port: int) -> bool:
    """Return whether the head says that the program has ended well."""
    try:
        with socket.create_connection((host, port), PAUSE_SECONDS) as connection:
            connection.sendall(os.environ["RAILHEAD_NODE_RANK"].encode())
            return True
    except OSError:
        return False


def worker(address: str, host: str, port: int) -> int:
    """Join the cluster; return 0 once the program has ended well, else 1 if Ray ends here."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    start = _following(signal.SIGTERM)
    while True:
        began = time.monotonic()
        ray = start(["ray", "start", f"--address={address}", "--block", *AGENTS])
        while ray.poll() is None:
            if over(host, port + OVER):
                subprocess.run(["ray", "stop"], check=False)
                return 0
            time.sleep(PAUSE_SECONDS)
        now = time.monotonic()
        # Ray takes SIGTERM for a reason to exit with 1, as if it had not joined.
        if ENDING.is_set() or now - began > JOINING_SECONDS or now > deadline or ray.returncode < 0:
            sys.stderr.write(f"error: Ray has ended on this node, with {ray.returncode}\n")
            return 1
        time.sleep(PAUSE_SECONDS)


def main(words: list[str]) -> int:
    """Be the head or a worker, by the pod's number; return the exit code."""
    address, port = os.environ["RAY_HEAD"], int(os.environ["RAY_PORT"])
    if os.environ["RAILHEAD_NODE_RANK"] == "0":
        return head(words, int(os.environ["RAILHEAD_NODES"]), port)
    return worker(address, address.rpartition(":")[0], port)


if __name__ == "__main__":
    # The working directory is the job's; a file called ray.py there would be Ray.
    if sys.path[:1] == [""]:
        del sys.path[0]
    sys.exit(main(sys.argv[1:]))
