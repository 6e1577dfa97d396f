"""The real engine with the real policy pack, on a first preview, where little is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from railhead.lab.recorders.workspace import policy_pack
from tests.components.recording import STACKS
from tests.engine.recorded import REPO, Project

pytestmark = pytest.mark.slow

CLOUDS = [stack for stack in STACKS if stack.startswith(("aws-", "gcp-"))]

# Somebody leaves a device out of the quota; everything else is as the stack's file says.
WITHOUT = """
import pulumi

def _without(args):
    if args.type_.endswith(":ClusterQueue"):
        for group in args.props["spec"]["resource_groups" if "resource_groups" in args.props["spec"]
                                        else "resourceGroups"]:
            group["coveredResources"] = [r for r in group["coveredResources"] if r != DEVICE]
            for flavor in group["flavors"]:
                flavor["resources"] = [r for r in flavor["resources"] if r["name"] != DEVICE]
        return pulumi.ResourceTransformationResult(args.props, args.opts)

pulumi.runtime.register_stack_transformation(_without)
"""


def pack(project: Project) -> str:
    """The pack of this checkout, run by the tests' own interpreter."""
    return str(policy_pack(project.folder, REPO))


@pytest.mark.parametrize("stack", CLOUDS)
def test_a_shipped_stack_passes_at_its_first_preview(stack: str, tmp_path: Path) -> None:
    project = Project(tmp_path, stack)
    project.run("preview", "--policy-pack", pack(project))


@pytest.mark.parametrize(
    ("stack", "device"),
    [("aws-p5-prod", "vpc.amazonaws.com/efa"), ("gcp-a3-ultra", "nvidia.com/gpu")],
)
def test_a_queue_without_a_device_is_refused_at_the_first_preview(
    stack: str, device: str, tmp_path: Path
) -> None:
    project = Project(tmp_path, stack)
    main = project.folder / "__main__.py"
    main.write_text(f"DEVICE = {device!r}\n{WITHOUT}\n{main.read_text()}")
    said = project.run("preview", "--policy-pack", pack(project), status=1)
    assert "queue-covers-devices" in said
    assert f"but not '{device}'" in said
    assert not project.entries()
