"""Every shipped stack as the program registers it, with all outputs known and with none known.

What holds for every cluster, whatever its platform and its fabric, is tested here; what belongs to
one of them is in that one's own tests.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from railhead.config import parse
from tests.components.made import MADE, made
from tests.components.recording import (
    REPO,
    STACKS,
    Recording,
    Registered,
    recorded,
    stack_cluster,
)
from tests.components.update_urns import URNS
from tests.components.variants import VARIANTS, made_otherwise
from tests.marks import few

PROVIDER = "pulumi:providers:kubernetes"
RELEASE = "kubernetes:helm.sh/v3:Release"
STACK = "pulumi:pulumi:Stack"
# Node pools: the most expensive resources, and those that hold a month of someone's run.
POOLS = ("aws:eks/nodeGroup:NodeGroup", "gcp:container/nodePool:NodePool")
CLUSTERS = ("aws:eks/cluster:Cluster", "gcp:container/cluster:Cluster")


@pytest.fixture(scope="module", params=few(STACKS, ("lab",), others="slow"))
def stack(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def recording(stack: str) -> Recording:
    return recorded(stack)


@pytest.fixture(scope="module")
def unknown(stack: str) -> Recording:
    return recorded(stack, known=False)


def clouds(recording: Recording) -> list[Registered]:
    return [r for r in recording.resources.values() if r.type.startswith(("aws:", "gcp:"))]


def test_the_urns_are_those_of_the_snapshot(stack: str, recording: Recording) -> None:
    """A rename without an alias replaces the resource: a cluster, a file system, a fleet."""
    snapshot = (URNS / f"{stack}.txt").read_text().splitlines()
    assert sorted(recording.resources) == snapshot, (
        f"run `python -m tests.components.update_urns {stack}` and, where a name changed, "
        "give the resource an alias"
    )


def test_inputs_and_options_are_those_of_the_snapshot(stack: str, recording: Recording) -> None:
    """A review shows what `up` of today's code would change on an existing cluster."""
    assert made(recording) == (MADE / f"{stack}.yaml").read_text(), (
        f"run `python -m tests.components.update_urns {stack}` and read what it changes"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIANTS)
def test_what_no_shipped_stack_says_makes_what_it_made(name: str) -> None:
    assert made_otherwise(name) == (MADE / "variants" / f"{name}.yaml").read_text(), (
        "run `python -m tests.components.update_urns` and read what it changes"
    )


def test_every_snapshot_has_its_stack() -> None:
    assert sorted(path.stem for path in URNS.glob("*.txt")) == STACKS
    assert sorted(path.stem for path in MADE.glob("*.yaml")) == STACKS


@pytest.mark.slow
def test_what_is_planned_does_not_depend_on_what_is_known(
    recording: Recording, unknown: Recording
) -> None:
    """A resource made only when an output is known is missing from every first preview."""
    assert set(unknown.resources) == set(recording.resources)


def test_only_the_stack_has_no_parent(recording: Recording) -> None:
    assert {r.type for r in recording.resources.values() if not r.parent} == {STACK}
    (root,) = [
        r
        for r in recording.resources.values()
        if r.parent and recording.resources[r.parent].type == STACK
    ]
    assert root.type == "railhead:index:TrainingCluster"


def test_children_carry_their_parents_name(recording: Recording) -> None:
    for resource in recording.resources.values():
        parent = recording.resources.get(resource.parent)
        if parent and parent.type != STACK:
            assert resource.name.startswith(f"{parent.name}-"), resource.urn


def test_nothing_in_the_cluster_uses_a_default_provider(recording: Recording) -> None:
    (provider,) = recording.of_type(PROVIDER)
    inside = [r for r in recording.resources.values() if r.type.startswith("kubernetes:")]
    assert inside
    for resource in inside:
        assert resource.provider.startswith(f"{provider.urn}::"), resource.urn


def test_charts_wait_for_the_first_node(recording: Recording) -> None:
    """A chart's controllers would wait for a machine until the release times out."""
    made = {r.urn for r in clouds(recording) if r.type in CLUSTERS}
    pools = [r for r in clouds(recording) if r.type in POOLS]
    if not made:
        return
    (provider,) = recording.of_type(PROVIDER)
    before = recording.before(provider.urn)
    assert made <= before
    assert any(pool.urn in before for pool in pools), "no node pool comes first"


def test_what_lies_in_a_namespace_waits_for_it(recording: Recording) -> None:
    namespaces = {r.inputs["metadata"]["name"]: r.urn for r in recording.kind("Namespace")}
    for resource in recording.resources.values():
        metadata = resource.inputs.get("metadata") or {}
        name = metadata.get("namespace") or (
            resource.inputs.get("namespace") if resource.type == RELEASE else None
        )
        # What the cluster brings itself is there before anything.
        if name and name not in ("kube-system", "default"):
            assert namespaces[name] in recording.before(resource.urn), resource.urn


def test_every_component_registers_its_outputs_once(recording: Recording) -> None:
    components = {r.urn for r in recording.resources.values() if not r.custom and r.type != STACK}
    assert components <= set(recording.outputs)


def test_production_is_protected(stack: str, recording: Recording) -> None:
    """Resources whose deletion loses a fleet or a file system are protected from a slip."""
    cluster = parse(stack_cluster(stack), where=stack)
    if not getattr(cluster.platform, "deletion_protection", False):
        return
    precious = [
        r
        for r in clouds(recording)
        if r.type in CLUSTERS or any(w in r.type for w in ("lustre", "efs/fileSystem", "filestore"))
    ]
    assert precious
    for resource in precious:
        assert resource.protect, resource.urn


def test_the_scheduler_of_nodes_is_left_to_the_autoscaler(recording: Recording) -> None:
    for pool in clouds(recording):
        if pool.type == "aws:eks/nodeGroup:NodeGroup":
            assert "scalingConfig.desiredSize" in pool.ignore_changes, pool.urn


def texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [t for v in value.values() for t in texts(v)]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in texts(v)]
    return [value] if isinstance(value, str) else []


def test_no_output_was_turned_into_text(recording: Recording) -> None:
    for resource in recording.resources.values():
        for text in texts(resource.inputs):
            assert "Calling __str__" not in text, resource.urn
            assert "<pulumi.output.Output" not in text, resource.urn


_IMPORTS = """
import pathlib, sys, tempfile
from tests.components.recording import run_stack
run_stack(sys.argv[1], pathlib.Path(tempfile.mkdtemp()))
print(*sorted({name.partition(".")[0] for name in sys.modules if name.startswith("pulumi_")}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("stack", few(STACKS, ["aws-p5-prod", "gcp-a3-ultra"]))
def test_one_clouds_program_imports_no_other_clouds_sdk(stack: str) -> None:
    """Each costs seconds and hundreds of megabytes, and its user has installed one of them."""
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS, stack],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kind = stack_cluster(stack)["platform"]["kind"]
    own = {f"pulumi_{kind}"} if kind in ("aws", "gcp") else set()
    assert set(done.stdout.split()) & {"pulumi_aws", "pulumi_gcp"} == own
