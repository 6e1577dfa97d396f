"""The base of every plugin: a gRPC server on loopback, the engine's log, a quiet end."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from concurrent import futures

import grpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

from railhead.base import backend

# The engine's own limit (sdk/go/common/util/rpcutil): large CRDs and manifests exceed gRPC's 4 MiB.
MAX_MESSAGE_BYTES = 400 * 1024 * 1024
GRPC_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
]
_ADDRESS = re.compile(r"^[\w.\-\[\]:]+:\d+$")


def engine_address(argv: list[str]) -> str:
    """Return the engine's ``host:port`` of a plugin's arguments; empty if it attaches later."""
    addresses = [arg for arg in argv if not arg.startswith("-") and _ADDRESS.match(arg)]
    return addresses[-1] if addresses else ""


def engine_pid() -> int:
    """Return the process that started this plugin."""
    # From the launcher, which looked before Python started; see install.py.
    return int(os.environ.get(backend.ENGINE_PID) or os.getppid())


class EngineLog:
    """The engine's diagnostics. Losing a log line never fails an operation."""

    def __init__(self, address: str = "") -> None:
        self._stub: engine_pb2_grpc.EngineStub | None = None
        self._stream = 0
        self._lock = threading.Lock()
        if address:
            self.connect(address)

    def connect(self, address: str) -> None:
        """Log to the engine at ``host:port``."""
        channel = grpc.insecure_channel(address, options=GRPC_OPTIONS)
        self._stub = engine_pb2_grpc.EngineStub(channel)

    def debug(self, message: str, urn: str = "") -> None:
        """Shown with ``--debug``."""
        self._log(engine_pb2.DEBUG, message, urn)

    def info(self, message: str, urn: str = "") -> None:
        """Log a permanent line under the resource."""
        self._log(engine_pb2.INFO, message, urn)

    def warning(self, message: str, urn: str = "") -> None:
        """Log a permanent warning."""
        self._log(engine_pb2.WARNING, message, urn)

    def error(self, message: str, urn: str = "") -> None:
        """Log a permanent error; the engine fails the deployment at its end."""
        self._log(engine_pb2.ERROR, message, urn)

    def status(self, message: str, urn: str) -> None:
        """Log progress beside the resource; the next status replaces it, an empty one clears it."""
        self._log(engine_pb2.INFO, message, urn, ephemeral=True)

    def _log(
        self,
        severity: engine_pb2.LogSeverity.ValueType,
        message: str,
        urn: str,
        *,
        ephemeral: bool = False,
    ) -> None:
        stub = self._stub
        if stub is None:
            return
        request = engine_pb2.LogRequest(
            severity=severity, message=message, urn=urn, ephemeral=ephemeral
        )
        try:
            stub.Log(request, timeout=10)
        except grpc.RpcError:
            return


def serve(
    register: Callable[[grpc.Server], None],
    *,
    argv: list[str],
    on_stop: Callable[[], None],
    workers: int = 128,
) -> None:
    """Serve on a free loopback port, print the port and end the process quietly when told to.

    Ends on SIGINT, SIGTERM and when the engine that started the plugin is gone, which is how a
    killed `pulumi` leaves no plugin behind.

    Args:
        register: adds the servicers to the server.
        argv: the plugin's arguments; with an engine address among them the parent is watched.
        on_stop: releases what the plugin holds (ends waits, stops children); called once.
        workers: operations served at once; the engine sends many.
    """
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    parent = engine_pid()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=workers), options=GRPC_OPTIONS)
    register(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    watched = bool(engine_address(argv))
    while not (watched and os.getppid() != parent):
        if stop.wait(0.2):
            break
    try:
        on_stop()
        server.stop(grace=0.3).wait(1.0)
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
    # Worker threads may still wait for the cluster; joining them would keep the engine waiting.
    os._exit(0)
