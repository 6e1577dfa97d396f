"""Entry point of ``pulumi-resource-kubernetes``; the engine gives its own address."""

from __future__ import annotations

import sys

from pulumi.runtime.proto import provider_pb2_grpc

from railhead.lab.engine import serving
from railhead.lab.engine.provider.servicer import KubernetesProvider


def main(argv: list[str]) -> None:
    """Serve until the engine is done."""
    provider = KubernetesProvider(serving.engine_address(argv))
    serving.serve(
        lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server),
        argv=argv,
        on_stop=provider.close,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
