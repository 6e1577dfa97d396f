"""`up` and `destroy` killed at random moments: the very next command ends where it should."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from railhead.lab.engine.install import install
from tests.engine.conftest import Stack
from tests.engine.controlplane import locate

pytestmark = [pytest.mark.controlplane, pytest.mark.exhaustive]
# RAILHEAD_KILLS=100 kills `up` so often, and `destroy` three times in ten of it.
KILLS = int(os.environ.get("RAILHEAD_KILLS", "10"))
SEED = int(os.environ.get("RAILHEAD_KILLS_SEED", "25"))
# Each generation creates, changes in place, replaces and deletes; names are given and made.
PROGRAM = """
from pulumi_kubernetes.helm.v3 import Release, RepositoryOptsArgs

v = config.get("v") or "0"
space = k8s.core.v1.Namespace("ns", metadata={"name": NS}, opts=o)
after = opts(depends_on=[space])
meta = lambda **more: {"namespace": NS, **more}
kind = f"Thing{NS.replace('-', '')}"
group = f"{NS}.example.com"
crd = k8s.apiextensions.v1.CustomResourceDefinition(
    "crd",
    metadata={"name": f"{kind.lower()}s.{group}"},
    spec={
        "group": group,
        "scope": "Namespaced",
        "names": {"kind": kind, "plural": f"{kind.lower()}s"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": True,
            }},
        }],
    },
    opts=o,
)
for n in range(4):
    k8s.core.v1.ConfigMap(f"named{n}", metadata=meta(name=f"named{n}"), data={"v": v}, opts=after)
    k8s.core.v1.ConfigMap(f"auto{n}", metadata=meta(), data={"v": v}, opts=after)
    k8s.core.v1.ServiceAccount(f"same{n}", metadata=meta(labels={"v": v}), opts=after)
    k8s.core.v1.Secret(
        f"gen{v}-{n}", metadata=meta(name=f"gen{v}-{n}"), string_data={"v": v}, opts=after
    )
    k8s.apiextensions.CustomResource(
        f"thing{n}", api_version=f"{group}/v1", kind=kind, metadata=meta(name=f"thing{n}"),
        spec={"v": v}, opts=opts(depends_on=[space, crd]),
    )
Release("small", chart="./chart", name="small", namespace=NS, values={"word": v}, opts=after)
"""


@pytest.fixture
def killed(stack: Stack, tmp_path: Path) -> Stack:
    """A stack whose `pulumi` is started as in a lab."""
    if locate("helm") is None:
        pytest.skip("no helm: set RAILHEAD_TEST_BIN or run `railhead lab build`")
    chart = stack.folder / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 0.1.0\n")
    (chart / "templates" / "map.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: chart}\n"
        'data: {word: "{{ .Values.word }}"}\n'
    )
    tools = tmp_path / "tools"
    install(tools, python=Path(sys.executable), helm=locate("helm"), pulumi=stack.pulumi)
    stack.pulumi = tools / "pulumi"
    stack.environment["PATH"] = f"{tools}:/usr/local/bin:/usr/bin:/bin"
    stack.program(PROGRAM)
    return stack


def _killed(stack: Stack, command: str, after_s: float, *, group: bool) -> bool:
    """Kill a command after so long, alone or with its process group; False: it had ended."""
    process = subprocess.Popen(
        [str(stack.pulumi), command, "--yes", "--skip-preview", "--non-interactive"],
        cwd=stack.folder,
        env=stack.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(after_s)
    if ended := process.poll() is not None:
        return not ended
    if group:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
    return True


def _live(stack: Stack, plural: str) -> dict[str, dict[str, str]]:
    """Return name -> data of the namespace's ConfigMaps or Secrets."""
    items = stack.kube.request("GET", f"/api/v1/namespaces/{stack.namespace}/{plural}").body
    return {item["metadata"]["name"]: item.get("data") or {} for item in items["items"]}


def _wrong(stack: Stack, generation: str) -> str:
    """Return what is not as the generation says; empty where all is."""
    maps = {
        name: data
        for name, data in _live(stack, "configmaps").items()
        if name != "kube-root-ca.crt"
    }
    if len(maps) != 9 or any(generation not in data.values() for data in maps.values()):
        return f"ConfigMaps {maps}"
    secrets = {name for name in _live(stack, "secrets") if not name.startswith("sh.helm.")}
    expected = {f"gen{generation}-{number}" for number in range(4)}
    return "" if secrets == expected else f"Secrets {sorted(secrets)}"


def _row(number: int, moment: float, *, group: bool, hit: bool, took: float, wrong: str) -> None:
    who = "group" if group else "alone"
    print(
        f"{number:4} {who} at {moment:5.2f} s {'killed' if hit else 'ended '} "
        f"next {took:5.1f} s {wrong or 'converged'}",
        flush=True,
    )


def test_up_after_any_kill_converges_at_once(killed: Stack) -> None:
    chance = random.Random(SEED)
    begun = time.monotonic()
    killed.up().ok()
    longest = time.monotonic() - begun
    failures, hits, number = [], 0, 0
    while hits < KILLS:
        number += 1
        killed.set("v", str(number))
        moment, group = chance.uniform(0, longest), bool(number % 2)
        hits += (hit := _killed(killed, "up", moment, group=group))
        begun = time.monotonic()
        result = killed.up()
        wrong = f"rc {result.status}: {result.text[-600:]}" if result.status else ""
        wrong = wrong or _wrong(killed, str(number))
        took = time.monotonic() - begun
        _row(number, moment, group=group, hit=hit, took=took, wrong=wrong)
        failures += [wrong] if wrong else []
        if hit and hits % 10 == 0 and not wrong:
            killed.up("--expect-no-changes").ok()
    print(f"up: {hits - len(failures)} of {hits} converged, moments in 0 to {longest:.1f} s")
    assert not failures


def test_destroy_after_any_kill_converges_at_once(killed: Stack) -> None:
    chance = random.Random(SEED + 1)
    killed.up().ok()
    begun = time.monotonic()
    killed.destroy().ok()
    longest = time.monotonic() - begun
    failures, hits, number = [], 0, 0
    while hits < max(1, KILLS * 3 // 10):
        number += 1
        killed.up().ok()
        moment, group = chance.uniform(0, longest), bool(number % 2)
        hits += (hit := _killed(killed, "destroy", moment, group=group))
        begun = time.monotonic()
        result = killed.destroy()
        wrong = f"rc {result.status}: {result.text[-600:]}" if result.status else ""
        if not wrong and (left := killed.resources()):
            wrong = f"in the state: {sorted(left)}"
        if not wrong and killed.get("/api/v1/namespaces/NS"):
            wrong = "the namespace is there"
        took = time.monotonic() - begun
        _row(number, moment, group=group, hit=hit, took=took, wrong=wrong)
        failures += [wrong] if wrong else []
    print(f"destroy: {hits - len(failures)} of {hits} converged, moments in 0 to {longest:.1f} s")
    assert not failures
