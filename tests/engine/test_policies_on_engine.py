"""The real engine with the real policy pack, on a first preview, where little is known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from railhead.base.version import __version__
from railhead.lab.recorders.workspace import policy_pack
from tests.components.recording import STACKS
from tests.engine.recorded import REPO, Project
from tests.marks import few

pytestmark = pytest.mark.slow

CLOUDS = [stack for stack in STACKS if stack.startswith(("aws-", "gcp-"))]

# An edit leaves a device out of the quota, and passes values that only the update makes known;
# the rest is as in the stack's file.
WITHOUT = """
import pulumi

def _without(args):
    if args.type_.endswith(":ClusterQueue"):
        for group in args.props["spec"]["resource_groups" if "resource_groups" in args.props["spec"]
                                        else "resourceGroups"]:
            group["coveredResources"] = [r for r in group["coveredResources"] if r != DEVICE]
            for flavor in group["flavors"]:
                flavor["resources"] = [r for r in flavor["resources"] if r["name"] != DEVICE]
    elif args.type_ in WORSE:
        args.props.update(WORSE[args.type_])
    elif args.type_ in HIDDEN:
        # What the engine takes for an output that is not known yet.
        args.props[HIDDEN[args.type_]] = pulumi.runtime.rpc.UNKNOWN
    else:
        return None
    return pulumi.ResourceTransformationResult(args.props, args.opts)

pulumi.runtime.register_stack_transformation(_without)
"""


def pack(project: Project) -> str:
    """Return the pack of this checkout, run by the tests' own interpreter."""
    return str(policy_pack(project.folder, REPO))


@pytest.mark.parametrize("stack", few(CLOUDS, ["gcp-a3-mega"]))
def test_a_shipped_stack_passes_at_its_first_preview(stack: str, tmp_path: Path) -> None:
    project = Project(tmp_path, stack)
    project.run("preview", "--policy-pack", pack(project))


RBAC = "kubernetes:rbac.authorization.k8s.io/v1"
#: Of each stack the device, and what is hidden: type of resource -> its argument, and what is said.
HIDDEN = {
    "aws-p5-prod": (
        "vpc.amazonaws.com/efa",
        {
            "aws:iam/role:Role": ("assume_role_policy", "assumeRolePolicy"),
            "aws:iam/rolePolicy:RolePolicy": ("policy", "policy"),
            "aws:iam/rolePolicyAttachment:RolePolicyAttachment": ("policy_arn", "policyArn"),
            "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": ("cidr_ipv4", "cidrIpv4"),
            f"{RBAC}:ClusterRole": ("rules", "rules.verbs"),
            f"{RBAC}:RoleBinding": ("role_ref", "roleRef.name"),
        },
    ),
    "gcp-a3-ultra": (
        "nvidia.com/gpu",
        {
            "gcp:projects/iAMMember:IAMMember": ("role", "role"),
            "gcp:compute/firewall:Firewall": ("source_ranges", "sourceRanges"),
            "kubernetes:storage.k8s.io/v1:StorageClass": ("reclaim_policy", "reclaimPolicy"),
        },
    ),
}

#: An unsafe edit of each stack: type of resource -> its arguments, and the message.
WORSE = {
    "aws-p5-prod": {
        "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicyBinding": (
            {"spec": {"policyName": "none", "validationActions": ["Audit"]}},
            ("no binding names it", "lets through what the guard finds"),
        ),
        "kubernetes:core/v1:PersistentVolumeClaim": (
            {"spec": {"accessModes": ["ReadWriteOnce"]}},
            ("all but one would never start",),
        ),
        "aws:ec2/launchTemplate:LaunchTemplate": (
            {"block_device_mappings": [], "metadata_options": {"httpTokens": "optional"}},
            ("nodes' volumes lie in the clear", "can fetch the node's credentials"),
        ),
    },
    "gcp-a3-ultra": {
        "kubernetes:core/v1:Namespace": (
            {"metadata": {"name": "training"}},
            ("has a queue and no label",),
        ),
        "gcp:container/cluster:Cluster": (
            {"remove_default_node_pool": False, "enable_legacy_abac": True},
            ("removeDefaultNodePool is False", "enableLegacyAbac is True"),
        ),
    },
}


@pytest.mark.parametrize("stack", few(HIDDEN, ["aws-p5-prod"]))
def test_first_preview_refuses_missing_or_hidden_values(stack: str, tmp_path: Path) -> None:
    device, hidden = HIDDEN[stack]
    project = Project(tmp_path, stack)
    main = project.folder / "__main__.py"
    names = {token: argument for token, (argument, _) in hidden.items()}
    worse = {token: arguments for token, (arguments, _) in WORSE[stack].items()}
    given = f"DEVICE, HIDDEN, WORSE = {device!r}, {names!r}, {worse!r}"
    main.write_text(f"{given}\n{WITHOUT}\n{main.read_text()}")
    text = project.run("preview", "--policy-pack", pack(project), status=1)
    assert "queue-covers-devices" in text
    assert f"but not '{device}'" in text
    for token, (_, path) in hidden.items():
        # As the engine says it: the module alone, without the resource's own file in it.
        assert f"({re.sub('/[a-z][A-Za-z]+:', ':', token)}: " in text, token
        assert f"{path} is not known before the update" in text, token
    for _, sentences in WORSE[stack].values():
        for sentence in sentences:
            assert sentence in text, sentence
    assert not project.entries()


def test_state_is_judged_without_its_program(tmp_path: Path) -> None:
    project = Project(tmp_path, "lab")
    program = project.folder / "__main__.py"
    program.write_text(
        "import pulumi_kubernetes as k8s\n"
        'k8s.core.v1.Service("open", metadata={"name": "open"}, spec={"type": "LoadBalancer"})\n'
    )
    project.run("up", "--yes", "--skip-preview")
    program.unlink()
    analyze = ("policy", "analyze", "--policy-pack", pack(project))
    reported = project.run(*analyze, status=1)
    assert f"railhead@v{__version__}" in reported
    assert "[severity: critical]  cloud-is-closed" in reported
    settings = tmp_path / "settings.json"
    settings.write_text('{"cloud-is-closed": {"exempt": [{"namespace": "default"}]}}')
    refused = project.run(*analyze, "--policy-pack-config", str(settings), status=1)
    assert "cloud-is-closed: exempt.0: reason is required" in refused
