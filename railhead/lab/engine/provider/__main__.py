"""Entry point of ``pulumi-resource-kubernetes``; the engine gives its own address."""

from __future__ import annotations

import importlib
import sys
import threading

from pulumi.runtime.proto import provider_pb2_grpc

from railhead.lab.engine import serving
from railhead.lab.engine.provider.servicer import KubernetesProvider


def main(argv: list[str]) -> None:
    """Serve until the engine is done."""
    provider = KubernetesProvider(serving.engine_address(argv))
    # The Kubernetes package takes a while to import; the engine is busy starting the program.
    threading.Thread(
        target=lambda: importlib.import_module("kubernetes.config"), daemon=True
    ).start()
    serving.serve(
        lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server),
        argv=argv,
        on_stop=provider.close,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
