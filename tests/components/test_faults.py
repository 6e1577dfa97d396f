"""Every fault that was found by reading upstream's sources, put back one by one: each is refused.

By `railhead config check`, or by the test that holds the plan, run here on a plan, on a node's
files or on code that has the fault again. Guards are judged by an API server, whose tests are
marked; the table names the pods that are put before it.
"""

from __future__ import annotations

import copy
import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from railhead.base.errors import InputError
from railhead.components.aws import identity, node_pools
from railhead.components.controllers import gpu_operator
from railhead.components.fabric import cni, rails, sriov
from railhead.components.fabric import gke as gke_fabric
from railhead.components.fabric.modes import efa, sriov_ib
from railhead.config import check_values, parse, served
from railhead.fabric.kinds import FABRICS
from railhead.fabric.plugin import NodePlugin
from railhead.gate import keeper, prove, state
from railhead.machines import MACHINES
from railhead.model.cluster import Cluster
from railhead.platform.aws.user_data import NodeSetup, user_data
from railhead.resolve import pods
from tests import crds
from tests.components import (
    test_aws,
    test_aws_order,
    test_fabric_objects,
    test_fabric_schemas,
    test_gcp,
    test_gcp_order,
    test_node_gate,
    test_pod_guards,
    test_taints,
)
from tests.components.recording import (
    STACKS,
    Recording,
    Registered,
    recorded,
    stack_cluster,
)
from tests.unit.catalog import test_fabrics
from tests.unit.gate import test_keeper, test_proofs, test_state

PROD, BLOCK, ULTRA, MEGA = "aws-p5-prod", "aws-p5en-block", "gcp-a3-ultra", "gcp-a3-mega"
# The clouds' stacks are recorded here.
pytestmark = pytest.mark.slow

Judge = Callable[..., Any]


# -- ways to put a fault back ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Config:
    """A stack's file that says it; ``words`` is what `railhead config check` answers."""

    raw: Callable[[], dict[str, Any]]
    edit: Callable[[dict[str, Any]], object]
    words: str

    def refused(self, _patch: pytest.MonkeyPatch) -> None:
        parse(self.raw(), where="unspoilt")
        spoilt = copy.deepcopy(self.raw())
        self.edit(spoilt)
        with pytest.raises(InputError, match=re.escape(self.words)):
            parse(spoilt, where="spoilt")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A recorded plan that has it; ``judge`` is the test of the plan.

    ``module``: where the test looks its recording up by itself, if it is not handed one.
    """

    stack: str
    spoil: Callable[[Recording], Recording]
    judge: Judge
    module: Any = None

    def refused(self, patch: pytest.MonkeyPatch) -> None:
        good = recorded(self.stack)
        if self.module is not None:
            self.judge()
            spoilt = self.spoil(good)
            patch.setattr(
                self.module,
                "recorded",
                lambda name: spoilt if name == self.stack else recorded(name),
            )
            with pytest.raises((AssertionError, ValueError, KeyError)):
                self.judge()
            return
        self.judge(good)
        with pytest.raises((AssertionError, ValueError, KeyError)):
            self.judge(self.spoil(good))


@dataclass(frozen=True, kw_only=True)
class Code:
    """Code that has it: ``name`` of ``holder`` is replaced by what ``spoil`` makes of it."""

    holder: Any
    name: str
    spoil: Callable[[Any], Any]
    judge: Judge

    def refused(self, patch: pytest.MonkeyPatch) -> None:
        self.judge()
        patch.setattr(self.holder, self.name, self.spoil(getattr(self.holder, self.name)))
        with pytest.raises((AssertionError, ValueError, KeyError)):
            self.judge()


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A test that puts the fault back itself and expects the refusal, run here."""

    test: Judge

    def refused(self, _patch: pytest.MonkeyPatch) -> None:
        self.test()


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A node that has it, laid out as the kernel would; the gate must fail it for that alone."""

    node: str

    def refused(self, _patch: pytest.MonkeyPatch) -> None:
        in_folder(test_proofs.test_a_broken_node_fails_for_that_reason_alone, self.node)


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """Pods that have it, which an API server with the guards refuses in the tests of the table."""

    pods: tuple[str, ...]

    def refused(self, _patch: pytest.MonkeyPatch) -> None:
        assert set(self.pods) <= set(test_pod_guards.UNWIRED)


Fault = Config | Plan | Code | Shown | Broken | Submitted


def in_folder(judge: Judge, *given: Any) -> None:
    """Run a test that takes a folder of its own first."""
    with tempfile.TemporaryDirectory() as folder:
        judge(Path(folder), *given)


def shipped(stack: str) -> Callable[[], dict[str, Any]]:
    return lambda: stack_cluster(stack)


def case(identity: str, **changes: Any) -> Callable[[], dict[str, Any]]:
    def raw() -> dict[str, Any]:
        return test_fabric_objects.raw(identity) | changes

    return raw


def put(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(raw: Any) -> None:
        for part in path[:-1]:
            raw = raw[part]
        raw[path[-1]] = value

    return edit


def remade(recording: Recording, change: Callable[[Registered], Registered]) -> Recording:
    return Recording(
        resources={urn: change(r) for urn, r in recording.resources.items()},
        outputs=recording.outputs,
    )


def cut(
    needed: Callable[[Registered], bool], step: Callable[[Registered], bool] = lambda _: True
) -> Callable[[Recording], Recording]:
    """Return an edit that removes the edges from ``step`` to ``needed``."""

    def spoil(recording: Recording) -> Recording:
        gone = {r.urn for r in recording.resources.values() if needed(r)}
        assert gone

        def change(resource: Registered) -> Registered:
            if not step(resource):
                return resource
            return replace(resource, dependencies=resource.dependencies - gone)

        return remade(recording, change)

    return spoil


def sent(
    which: Callable[[Registered], bool], edit: Callable[[dict[str, Any]], object]
) -> Callable[[Recording], Recording]:
    """Return an edit that changes the inputs of some resources."""

    def spoil(recording: Recording) -> Recording:
        assert any(which(r) for r in recording.resources.values())

        def change(resource: Registered) -> Registered:
            if not which(resource):
                return resource
            inputs = copy.deepcopy(dict(resource.inputs))
            edit(inputs)
            return replace(resource, inputs=inputs)

        return remade(recording, change)

    return spoil


def without(which: Callable[[Registered], bool]) -> Callable[[Recording], Recording]:
    """Return an edit that removes some resources."""

    def spoil(recording: Recording) -> Recording:
        kept = {urn: r for urn, r in recording.resources.items() if not which(r)}
        assert len(kept) < len(recording.resources)
        return Recording(resources=kept, outputs=recording.outputs)

    return spoil


def token(*tokens: str) -> Callable[[Registered], bool]:
    return lambda resource: resource.type in tokens


def part(text: str) -> Callable[[Registered], bool]:
    return lambda resource: text in resource.name


def _no_dcgm(inputs: dict[str, Any]) -> None:
    values = json.loads(inputs["configurationValues"])
    del values["dcgmAgent"]
    inputs["configurationValues"] = json.dumps(values)


def _not_enforced(inputs: dict[str, Any]) -> None:
    values = json.loads(inputs["configurationValues"])
    del values["enableNetworkPolicy"]
    inputs["configurationValues"] = json.dumps(values)


def _ports_closed(inputs: dict[str, Any]) -> None:
    inputs["spec"]["egress"] = inputs["spec"]["egress"][:1]


def fabric_of(name: str, **variables: str | None) -> Callable[[Any], Any]:
    """Return a fabric whose environment has other values, or lacks some."""

    def spoil(rows: Mapping[str, Any]) -> Mapping[str, Any]:
        row = rows[name]
        changed = tuple(
            replace(v, value=variables.get(v.name) or v.value)
            for v in row.environment
            if variables.get(v.name, v.value) is not None
        )
        assert changed != row.environment
        return {**rows, name: replace(row, environment=changed)}

    return spoil


def also(**fields: Any) -> Callable[[Judge], Judge]:
    """Return a wrapper that adds ``fields`` to what a function returns."""
    return lambda made: lambda *given, **named: made(*given, **named) | fields


def _without_nfd(values: Judge) -> Judge:
    def spoilt(*given: Any) -> dict[str, Any]:
        made = dict(values(*given))
        made["node-feature-discovery"] = {"worker": {"tolerations": []}}
        return made

    return spoilt


def _all_pools(made: Judge) -> Judge:
    def spoilt(*given: Any, **named: Any) -> tuple[str, dict[str, Any]]:
        kind, spec = made(*given, **named)
        return kind, {key: value for key, value in spec.items() if key != "nodeSelector"}

    return spoilt


def _lossy(inputs: Any) -> Any:
    return lambda *given, **named: replace(inputs(*given, **named), environment={})


def _tags_roll_nothing() -> None:
    in_folder(
        lambda folder: test_aws.TestNodePools().test_new_tags_reach_instances_and_roll_no_node(
            recorded(PROD), folder
        )
    )


def _roles_differ() -> None:
    """IAM has one set of names for all regions of an account."""
    for role in recorded(PROD).of_type("aws:iam/role:Role"):
        assert role.inputs["name"].startswith(identity.role_name("p5-prod", "us-east-2"))
    assert identity.role_name("p5", "us-east-2", "x") != identity.role_name("p5", "us-west-2", "x")


def _handle_of_its_claim(inputs: dict[str, Any]) -> None:
    inputs["spec"]["csi"]["volumeHandle"] += f"/{inputs['spec']['claimRef']['name']}"


def plugin_of(name: str, **changes: Any) -> Callable[[Any], Any]:
    """Return a fabric whose plugin has other fields."""

    def spoil(rows: Mapping[str, Any]) -> Mapping[str, Any]:
        row = rows[name]
        given = {
            field: value(getattr(row.plugin, field)) if callable(value) else value
            for field, value in changes.items()
        }
        return {**rows, name: replace(row, plugin=replace(row.plugin, **given))}

    return spoil


def _meta_plugins_are_refused() -> None:
    """MacvlanNetwork of network-operator v26.4.1 has none (they came with its #3028)."""
    body = {
        "apiVersion": "mellanox.com/v1alpha1",
        "kind": "MacvlanNetwork",
        "metadata": {"name": "rail-0"},
        "spec": {"master": "ens0np0", "mode": "bridge", "mtu": 9000},
    }
    schemas = crds.schemas("proven")
    assert test_fabric_schemas.errors(body, schemas) == []
    body["spec"] = {**cast("dict[str, Any]", body["spec"]), **cni.meta_plugins([{"type": "sbr"}])}
    assert test_fabric_schemas.errors(body, schemas)


def _newest_read_is_said() -> None:
    for name in STACKS:
        raw = stack_cluster(name)
        assert served.unproven(parse(raw, where=name)) == "", name
    spoilt = stack_cluster(BLOCK) | {"versions": "newest-read"}
    assert "never" in served.unproven(parse(spoilt, where="spoilt"))


def _claims_beside_levels_are_doubted() -> None:
    raw = case(SRIOV)()
    assert not [d for d in check_values(raw, where="x").doubts if "allocation" in d]
    raw["gpu_operator"] = {"allocation": "dra"}
    (doubt,) = [d for d in check_values(raw, where="x").doubts if "allocation" in d]
    assert "gpu_operator.allocation: 'dra'" in doubt


def _without_probe(made: Judge) -> Judge:
    def spoilt(wired: Any) -> Any:
        result = made(wired)
        kept = {key: v for key, v in result.container.items() if key != "startupProbe"}
        return replace(result, container=kept)

    return spoilt


def _of_no_class(made: Judge) -> Judge:
    def spoilt(*given: Any) -> Any:
        spec = copy.deepcopy(made(*given))
        del spec["template"]["spec"]["priorityClassName"]
        return spec

    return spoilt


def of_machine(name: str, **fabric: Any) -> dict[str, Any]:
    """Return a stack with shared devices on RoCE, on a machine of its own."""
    raw = case(SHARED)()
    raw["pools"][0]["instance_type"] = name
    raw["fabric"] |= fabric
    nics = len(MACHINES[name].nics)
    rail = raw["fabric"]["rails"][0]
    raw["fabric"]["hcas"] = [f"mlx5_{i}" for i in range(nics)]
    raw["fabric"]["rails"] = [
        rail | {"name": f"rail-{i}", "master": f"ens{i}np0", "subnet": f"192.168.{16 * i}.0/20"}
        for i in range(nics)
    ]
    return raw


def _ready_of_nothing(decide: Judge) -> Judge:
    def spoilt(gate: Any, findings: Any, now: str | None) -> str:
        results = list(findings)
        return cast("str", decide(gate, results, now)) if results else state.READY

    return spoilt


LUSTRE = token("aws:fsx/lustreFileSystem:LustreFileSystem")
RULES = token(
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule",
)
PUBLIC = token("aws:ec2/route:Route", "aws:ec2/routeTableAssociation:RouteTableAssociation")
SRIOV, SHARED = "sriov-roce-roce-existing", "rdma-shared-roce-existing"

FAULTS: Mapping[str, tuple[Fault, ...]] = {
    # -- AWS --------------------------------------------------------------------------------------
    "aws: a new placement group on a reservation": (
        Config(
            raw=shipped(PROD),
            edit=put("pools", 0, "placement_group", value={"kind": "new"}),
            words="pools[0].placement_group.kind: 'new' asks for reserved machines in one cluster",
        ),
    ),
    "aws: FSx beside its rules": (
        Plan(
            stack=PROD,
            spoil=cut(RULES, LUSTRE),
            judge=test_aws_order.TestFileSystems().test_fsx_finds_the_rules_of_its_groups,
        ),
    ),
    "aws: destroy cuts its own line": (
        Plan(
            stack=PROD,
            spoil=cut(part("-reach-")),
            judge=test_aws_order.TestControlPlane().test_api_server_stays_reachable_until_the_end,
        ),
        Plan(
            stack=PROD,
            spoil=cut(PUBLIC, token("aws:ec2/natGateway:NatGateway")),
            judge=test_aws_order.TestNetwork().test_a_nat_gateway_has_its_way_out,
        ),
        Plan(
            stack=PROD,
            spoil=cut(RULES),
            judge=test_aws_order.TestFileSystems().test_mounts_follow_the_file_system_and_its_rules,
        ),
    ),
    "aws: DCGM off on tainted pools": (
        Plan(
            stack=PROD,
            spoil=sent(part("eks-node-monitoring-agent"), _no_dcgm),
            judge=test_aws.TestCluster().test_gpu_health_is_monitored_on_tainted_nodes,
        ),
    ),
    "aws: default deny is not enforced": (
        Plan(
            stack=PROD,
            spoil=sent(lambda r: r.inputs.get("addonName") == "vpc-cni", _not_enforced),
            judge=lambda r: test_aws.TestCluster().test_network_policies_are_enforced(
                r, recorded(BLOCK)
            ),
        ),
    ),
    "aws: a taint of its own yields no GPUs": (
        Code(
            holder=gpu_operator,
            name="values",
            spoil=_without_nfd,
            judge=lambda: test_taints.test_every_agent_tolerates_the_pools_own_taint(
                "device-plugin"
            ),
        ),
    ),
    "aws: tags roll every node": (
        Code(
            holder=node_pools,
            name="_TAGS",
            # Launch templates that follow the stack's own tags.
            spoil=lambda _: [],
            judge=_tags_roll_nothing,
        ),
    ),
    "aws: gdrcopy with the host's driver": (
        Config(
            raw=shipped(PROD),
            edit=put("gpu_operator", "gdrcopy", value=True),
            words="gpu_operator.gdrcopy: the operator brings gdrdrv with its own driver only",
        ),
    ),
    "aws: memlock of AL2023": (
        Plan(
            stack=PROD,
            spoil=sent(part("h100-template"), put("userData", value="")),
            judge=lambda r: test_aws.TestUserData().test_every_gpu_node_gets_all(
                r, recorded(BLOCK)
            ),
        ),
        Plan(
            stack=PROD,
            spoil=sent(
                part("h100-template"),
                put("userData", value=user_data(NodeSetup(raid=True, hugepages_2mib=5128))),
            ),
            judge=lambda r: test_aws.TestUserData().test_every_gpu_node_gets_all(
                r, recorded(BLOCK)
            ),
        ),
    ),
    "aws: an image takes GPUs that no queue is charged for": (
        Plan(
            stack=PROD,
            spoil=sent(
                part("h100-template"),
                put("userData", value=user_data(NodeSetup(raid=True, lustre_efa=8))),
            ),
            judge=lambda r: (
                test_aws.TestUserData().test_no_image_gets_gpus_that_nobody_is_charged_for(r)
            ),
        ),
    ),
    "aws: Lustre with EFA stays on TCP": (
        Plan(
            stack=PROD,
            spoil=sent(
                part("h100-template"),
                put(
                    "userData",
                    value=user_data(NodeSetup(raid=True, hugepages_2mib=5128, lock_memory=True)),
                ),
            ),
            judge=lambda r: test_aws.TestUserData().test_every_gpu_node_gets_all(
                r, recorded(BLOCK)
            ),
        ),
        Config(
            raw=shipped(PROD),
            edit=lambda raw: raw["pools"][0].update(
                nodes=1025, initial_nodes=16, lustre_efa_devices=8
            ),
            words="platform.storage[0].efa: 8200 EFA devices of 1025 nodes would connect",
        ),
    ),
    "aws: images of another region, roles of one name": (
        Code(
            holder=efa,
            name="values",
            spoil=also(image={"repository": "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/x"}),
            judge=lambda: test_aws.TestCluster().test_images_of_eks_own_come_from_the_region(
                "eu-west-1", "602401143452.dkr.ecr.eu-west-1.amazonaws.com"
            ),
        ),
        Code(
            holder=identity,
            name="role_name",
            spoil=lambda made: lambda cluster, _region, *what: made(cluster, "", *what),
            judge=_roles_differ,
        ),
    ),
    # -- Google Cloud -----------------------------------------------------------------------------
    "gcp: a maintenance window that GKE refuses": (
        Config(
            raw=shipped(ULTRA),
            edit=put("platform", "maintenance", "recurrence", value="FREQ=WEEKLY;BYDAY=SA"),
            words="platform.maintenance.recurrence",
        ),
    ),
    "gcp: TCPXO's environment aborts": (
        Code(
            holder=test_fabrics,
            name="FABRICS",
            spoil=fabric_of("tcpxo", NCCL_PROTO="Simple"),
            judge=test_fabrics.test_tcpxo_has_the_environment_that_its_checker_enforces,
        ),
        Code(
            holder=test_fabrics,
            name="FABRICS",
            spoil=fabric_of("tcpxo", NCCL_NVLSTREE_MAX_CHUNKSIZE=None),
            judge=test_fabrics.test_tcpxo_has_the_environment_that_its_checker_enforces,
        ),
    ),
    "gcp: CUDA of the image": (
        Config(
            raw=shipped(MEGA),
            edit=put("runtimes", 0, "image", value="nvcr.io/nvidia/pytorch:25.10-py3"),
            words="has CUDA 13, but plugin v1.0.16 of fabric 'tcpxo' goes with CUDA 12",
        ),
        Shown(test=test_fabrics.test_a_plugin_goes_with_what_its_vendor_published_with_it),
    ),
    "gcp: bucket mounts behind default deny": (
        Plan(
            stack=ULTRA,
            spoil=sent(
                lambda r: r.inputs.get("metadata", {}).get("name") == "railhead-egress",
                _ports_closed,
            ),
            judge=test_gcp.test_pods_that_mount_a_bucket_reach_it_and_their_identity,
            module=test_gcp,
        ),
    ),
    "gcp: the gate proves nothing": (
        Code(
            holder=state.Gate,
            name="decide",
            spoil=_ready_of_nothing,
            judge=test_state.test_no_findings_prove_nothing,
        ),
        Code(
            holder=prove,
            name="checks_in",
            spoil=lambda _: lambda *_given: (),
            judge=lambda: in_folder(test_proofs.test_everything_that_is_expected_has_a_proof),
        ),
        Shown(
            test=lambda: in_folder(
                test_proofs.test_a_node_of_which_nothing_is_expected_has_proven_nothing
            )
        ),
        Broken(node="the plugin was never installed"),
        Broken(node="an aperture is not bound"),
        Broken(node="the import helper is not loaded"),
        Broken(node="the plugin is an older one"),
    ),
    "gcp: flags of TCPX that were retired": (
        Code(
            holder=test_fabrics,
            name="FABRICS",
            spoil=fabric_of("tcpx", NCCL_GPUDIRECTTCPX_TX_BINDINGS=None),
            judge=test_fabrics.test_tcpx_has_the_environment_of_its_release,
        ),
        Code(
            holder=test_fabrics,
            name="FABRICS",
            spoil=fabric_of("tcpx", NCCL_BUFFSIZE="8388608"),
            judge=test_fabrics.test_tcpx_has_the_environment_of_its_release,
        ),
    ),
    "gcp: an injector on every GPU node": (
        Code(
            holder=gke_fabric,
            name="injector",
            spoil=lambda _: (
                lambda *_given: {
                    "template": {"spec": {"affinity": {"nodeAffinity": {"key": "gke-gpu"}}}}
                }
            ),
            judge=(
                test_fabric_objects.TestInstaller().test_the_injector_goes_to_the_machines_of_its_plugin
            ),
        ),
    ),
    "gcp: a pool for bursts that is static": (
        Config(
            raw=shipped(MEGA),
            edit=put("pools", 1, "placement", value={"kind": "compact"}),
            words="pools[1].placement.kind",
        ),
        Config(
            raw=shipped(MEGA),
            edit=put("pools", 1, "min_nodes", value=2),
            words="pools[1].min_nodes",
        ),
    ),
    "gcp: an installer that breaks running jobs": (
        Code(
            holder=gke_fabric,
            name="installer",
            spoil=also(updateStrategy={"type": "RollingUpdate"}),
            judge=lambda: (
                test_fabric_objects.TestInstaller().test_installer_updates_on_delete_and_nothing_awaits_it(
                    cast(NodePlugin, FABRICS["tcpxo"].plugin)
                )
            ),
        ),
        Code(
            holder=gke_fabric,
            name="_BEFORE",
            spoil=lambda text: text.partition("if [")[0],
            judge=lambda: in_folder(
                test_fabric_objects.TestInstaller().test_it_says_what_it_has_installed_and_does_so_once
            ),
        ),
    ),
    "gcp: A4X": (
        Config(
            raw=shipped(ULTRA),
            edit=put("pools", 0, "instance_type", value="a4x-highgpu-4g"),
            words="pools[0].instance_type",
        ),
    ),
    "gcp: researchers locked out": (
        Plan(
            stack=ULTRA,
            spoil=without(lambda r: r.type == test_gcp.MEMBER and "-researchers-" in r.name),
            judge=test_gcp.test_researchers_get_through_the_door_that_iam_guards,
            module=test_gcp,
        ),
    ),
    "gcp: a driver of another branch": (Broken(node="the driver is of another branch"),),
    "gcp: gIB overrides the image's NCCL": (
        Code(
            holder=test_fabric_objects,
            name="FABRICS",
            spoil=plugin_of("gcp-rdma", script=lambda script: f"{script} --install-nccl"),
            judge=test_fabric_objects.TestInstaller().test_gib_leaves_the_images_nccl_alone,
        ),
    ),
    "gcp: the daemon has no startup probe": (
        Code(
            holder=pods,
            name="daemon",
            spoil=_without_probe,
            judge=test_fabric_objects.TestInstaller().test_the_trainer_starts_after_a_daemon_that_serves,
        ),
    ),
    "gcp: two Lustre file systems of one name, Filestore's steps": (
        Config(
            raw=shipped(MEGA),
            edit=put("platform", "storage", 0, "capacity_gib", value=10496),
            words="platform.storage[0].capacity_gib",
        ),
        Code(
            holder=test_gcp,
            name="variant",
            spoil=lambda made: (
                lambda *given: sent(
                    lambda r: r.inputs.get("kind") == "PersistentVolume", _handle_of_its_claim
                )(made(*given))
            ),
            judge=test_gcp.test_claims_of_one_file_system_are_one_mount_of_a_node,
        ),
    ),
    "gcp: rails after the nodes that have them": (
        Plan(
            stack=ULTRA,
            spoil=cut(token("gcp:compute/subnetwork:Subnetwork")),
            judge=test_gcp_order.TestNodes().test_gpu_nodes_have_every_rail_and_its_rules,
        ),
    ),
    # -- metal, OCI, Azure ------------------------------------------------------------------------
    "metal: SR-IOV reboots a pool in a loop": (
        Code(
            holder=sriov,
            name="pool_config",
            spoil=also(rdmaMode="exclusive"),
            judge=(
                test_fabric_objects.TestDrivers().test_no_node_is_rebooted_or_changed_below_what_runs_there
            ),
        ),
        Code(
            holder=sriov,
            name="operator_config",
            spoil=also(disableDrain=True),
            judge=(
                test_fabric_objects.TestDrivers().test_no_node_is_rebooted_or_changed_below_what_runs_there
            ),
        ),
        Broken(node="devices of one network namespace"),
        Broken(node="the mode on the kernel's command line"),
    ),
    "metal: rdma-cni after ib-sriov": (
        Code(
            holder=sriov_ib.SriovIbObjects,
            name="chained",
            spoil=lambda _: lambda *_given, **_named: [{"type": "rdma"}],
            judge=lambda: (
                test_fabric_objects.TestRails().test_infiniband_functions_are_isolated_by_their_own_plugin(
                    isolated=True
                )
            ),
        ),
        Code(
            holder=sriov_ib.SriovIbObjects,
            name="plugin",
            spoil=lambda _: lambda *_given: {"type": "ib-sriov", "link_state": "enable"},
            judge=lambda: (
                test_fabric_objects.TestRails().test_infiniband_functions_are_isolated_by_their_own_plugin(
                    isolated=True
                )
            ),
        ),
    ),
    "metal: a field that the pinned operator has not": (Shown(test=_meta_plugins_are_refused),),
    "metal: RoCE in the lossy class": (
        Code(
            holder=test_node_gate,
            name="wiring",
            spoil=_lossy,
            judge=lambda: test_node_gate.TestExpectation().test_what_nccl_sends_is_what_is_proven(
                "dgx-h100", {}, "106", 26
            ),
        ),
        Broken(node="NCCL's packets in another priority"),
        Broken(node="PFC on another priority"),
    ),
    "metal: nv-ipam cuts pools for every node": (
        Code(
            holder=rails,
            name="address_pool",
            spoil=_all_pools,
            judge=test_fabric_objects.TestRails().test_a_block_for_each_node_holds_its_pods,
        ),
    ),
    "metal: prefixes of a node that are not its switch port's": (
        Code(
            holder=rails,
            name="address_pool",
            spoil=lambda made: (
                lambda *given: (
                    made(*given)[0],
                    {k: v for k, v in made(*given)[1].items() if k != "staticAllocations"},
                )
            ),
            judge=test_fabric_objects.TestRails().test_a_nodes_part_is_the_one_that_its_switch_port_has,
        ),
        Code(
            holder=rails,
            name="address_pool",
            spoil=lambda made: (
                lambda *given: (made(*given)[0], made(*given)[1] | {"routes": [{"dst": "x"}]})
            ),
            judge=test_fabric_objects.TestRails().test_what_stays_on_a_rail_does_not_go_by_its_router,
        ),
    ),
    "metal: up wedges on one dead node": (
        Code(
            holder=test_fabric_objects,
            name="recorded",
            spoil=lambda made: (
                lambda of: (
                    sent(
                        lambda r: r.inputs.get("kind") == "NicClusterPolicy",
                        put(
                            "metadata",
                            "annotations",
                            "pulumi.com/waitFor",
                            value="jsonpath={.status.state}=ready",
                        ),
                    )(made(of))
                    if "sriov" in of.id
                    else made(of)
                )
            ),
            judge=test_fabric_objects.TestDrivers().test_no_step_waits_for_every_node,
        ),
    ),
    "metal: the gate at scale": (
        Code(
            holder=Cluster,
            name="mirrored",
            spoil=lambda _: lambda _cluster, reference: reference,
            judge=test_node_gate.TestPod().test_its_image_comes_from_the_mirror,
        ),
        Code(
            holder=test_node_gate,
            name="daemon_set",
            spoil=_of_no_class,
            judge=test_node_gate.TestPod().test_gate_is_deleted_last_and_its_labels_expire,
        ),
        Code(
            holder=keeper,
            name="turn",
            spoil=lambda _: lambda *_given: [],
            judge=test_keeper.test_a_node_without_a_gate_loses_its_label_after_the_grace,
        ),
        Code(
            holder=test_state,
            name="label_before",
            spoil=lambda _: lambda labels, _annotations: labels.get(state.LABEL),
            judge=test_state.test_rollout_does_not_fail_a_node_with_nics_off,
        ),
    ),
    "metal: SHARP by NCCL's own transport": (
        Config(
            raw=case("rdma-shared-infiniband-existing"),
            edit=lambda raw: raw["fabric"].update(environment={"NCCL_COLLNET_ENABLE": "1"}),
            words="fabric.environment.NCCL_COLLNET_ENABLE",
        ),
    ),
    "metal: guards that offer what there is not, MIG and claims that slip by": (
        Submitted(
            pods=(
                "Ray",
                "LeaderWorkerSet",
                "StatefulSet",
                "Volcano",
                "a part of a GPU",
                "a GPU by a claim",
            )
        ),
    ),
    "metal: GPUs by claim beside levels of the topology": (
        Shown(test=_claims_beside_levels_are_doubted),
    ),
    "metal: dranet without a selector": (
        Config(
            raw=case("dranet-roce-existing"),
            edit=lambda raw: raw["fabric"].pop("selector"),
            words="fabric.selector: is missing",
        ),
    ),
    "metal: OCI's frames, Azure's HCAs": (
        Config(
            raw=lambda: of_machine("BM.GPU.H200.8", mtu=4220),
            edit=put("fabric", "mtu", value=9000),
            words="fabric.mtu: 9000 is more than the 4220",
        ),
        Config(
            raw=lambda: of_machine("dgx-h100"),
            edit=put("fabric", "hcas", value=[f"mlx5_{i}" for i in range(4)]),
            words="fabric.hcas",
        ),
    ),
    "what ships never ran": (Shown(test=_newest_read_is_said),),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_is_put_back_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert FAULTS[name]
    for fault in FAULTS[name]:
        with monkeypatch.context() as patch:
            fault.refused(patch)


def test_each_group_of_stacks_has_its_faults() -> None:
    counted = {
        word: sum(n.startswith(f"{word}:") for n in FAULTS) for word in ("aws", "gcp", "metal")
    }
    assert counted["aws"] >= 10
    assert counted["gcp"] >= 13
    assert counted["metal"] >= 10
