"""A cloud's provider in a twin: it refuses what the cloud refuses, and its nodes join the twin.

It speaks the engine's protocol as the recorders do (:mod:`railhead.lab.recorders.recording`), and
remembers what it made, so that a name can be taken and a deletion come too early. What it refuses
and why are rows of truth, ids of which are in its answers.

Run as ``python -m railhead.twin.cloud PACKAGE ENGINE_ADDRESS``; ``RAILHEAD_TWIN`` names the twin's
settings.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from railhead.lab.engine import serving
from railhead.lab.engine.provider import properties
from railhead.lab.recorders.recording import JOURNAL, RecordingProvider
from railhead.lab.recorders.shapes import fabricated
from railhead.twin.account import Account, Made, RefusalError
from railhead.twin.gke_pools import CLUSTER, Pools
from railhead.twin.helm import SETTINGS
from railhead.twin.node_groups import NodeGroups
from railhead.twin.refusals import on_create, on_delete, on_update
from railhead.twin.refusals.gcp import left_behind

#: How long a deletion waits for what depends on the thing; the clouds' providers have minutes.
DEPENDANTS_S = 20.0


class Cloud(RecordingProvider):
    """One package's provider, with an account that remembers."""

    def __init__(self, package: str, settings: Mapping[str, Any], journal: Path) -> None:
        super().__init__(package, journal)
        self._settings = settings
        self._state = Path(settings["account"])
        self._guard = threading.RLock()
        self.account = Account.read(self._state)
        brings = Pools(settings) if package == "gcp" else NodeGroups(settings)
        self._groups: Callable[[str, Made, Made | None], None] = brings.follow

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Make it, unless the cloud refuses."""
        if request.preview:
            return super().Create(request, context)
        token, name = _token(request), request.urn.rsplit("::", 1)[-1]
        inputs = properties.plain(properties.decode(request.properties))
        made = Made(id=f"{name}-{uuid.uuid4().hex[:6]}", type=token, name=name, inputs=inputs)
        with self._guard:
            self._judged(context, lambda: on_create(self.account, made))
            self._write("create", request.urn, inputs=inputs)
            self.account.add(made)
            self._save()
        try:
            self._groups("create", made, None)
        except RefusalError as refused:
            # As with the cloud: it is there, and failed.
            self._abort(context, refused)
        outputs = fabricated(token, name, properties.decode(request.properties))
        outputs |= self._own(token, made)
        return provider_pb2.CreateResponse(
            id=made.id, properties=properties.encode(outputs, secrets=True)
        )

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Change it in place, unless the cloud refuses."""
        if request.preview:
            return super().Update(request, context)
        token, name = _token(request), request.urn.rsplit("::", 1)[-1]
        inputs = properties.plain(properties.decode(request.news))
        made = Made(id=request.id, type=token, name=name, inputs=inputs)
        with self._guard:
            before = self.account.find(request.id)
            self._judged(context, lambda: on_update(self.account, before, made))
            self.account.add(made)
            self._save()
        try:
            self._groups("update", made, before)
        except RefusalError as refused:
            self._abort(context, refused)
        response = super().Update(request, context)
        outputs = properties.decode(response.properties) | self._own(token, made)
        return provider_pb2.UpdateResponse(properties=properties.encode(outputs, secrets=True))

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Take it away once nothing depends on it, or refuse."""
        deadline = time.monotonic() + DEPENDANTS_S
        made = self.account.find(request.id)
        while made is not None:
            try:
                with self._guard:
                    on_delete(self.account, made)
                    self._groups("delete", made, None)
                    self.account.drop(made.id)
                    if (rest := left_behind(made)) is not None:
                        self.account.add(rest)
                    self._save()
                break
            except RefusalError as refused:
                if time.monotonic() > deadline:
                    self._abort(context, refused)
            time.sleep(0.3)
        self._write("delete", request.urn)
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Answer from the account where it knows, else as the recorders do."""
        arguments = properties.plain(properties.decode(request.args))
        known = self._known(request.tok, arguments)
        if known is None:
            return super().Invoke(request, context)
        result = getattr(provider_pb2, "InvokeResponse")()  # noqa: B009 - generated
        getattr(result, "return").CopyFrom(properties.encode(known, secrets=True))
        return result

    def _known(self, token: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        clusters = self.account.of("aws:eks/cluster:Cluster")
        groups = self.account.of("aws:eks/nodeGroup:NodeGroup")
        source = token.rpartition(":")[2] if token.startswith("aws:eks/") else ""
        if source == "getClusters":
            return {"id": "clusters", "names": [c.inputs["name"] for c in clusters]}
        if source == "getCluster":
            wanted = arguments["name"]
            cluster = next(c for c in clusters if c.inputs["name"] == wanted)
            return {"id": wanted, "name": wanted, "version": cluster.inputs["version"]}
        if source == "getNodeGroups":
            names = [g.inputs["nodeGroupName"] for g in groups]
            return {"id": "groups", "clusterName": arguments["clusterName"], "names": names}
        if source == "getNodeGroup":
            wanted = arguments["nodeGroupName"]
            group = next(g for g in groups if g.inputs["nodeGroupName"] == wanted)
            return {
                "id": wanted,
                "clusterName": arguments["clusterName"],
                "nodeGroupName": wanted,
                "status": "ACTIVE",
                "scalingConfigs": [group.inputs["scalingConfig"]],
                # A refusal here leaves the state as it was, so that no group falls behind.
                "launchTemplates": [],
            }
        return None

    def _own(self, token: str, made: Made) -> dict[str, Any]:
        """Return outputs that lead to the twin."""
        kind = token.rpartition(":")[2]
        if token == CLUSTER:
            place = f"127.0.0.1:{self._settings['port']}"
            return {
                "endpoint": place,
                "masterAuth": {"clusterCaCertificate": self._settings["authority"]},
                "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"endpoint": place}},
            }
        if kind == "Cluster" and token.startswith("aws:eks/"):
            authority = self._settings["authority"]
            return {
                "endpoint": f"https://127.0.0.1:{self._settings['port']}",
                "certificateAuthority": {"data": authority},
            }
        if kind == "Subnet":
            return {"availabilityZone": made.inputs.get("availabilityZone", "")}
        return {}

    def _judged(self, context: grpc.ServicerContext, check: Callable[[], None]) -> None:
        try:
            check()
        except RefusalError as refused:
            self._abort(context, refused)

    @staticmethod
    def _abort(context: grpc.ServicerContext, refused: RefusalError) -> None:
        context.abort(grpc.StatusCode.UNKNOWN, str(refused))

    def _save(self) -> None:
        self.account.write(self._state)


def _token(request: Any) -> str:
    return str(request.type or request.urn.split("::")[2].rsplit("$", 1)[-1])


def install(folder: Path, settings: Path, token: str, python: str, checkout: Path) -> None:
    """Write the launchers of the clouds' providers, and of the commands that give tokens.

    Args:
        folder: first on the engine's PATH.
        settings: the twin's settings file.
        token: of the twin's administrator.
        python: an interpreter that can import Railhead.
        checkout: the folder from which it does.
    """
    boot = (
        "import runpy, sys; sys.path[0] = sys.argv.pop(1); "
        "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
    )
    for package in ("aws", "gcp"):
        words = [python, "-c", boot, str(checkout), "railhead.twin.cloud", package]
        launcher = folder / f"pulumi-resource-{package}"
        launcher.write_text(
            "#!/bin/sh\nRAILHEAD_ENGINE_PID=$PPID\nexport RAILHEAD_ENGINE_PID\n"
            f"{SETTINGS}={shlex.quote(str(settings))}\nexport {SETTINGS}\n"
            f'exec {shlex.join(words)} "$@"\n'
        )
        launcher.chmod(0o755)
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "kind": "ExecCredential",
        "status": {"token": token},
    }
    for command in ("aws", "gke-gcloud-auth-plugin"):
        file = folder / command
        file.touch(0o700)
        file.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(credential)}\nEND\n")


def main(argv: list[str]) -> None:
    """Serve until the engine is done."""
    package, *rest = argv
    settings = json.loads(Path(os.environ[SETTINGS]).read_text())
    provider = Cloud(package, settings, Path(os.environ[JOURNAL]))
    serving.serve(
        lambda server: provider_pb2_grpc.add_ResourceProviderServicer_to_server(provider, server),
        argv=rest,
        on_stop=lambda: None,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
