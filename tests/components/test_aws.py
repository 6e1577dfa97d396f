"""Clusters on AWS as the program registers them."""

from __future__ import annotations

import base64
import copy
import email
import json
import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pulumi
import pytest
import yaml
from pulumi_aws import eks

from railhead.base.errors import PrerequisiteError
from railhead.catalog.versions import AWS_DRANET, EFA_DEVICE_PLUGIN
from railhead.components import arguments
from railhead.components.aws import build, reservation
from railhead.components.aws.eks_cluster import kubeconfig
from railhead.components.aws.network import subnet_blocks
from railhead.components.aws.node_pools import network_interfaces
from railhead.components.aws.reservation import checked
from railhead.components.cluster_access import provider
from railhead.components.fabric.modes import efa
from railhead.components.mismatch import MismatchError
from railhead.config import parse
from railhead.fabric.modes.efa import EfaFabric
from railhead.gate.node import LUSTRE_EFA_RESULT
from railhead.lab.recorders import shapes
from railhead.lab.recorders.recording import changed_paths, forced
from railhead.machines import MACHINES
from railhead.platform.aws import facts as catalogue
from railhead.platform.aws.model import (
    AwsCluster,
    AwsPool,
    CapacityBlock,
    Reservation,
    S3Access,
)
from railhead.platform.aws.reserved import mismatch
from railhead.platform.aws.rights import statements
from railhead.platform.aws.template import node_setup
from railhead.platform.aws.user_data import NodeSetup, user_data
from tests.components.recording import (
    Recording,
    Registered,
    recorded,
    run_program,
    stack_cluster,
)
from tests.providers.aws_requests import IDS, calls, problems
from tests.unit.catalog.figures import EFA_CARDS

# The stacks of a cloud are recorded here, and each edit of one again.
pytestmark = pytest.mark.slow

PROD, BLOCK = "aws-p5-prod", "aws-p5en-block"
PROVIDER = "pulumi:providers:aws"
CLUSTER = "aws:eks/cluster:Cluster"
POOL = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
EFS = "aws:efs/fileSystem:FileSystem"
ADDON = "aws:eks/addon:Addon"
ROLE = "aws:iam/role:Role"
INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
# How the engine's protocol marks a secret.
SECRET = "4dabf18193072939515e22adb298388d"


@pytest.fixture(scope="module")
def prod() -> Recording:
    return recorded(PROD)


@pytest.fixture(scope="module")
def block() -> Recording:
    return recorded(BLOCK)


@pytest.fixture(scope="module")
def unknown() -> Recording:
    return recorded(PROD, known=False)


@pytest.fixture(scope="module")
def modest(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """A cheaper cluster: one NAT gateway, no interface endpoints, Lustre without EFA, on demand."""

    def edit(cluster: dict[str, Any]) -> None:
        cluster["platform"]["network"] |= {"nat": "single", "interface_endpoints": False}
        cluster["platform"]["storage"] = [
            {**cluster["platform"]["storage"][0], "efa": False, "capacity_gib": 31200}
        ]
        cluster["checkpoints"] = cluster["checkpoints"][:1]
        cluster["pools"][0] |= {"purchase": {"kind": "on-demand"}, "initial_nodes": 2}
        cluster["pools"][0]["placement_group"] = {"kind": "new"}
        cluster["pools"][0]["min_nodes"] = 0

    return variant(tmp_path_factory.mktemp("modest"), edit)


def below(raw: Mapping[str, Any], folder: Path, *, known: bool = True) -> Recording:
    """Record the cloud's resources and what they put into Kubernetes, and nothing else."""
    cluster = parse(raw, where="x")
    assert isinstance(cluster, AwsCluster)

    def program() -> None:
        infrastructure = build(cluster, pulumi.ResourceOptions())
        access = provider("inside", infrastructure.access, pulumi.ResourceOptions())
        below_it = pulumi.ResourceOptions(providers=[access])
        infrastructure.inside("platform", opts=below_it)

    return run_program(None, folder, known=known, preview=not known, program=program)


def variant(folder: Path, edit: Any, stack: str = PROD) -> Recording:
    """Record the cloud's resources of a stack whose cluster is edited in place."""
    cluster = copy.deepcopy(stack_cluster(stack))
    edit(cluster)
    return below(cluster, folder)


def same(recording: Recording, resource: Registered) -> Registered:
    """Return the resource of that name and type in another run, whatever is above it there."""
    return named(recording, resource.type, resource.name)


def named(recording: Recording, token: str, end: str = "") -> Registered:
    results = [r for r in recording.of_type(token) if r.name.endswith(end)]
    assert len(results) == 1, f"{token} {end}: {[r.name for r in recording.of_type(token)]}"
    return results[0]


def clouds(recording: Recording) -> list[Registered]:
    return [r for r in recording.resources.values() if r.type.startswith("aws:")]


class TestGraph:
    @pytest.mark.parametrize("stack", [PROD, BLOCK])
    def test_everything_is_made_in_the_stacks_account_and_region(
        self, stack: str, request: pytest.FixtureRequest
    ) -> None:
        recording = request.getfixturevalue("prod" if stack == PROD else "block")
        platform = stack_cluster(stack)["platform"]
        (provider,) = recording.of_type(PROVIDER)
        assert provider.inputs["region"] == platform["region"]
        assert json.loads(provider.inputs["allowedAccountIds"]) == [platform["account"]]
        assert len(clouds(recording)) > 30
        for resource in clouds(recording):
            assert resource.provider.startswith(f"{provider.urn}::"), resource.urn

    def test_no_stack_buys_capacity(self, prod: Recording, block: Recording) -> None:
        """A capacity block is paid for when it is made, and destroying it gives nothing back."""
        for recording in (prod, block):
            for resource in clouds(recording):
                assert "apacityBlock" not in resource.type
            for read in recording.of_type("aws:ec2/capacityReservation:CapacityReservation"):
                assert read.inputs == {}, "it is read, not made"

    def test_the_clusters_role_and_log_come_before_it(self, prod: Recording) -> None:
        before = prod.before(prod.of_type(CLUSTER)[0].urn)
        policy = named(prod, "aws:iam/rolePolicyAttachment:RolePolicyAttachment", "ClusterPolicy")
        log = named(prod, "aws:cloudwatch/logGroup:LogGroup")
        key = named(prod, "aws:kms/key:Key")
        assert {policy.urn, log.urn, key.urn} <= before
        assert log.inputs["name"] == "/aws/eks/p5-prod/cluster"

    def test_nodes_wait_for_what_makes_them_ready(self, prod: Recording) -> None:
        routes = [r.urn for r in prod.of_type("aws:ec2/route:Route") if "private" in r.name]
        for pool in prod.of_type(POOL):
            before = prod.before(pool.urn)
            for addon in ("vpc-cni", "kube-proxy", "eks-pod-identity-agent"):
                assert named(prod, ADDON, addon).urn in before, (pool.name, addon)
            assert set(routes) <= before, "a node without a way out never joins"
            policies = [
                r.urn
                for r in prod.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
                if "-nodes-" in r.name
            ]
            assert len(policies) == 2
            assert set(policies) <= before

    def test_what_runs_on_nodes_waits_for_the_system_pool(self, prod: Recording) -> None:
        system = named(prod, POOL, "system-nodes")
        for addon in ("coredns", "eks-node-monitoring-agent", "aws-fsx-csi-driver"):
            assert system.urn in prod.before(named(prod, ADDON, addon).urn), addon

    def test_objects_wait_for_access_to_the_cluster(self, prod: Recording) -> None:
        (provider,) = prod.of_type("pulumi:providers:kubernetes")
        before = prod.before(provider.urn)
        doors = prod.of_type("aws:eks/accessPolicyAssociation:AccessPolicyAssociation")
        assert len(doors) == 2
        for resource in (*doors, *prod.of_type(POOL), *prod.of_type(ADDON)):
            assert resource.urn in before, resource.urn

    def test_the_kubeconfig_is_a_secret_and_holds_no_credential(self, prod: Recording) -> None:
        (provider,) = prod.of_type("pulumi:providers:kubernetes")
        wrapped = provider.inputs["kubeconfig"]
        assert SECRET in wrapped
        content = json.loads(wrapped["value"])
        assert content == kubeconfig(
            name="p5-prod",
            region="us-east-2",
            endpoint="https://p5-prod-aws-eks-cluster.example.invalid",
            certificate_authority="LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",
        )
        (user,) = content["users"]
        assert set(user["user"]) == {"exec"}
        assert provider.inputs["clusterIdentifier"].startswith("arn:aws:eks:")
        assert SECRET in prod.outputs[prod_stack(prod)]["kubeconfig"]

    def test_production_is_protected_and_a_block_is_not(
        self, prod: Recording, block: Recording
    ) -> None:
        protected = Counter(r.type for r in clouds(prod) if r.protect)
        assert protected == {CLUSTER: 1, "aws:kms/key:Key": 1, POOL: 1, LUSTRE: 1, EFS: 1}
        assert named(prod, POOL, "h100-nodes").protect
        assert named(prod, CLUSTER).inputs["deletionProtection"] is True
        assert named(prod, LUSTRE).inputs["skipFinalBackup"] is False
        assert not [r for r in clouds(block) if r.protect]
        assert named(block, CLUSTER).inputs["deletionProtection"] is False

    def test_a_last_backup_survives_the_way_to_destroy(
        self, prod: Recording, tmp_path: Path
    ) -> None:
        """The documented way takes the protection away first, by an update of its own."""

        def edit(cluster: dict[str, Any]) -> None:
            cluster["platform"]["deletion_protection"] = False

        after = named(variant(tmp_path, edit), LUSTRE)
        assert not after.protect
        for made in (named(prod, LUSTRE), after):
            assert made.inputs["skipFinalBackup"] is False
            assert made.inputs["automaticBackupRetentionDays"] > 0
            assert made.manner["timeouts"]["delete"] == "12h"

    def test_a_volume_stays_with_its_claim(self, prod: Recording) -> None:
        """Kubernetes keeps a volume that is bound: to delete it would hold up `destroy`."""
        claim = prod.one("PersistentVolumeClaim", "checkpoints")
        assert claim.retain
        assert prod.one("PersistentVolume").retain

    def test_protection_is_the_default(self) -> None:
        cluster = stack_cluster(PROD)
        del cluster["platform"]["deletion_protection"]
        platform: Any = parse(cluster, where="x").platform
        assert platform.deletion_protection is True


def prod_stack(recording: Recording) -> str:
    (stack,) = recording.of_type("pulumi:pulumi:Stack")
    return stack.urn


class TestUnknowns:
    def test_a_first_preview_says_the_same(self, prod: Recording, unknown: Recording) -> None:
        """Inputs that are known at once do not differ, and no resource is missing."""
        for urn, resource in prod.resources.items():
            if not resource.type.startswith("aws:"):
                continue
            for path in changed_paths(resource.inputs, unknown.resources[urn].inputs):
                had = at(resource.inputs, path)
                assert fabricated(had), f"{urn}: {path} was {had!r}"

    def test_a_reservation_is_judged_before_anything_is_known(self, unknown: Recording) -> None:
        template = named(unknown, TEMPLATE, "h100-template")
        assert template.inputs["capacityReservationSpecification"] == {
            "capacityReservationTarget": {"capacityReservationId": "cr-0a1b2c3d4e5f60718"}
        }


def at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value[part]
    return value


def fabricated(value: Any) -> bool:
    """Return whether a value comes from what a provider would add."""
    if isinstance(value, (list, tuple)):
        return any(fabricated(v) for v in value)
    if isinstance(value, Mapping):
        return any(fabricated(v) for v in value.values())
    text = str(value)
    return text.endswith("-id") or "arn:aws:" in text or text == "1" or text.startswith("sg-0c1c")


class TestInterfaces:
    @pytest.mark.parametrize("name", EFA_CARDS)
    def test_the_layout_is_the_machines_own(self, name: str) -> None:
        interfaces = network_interfaces(
            MACHINES[name], cluster_group="sg-cluster", efa_group="sg-efa"
        )
        places = [(i["network_card_index"], i["device_index"]) for i in interfaces]
        assert len(places) == len(set(places))
        assert max(Counter(card for card, _ in places).values()) <= 2, "two devices a card at most"
        first = interfaces[0]
        assert places[0] == (0, 0)
        # Pods and the API server are reached by it, so it has an address: never EFA-only.
        assert first["interface_type"] == "interface"
        assert first["security_groups"] == ["sg-cluster", "sg-efa"]
        fast = [i for i in interfaces if i["interface_type"] == "efa-only"]
        assert len(fast) == len(EFA_CARDS[name])
        assert ((0, 1) in places) is (0 in EFA_CARDS[name])
        for interface in fast:
            assert interface["security_groups"] == ["sg-efa"]
        for interface in interfaces:
            assert interface["delete_on_termination"] == "true"
            assert not {"subnet_id", "ipv4_addresses", "network_interface_id"} & set(interface)

    @pytest.mark.parametrize("name", EFA_CARDS)
    def test_nitro_v6_keeps_connections_that_are_silent(self, name: str) -> None:
        # Others keep them for five days anyhow: their templates, so their nodes, stay as they were.
        kept = [
            interface["interface_type"]
            for interface in network_interfaces(MACHINES[name], cluster_group="c", efa_group="e")
            if interface.get("connection_tracking_specification")
            == {"tcp_established_timeout": 432000}
        ]
        assert set(kept) == (
            {"interface"} if name in ("p6-b200.48xlarge", "p6-b300.48xlarge") else set()
        )

    def test_launch_template_lists_interfaces_but_no_groups(self, prod: Recording) -> None:
        inputs = named(prod, TEMPLATE, "h100-template").inputs
        assert len(inputs["networkInterfaces"]) == 33
        assert not {"vpcSecurityGroupIds", "securityGroupNames", "imageId"} & set(inputs)


class TestUserData:
    def parts(self, document: str | None) -> dict[str, str]:
        assert document is not None
        message = email.message_from_bytes(base64.b64decode(document))
        assert message.get_content_type() == "multipart/mixed"
        results = [part for part in message.walk() if not part.is_multipart()]
        return {part.get_content_type(): str(part.get_payload()) for part in results}

    def test_the_instance_store_is_one_array(self) -> None:
        parts = self.parts(user_data(NodeSetup(raid=True)))
        assert set(parts) == {"application/node.eks.aws"}
        config = yaml.safe_load(parts["application/node.eks.aws"])
        assert config == {
            "apiVersion": "node.eks.aws/v1alpha1",
            "kind": "NodeConfig",
            "spec": {"instance": {"localStorage": {"strategy": "RAID0"}}},
        }

    def test_lock_memory_keeps_the_limit_of_open_files(self) -> None:
        """nodeadm's list is replaced, not added to, and its numbers pass through floats."""
        parts = self.parts(user_data(NodeSetup(lock_memory=True)))
        spec = yaml.safe_load(parts["application/node.eks.aws"])["spec"]
        limits = {
            limit["type"]: (limit["soft"], limit["hard"])
            for limit in spec["containerd"]["baseRuntimeSpec"]["process"]["rlimits"]
        }
        # As amazon-eks-ami's nodeadm/internal/containerd/base-runtime-spec.json has it.
        assert limits["RLIMIT_NOFILE"] == (65536, 1048576)
        soft, hard = limits["RLIMIT_MEMLOCK"]
        assert soft == hard
        assert 2**50 < hard < 2**63, "more than any machine's memory, and 64 bits hold it"
        assert int(f"{float(hard):.0f}") == hard == int(repr(float(hard)).removesuffix(".0"))

    def test_huge_pages_are_there_before_kubelet_counts_them(self) -> None:
        parts = self.parts(user_data(NodeSetup(raid=True, hugepages_2mib=5128)))
        assert set(parts) == {"application/node.eks.aws", "text/cloud-config"}
        text = parts["text/cloud-config"]
        assert text.startswith("#cloud-config\n")
        config = yaml.safe_load(text)
        assert config["bootcmd"] == [["sysctl", "-w", "vm.nr_hugepages=5128"]]
        assert config["write_files"][0]["content"] == "vm.nr_hugepages=5128\n"

    def test_no_image_gets_gpus_that_nobody_is_charged_for(self, prod: Recording) -> None:
        """CUDA's images say NVIDIA_VISIBLE_DEVICES=all, which the host's toolkit obeys at first."""
        sent = named(prod, TEMPLATE, "h100-template").inputs["userData"]
        [first, *_] = yaml.safe_load(self.parts(sent)["text/cloud-config"])["runcmd"]
        assert first[:2] == ["nvidia-ctk", "config"]
        assert "--in-place" in first, "else it prints what it would write"
        assert "--set=accept-nvidia-visible-devices-envvar-when-unprivileged=false" in first
        assert "--config-file=/etc/nvidia-container-runtime/config.toml" in first
        operator = named(prod, "kubernetes:helm.sh/v3:Release", "gpu-operator-release").inputs
        assert operator["values"]["toolkit"] == {"enabled": False}, "the host's is the one that is"
        assert "cdi" not in operator["values"], "on by default, and what is allocated comes by it"

    def test_default_node_setup_has_no_user_data(self) -> None:
        assert user_data(NodeSetup()) is None

    def test_every_gpu_node_gets_all(self, prod: Recording, block: Recording) -> None:
        everything = NodeSetup(
            raid=True,
            gpus_by_request=True,
            hugepages_2mib=catalogue.EFA_HUGEPAGES_2MIB,
            lock_memory=True,
            lustre_threads=True,
            lustre_efa=8,
        )
        for recording, end in ((prod, "h100-template"), (block, "h200-template")):
            sent = named(recording, TEMPLATE, end).inputs["userData"]
            assert sent == user_data(everything)

    def test_lustre_is_left_alone_where_it_does_not_speak_efa(self, modest: Recording) -> None:
        sent = named(modest, TEMPLATE, "h100-template").inputs["userData"]
        assert "railhead-lustre-efa" not in "".join(self.parts(sent).values())

    @pytest.mark.parametrize(
        ("machine", "large"),
        [("p4d.24xlarge", True), ("p5.48xlarge", True), ("p5.4xlarge", False)],
    )
    def test_lustre_has_the_threads_that_a_large_client_needs(
        self, machine: str, large: bool
    ) -> None:
        """FSx user guide, performance-tips: of clients with more than 64 vCPUs, over TCP too."""
        raw = {**stack_cluster(PROD)["pools"][0], "instance_type": machine}
        sent = user_data(node_setup(AwsPool.model_validate(raw), 0))
        config = yaml.safe_load(self.parts(sent)["text/cloud-config"])
        options = [f["content"] for f in config["write_files"] if "modprobe.d" in f["path"]]
        wanted = "options ptlrpc ptlrpcd_per_cpt_max=32\noptions ksocklnd credits=2560\n"
        assert options == ([wanted] if large else [])

    @pytest.mark.parametrize(
        ("machine", "told"), [("p6e-gb200.36xlarge", True), ("p5.48xlarge", False)]
    )
    def test_nics_reach_memory_that_cpu_and_gpu_share(self, machine: str, told: bool) -> None:
        """The driver refuses EFA there (NVIDIA/aicr, GPUDirect RDMA prerequisites)."""
        raw = {**stack_cluster(PROD)["pools"][0], "instance_type": machine}
        sent = user_data(node_setup(AwsPool.model_validate(raw), 0))
        config = yaml.safe_load(self.parts(sent)["text/cloud-config"])
        files = {f["path"]: f["content"] for f in config["write_files"]}
        option = files.get("/etc/modprobe.d/railhead-nvidia.conf")
        wanted = "options nvidia NVreg_GrdmaPciTopoCheckOverride=1\n"
        assert option == (wanted if told else None)

    @pytest.mark.parametrize(
        ("there", "boots"),
        [
            ("EnableMSI: 1\nGrdmaPciTopoCheckOverride: 0\n", True),
            ("GrdmaPciTopoCheckOverride: 1\n", False),
            ("EnableMSI: 1\n", False),
            (None, False),
        ],
    )
    def test_a_driver_that_came_too_early_is_loaded_again(
        self, there: str | None, boots: bool, tmp_path: Path
    ) -> None:
        """The last command itself: nodeadm must not begin before the node is down."""
        setup = NodeSetup(nic_to_gpu=True, gpus_by_request=True, lustre_efa=8)
        config = yaml.safe_load(self.parts(user_data(setup))["text/cloud-config"])
        assert "power_state" not in config
        params, asked = tmp_path / "params", tmp_path / "asked"
        if there is not None:
            params.write_text(there)
        asked.touch()
        for name in ("systemctl", "sleep"):
            (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {asked}\n')
            (tmp_path / name).chmod(0o755)
        words = [w.replace("/proc/driver/nvidia/params", str(params)) for w in config["runcmd"][-1]]
        subprocess.run(words, check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
        assert asked.read_text() == ("systemctl reboot\nsleep 60\n" if boots else "")

    @pytest.mark.parametrize(
        ("there", "wanted", "taken"),
        [
            (32, 8, [0, 4, 8, 12, 16, 20, 24, 28]),
            (16, 8, [0, 2, 4, 6, 8, 10, 12, 14]),
            (8, 8, [0, 1, 2, 3, 4, 5, 6, 7]),
            (4, 8, [0, 1, 2, 3]),
            (16, 2, [0, 8]),
        ],
    )
    def test_lustre_takes_devices_from_all_over_the_node(
        self, there: int, wanted: int, taken: list[int], tmp_path: Path
    ) -> None:
        """The script itself, with commands that note what they are asked."""
        lines, result = self.lustre(tmp_path, there, NodeSetup(lustre_efa=wanted))
        added = [line for line in lines if "net add --net efa" in line]
        assert added == [
            f"lnetctl net add --net efa --if rdmap{index:03}s0 --peer-credits 32" for index in taken
        ]
        assert "modprobe kefalnd ipif_name=ens32" in lines
        assert lines.index("modprobe lustre") > lines.index(added[-1])
        # What the gate reads.
        assert result == f"{len(taken)}\n"
        assert catalogue.LUSTRE_EFA_RESULT == LUSTRE_EFA_RESULT

    @pytest.mark.parametrize(
        ("version", "works"), [("1.1.0", False), ("1.1.1", True), ("1.10.0", True)]
    )
    def test_p6_needs_a_driver_that_is_new_enough(
        self, version: str, works: bool, tmp_path: Path
    ) -> None:
        """aws-parallelcluster-cookbook, pcluster-diag: MIN_KEFALND_VERSION_P6."""
        raw = {**stack_cluster(PROD)["pools"][0], "instance_type": "p6-b300.48xlarge"}
        pool = AwsPool.model_validate(raw)
        setup = node_setup(pool, pool.lustre_devices)
        lines, result = self.lustre(tmp_path, 16, setup, version)
        added = [line for line in lines if "net add --net efa" in line]
        assert len(added) == (16 if works else 0)
        assert result == ("16\n" if works else None)

    def lustre(
        self, folder: Path, there: int, setup: NodeSetup, version: str = "1.2.0"
    ) -> tuple[list[str], str | None]:
        """Run the set-up of Lustre; return the commands that it ran, and what the gate reads."""
        config = yaml.safe_load(self.parts(user_data(setup))["text/cloud-config"])
        script, unit = config["write_files"][-2:]
        assert "TimeoutStartSec=300\n" in unit["content"], "a command that hangs keeps no node out"
        assert f"Environment=RESULT={catalogue.LUSTRE_EFA_RESULT}\n" in unit["content"]
        assert script["permissions"] == "0755"
        assert ["systemctl", "enable", "--now", Path(unit["path"]).name] in config["runcmd"]
        (command,) = re.findall(r"^ExecStart=(.+)$", unit["content"], re.MULTILINE)
        path, *arguments = command.split()
        assert path == script["path"]
        drivers, devices, commands = (folder / name for name in ("drivers", "ib", "bin"))
        for made in (drivers / "efa", drivers / "mlx5", devices, commands):
            made.mkdir(parents=True)
        for index in range(there):
            device = devices / f"rdmap{index:03}s0" / "device"
            device.mkdir(parents=True)
            (device / "driver").symlink_to(drivers / "efa")
        other = devices / "mlx5_0" / "device"
        other.mkdir(parents=True)
        (other / "driver").symlink_to(drivers / "mlx5")
        asked = folder / "asked"
        asked.touch()
        note = f'#!/bin/sh\necho "$(basename $0)" "$@" >> {asked}\n'
        show = f"grep 'net add --net efa' {asked} | sed 's/.*/          status: up/'"
        for name, text in {
            "dnf": note,
            "modprobe": note,
            "lnetctl": f'{note}if [ "$1 $2 $3 $4" = "net show --net efa" ]; then {show}; fi\n',
            "modinfo": f"#!/bin/sh\necho {version}\n",
            "ip": "#!/bin/sh\necho default via 10.0.0.1 dev ens32 proto dhcp\n",
        }.items():
            (commands / name).write_text(text)
            (commands / name).chmod(0o755)
        program, result = folder / "program", folder / "run" / "lustre-efa"
        program.write_text(script["content"].replace("/sys/class/infiniband", str(devices)))
        done = subprocess.run(
            ["/bin/bash", str(program), *arguments],
            check=False,
            env={"PATH": f"{commands}:/usr/bin:/bin", "RESULT": str(result)},
            capture_output=True,
        )
        assert (done.returncode == 0) == result.exists(), done.stderr
        return asked.read_text().splitlines(), result.read_text() if result.exists() else None


class TestSecurityGroups:
    def test_fabric_security_group_allows_only_itself(self, prod: Recording) -> None:
        group = named(prod, "aws:ec2/securityGroup:SecurityGroup", "aws-efa-group")
        identity = f"{group.name}-id"
        for token in (INGRESS, EGRESS):
            rules = [r for r in prod.of_type(token) if r.inputs["securityGroupId"] == identity]
            (rule,) = rules
            assert rule.inputs["referencedSecurityGroupId"] == identity
            assert rule.inputs["ipProtocol"] == "-1"
            assert not {"fromPort", "toPort", "cidrIpv4", "cidrIpv6"} & set(rule.inputs)
        assert not {"ingress", "egress"} & set(group.inputs), "inline rules would drop the others"

    def test_nothing_is_open_to_the_world(self, prod: Recording, block: Recording) -> None:
        for recording in (prod, block):
            for resource in clouds(recording):
                if "IngressRule" in resource.type or "securityGroup" in resource.type:
                    assert (
                        "0.0.0.0/0" not in json.dumps(resource.inputs["ingress"])
                        if ("ingress" in resource.inputs)
                        else "0.0.0.0/0" not in json.dumps(dict(resource.inputs))
                    )

    def test_lustre_ports_are_open_to_nodes_and_servers(self, prod: Recording) -> None:
        group = named(prod, "aws:ec2/securityGroup:SecurityGroup", "lustre-lustre-access-group")
        for token in (INGRESS, EGRESS):
            rules = {
                (r.inputs["fromPort"], r.inputs["toPort"], r.inputs["referencedSecurityGroupId"])
                for r in prod.of_type(token)
                if r.inputs["securityGroupId"] == f"{group.name}-id"
            }
            peers = ("sg-0c1c1c1c1c1c1c1c1", f"{group.name}-id")
            assert rules == {
                (first, last, peer) for first, last in ((988, 988), (1018, 1023)) for peer in peers
            }

    def test_lustre_servers_may_call_clients_back(self, prod: Recording, modest: Recording) -> None:
        for recording, stack in ((prod, "p5-prod"), (modest, "modest")):
            group = named(recording, "aws:ec2/securityGroup:SecurityGroup", "lustre-access-group")
            rules = {
                (r.inputs["fromPort"], r.inputs["toPort"])
                for r in recording.of_type(INGRESS)
                if r.inputs.get("referencedSecurityGroupId") == f"{group.name}-id"
                and r.inputs["securityGroupId"] == "sg-0c1c1c1c1c1c1c1c1"
            }
            assert rules == {(988, 988), (1018, 1023)}, stack


class TestNodePools:
    def test_the_group_is_in_the_reservations_zone_and_no_other(self, prod: Recording) -> None:
        inputs = named(prod, POOL, "h100-nodes").inputs
        assert inputs["subnetIds"] == ["p5-prod-aws-network-private-us-east-2a-id"]
        assert inputs["capacityType"] == "ON_DEMAND"
        assert inputs["updateConfig"]["updateStrategy"] == "MINIMAL", "no room for a node more"
        assert inputs["nodeRepairConfig"]["enabled"] is True
        assert "instanceTypes" not in inputs, "the template says it; both are refused"
        template = named(prod, TEMPLATE, "h100-template").inputs
        assert "instanceMarketOptions" not in template

    def test_no_pod_has_the_rights_of_its_node(self, prod: Recording) -> None:
        for template in prod.of_type(TEMPLATE):
            options = template.inputs["metadataOptions"]
            assert (options["httpTokens"], options["httpPutResponseHopLimit"]) == ("required", 1)

    def test_reserved_machines_are_not_asked_to_be_in_one_cluster(self, prod: Recording) -> None:
        """eksctl, issue 7949: of 16 that were reserved, 11 were found in a group of its own."""
        assert not prod.of_type("aws:ec2/placementGroup:PlacementGroup")
        for template in prod.of_type(TEMPLATE):
            assert "placement" not in template.inputs

    def test_a_capacity_block_is_asked_for_in_every_place(self, block: Recording) -> None:
        inputs = named(block, POOL, "h200-nodes").inputs
        assert inputs["capacityType"] == "CAPACITY_BLOCK"
        assert inputs["scalingConfig"] == {"minSize": 0, "maxSize": 4, "desiredSize": 0}
        assert inputs["subnetIds"] == ["subnet-0a1b2c3d4e5f60711"]
        template = named(block, TEMPLATE, "h200-template").inputs
        assert template["instanceMarketOptions"] == {"marketType": "capacity-block"}
        target = template["capacityReservationSpecification"]["capacityReservationTarget"]
        assert target == {"capacityReservationId": "cr-0b1c2d3e4f5061728"}
        assert template["instanceType"] == "p5en.48xlarge"
        assert "placement" not in template
        assert not block.of_type("aws:ec2/placementGroup:PlacementGroup")

    def test_several_reservations_are_targeted_as_one_group(self, tmp_path: Path) -> None:
        arn = "arn:aws:resource-groups:us-east-2:123456789012:group/p5"

        def edit(cluster: dict[str, Any]) -> None:
            cluster["pools"][0]["purchase"] = {
                "kind": "reservation-group",
                "arn": arn,
                "availability_zone": "us-east-2a",
            }

        recording = variant(tmp_path, edit)
        template = named(recording, TEMPLATE, "h100-template")
        # EC2 user guide, cr-groups-launch: else what the group has no machine for runs on demand.
        assert template.inputs["capacityReservationSpecification"] == {
            "capacityReservationTarget": {"capacityReservationResourceGroupArn": arn},
            "capacityReservationPreference": "capacity-reservations-only",
        }
        assert not recording.of_type(RESERVATION[0]), "a group is no reservation to read"
        group = named(recording, POOL, "h100-nodes").inputs
        assert (group["capacityType"], group["updateConfig"]["updateStrategy"]) == (
            "ON_DEMAND",
            "MINIMAL",
        )
        for call in calls(TEMPLATE, template.inputs, {"p5-prod-aws-efa-group-id": "sg-0a1b2c3d"}):
            assert not problems(call)

    def test_spare_capacity_is_asked_for_of_eks_alone(self, tmp_path: Path) -> None:
        """EKS refuses a template with market options for anything but a block."""
        recording = variant(
            tmp_path, lambda cluster: cluster["pools"][0].update(purchase={"kind": "spot"})
        )
        assert named(recording, POOL, "h100-nodes").inputs["capacityType"] == "SPOT"
        template = named(recording, TEMPLATE, "h100-template").inputs
        assert not {"instanceMarketOptions", "capacityReservationSpecification"} & set(template)

    def test_on_demand_starts_beside_what_is_there(self, modest: Recording) -> None:
        inputs = named(modest, POOL, "h100-nodes").inputs
        assert inputs["scalingConfig"] == {"minSize": 0, "maxSize": 16, "desiredSize": 2}
        assert inputs["updateConfig"]["updateStrategy"] == "DEFAULT"
        template = named(modest, TEMPLATE, "h100-template").inputs
        assert "capacityReservationSpecification" not in template
        assert template["placement"] == {"groupName": "p5-prod-h100"}
        (group,) = modest.of_type("aws:ec2/placementGroup:PlacementGroup")
        for call in calls(group.type, group.inputs):
            assert not problems(call)
        (wrong,) = calls(group.type, {**group.inputs, "strategy": "Cluster"})
        assert problems(wrong)

    def test_the_controllers_pool_may_be_made_larger_later(self, prod: Recording) -> None:
        """EKS refuses a least size above the present one, which is not the stack's to say."""
        scaling = named(prod, POOL, "system-nodes").inputs["scalingConfig"]
        assert scaling == {"minSize": 2, "maxSize": 6, "desiredSize": 3}

    def test_sizes_are_left_to_the_autoscaler(self, prod: Recording) -> None:
        for pool in prod.of_type(POOL):
            assert "scalingConfig.desiredSize" in pool.ignore_changes

    @pytest.mark.parametrize(
        ("edit", "live", "sent"),
        [
            # As the file has it: whatever runs is nobody's but the autoscaler's.
            ({}, (0, 16, 11), None),
            # The state has the 16 that it was made with; 12 run.
            ({"min_nodes": 8}, (0, 16, 12), (8, 16, 12)),
            ({"nodes": 12}, (0, 16, 4), (0, 12, 4)),
            # Someone else's bounds go back to the file's, and no node with them.
            ({}, (2, 20, 14), (0, 16, 14)),
        ],
    )
    def test_an_edit_of_the_bounds_leaves_the_nodes_that_run(
        self,
        edit: dict[str, int],
        live: tuple[int, int, int],
        sent: tuple[int, int, int] | None,
        tmp_path: Path,
    ) -> None:
        """terraform-provider-aws, node_group.go: of three sizes one differs, and all are sent."""
        with pytest.MonkeyPatch.context() as patch:
            _running(patch, live)
            changed = variant(tmp_path, lambda cluster: cluster["pools"][0].update(edit))
        group = named(changed, POOL, "h100-nodes")
        left_alone = "scalingConfig.desiredSize" in group.ignore_changes
        assert left_alone is (sent is None)
        if sent is not None:
            sizes = dict(zip(("minSize", "maxSize", "desiredSize"), sent, strict=True))
            assert group.inputs["scalingConfig"] == sizes

    @pytest.mark.parametrize(
        ("edit", "runs", "told"),
        [
            ({"nodes": 8}, 16, "16 nodes run, and the file allows 0 to 8"),
            ({"min_nodes": 8}, 4, "4 nodes run, and the file allows 8 to 16"),
        ],
    )
    def test_an_edit_that_would_start_or_end_nodes_is_refused(
        self, edit: dict[str, int], runs: int, told: str, tmp_path: Path
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            _running(patch, (0, 16, runs))
            with pytest.raises(MismatchError, match=told):
                variant(tmp_path, lambda cluster: cluster["pools"][0].update(edit))

    @pytest.mark.parametrize(("status", "warned"), [("CREATE_FAILED", True), ("ACTIVE", False)])
    def test_group_that_eks_updates_no_more_is_warned_of(
        self, status: str, warned: bool, tmp_path: Path
    ) -> None:
        """containers-roadmap #764: its status stays, and `pulumi up` goes on as if it were well."""
        texts: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            _running(patch, (0, 16, 16), status)
            patch.setattr("pulumi.log.warn", texts.append)
            variant(tmp_path, lambda _: None)
        way = "delete-nodegroup --cluster-name p5-prod --nodegroup-name p5-prod-h100`, then"
        assert [way in text for text in texts] == ([True] if warned else [])

    @pytest.mark.parametrize(
        ("runs", "warned"),
        [
            (("1.35", "7"), ""),
            (("1.34", "7"), "has Kubernetes 1.34, and the control plane 1.35"),
            (("1.35", "6"), "has version 6 of its launch template, whose last is 7"),
        ],
    )
    def test_group_whose_update_failed_is_warned_of(
        self, runs: tuple[str, str], warned: str, tmp_path: Path
    ) -> None:
        """terraform-provider-aws #35575, pulumi-eks #875: the next `pulumi up` finds no change."""
        texts: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            _running(patch, (0, 16, 16), runs=runs)
            patch.setattr("pulumi.log.warn", texts.append)
            variant(tmp_path, lambda _: None)
        assert len(texts) == bool(warned)
        assert all(warned in text and "`pulumi up --refresh`" in text for text in texts)

    @pytest.mark.parametrize(
        ("control_plane", "warned"),
        [
            ("1.36", "Write '1.36', and then `pulumi up --refresh`"),
            ("1.36", "to go back to 1.35, which it may do within seven days"),
            ("1.35", ""),
            ("1.34", "does not upgrade it, the state takes that for done"),
        ],
    )
    def test_control_plane_of_another_minor_is_warned_of(
        self, control_plane: str, warned: str, tmp_path: Path
    ) -> None:
        """EKS upgrades by itself, and may roll back where asked (user guide, rollback-cluster).

        A refresh with the file's minor, as for a group whose update failed, would ask for that.
        """
        texts: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            runs = (min(control_plane, "1.35"), "7")
            _running(patch, (0, 16, 16), runs=runs, control_plane=control_plane)
            patch.setattr("pulumi.log.warn", texts.append)
            variant(tmp_path, lambda _: None)
        assert [warned in text for text in texts] == [True] * bool(warned)

    @pytest.mark.parametrize(("day", "warned"), [("20261003", 1), ("20261012", 0)])
    def test_group_whose_nodes_reboot_is_warned_of(
        self, day: str, warned: int, tmp_path: Path
    ) -> None:
        """amazon-eks-ami #2845: a group keeps its image, and no `pulumi up` changes it unasked."""
        texts: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            _running(patch, (0, 16, 16), release=f"1.35.4-{day}")
            patch.setattr("pulumi.log.warn", texts.append)
            variant(tmp_path, lambda _: None)
        way = "update-nodegroup-version --cluster-name p5-prod --nodegroup-name p5-prod-h100`"
        assert [way in text for text in texts] == [True] * warned

    def test_eks_that_does_not_answer_is_an_error_with_a_remedy(self, tmp_path: Path) -> None:
        def refuse(**_: Any) -> None:
            raise Exception("invoke of aws:eks/getClusters failed: ExpiredToken")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(eks, "get_clusters", refuse)
            with pytest.raises(PrerequisiteError, match=r"how many nodes run: .*ExpiredToken"):
                variant(tmp_path, lambda _: None)

    def test_a_repair_may_be_a_reboot(self, tmp_path: Path) -> None:
        """EKS API reference, NodeRepairConfigOverrides: all four fields, or none."""
        reboot = {
            "condition": "AcceleratedHardwareReady",
            "reason": "NvidiaXID64Error",
            "action": "Reboot",
            "wait_minutes": 15,
        }
        edit = {"repair_at_once": 1, "repair_overrides": [reboot]}
        changed = variant(tmp_path, lambda cluster: cluster["pools"][0].update(edit))
        group = named(changed, POOL, "h100-nodes")
        repair = group.inputs["nodeRepairConfig"]
        assert repair["enabled"] is True
        assert repair["maxParallelNodesRepairedCount"] == 1
        assert repair["nodeRepairConfigOverrides"][-1] == {
            "nodeMonitoringCondition": "AcceleratedHardwareReady",
            "nodeUnhealthyReason": "NvidiaXID64Error",
            "repairAction": "Reboot",
            "minRepairWaitTimeMins": 15,
        }
        ids = {f"{r.name}-id": IDS[r.type] for r in changed.resources.values() if r.type in IDS}
        for call in calls(POOL, group.inputs, ids):
            assert not problems(call)

    def test_no_node_goes_for_what_the_agent_never_takes_back(
        self, prod: Recording, tmp_path: Path
    ) -> None:
        """EKS replaces a node for `NetworkingReady` after half an hour (user guide, node-repair).

        The agent says so after one failed call of the CNI's, and keeps it (its issue 215).
        """
        for group in prod.of_type(POOL):
            rows = group.inputs["nodeRepairConfig"]["nodeRepairConfigOverrides"]
            done = {row["nodeUnhealthyReason"]: row["repairAction"] for row in rows}
            assert done == {"IPAMDNotReady": "NoAction", "DCGMError": "NoAction"}, group.name
        own = {
            "condition": "NetworkingReady",
            "reason": "IPAMDNotReady",
            "action": "Replace",
            "wait_minutes": 60,
        }
        changed = variant(tmp_path, lambda c: c["pools"][0].update(repair_overrides=[own]))
        repair = named(changed, POOL, "h100-nodes").inputs["nodeRepairConfig"]
        actions = [row["repairAction"] for row in repair["nodeRepairConfigOverrides"]]
        assert actions == ["Replace", "NoAction"]

    def test_an_update_has_the_time_that_its_rounds_take(
        self, prod: Recording, modest: Recording
    ) -> None:
        """Reserved machines go at once, since the first takes the gang; others one by one."""
        reserved, spare = named(prod, POOL, "h100-nodes"), named(modest, POOL, "h100-nodes")
        assert reserved.inputs["updateConfig"]["maxUnavailable"] == 16
        assert reserved.manner["timeouts"]["update"] == "17h", "the first may be one by one"
        assert spare.inputs["updateConfig"]["maxUnavailable"] == 1
        assert spare.manner["timeouts"]["update"] == "17h"
        for group in prod.of_type(POOL):
            assert group.manner["timeouts"]["create"] == "2h"

    def test_a_zone_that_is_appended_moves_nothing_that_is_there(
        self, prod: Recording, tmp_path: Path
    ) -> None:
        """EKS takes no other zones for a control plane; a node group's subnets are for life."""

        def edit(cluster: dict[str, Any]) -> None:
            cluster["platform"]["network"]["availability_zones"].append("us-east-2d")

        changed = variant(tmp_path, edit)
        for before in (named(prod, CLUSTER), named(prod, POOL, "system-nodes")):
            paths = set(changed_paths(before.inputs, same(changed, before).inputs))
            assert paths <= before.ignore_changes, before.urn

    def test_a_gpu_machine_gets_the_image_of_its_processor(self, tmp_path: Path) -> None:
        def edit(cluster: dict[str, Any]) -> None:
            cluster["pools"][0] |= {"instance_type": "p6e-gb200.36xlarge"}
            # It is sold in a Local Zone, where EKS has nodes and no control plane.
            local = "us-west-2-dfw-2a"
            subnets = cluster["platform"]["network"]["private_subnets"]
            subnets[local] = "subnet-0a1b2c3d4e5f60713"
            cluster["pools"][0]["availability_zone"] = local
            cluster["pools"][0]["purchase"]["availability_zone"] = local
            cluster["platform"]["storage"] = []
            cluster["checkpoints"] = []
            del cluster["runtimes"][0]["checkpoint"]
            cluster["runtimes"] = [
                cluster["runtimes"][0] | {"cpu": "100", "memory": "500Gi", "shared_memory": "64Gi"}
            ]
            cluster["pools"][0]["nodes"] = 9

        with pytest.MonkeyPatch.context() as patch:
            zone = "us-west-2-dfw-2a"
            answer = {"availabilityZone": zone, "instanceType": "p6e-gb200.36xlarge"}
            patch.setitem(zones(), "subnet-0a1b2c3d4e5f60713", zone)
            patch.setitem(vpcs(), "subnet-0a1b2c3d4e5f60713", "vpc-0a1b2c3d4e5f60718")
            patch.setitem(answers(), BLOCK_SOURCE, lambda _: answer)
            recording = variant(tmp_path, edit, BLOCK)
        inputs = named(recording, POOL, "h200-nodes").inputs
        assert inputs["amiType"] == "AL2023_ARM_64_NVIDIA"
        assert inputs["subnetIds"] == ["subnet-0a1b2c3d4e5f60713"]
        regional = ["subnet-0a1b2c3d4e5f60711", "subnet-0a1b2c3d4e5f60712"]
        assert named(recording, CLUSTER).inputs["vpcConfig"]["subnetIds"] == regional
        assert named(recording, POOL, "system-nodes").inputs["subnetIds"] == regional
        # It has no file system either.
        assert not recording.kind("StorageClass")
        assert not recording.of_type("railhead:aws:Volumes")

    @pytest.mark.parametrize(
        "edit",
        [
            {
                "labels": {"acme.com/team": "vision"},
                "taints": [{"key": "nvidia.com/gpu", "value": "x", "effect": "NoExecute"}],
            },
            {
                "nodes": 20,
                "min_nodes": 4,
                "repair": False,
                "ami_release": "1.35.3-20261015",
                "hugepages_2mib": 4096,
                "root_volume_gib": 900,
                "local_storage": "none",
            },
        ],
        ids=["labels and taints", "all else"],
    )
    def test_an_edit_of_a_pool_does_not_replace_its_nodes(
        self, edit: dict[str, Any], prod: Recording, tmp_path: Path
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            known = shapes.EXISTING[RESERVATION]
            patch.setitem(reservations(), RESERVATION, {**known, "instanceCount": 20})
            changed = variant(tmp_path, lambda cluster: cluster["pools"][0].update(edit))
        touched: dict[str, list[str]] = {}
        for resource in clouds(prod):
            paths = list(changed_paths(resource.inputs, same(changed, resource).inputs))
            if paths:
                touched[resource.type] = paths
                assert not forced(resource.type, paths), f"{resource.urn}: {paths}"
        if "labels" in edit:
            assert touched == {POOL: ["labels.acme.com/team", "taints"]}
        else:
            assert set(touched) == {POOL, TEMPLATE}

    def test_new_tags_reach_instances_and_roll_no_node(
        self, prod: Recording, tmp_path: Path
    ) -> None:
        """A changed template rolls every node of the group; tags of the group do not.

        The first instances are launched before the group has tags: theirs are the template's.
        """
        for template in prod.of_type(TEMPLATE):
            for row in template.inputs["tagSpecifications"]:
                assert row["tags"]["cost-center"] == "training", row

        def edit(cluster: dict[str, Any]) -> None:
            cluster["platform"]["tags"] = {"cost-center": "research", "acme:owner": "ml"}

        changed = variant(tmp_path, edit)
        for template in (*prod.of_type(TEMPLATE), *prod.of_type(POOL)):
            after = same(changed, template)
            paths = {path.split(".")[0] for path in changed_paths(template.inputs, after.inputs)}
            assert paths <= template.ignore_changes, template.urn
            assert after.ignore_changes == template.ignore_changes
        tags = [tag.inputs for tag in changed.of_type("aws:autoscaling/tag:Tag")]
        assert len(tags) == 4, "each of two groups has two"
        assert {(tag["tag"]["key"], tag["tag"]["value"]) for tag in tags} == {
            ("cost-center", "research"),
            ("acme:owner", "ml"),
        }
        for tag in tags:
            assert tag["tag"]["propagateAtLaunch"] is True
            assert tag["autoscalingGroupName"] == "eks-nodes-id"

    def test_new_zone_is_refused_while_protected(self, prod: Recording, tmp_path: Path) -> None:
        def edit(cluster: dict[str, Any]) -> None:
            pool = cluster["pools"][0]
            pool["availability_zone"] = "us-east-2b"
            pool["purchase"] = {"kind": "on-demand"}
            cluster["platform"]["storage"][0]["availability_zone"] = "us-east-2b"

        changed = variant(tmp_path, edit)
        before, after = named(prod, POOL, "h100-nodes"), named(changed, POOL, "h100-nodes")
        paths = list(changed_paths(before.inputs, after.inputs))
        assert forced(POOL, paths) == ["subnetIds"]
        assert before.protect


RESERVATION = ("aws:ec2/capacityReservation:CapacityReservation", "cr-0a1b2c3d4e5f60718")
STARTS = datetime.fromisoformat("2026-12-07T11:30:00+00:00")
BLOCK_SOURCE = "aws:ec2/getCapacityBlockReservation:getCapacityBlockReservation"


def _running(
    patch: pytest.MonkeyPatch,
    live: tuple[int, int, int],
    status: str = "ACTIVE",
    runs: tuple[str, str] = ("1.35", "7"),
    release: str = "1.35.4-20261012",
    control_plane: str = "1.35",
) -> None:
    """Have EKS answer that the GPU pool's group is there: least, most, and how many run.

    ``runs`` is its minor, and the version of its launch template; ``release`` is its image's,
    ``control_plane`` the cluster's minor.
    """
    sizes = {"minSize": live[0], "maxSize": live[1], "desiredSize": live[2]}
    template = {"id": "lt-0a1b2c3d", "name": "p5-prod-h100", "version": runs[1]}
    group = {
        "scalingConfigs": [sizes],
        "status": status,
        "version": runs[0],
        "releaseVersion": release,
        "launchTemplates": [template],
    }
    for source, answer in {
        "aws:eks/getClusters:getClusters": {"names": ["p5-prod"]},
        "aws:eks/getCluster:getCluster": {"version": control_plane},
        "aws:eks/getNodeGroups:getNodeGroups": {"names": ["p5-prod-h100"]},
        "aws:eks/getNodeGroup:getNodeGroup": group,
        "aws:ec2/getLaunchTemplate:getLaunchTemplate": {"latestVersion": 7},
    }.items():
        patch.setitem(answers(), source, lambda asked, said=answer: {**asked, **said})


def reservations() -> dict[Any, Any]:
    result = shapes.EXISTING
    assert isinstance(result, dict)
    return result


def zones() -> dict[str, str]:
    from railhead.lab.recorders.answers import ZONES

    return ZONES


def vpcs() -> dict[str, str]:
    from railhead.lab.recorders.answers import VPCS

    return VPCS


def answers() -> dict[str, Any]:
    from railhead.lab.recorders.answers import ANSWERS

    return ANSWERS


ARN = "arn:aws:ec2:us-east-2:123456789012:placement-group/"


def purchased(pool: AwsPool) -> str:
    assert isinstance(pool.purchase, Reservation | CapacityBlock)
    return pool.purchase.id


class TestReservation:
    GOOD: ClassVar = {
        "availability_zone": "us-east-2a",
        "instance_type": "p5.48xlarge",
        "instance_count": 16,
    }

    def pool(self, **more: Any) -> AwsPool:
        raw = {**stack_cluster(PROD)["pools"][0], **more}
        return AwsPool.model_validate(raw)

    def test_matching_reservation_is_accepted(self) -> None:
        assert mismatch(self.pool(), self.GOOD) == ""
        assert mismatch(self.pool(), {**self.GOOD, "instance_count": 17.0}) == ""

    @pytest.mark.parametrize(
        ("found", "said"),
        [
            ({"availability_zone": "us-east-2b"}, "has availability_zone 'us-east-2b'"),
            ({"instance_type": "p5e.48xlarge"}, "has instance_type 'p5e.48xlarge'"),
            ({"instance_count": 15}, "is for 15 instances, and the pool for 16"),
            ({"state": "expired"}, "is expired"),
            ({"state": "payment-failed"}, "is payment-failed"),
            ({"state": "failed"}, "is failed"),
            ({"state": "cancelled"}, "is cancelled"),
            ({"instance_platform": "Red Hat Enterprise Linux"}, "has instance_platform 'Red Hat"),
            ({"tenancy": "dedicated"}, "has tenancy 'dedicated', and EKS' nodes 'default'"),
            (
                {"placement_group_arn": "arn:aws:ec2:us-east-2:1:placement-group/theirs"},
                "was made in placement group 'theirs', and the pool is in none: name it",
            ),
        ],
    )
    def test_mismatched_reservation_is_refused(self, found: dict[str, Any], said: str) -> None:
        assert said in mismatch(self.pool(), {**self.GOOD, **found})

    @pytest.mark.parametrize(("name", "fits"), [("theirs", True), ("ours", False)])
    def test_named_placement_group_must_match(self, name: str, fits: bool) -> None:
        pool = self.pool(placement_group={"kind": "existing", "name": name})
        arn = "arn:aws:ec2:us-east-2:123456789012:placement-group/theirs"
        assert (mismatch(pool, {**self.GOOD, "placement_group_arn": arn}) == "") is fits

    def test_preview_stops_on_a_zone_mismatch(self, tmp_path: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            there = {**shapes.EXISTING[RESERVATION], "availabilityZone": "us-east-2c"}
            patch.setitem(reservations(), RESERVATION, there)
            with pytest.raises(Exception, match="availability_zone 'us-east-2c'") as caught:
                below(stack_cluster(PROD), tmp_path, known=False)
        assert "cr-0a1b2c3d4e5f60718" in str(caught.value)

    @pytest.mark.parametrize(
        ("found", "said"),
        [
            ({}, ""),
            ({"start_date": "2026-12-07T11:30:00Z", "end_date": "2026-12-21T11:30:00Z"}, ""),
            ({"start_date": "2026-12-08T11:30:00Z"}, "has start_date 2026-12-08T11:30:00Z"),
            ({"end_date": "2026-12-20T11:30:00+00:00"}, "has end_date 2026-12-20"),
        ],
    )
    def test_a_block_has_its_own_hours(self, found: dict[str, Any], said: str) -> None:
        pool = AwsPool.model_validate(stack_cluster(BLOCK)["pools"][0])
        wrong = mismatch(pool, found)
        assert wrong.startswith(said)
        assert bool(wrong) is bool(said)

    @pytest.mark.parametrize(
        ("stack", "wrong", "said"),
        [
            (PROD, {"availabilityZone": "us-east-2c"}, "has availability_zone 'us-east-2c'"),
            (PROD, {"instanceType": "p5e.48xlarge"}, "has instance_type 'p5e.48xlarge'"),
            (PROD, {"instanceCount": 15}, "is for 15 instances"),
            (PROD, {"placementGroupArn": f"{ARN}theirs"}, "was made in placement group 'theirs'"),
            (PROD, {"instancePlatform": "SUSE Linux"}, "has instance_platform 'SUSE Linux'"),
            (PROD, {"tenancy": "dedicated"}, "has tenancy 'dedicated'"),
            (BLOCK, {"tenancy": "dedicated"}, "has tenancy 'dedicated'"),
            (BLOCK, {"availabilityZone": "us-west-2c"}, "has availability_zone 'us-west-2c'"),
            (BLOCK, {"instanceType": "p5.48xlarge"}, "has instance_type 'p5.48xlarge'"),
            (BLOCK, {"instanceCount": 3}, "is for 3 instances"),
            (BLOCK, {"state": "expired"}, "is expired"),
            (BLOCK, {"startDate": "2026-12-08T11:30:00Z"}, "has start_date 2026-12-08"),
            (BLOCK, {"endDate": "2026-12-20T11:30:00Z"}, "has end_date 2026-12-20"),
        ],
    )
    def test_all_that_the_cloud_says_is_held_against_the_pool(
        self, stack: str, wrong: dict[str, Any], said: str, tmp_path: Path
    ) -> None:
        pool = AwsPool.model_validate(stack_cluster(stack)["pools"][0])

        def program() -> None:
            checked("x", pool, pulumi.ResourceOptions())

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reservation, "now", lambda: STARTS)
            patch.setitem(reservations(), RESERVATION, {**shapes.EXISTING[RESERVATION], **wrong})
            block = answers()[BLOCK_SOURCE]
            patch.setitem(answers(), BLOCK_SOURCE, lambda asked: {**block(asked), **wrong})
            with pytest.raises(Exception, match=f"{purchased(pool)} {said}"):
                run_program(None, tmp_path, program=program)

    @pytest.mark.parametrize("over", [True, False])
    def test_a_block_that_is_over_stops_nothing(self, over: bool, tmp_path: Path) -> None:
        """Name the case: only an `up` with a protected pool in it lets go of the pool."""
        asked: list[Any] = []

        def forgotten(arguments: Mapping[str, Any]) -> dict[str, Any]:
            asked.append(arguments)
            raise ValueError("InvalidCapacityReservationId.NotFound")

        with pytest.MonkeyPatch.context() as patch:
            days = timedelta(days=15 if over else 1)
            patch.setattr(reservation, "now", lambda: STARTS + days)
            patch.setitem(answers(), BLOCK_SOURCE, forgotten)
            if not over:
                with pytest.raises(Exception, match="NotFound"):
                    below(stack_cluster(BLOCK), tmp_path)
                return
            recording = below(stack_cluster(BLOCK), tmp_path)
        template = named(recording, TEMPLATE, "h200-template")
        specification = template.inputs["capacityReservationSpecification"]
        target = {"capacityReservationId": "cr-0b1c2d3e4f5061728"}
        assert (specification["capacityReservationTarget"], asked) == (target, [])


class TestNetwork:
    def test_subnets_do_not_move_when_a_zone_is_appended(self) -> None:
        zones = [f"us-east-2{z}" for z in "abcdef"]
        all_six = subnet_blocks("10.20.0.0/16", zones)
        assert subnet_blocks("10.20.0.0/16", zones[:2]) == {z: all_six[z] for z in zones[:2]}
        blocks = [b for pair in all_six.values() for b in pair]
        assert len(set(blocks)) == 12

    @pytest.mark.parametrize("prefix", [16, 22])
    def test_every_block_is_one_that_aws_takes(self, prefix: int) -> None:
        for pair in subnet_blocks(f"10.0.0.0/{prefix}", [f"z{i}" for i in range(6)]).values():
            for block in pair:
                assert int(block.rpartition("/")[2]) >= catalogue.VPC_WIDEST
                assert int(block.rpartition("/")[2]) <= catalogue.VPC_NARROWEST

    def test_an_existing_network_is_left_alone(self, block: Recording) -> None:
        made = {r.type for r in clouds(block)}
        assert not {t for t in made if t.startswith("aws:ec2/") and t.split("/")[1] in NETWORK}
        group = named(block, "aws:ec2/securityGroup:SecurityGroup", "aws-efa-group")
        assert group.inputs["vpcId"] == "vpc-0a1b2c3d4e5f60718"

    @pytest.mark.parametrize(
        ("there", "said"),
        [
            ({"vpcId": "vpc-0a1b2c3d4e5f60718", "availabilityZone": "us-west-2c"}, "'us-west-2c'"),
            ({"vpcId": "vpc-0b", "availabilityZone": "us-west-2a"}, "has vpc_id 'vpc-0b'"),
        ],
    )
    def test_a_subnet_that_is_elsewhere_stops_the_stack(
        self, there: dict[str, str], said: str, tmp_path: Path
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(answers(), "aws:ec2/getSubnet:getSubnet", lambda _: there)
            with pytest.raises(Exception, match=said):
                below(stack_cluster(BLOCK), tmp_path)

    def test_one_nat_for_all_where_asked(self, modest: Recording) -> None:
        (nat,) = modest.of_type("aws:ec2/natGateway:NatGateway")
        out = [
            r.inputs["natGatewayId"]
            for r in modest.of_type("aws:ec2/route:Route")
            if "natGatewayId" in r.inputs
        ]
        assert out == [f"{nat.name}-id"] * 3

    def test_every_zone_has_a_way_to_the_transit_gateway(self, prod: Recording) -> None:
        routes = [r for r in prod.of_type("aws:ec2/route:Route") if "transit" in r.name]
        assert len(routes) == 3
        attachment = named(prod, "aws:ec2transitgateway/vpcAttachment:VpcAttachment")
        for route in routes:
            assert route.inputs["destinationCidrBlock"] == "10.0.0.0/16"
            assert attachment.urn in prod.before(route.urn)
        reach = named(prod, INGRESS, "eks-reach-10.0.0.0-16").inputs
        assert (reach["cidrIpv4"], reach["fromPort"], reach["toPort"]) == ("10.0.0.0/16", 443, 443)

    def test_without_interface_endpoints_there_is_s3_alone(self, modest: Recording) -> None:
        (endpoint,) = modest.of_type("aws:ec2/vpcEndpoint:VpcEndpoint")
        assert endpoint.inputs["serviceName"] == "com.amazonaws.us-east-2.s3"


NETWORK = {"vpc:Vpc", "subnet:Subnet", "natGateway:NatGateway", "route:Route", "eip:Eip"}


class TestCluster:
    def test_the_api_server_is_private_unless_it_is_said(
        self, prod: Recording, block: Recording
    ) -> None:
        assert named(prod, CLUSTER).inputs["vpcConfig"]["endpointPublicAccess"] is False
        config = named(block, CLUSTER).inputs["vpcConfig"]
        assert config["endpointPublicAccess"] is True
        assert config["endpointPrivateAccess"] is True
        assert config["publicAccessCidrs"] == ["203.0.113.0/24"]

    def test_adding_or_removing_people_changes_no_one_else(
        self, prod: Recording, tmp_path: Path
    ) -> None:
        """EKS takes each principal once, and Pulumi makes what is new before it deletes the old.

        Each resource that stays keeps its name and so its principal; each has the name that an
        earlier version gave it.
        """
        platform = stack_cluster(PROD)["platform"]
        first, second = platform["administrators"]

        def edit(cluster: dict[str, Any]) -> None:
            cluster["platform"]["administrators"] = [second]
            cluster["platform"]["researchers"] = [first]
            cluster["platform"]["endpoint"]["from_cidrs"].insert(0, "10.1.0.0/16")
            cluster["platform"]["network"]["transit_gateway"]["cidrs"].insert(0, "10.1.0.0/16")

        changed = variant(tmp_path, edit)
        kept = 0
        for token, forced_by in {
            "aws:eks/accessEntry:AccessEntry": "principalArn",
            "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": "principalArn",
            "aws:ec2/route:Route": "destinationCidrBlock",
            INGRESS: "cidrIpv4",
        }.items():
            before = {r.name: r.inputs.get(forced_by) for r in prod.of_type(token)}
            after = {r.name: r.inputs.get(forced_by) for r in changed.of_type(token)}
            for name in before.keys() & after.keys():
                assert before[name] == after[name], name
                kept += 1
        assert kept > 8
        for resource in changed.of_type("aws:eks/accessEntry:AccessEntry"):
            assert resource.manner["known as"], resource.name

    def test_creator_gets_no_access_by_default(self, prod: Recording) -> None:
        access = named(prod, CLUSTER).inputs["accessConfig"]
        assert access == {
            "authenticationMode": "API",
            "bootstrapClusterCreatorAdminPermissions": False,
        }
        entries = prod.of_type("aws:eks/accessEntry:AccessEntry")
        groups = {r.inputs["principalArn"]: r.inputs.get("kubernetesGroups") for r in entries}
        platform = stack_cluster(PROD)["platform"]
        assert groups == {
            **dict.fromkeys(platform["administrators"]),
            **{arn: ["ml-researchers"] for arn in platform["researchers"]},
        }

    def test_its_secrets_are_encrypted_and_its_log_is_kept(self, prod: Recording) -> None:
        inputs = named(prod, CLUSTER).inputs
        assert inputs["encryptionConfig"]["resources"] == ["secrets"]
        assert set(inputs["enabledClusterLogTypes"]) == {
            "api",
            "audit",
            "authenticator",
            "controllerManager",
            "scheduler",
        }
        assert named(prod, "aws:kms/key:Key").inputs["enableKeyRotation"] is True
        assert named(prod, "aws:cloudwatch/logGroup:LogGroup").inputs["retentionInDays"] == 90

    def test_add_ons_have_the_catalogues_versions(self, prod: Recording) -> None:
        sent = {r.inputs["addonName"]: r.inputs["addonVersion"] for r in prod.of_type(ADDON)}
        assert sent == {n: addon.versions["1.35"] for n, addon in catalogue.ADDONS.items()}

    def test_no_upgrade_moves_what_mounts_pass_through(self) -> None:
        versions = catalogue.EFS_CSI.versions
        assert set(versions) >= set(catalogue.KUBE_PROXY.versions), "EKS' default moves by itself"
        assert len(set(versions.values())) == 1, "a new minor restarts it"

    def test_an_update_may_go_from_node_to_node(self, prod: Recording) -> None:
        for addon in prod.of_type(ADDON):
            assert addon.manner["timeouts"] == {"update": "42m"}, "a minute for each of 22 nodes"

    def test_a_version_that_nobody_saw_is_eks_to_tell(self, tmp_path: Path) -> None:
        recording = variant(tmp_path, lambda cluster: cluster["platform"].update(kubernetes="1.34"))
        sent = {r.inputs["addonName"]: r.inputs["addonVersion"] for r in recording.of_type(ADDON)}
        assert "1.34" not in catalogue.FSX_CSI.versions
        assert sent["aws-fsx-csi-driver"] == "default-for-1.34"

    def test_a_version_may_be_the_stacks_or_what_eks_says(self, tmp_path: Path) -> None:
        chosen = {"coredns": "v1.14.6-eksbuild.4", "vpc-cni": "default"}
        source = "aws:eks/getAddonVersion:getAddonVersion"
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(answers(), source, lambda a: {**a, "version": f"asked-{a['addonName']}"})
            recording = variant(
                tmp_path, lambda cluster: cluster["platform"].update(addon_versions=chosen)
            )
        sent = {r.inputs["addonName"]: r.inputs["addonVersion"] for r in recording.of_type(ADDON)}
        assert sent["coredns"] == "v1.14.6-eksbuild.4"
        assert sent["vpc-cni"] == "asked-vpc-cni"
        assert sent["kube-proxy"] == catalogue.KUBE_PROXY.versions["1.35"]

    @pytest.mark.parametrize(
        ("region", "registry"),
        [
            ("us-east-2", "602401143452.dkr.ecr.us-east-2.amazonaws.com"),
            ("cn-north-1", "918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn"),
            ("us-gov-west-1", "013241004608.dkr.ecr.us-gov-west-1.amazonaws.com"),
        ],
    )
    def test_images_of_eks_own_come_from_the_region(self, region: str, registry: str) -> None:
        text = json.dumps(stack_cluster(PROD)).replace("us-east-2", region)
        raw = json.loads(text.replace("arn:aws:", f"arn:{catalogue.partition(region)}:"))
        raw["platform"]["s3_access"] = []
        raw["topology"] = ["kubernetes.io/hostname"]
        cluster = parse(raw, where="x")
        fabric = cluster.fabric
        assert isinstance(fabric, EfaFabric)
        args = arguments.fabric(cluster)
        for allocation, driver in (("device-plugin", EFA_DEVICE_PLUGIN), ("dra", AWS_DRANET)):
            chosen = efa.efa_args(args, fabric.model_copy(update={"allocation": allocation}))
            image = efa.values(chosen)["image"]["repository"]
            assert image == f"{registry}/{driver.image.partition('/')[2]}"
            # EKS' DRA driver and device plugin keep the catalogue's tags.
            assert driver.image.startswith("602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/")

    def test_network_policies_are_enforced(self, prod: Recording, block: Recording) -> None:
        """The add-on takes text: a boolean is refused by its schema."""
        for recording in (prod, block):
            sent = json.loads(named(recording, ADDON, "vpc-cni").inputs["configurationValues"])
            assert sent["enableNetworkPolicy"] == "true"

    def test_no_agent_condemns_healthy_gpus(self) -> None:
        """Node repair replaces what the agent calls broken (its CHANGELOG; pull requests 181, 261).

        EKS' default is whatever is new, so that no minor is left to it.
        """
        agent = catalogue.NODE_MONITORING_AGENT.versions
        assert set(agent) == set(catalogue.KUBE_PROXY.versions)
        for version in agent.values():
            release = tuple(map(int, version.removeprefix("v").partition("-")[0].split(".")))
            assert release >= (1, 6, 7)
            assert release not in {(1, 7, 0), (1, 7, 1)}

    def test_gpu_health_is_monitored_on_tainted_nodes(self, prod: Recording) -> None:
        agent = named(prod, ADDON, "eks-node-monitoring-agent").inputs["configurationValues"]
        assert json.loads(agent) == {
            part: {"tolerations": [{"operator": "Exists"}]} for part in ("nodeAgent", "dcgmAgent")
        }

    def test_idle_infiniband_condemns_no_node(self, tmp_path: Path) -> None:
        """An IPoIB interface that is down is fatal to the agent v1.6.7 (its issue 157)."""

        def p6(raw: dict[str, Any]) -> None:
            raw["pools"][0] |= {
                "instance_type": "p6-b200.48xlarge",
                "purchase": {"kind": "on-demand"},
            }

        agent = named(variant(tmp_path, p6), ADDON, "eks-node-monitoring-agent")
        sent = json.loads(agent.inputs["configurationValues"])
        assert sent["nodeAgent"]["monitors"] == {"networking": {"enabled": False}}
        assert "monitors" not in sent["dcgmAgent"]

    def test_only_drivers_of_file_systems_there_are(self, block: Recording) -> None:
        names = {r.inputs["addonName"] for r in block.of_type(ADDON)}
        assert "aws-fsx-csi-driver" in names
        assert "aws-efs-csi-driver" not in names


class TestRights:
    def test_nodes_have_no_more_than_joining_and_pulling(self, prod: Recording) -> None:
        role = named(prod, ROLE, "nodes-role")
        policies = {
            r.inputs["policyArn"].rpartition("/")[2]
            for r in prod.of_type("aws:iam/rolePolicyAttachment:RolePolicyAttachment")
            if r.inputs["role"] == role.inputs["name"]
        }
        assert policies == {"AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly"}

    def test_add_ons_with_rights_have_them_by_pod_identity(self, prod: Recording) -> None:
        judged = 0
        for addon in prod.of_type(ADDON):
            account = catalogue.ADDONS[addon.inputs["addonName"]].service_account
            associations = addon.inputs.get("podIdentityAssociations")
            assert "serviceAccountRoleArn" not in addon.inputs
            if account is None:
                assert associations is None
                continue
            judged += 1
            (association,) = associations or []
            assert association["serviceAccount"] == account
        assert judged == 3

    def test_a_role_is_for_one_service_account_of_one_cluster(self, prod: Recording) -> None:
        trusted = [
            json.loads(r.inputs["assumeRolePolicy"])["Statement"][0] for r in prod.of_type(ROLE)
        ]
        pods = [s for s in trusted if s["Principal"] == {"Service": "pods.eks.amazonaws.com"}]
        bound = []
        for statement in pods:
            assert statement["Action"] == ["sts:AssumeRole", "sts:TagSession"]
            asked = statement["Condition"]["StringEquals"]
            assert asked["aws:RequestTag/eks-cluster-name"] == "p5-prod"
            bound.append(
                (
                    asked["aws:RequestTag/kubernetes-namespace"],
                    asked["aws:RequestTag/kubernetes-service-account"],
                )
            )
        assert sorted(bound) == [
            ("kube-system", "aws-node"),
            ("kube-system", "efs-csi-controller-sa"),
            ("kube-system", "fsx-csi-controller-sa"),
            ("training", "default"),
        ]

    def test_nodes_in_china_are_taken_by_ec2_of_china(self, tmp_path: Path) -> None:
        """EKS names `ec2.amazonaws.com.cn`, and takes no group whose role does not trust it."""

        def edit(cluster: dict[str, Any]) -> None:
            text = json.dumps(cluster).replace("us-east-2", "cn-north-1")
            cluster.clear()
            cluster.update(json.loads(text.replace("arn:aws:", "arn:aws-cn:")))
            cluster["topology"] = ["kubernetes.io/hostname"]
            cluster["pools"][0]["purchase"] = {"kind": "on-demand"}

        services = {
            json.loads(role.inputs["assumeRolePolicy"])["Statement"][0]["Principal"]["Service"]
            for role in variant(tmp_path, edit).of_type(ROLE)
        }
        assert services == {"ec2.amazonaws.com.cn", "eks.amazonaws.com", "pods.eks.amazonaws.com"}

    def test_roles_of_one_clusters_name_in_two_regions_are_two(
        self, prod: Recording, tmp_path: Path
    ) -> None:
        """IAM has one set of names for all regions of an account."""

        def edit(cluster: dict[str, Any]) -> None:
            moved = json.loads(json.dumps(cluster).replace("us-east-2", "us-west-2"))
            cluster.clear()
            cluster.update(moved)
            cluster["pools"][0]["purchase"] = {"kind": "on-demand"}

        names = [
            {role.inputs["name"] for role in recording.of_type(ROLE)}
            for recording in (prod, variant(tmp_path, edit))
        ]
        assert len(names[0]) == len(names[1]) == 6
        assert not names[0] & names[1]

    def test_jobs_have_only_the_s3_rights_of_the_stack(self, prod: Recording) -> None:
        role = named(prod, ROLE, "jobs-training-role-role")
        (association,) = prod.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation")
        assert association.inputs["namespace"] == "training"
        assert association.inputs["serviceAccount"] == "default"
        assert role.name in association.inputs["roleArn"]
        # Where an edit removes the namespace, a job that still runs is asked for first; the engine
        # heeds edges of what goes alone (step_generator.go, ScheduleDeletes).
        assert association.urn in prod.one("Namespace", "training").dependencies
        (policy,) = [
            p
            for p in prod.of_type("aws:iam/rolePolicy:RolePolicy")
            if p.inputs["role"] == role.inputs["name"]
        ]
        data, checkpoints = "arn:aws:s3:::acme-datasets", "arn:aws:s3:::acme-checkpoints"
        text = json.loads(policy.inputs["policy"])["Statement"]
        assert [(s["Action"], s["Resource"], s.get("Condition"), s["Effect"]) for s in text] == [
            (["s3:ListBucket"], data, None, "Allow"),
            (["s3:GetObject"], f"{data}/*", None, "Allow"),
            (
                ["s3:ListBucket"],
                checkpoints,
                {"StringLike": {"s3:prefix": ["p5-prod/*"]}},
                "Allow",
            ),
            (
                [
                    "s3:GetObject",
                    "s3:PutObject",
                    "s3:DeleteObject",
                    "s3:AbortMultipartUpload",
                    "s3:ListMultipartUploadParts",
                ],
                f"{checkpoints}/p5-prod/*",
                None,
                "Allow",
            ),
        ]

    @pytest.mark.parametrize(("write", "actions"), [(False, 1), (True, 2)])
    def test_a_key_of_the_buckets_owner_is_used_as_far_as_the_bucket(
        self, write: bool, actions: int
    ) -> None:
        key = "arn:aws-us-gov:kms:us-gov-west-1:123456789012:key/1234abcd"
        access = S3Access.model_validate(
            {
                "namespace": "training",
                "buckets": [{"name": "acme-datasets", "write": write, "kms_key": key}],
            }
        )
        listing, _, keys = statements(access, "aws-us-gov")
        assert listing["Resource"] == "arn:aws-us-gov:s3:::acme-datasets"
        assert keys["Resource"] == key
        assert keys["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"][:actions]

    def test_nodes_pull_through_ecr_where_the_stack_says(self, tmp_path: Path) -> None:
        """ECR user guide, pull-through-cache-iam: the first pull makes a repository."""
        own = "123456789012.dkr.ecr.us-east-2.amazonaws.com"
        secret = (
            "arn:aws:secretsmanager:us-east-2:123456789012:secret:ecr-pullthroughcache/hub-1a2b3c"
        )

        def edit(cluster: dict[str, Any]) -> None:
            cluster["platform"]["image_caches"] = [
                {"registry": "registry.k8s.io", "prefix": "p5/k8s"},
                {"registry": "docker.io", "prefix": "p5/hub", "secret_arn": secret},
            ]
            cluster["registry_mirrors"] = {
                "registry.k8s.io": f"{own}/p5/k8s",
                "docker.io": f"{own}/p5/hub",
            }

        recording = variant(tmp_path, edit)
        rules = recording.of_type("aws:ecr/pullThroughCacheRule:PullThroughCacheRule")
        assert {
            r.inputs["ecrRepositoryPrefix"]: r.inputs["upstreamRegistryUrl"] for r in rules
        } == {
            "p5/k8s": "registry.k8s.io",
            "p5/hub": "registry-1.docker.io",
        }
        asked = {r.inputs["ecrRepositoryPrefix"]: r.inputs.get("credentialArn") for r in rules}
        assert asked == {"p5/k8s": None, "p5/hub": secret}
        role = named(recording, ROLE, "nodes-role")
        (right,) = [
            p
            for p in recording.of_type("aws:iam/rolePolicy:RolePolicy")
            if p.inputs["role"] == role.inputs["name"]
        ]
        (text,) = json.loads(right.inputs["policy"])["Statement"]
        assert text["Action"] == ["ecr:BatchImportUpstreamImage", "ecr:CreateRepository"]
        assert [arn.rpartition(":")[2] for arn in text["Resource"]] == [
            "repository/p5/k8s/*",
            "repository/p5/hub/*",
        ]
        for pool in recording.of_type(POOL):
            assert {right.urn, *(r.urn for r in rules)} <= recording.before(pool.urn)
        for resource in (*rules, right):
            for call in calls(resource.type, resource.inputs, IDS):
                assert problems(call) == []

    def test_jobs_of_a_stack_that_says_nothing_have_no_credentials(self, block: Recording) -> None:
        assert not block.of_type("aws:eks/podIdentityAssociation:PodIdentityAssociation")
        policies = block.kind("NetworkPolicy")
        assert policies
        assert not [p for p in policies if "169.254.170.23" in str(p.inputs["spec"])]

    def test_jobs_reach_what_hands_out_their_credentials(self, prod: Recording) -> None:
        """EKS user guide, pod-id-agent-setup: 169.254.170.23, port 80."""
        policy = prod.one("NetworkPolicy", "railhead-egress").inputs
        assert policy["metadata"]["namespace"] == "training"
        assert policy["spec"]["policyTypes"] == ["Egress"]
        assert policy["spec"]["egress"][0] == {
            "to": [{"ipBlock": {"cidr": "169.254.170.23/32"}}],
            "ports": [{"protocol": "TCP", "port": 80}],
        }

    def test_drivers_write_to_the_stacks_own_file_systems_alone(self, prod: Recording) -> None:
        drivers = [p for p in prod.of_type("aws:iam/rolePolicy:RolePolicy") if "-late-" in p.name]
        assert len(drivers) == 2
        for role_policy in drivers:
            for statement in json.loads(role_policy.inputs["policy"])["Statement"]:
                writes = [a for a in statement["Action"] if ":Describe" not in a]
                assert not writes or statement["Resource"] != "*", statement
                assert not writes or "Condition" in statement, statement


class TestStorage:
    def test_lustre_speaks_efa_where_the_instance_can(self, prod: Recording) -> None:
        inputs = named(prod, LUSTRE).inputs
        assert inputs["efaEnabled"] is True
        assert inputs["metadataConfiguration"] == {"mode": "USER_PROVISIONED", "iops": 12000}
        assert "p5-prod-aws-efa-group-id" in inputs["securityGroupIds"]
        assert named(prod, LUSTRE).manner["replaced for"] == ["perUnitStorageThroughput"]
        assert inputs["subnetIds"] == "p5-prod-aws-network-private-us-east-2a-id"

    def test_without_efa_it_stays_out_of_the_fabrics_group(self, modest: Recording) -> None:
        inputs = named(modest, LUSTRE).inputs
        assert inputs["efaEnabled"] is False
        assert not named(modest, LUSTRE).manner["replaced for"]
        assert inputs["securityGroupIds"] == ["p5-prod-aws-lustre-lustre-access-group-id"]

    def test_a_file_system_is_made_from_its_backup(self, tmp_path: Path, prod: Recording) -> None:
        """FSx makes it as large as the backup is."""

        def edit(raw: dict[str, Any]) -> None:
            raw["platform"]["storage"][0]["backup"] = "backup-0a1b2c3d4e5f60718"

        restored = named(variant(tmp_path, edit), LUSTRE)
        ids = {f"{r.name}-id": IDS[r.type] for r in prod.resources.values() if r.type in IDS}
        [call] = calls(LUSTRE, restored.inputs, ids)
        assert not problems(call)
        assert call.operation == "CreateFileSystemFromBackup"
        assert call.parameters["BackupId"] == "backup-0a1b2c3d4e5f60718"
        assert restored.manner["timeouts"]["create"] == "12h"

    def test_a_claim_on_lustre_has_a_volume_that_waits_for_it(self, prod: Recording) -> None:
        claim = prod.one("PersistentVolumeClaim", "checkpoints").inputs
        volume = prod.one("PersistentVolume").inputs["spec"]
        assert volume["claimRef"] == {"namespace": "training", "name": "checkpoints"}
        assert volume["storageClassName"] == claim["spec"]["storageClassName"] == "lustre"
        assert volume["accessModes"] == claim["spec"]["accessModes"] == ["ReadWriteMany"]
        asked = claim["spec"]["resources"]["requests"]["storage"]
        assert volume["capacity"] == {"storage": asked}
        assert volume["persistentVolumeReclaimPolicy"] == "Retain"
        source = volume["csi"]
        assert source["driver"] == "fsx.csi.aws.com"
        assert set(source["volumeAttributes"]) == {"dnsname", "mountname"}

    def test_a_volume_is_there_before_the_namespace_of_its_claim(self, prod: Recording) -> None:
        before = prod.before(prod.one("Namespace", "training").urn)
        assert prod.one("PersistentVolume").urn in before
        for kind in prod.kind("StorageClass"):
            assert kind.urn in before

    def test_each_claim_on_efs_gets_a_directory_of_its_own(self, prod: Recording) -> None:
        kinds = {r.inputs["metadata"]["name"]: r.inputs for r in prod.kind("StorageClass")}
        assert set(kinds) == {"lustre", "shared"}
        assert kinds["lustre"]["provisioner"] == "kubernetes.io/no-provisioner"
        efs = kinds["shared"]
        assert efs["provisioner"] == "efs.csi.aws.com"
        assert efs["parameters"]["provisioningMode"] == "efs-ap"
        assert efs["parameters"]["fileSystemId"] == "p5-prod-aws-efs-shared-file-system-id"
        assert efs["reclaimPolicy"] == "Retain"
        targets = prod.of_type("aws:efs/mountTarget:MountTarget")
        assert len(targets) == 3


#: Of what is made, the longest name that a stack can give; digits, so that a letter is put first.
LONGEST = {
    "Alias.name": len("alias/") + 83,
    "FileSystem.creationToken": catalogue.CREATION_TOKEN,
    "LaunchTemplate.name": catalogue.LAUNCH_TEMPLATE_NAME,
    "NodeGroup.nodeGroupName": catalogue.NODE_GROUP_NAME,
    "PlacementGroup.name": 135,
    "Role.name": catalogue.ROLE_NAME,
}


def test_long_names_take_all_the_room_there_is_and_no_more(tmp_path: Path) -> None:
    cluster, pool, system = "9" * 63, "8" * 63, "7" * 63
    raw = copy.deepcopy(stack_cluster(PROD))
    raw["name"], raw["pools"][0]["name"] = cluster, pool
    raw["pools"][0] |= {"purchase": {"kind": "on-demand"}, "placement_group": {"kind": "new"}}
    raw["queues"][0]["pools"], raw["runtimes"] = [pool], [raw["runtimes"][0] | {"pool": pool}]
    raw["platform"]["storage"][1]["name"] = system
    raw["checkpoints"][1]["storage_class"] = system
    recording = below(raw, tmp_path)
    ids = {f"{r.name}-id": IDS[r.type] for r in recording.resources.values() if r.type in IDS}
    longest: Counter[str] = Counter()
    for resource in clouds(recording):
        for call in calls(resource.type, resource.inputs, ids):
            assert not problems(call), (resource.urn, problems(call))
        for key in ("name", "nodeGroupName", "creationToken"):
            of = f"{resource.type.rpartition(':')[2]}.{key}"
            longest[of] = max(longest[of], len(str(resource.inputs.get(key, ""))))
    assert {of: longest[of] for of in LONGEST} == LONGEST
    for kind in (ROLE, TEMPLATE):
        names = [r.inputs["name"] for r in recording.of_type(kind)]
        assert len(names) == len(set(names))
