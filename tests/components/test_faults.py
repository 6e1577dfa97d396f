"""Every fault that was found by reading upstream's sources, put back one by one: each is refused.

By `railhead config check`, or by the test that holds the plan, run here on a plan or on code that
has the fault again. What is proven on a node, in a script or by the API server is put back where it
is proven; the table names those tests.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from components.controllers import gpu_operator
from components.fabric import gke as gke_fabric
from components.fabric import rails, sriov
from railhead.base.errors import InputError
from railhead.config import parse
from railhead.fabric.kinds import FABRICS
from railhead.fabric.plugin import NodePlugin
from tests.components import (
    test_aws,
    test_aws_order,
    test_fabric_objects,
    test_gcp,
    test_gcp_order,
    test_node_gate,
    test_taints,
)
from tests.components.recording import Recording, Registered, recorded, stack_cluster
from tests.unit.catalog import test_fabrics

REPO = Path(__file__).resolve().parents[2]
PROD, BLOCK, ULTRA, MEGA = "aws-p5-prod", "aws-p5en-block", "gcp-a3-ultra", "gcp-a3-mega"
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
class Elsewhere:
    """Put back by tests of their own, ``path::function``."""

    tests: tuple[str, ...]

    def refused(self, _patch: pytest.MonkeyPatch) -> None:
        assert self.tests
        for test in self.tests:
            path, _, function = test.partition("::")
            text = (REPO / path).read_text()
            assert re.search(rf"^ *def {function}\(", text, re.MULTILINE), test


Fault = Config | Plan | Code | Elsewhere


def elsewhere(*tests: str) -> Elsewhere:
    return Elsewhere(tests=tests)


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
    """Without the edges from ``step`` to ``needed``."""

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
    """With other inputs of some resources."""

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
    """Without some resources."""

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
    """A fabric whose environment has other values, or lacks some."""

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
    """What a function returns, with more in it."""
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


AWS = "tests/components/test_aws.py"
GATE = "tests/unit/gate/test_proofs.py"
GUARDS = "tests/components/test_pod_guards.py"
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
            judge=test_aws_order.TestControlPlane().test_whoever_works_inside_gets_there_until_the_end,
        ),
        Plan(
            stack=PROD,
            spoil=cut(PUBLIC, token("aws:ec2/natGateway:NatGateway")),
            judge=test_aws_order.TestNetwork().test_a_nat_gateway_has_its_way_out,
        ),
        Plan(
            stack=PROD,
            spoil=cut(RULES),
            judge=test_aws_order.TestFileSystems().test_who_mounts_finds_the_file_system_and_its_rules,
        ),
    ),
    "aws: DCGM off on tainted pools": (
        Plan(
            stack=PROD,
            spoil=sent(part("eks-node-monitoring-agent"), _no_dcgm),
            judge=test_aws.TestCluster().test_the_health_of_gpus_is_seen_on_tainted_nodes,
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
        elsewhere(f"{AWS}::test_the_stacks_tags_reach_instances_and_roll_no_node"),
    ),
    "aws: gdrcopy with the host's driver": (
        Config(
            raw=shipped(PROD),
            edit=put("gpu_operator", "gdrcopy", value=True),
            words="gpu_operator.gdrcopy: EKS' image has no gdrdrv",
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
        elsewhere(f"{AWS}::test_containers_may_lock_their_memory_and_open_as_many_files_as_before"),
    ),
    "aws: Lustre with EFA stays on TCP": (
        elsewhere(
            f"{AWS}::test_every_gpu_node_gets_all",
            f"{AWS}::test_lustre_takes_devices_from_all_over_the_node",
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
        elsewhere(
            f"{AWS}::test_images_of_eks_own_come_from_the_region",
            f"{AWS}::test_roles_of_one_clusters_name_in_two_regions_are_two",
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
        elsewhere(
            "tests/unit/catalog/test_fabrics.py"
            "::test_a_plugin_goes_with_what_its_vendor_published_with_it"
        ),
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
        elsewhere(
            "tests/unit/gate/test_state.py::test_nothing_looked_at_is_nothing_proven",
            f"{GATE}::test_a_node_of_which_nothing_is_expected_has_proven_nothing",
            f"{GATE}::test_everything_that_is_expected_has_a_proof",
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
                test_fabric_objects.TestInstaller().test_it_is_not_rolled_under_jobs_and_nobody_waits_for_every_node(
                    cast(NodePlugin, FABRICS["tcpxo"].plugin)
                )
            ),
        ),
        elsewhere(
            "tests/components/test_fabric_objects.py"
            "::test_it_says_what_it_has_installed_and_does_so_once"
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
            spoil=without(part("-researchers-connect")),
            judge=test_gcp.test_researchers_get_through_the_door_that_iam_guards,
            module=test_gcp,
        ),
    ),
    "gcp: a driver of another branch": (
        elsewhere(f"{GATE}::test_a_broken_node_fails_for_that_reason_alone"),
    ),
    "gcp: gIB overrides the image's NCCL": (
        elsewhere("tests/components/test_fabric_objects.py::test_gib_leaves_the_images_nccl_alone"),
    ),
    "gcp: the daemon has no startup probe": (
        elsewhere(
            "tests/components/test_fabric_objects.py"
            "::test_the_trainer_starts_after_a_daemon_that_serves"
        ),
    ),
    "gcp: two Lustre file systems of one name, Filestore's steps": (
        Config(
            raw=shipped(MEGA),
            edit=put("platform", "storage", 0, "capacity_gib", value=10496),
            words="platform.storage[0].capacity_gib",
        ),
        elsewhere(
            "tests/components/test_gcp.py::test_claims_of_one_file_system_are_one_mount_of_a_node"
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
        elsewhere(f"{GATE}::test_a_broken_node_fails_for_that_reason_alone"),
    ),
    "metal: rdma-cni after ib-sriov": (
        elsewhere(
            "tests/components/test_fabric_objects.py"
            "::test_infiniband_functions_are_isolated_by_their_own_plugin"
        ),
    ),
    "metal: a field that the pinned operator has not": (
        elsewhere(
            "tests/components/test_fabric_schemas.py::test_every_object_fits_its_schema",
            "tests/components/test_fabric_objects.py"
            "::test_the_operators_networks_chain_nothing_so_the_stack_writes_its_own",
        ),
    ),
    "metal: RoCE in the lossy class": (
        Code(
            holder=test_node_gate,
            name="wiring",
            spoil=_lossy,
            judge=lambda: test_node_gate.TestExpectation().test_what_nccl_sends_is_what_is_proven(
                "dgx-h100", {}, "106", 26
            ),
        ),
        elsewhere(f"{GATE}::test_a_broken_node_fails_for_that_reason_alone"),
    ),
    "metal: nv-ipam cuts pools for every node": (
        Code(
            holder=rails,
            name="address_pool",
            spoil=_all_pools,
            judge=test_fabric_objects.TestRails().test_a_block_for_each_node_holds_its_pods,
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
        elsewhere(
            "tests/components/test_node_gate.py::test_its_image_comes_from_the_mirror",
            "tests/components/test_node_gate.py::test_it_goes_last_and_what_it_left_behind_expires",
            "tests/components/test_mirrors.py"
            "::test_no_image_of_a_stack_is_of_a_registry_that_has_a_mirror",
            "tests/unit/gate/test_state.py"
            "::test_a_rollout_does_not_fail_a_node_whose_nics_are_switched_off",
            "tests/unit/gate/test_keeper.py::test_a_node_without_a_gate_loses_its_label_after_the_grace",
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
        elsewhere(
            f"{GUARDS}::test_without_its_fabric_a_pod_does_not_start",
            f"{GUARDS}::test_a_good_pod_passes",
        ),
    ),
    "metal: dranet without a selector": (
        Config(
            raw=case("dranet-roce-existing"),
            edit=lambda raw: raw["fabric"].pop("selector"),
            words="fabric.selector: is missing",
        ),
    ),
    "metal: OCI's frames, Azure's HCAs": (
        elsewhere(
            "tests/unit/config/test_fabric.py"
            "::test_frames_are_no_larger_than_a_providers_interfaces_take",
            "tests/unit/config/test_fabric.py::test_the_catalogues_hcas_are_as_many_as_its_nics",
        ),
    ),
    "what ships never ran": (
        elsewhere(
            "tests/unit/catalog/test_rows.py::test_what_ships_is_what_ran",
            "tests/policies/test_rules.py::test_versions_that_never_ran_are_named",
            "tests/unit/config/test_commands.py::test_versions_that_never_ran_are_said_in_one_line",
        ),
    ),
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
