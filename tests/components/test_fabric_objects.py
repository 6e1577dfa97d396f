"""Objects of the fabric modes: drivers that do not drain, rails that stay rails, claims."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from railhead.base.errors import InputError
from railhead.components import arguments
from railhead.components.controllers import charts, gpu_operator
from railhead.components.fabric import gke as gke_fabric
from railhead.components.fabric import network_operator, rails, sriov
from railhead.components.fabric.fabric import gpu_operator_args
from railhead.components.fabric.fleet import BASE_SECONDS, SECONDS_PER_NODE, patience
from railhead.components.fabric.objects import objects_of
from railhead.components.fabric.railed import RailedObjects, network_operator_args
from railhead.config import Cluster, parse
from railhead.fabric.kinds import FABRICS
from railhead.fabric.mode import NETWORKS_ANNOTATION
from railhead.fabric.modes.sriov_roce import SriovRoceFabric
from railhead.fabric.plugin import NodePlugin
from railhead.fabric.railed import RailedFabric
from railhead.fabric.sriov import SriovFabric
from railhead.machines import MACHINES
from railhead.model.gpu import GpuOperatorConfig
from railhead.platform.registry import platform_of
from railhead.resolve import pod_guards
from railhead.resolve.cluster import resolve
from railhead.resolve.namespaces import nccl_profile
from railhead.resolve.wiring import wiring
from tests import crds
from tests.components.fabrics import Case, cluster, every, recorded
from tests.components.recording import run_stack, stack_cluster
from tests.kueues import kueues

NODES = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": "railhead.dev/pool", "operator": "In", "values": ["gpu"]}]}
    ]
}
MEGA = parse(stack_cluster("gcp-a3-mega"), where="a case")
PLUGINS = [row.plugin for row in FABRICS.values() if row.plugin]


def case_of(identity: str) -> Case:
    return next(case for case in every() if case.id == identity)


def raw(identity: str) -> dict[str, Any]:
    return cluster(case_of(identity))


def stack(identity: str) -> Cluster:
    return parse(raw(identity), where="a case")


def claims(identity: str) -> Mapping[str, Any]:
    """Return the templates of NICs' claims, which every training namespace has."""
    return resolve(stack(identity)).namespaces[0].nic_claims


def policy(of: Cluster) -> dict[str, Any]:
    fabric = of.fabric
    assert isinstance(fabric, RailedFabric)
    assert fabric.network_operator is not None
    args = network_operator_args(arguments.fabric(of), fabric, fabric.network_operator, railed(of))
    return network_operator.policy(args)


def railed(of: Cluster) -> RailedObjects:
    objects = objects_of(of.fabric)
    assert isinstance(objects, RailedObjects)
    return objects


def meta_plugins(of: Cluster) -> str:
    """Return the meta plugins that the operator's network of the first rail chains."""
    assert isinstance(of.fabric, RailedFabric)
    made = railed(of).network(of.fabric.rails[0], of.fabric, "nvidia-network-operator")
    result: str = made["spec"]["metaPlugins"]
    return result


def networks(of: Cluster) -> dict[str, Any]:
    """Rail -> CNI configuration, where the stack writes the networks."""
    return {name: attachment["config"] for name, attachment in arguments.networks(of).items()}


class TestDrivers:
    def test_manual_touches_no_node_by_itself(self) -> None:
        ofed = policy(stack("sriov-roce-roce-existing-manual"))["ofedDriver"]
        assert ofed["upgradePolicy"]["autoUpgrade"] is False
        assert ofed["upgradePolicy"]["drain"]["enable"] is False

    def test_rolling_waits_for_training_pods_without_end(self) -> None:
        upgrade = policy(stack("sriov-roce-roce-existing"))["ofedDriver"]["upgradePolicy"]
        assert upgrade["autoUpgrade"] is True
        assert upgrade["maxParallelUpgrades"] == 1
        assert upgrade["waitForCompletion"] == {
            "podSelector": "kueue.x-k8s.io/podset",
            "timeoutSeconds": 0,
        }
        assert upgrade["drain"]["force"] is False

    def test_a_slow_look_at_a_driver_ends_no_jobs(self) -> None:
        """The operator's default restarts the driver, or takes plugins away, after one of 10 s."""
        ofed = policy(stack("sriov-roce-roce-existing"))["ofedDriver"]
        for probe, minutes in (("livenessProbe", 60), ("readinessProbe", 5)):
            assert ofed[probe]["timeoutSeconds"] == 30
            assert ofed[probe]["failureThreshold"] * ofed[probe]["periodSeconds"] == 60 * minutes

    def test_ofed_container_gets_its_environment(self) -> None:
        spoilt = raw("sriov-roce-roce-existing")
        assert "env" not in policy(parse(spoilt, where="a case"))["ofedDriver"]
        ofed = spoilt["fabric"]["network_operator"]["ofed"]
        ofed |= {"safe_load": True, "environment": {"UNLOAD_STORAGE_MODULES": "true"}}
        made = policy(parse(spoilt, where="a case"))["ofedDriver"]
        assert made["env"] == [{"name": "UNLOAD_STORAGE_MODULES", "value": "true"}]
        assert made["upgradePolicy"]["safeLoad"] is True
        schemas = crds.schemas("proven")[("mellanox.com/v1alpha1", "NicClusterPolicy")]
        driver = schemas["properties"]["spec"]["properties"]["ofedDriver"]
        assert not list(jsonschema.Draft7Validator(driver).iter_errors(made))
        ofed["upgrade"] = "manual"
        with pytest.raises(InputError, match="safe_load needs upgrade 'rolling'"):
            parse(spoilt, where="a case")

    def test_without_a_driver_of_its_own_it_says_nothing_of_one(self) -> None:
        spoilt = raw("sriov-roce-roce-existing")
        spoilt["fabric"]["network_operator"] = {}
        of = parse(spoilt, where="a case")
        assert "ofedDriver" not in policy(of)
        assert isinstance(of.fabric, SriovRoceFabric)
        made = sriov.node_policy(of.pools[0], of.fabric.rails[0], of.fabric)
        assert made["nodeSelector"] == {"railhead.dev/pool": "gpu"}

    def test_config_daemon_lands_on_nodes_without_a_role(self) -> None:
        """An empty selector means the role worker, which kubeadm, RKE2 and K3s never set."""
        spoilt = raw("sriov-roce-roce-existing")
        operators: tuple[dict[str, object], ...] = ({"ofed": {}}, {})
        for operator in operators:
            spoilt["fabric"]["network_operator"] = operator
            of = parse(spoilt, where="a case")
            assert isinstance(of.fabric, SriovRoceFabric)
            assert sriov.operator_config(of.fabric)["configDaemonNodeSelector"] == {
                "network.nvidia.com/operator.mofed.wait": "false"
            }, operator

    def test_virtual_functions_wait_for_the_operators_own_driver(self) -> None:
        of = stack("sriov-roce-roce-existing")
        assert isinstance(of.fabric, SriovRoceFabric)
        made = sriov.node_policy(of.pools[0], of.fabric.rails[0], of.fabric)
        assert made["nodeSelector"] == {
            "railhead.dev/pool": "gpu",
            "network.nvidia.com/operator.mofed.wait": "false",
        }
        assert made["mtu"] == 9000

    def test_no_node_is_rebooted_or_changed_below_what_runs_there(self) -> None:
        """rdmaMode is a reboot of every node at once where drain is off, on Ubuntu for ever."""
        for identity in ("sriov-roce-roce-existing", "sriov-ib-infiniband-existing"):
            of = stack(identity)
            assert isinstance(of.fabric, SriovFabric)
            assert sriov.operator_config(of.fabric)["disableDrain"] is False
            made = sriov.pool_config(of.pools[0], of.fabric)
            assert set(made) == {"nodeSelector", "maxUnavailable"}

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "identity", ["sriov-roce-roce-existing", "sriov-ib-infiniband-existing"]
    )
    def test_destroy_takes_no_function_from_a_node(self, identity: str) -> None:
        """A policy that goes before the configuration drains nodes, and nobody uncordons them."""
        recording = recorded(case_of(identity))
        config = recording.one("SriovOperatorConfig")
        policies = {policy.urn for policy in recording.kind("SriovNetworkNodePolicy")}
        pools = {pool.urn for pool in recording.kind("SriovNetworkPoolConfig")}
        assert policies | pools <= recording.before(config.urn)
        assert all(config.urn not in recording.before(urn) for urn in policies)

    @pytest.mark.slow
    def test_operator_of_others_keeps_its_configuration(self, tmp_path: Path) -> None:
        """Leave the one of the name alone, without which that operator would do nothing."""
        spoilt = raw("sriov-roce-roce-existing")
        del spoilt["fabric"]["network_operator"]
        recording = run_stack("lab", tmp_path, cluster=spoilt)
        assert recording.kind("SriovNetworkNodePolicy")
        assert not recording.kind("SriovOperatorConfig")

    def test_functions_that_are_there_and_firmware_that_is_locked(self) -> None:
        spoilt = raw("sriov-roce-roce-existing")
        of = parse(spoilt, where="a case")
        assert isinstance(of.fabric, SriovRoceFabric)
        rail = of.fabric.rails[0]
        assert "disablePlugins" not in sriov.operator_config(of.fabric)
        assert "externallyManaged" not in sriov.node_policy(of.pools[0], rail, of.fabric)
        spoilt["fabric"]["sriov"] |= {"firmware": False, "externally_managed": True}
        of = parse(spoilt, where="a case")
        assert isinstance(of.fabric, SriovRoceFabric)
        assert sriov.operator_config(of.fabric)["disablePlugins"] == ["mellanox"]
        assert sriov.node_policy(of.pools[0], rail, of.fabric)["externallyManaged"] is True

    def test_multus_comes_only_where_pods_get_networks(self) -> None:
        with_rails = raw("rdma-shared-infiniband-existing")
        without = with_rails | {"fabric": with_rails["fabric"] | {"rails": [], "ipam": None}}
        assert "secondaryNetwork" not in policy(parse(without, where="a case"))
        assert {"multus", "cniPlugins"} <= policy(stack("ipoib-infiniband-existing"))[
            "secondaryNetwork"
        ].keys()

    @pytest.mark.slow
    def test_no_step_waits_for_every_node(self) -> None:
        """Three dead nodes of a thousand: `ready` never comes, and Helm waits for all but one."""
        for identity in ("sriov-roce-roce-existing", "dranet-roce-existing"):
            recording = recorded(next(case for case in every() if case.id == identity))
            for made in recording.kind("Release"):
                if made.inputs["name"] in ("network-operator", "gpu-operator", "dranet"):
                    assert made.inputs["skipAwait"] is True
            for made in recording.kind("NicClusterPolicy"):
                waits = made.inputs["metadata"]["annotations"]["pulumi.com/waitFor"]
                assert waits == "jsonpath={.status.state}"

    def test_patience_grows_with_the_fleet(self) -> None:
        small = raw("sriov-roce-roce-existing")
        large = raw("sriov-roce-roce-existing")
        large["pools"][0]["nodes"] = 255
        small_s, large_s = (patience(parse(r, where="x").pools) for r in (small, large))
        assert small_s == BASE_SECONDS + 2 * SECONDS_PER_NODE
        assert large_s - small_s == 253 * SECONDS_PER_NODE

    @pytest.mark.parametrize(
        "identity", [c.id for c in every() if c.platform == "existing" and not c.variant]
    )
    def test_no_mode_uses_whereabouts(self, identity: str) -> None:
        of = stack(identity)
        if isinstance(of.fabric, RailedFabric):
            assert "whereabouts" not in json.dumps(policy(of))


class TestDevicePlugins:
    def test_the_shared_plugin_has_the_rails_and_no_other_device(self) -> None:
        config = json.loads(
            policy(stack("rdma-shared-roce-existing"))["rdmaSharedDevicePlugin"]["config"]
        )
        (entry,) = config["configList"]
        assert entry["resourcePrefix"] + "/" + entry["resourceName"] == "rdma/rdma_shared_device_a"
        assert entry["selectors"] == {"ifNames": [f"ens{i}np0" for i in range(8)]}

    def test_infiniband_without_rails_is_picked_by_its_link(self) -> None:
        config = json.loads(
            policy(stack("rdma-shared-infiniband-existing"))["rdmaSharedDevicePlugin"]["config"]
        )
        assert config["configList"][0]["selectors"]["linkTypes"] == ["infiniband"]

    def test_a_whole_nic_is_a_resource_of_its_rail(self) -> None:
        config = json.loads(
            policy(stack("host-device-roce-existing"))["sriovDevicePlugin"]["config"]
        )
        assert [r["resourceName"] for r in config["resourceList"]] == [
            f"rail_{i}" for i in range(8)
        ]
        # By pfNames the plugin finds no NIC that is not a virtual function.
        assert [r["selectors"] for r in config["resourceList"]] == [
            {"pciAddresses": [f"0000:{i}b:00.0"], "isRdma": True} for i in range(8)
        ]

    def test_rails_at_two_sockets_refuse_no_pod(self) -> None:
        """NICs of both prefer no set of sockets (mergePermutation of kubelet)."""
        of = stack("sriov-roce-roce-existing")
        assert isinstance(of.fabric, SriovRoceFabric)
        listed = json.loads(
            policy(stack("host-device-roce-existing"))["sriovDevicePlugin"]["config"]
        )["resourceList"]
        functions = [sriov.node_policy(of.pools[0], rail, of.fabric) for rail in of.fabric.rails]
        assert all(row["excludeTopology"] is True for row in (*listed, *functions))

    @pytest.mark.parametrize(("gpus", "efa", "pages"), [(8, 32, 5120), (4, 16, 2560), (1, 4, 640)])
    def test_a_part_of_a_node_gets_its_part_of_the_nics(
        self, gpus: int, efa: int, pages: int
    ) -> None:
        of = stack("efa-efa-aws")
        wired = wiring(of, of.pools[0], gpus)
        assert wired.requests() == {
            "vpc.amazonaws.com/efa": str(efa),
            "hugepages-2Mi": f"{pages}Mi",
        }

    def test_quotas_cover_every_device_and_the_pages(self) -> None:
        of = stack("efa-efa-aws")
        pool = of.pools[0]
        resolved = resolve(of)
        (queue,) = kueues(resolved).cluster_queues
        (group,) = queue.spec["resourceGroups"]
        quota = {r["name"]: r["nominalQuota"] for r in group["flavors"][0]["resources"]}
        assert quota["vpc.amazonaws.com/efa"] == str(32 * pool.nodes)
        assert quota["hugepages-2Mi"] == f"{5120 * pool.nodes}Mi"
        assert set(resolved.runtimes[0].devices) <= set(quota)


class TestDistributions:
    @staticmethod
    def values(distribution: str, **platform: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the values of the GPU operator and of the network operator."""
        section = raw("sriov-roce-roce-existing")
        section["platform"] |= {"distribution": distribution, **platform}
        of = parse(section, where="a case")
        args = arguments.fabric(of)
        fabric = of.fabric
        assert isinstance(fabric, RailedFabric)
        assert fabric.network_operator is not None
        objects = objects_of(fabric)
        assert isinstance(objects, RailedObjects)
        nics = network_operator_args(args, fabric, fabric.network_operator, objects)
        gpus = gpu_operator_args(args, GpuOperatorConfig())
        return gpu_operator.values(gpus), network_operator.values(nics)

    def test_the_usual_directories_are_the_charts_own(self) -> None:
        gpus, nics = self.values("kubeadm")
        assert "hostPaths" not in gpus
        assert not {"cniBinDirectory", "cniNetworkDirectory"} & nics["operator"].keys()
        assert "cniBinPath" not in nics["sriov-network-operator"]["operator"]

    def test_toolkit_writes_in_the_version_of_the_nodes_file(self) -> None:
        """Containerd 2.3 ends at a file that is newer than its own, and the node is NotReady."""
        gpus, _ = self.values("kubeadm")
        env = [{"name": "RUNTIME_CONFIG_SOURCE", "value": "file"}]
        assert gpus["toolkit"] == {"enabled": True, "env": env}

    def test_toolkit_asks_cri_o_on_oke(self) -> None:
        """CRI-O's packages keep runtimes and monitor off the PATH, and no file is always there."""
        of = parse(raw("sriov-roce-roce-existing"), where="a case")
        pools = tuple(p.model_copy(update={"instance_type": "BM.GPU.H100.8"}) for p in of.pools)
        oke = of.model_copy(update={"pools": pools})
        assert not platform_of(oke).node_paths(oke).toolkit

    def test_operators_hold_all_nodes_in_memory(self) -> None:
        """141 nodes took one to 156 MiB, and 128 are the network operator's chart's own limit."""
        for values in self.values("kubeadm"):
            assert values["operator"]["resources"]["limits"] == {"memory": "2Gi"}

    @pytest.mark.parametrize("distribution", ["rke2", "k3s"])
    def test_containerd_is_where_the_distribution_has_it(self, distribution: str) -> None:
        gpus, _ = self.values(distribution)
        assert {e["name"]: e["value"] for e in gpus["toolkit"]["env"]} == {
            "CONTAINERD_SOCKET": "/run/k3s/containerd/containerd.sock"
        }

    def test_networks_are_written_where_containerd_looks(self) -> None:
        _, nics = self.values("k3s")
        assert nics["operator"] == {
            "resources": charts.OPERATOR_LIMITS,
            "cniBinDirectory": "/var/lib/rancher/k3s/data/cni",
            "cniNetworkDirectory": "/var/lib/rancher/k3s/agent/etc/cni/net.d",
        }
        functions = nics["sriov-network-operator"]["operator"]
        assert functions["cniBinPath"] == "/var/lib/rancher/k3s/data/cni"
        assert functions["resourcePrefix"] == "nvidia.com"

    def test_a_moved_kubelet_is_known(self) -> None:
        gpus, nics = self.values("microk8s")
        assert gpus["hostPaths"]["kubeletRootDir"] == "/var/snap/microk8s/common/var/lib/kubelet"
        assert nics["operator"]["cniNetworkDirectory"].startswith("/var/snap/microk8s/")
        env = {e["name"]: e["value"] for e in gpus["toolkit"]["env"]}
        rendered = "file=/var/snap/microk8s/current/args/containerd.toml"
        assert env["RUNTIME_CONFIG_SOURCE"] == rendered
        gpus, _ = self.values("k0s", kubelet_directory="/var/lib/kubelet")
        assert "hostPaths" not in gpus
        env = {e["name"]: e["value"] for e in gpus["toolkit"]["env"]}
        assert env["CONTAINERD_SOCKET"] == "/run/k0s/containerd.sock"

    def test_k0s_file_has_the_version_of_its_own(self) -> None:
        """A worker of 1.36 refuses version 2, which the toolkit writes where it reads no file."""
        gpus, _ = self.values("k0s", kubelet_directory="/var/lib/kubelet")
        env = {e["name"]: e["value"] for e in gpus["toolkit"]["env"]}
        own = "/etc/k0s/containerd.toml"
        assert env["RUNTIME_CONFIG_SOURCE"] == f"file={own}"
        assert env["RUNTIME_DROP_IN_CONFIG"] == "/etc/k0s/containerd.d/nvidia.toml"
        # What the toolkit writes, it writes without the line by which k0s knows its own.
        assert env["CONTAINERD_CONFIG"] not in (own, "/run/k0s/containerd-cri.toml")

    def test_kubelets_own_directory_may_be_named(self) -> None:
        gpus, _ = self.values(
            "microk8s", kubelet_directory="/var/snap/microk8s/common/var/lib/kubelet"
        )
        assert gpus["hostPaths"]["kubeletRootDir"] == "/var/snap/microk8s/common/var/lib/kubelet"

    def test_claims_that_would_not_find_kubelet_are_refused(self) -> None:
        section = stack_cluster("onprem-roce-shared")
        section["platform"] |= {"distribution": "k0s"}
        section["fabric"] = {"kind": "ethernet", "mode": "none"}
        parse(section, where="test")
        section["gpu_operator"]["allocation"] = "dra"
        with pytest.raises(InputError, match="--kubelet-root-dir=/var/lib/kubelet"):
            parse(section, where="test")

    def test_device_plugins_that_would_not_find_kubelet_are_refused(self) -> None:
        with pytest.raises(InputError, match="--kubelet-root-dir=/var/lib/kubelet"):
            self.values("k0s")


class TestTopologies:
    @pytest.mark.parametrize(
        ("machine", "file", "behind_one_switch"),
        [
            ("Standard_ND96isr_H100_v5", "ndv5-topo.xml", ["0008:00:00.0", "0104:00:00.0"]),
            ("Standard_ND96isr_H200_v5", "ndv5-topo.xml", ["0001:00:00.0", "0101:00:00.0"]),
            (
                "Standard_ND96asr_v4",
                "ndv4-topo.xml",
                ["000d:00:00.0", "000e:00:00.0", "0107:00:00.0", "0108:00:00.0"],
            ),
        ],
    )
    def test_a_hidden_topology_is_in_every_job(
        self, machine: str, file: str, behind_one_switch: list[str]
    ) -> None:
        """NCCL goes on without a word where NCCL_TOPO_FILE names no file."""
        section = raw("rdma-shared-infiniband-existing")
        section["pools"][0]["instance_type"] = machine
        of = parse(section, where="a case")
        path = wiring(of).environment["NCCL_TOPO_FILE"]
        trainer = resolve(of).runtimes[0].pod["spec"]["containers"][0]
        (mount,) = (m for m in trainer["volumeMounts"] if m["mountPath"] == str(Path(path).parent))
        assert (mount["name"], Path(path).name) == ("nccl-profile", file)
        tree = ElementTree.fromstring(nccl_profile(of)[file])
        switches = [[pci.attrib["busid"] for pci in switch] for switch in tree.iter("pci")]
        assert behind_one_switch in switches
        devices = [pci.attrib["class"] for pci in tree.iter("pci") if not len(pci)]
        assert sorted(devices) == ["0x020700"] * 8 + ["0x030200"] * 8

    def test_an_images_own_file_comes_first(self) -> None:
        section = raw("rdma-shared-infiniband-existing")
        section["pools"][0]["instance_type"] = "Standard_ND96isr_H100_v5"
        section["fabric"]["topology_file"] = "/opt/topo.xml"
        of = parse(section, where="a case")
        assert wiring(of).environment["NCCL_TOPO_FILE"] == "/opt/topo.xml"

    def test_a_machine_that_hides_nothing_has_no_file(self) -> None:
        of = stack("rdma-shared-infiniband-existing")
        assert "NCCL_TOPO_FILE" not in wiring(of).environment
        assert not [name for name in nccl_profile(of) if name.endswith(".xml")]


class TestRails:
    def test_a_block_for_each_node_holds_its_pods(self) -> None:
        of = stack("sriov-roce-roce-existing")
        assert isinstance(of.fabric, SriovRoceFabric)
        kind, spec = rails.address_pool(of.fabric.rails[1], of.fabric, 8, NODES)
        # Twice the pods: a new gang's may come before the last one's have gone.
        assert (kind, spec) == (
            "IPPool",
            {"subnet": "192.168.16.0/20", "perNodeBlockSize": 16, "nodeSelector": NODES},
        )

    def test_pools_are_cut_for_the_pools_nodes_and_no_others(self) -> None:
        recording = recorded(next(c for c in every() if c.id == "sriov-roce-roce-existing"))
        (made,) = recording.kind("IPPool")[:1]
        assert made.inputs["spec"]["nodeSelector"] == NODES

    def test_what_stays_on_a_rail_does_not_go_by_its_router(self) -> None:
        of = stack("sriov-roce-roce-existing-routed")
        assert isinstance(of.fabric, SriovRoceFabric)
        _, spec = rails.address_pool(of.fabric.rails[0], of.fabric, 8, NODES)
        assert spec["gateway"] == "192.168.0.1"
        assert spec["perNodeBlockSize"] == 17
        assert "routes" not in spec

    def test_a_nodes_part_is_the_one_that_its_switch_port_has(self) -> None:
        spoilt = raw("sriov-roce-roce-existing-prefix")
        spoilt["fabric"]["rails"][0]["node_prefixes"] = {"gpu-7": "192.168.4.0/28"}
        of = parse(spoilt, where="a case")
        assert isinstance(of.fabric, SriovRoceFabric)
        _, spec = rails.address_pool(of.fabric.rails[0], of.fabric, 8, NODES)
        assert spec["staticAllocations"] == [
            {"nodeName": "gpu-7", "prefix": "192.168.4.0/28", "gateway": "192.168.4.1"}
        ]

    @pytest.mark.parametrize(
        ("variant", "prefixes", "words"),
        [
            ("", {"gpu-7": "192.168.4.0/28"}, "pool: prefix"),
            ("-prefix", {"gpu-7": "10.1.0.0/28"}, "is not in subnet"),
            ("-prefix", {"gpu-7": "192.168.4.0/27"}, "is not a /28"),
            ("-prefix", {"a": "192.168.4.0/28", "b": "192.168.4.0/28"}, "is 'a''s already"),
        ],
    )
    def test_a_part_that_cannot_be_is_refused(
        self, variant: str, prefixes: dict[str, str], words: str
    ) -> None:
        spoilt = raw(f"sriov-roce-roce-existing{variant}")
        spoilt["fabric"]["rails"][0]["node_prefixes"] = prefixes
        with pytest.raises(InputError) as refused:
            parse(spoilt, where="a case")
        assert words in str(refused.value)

    def test_the_nodes_own_addresses_are_kept_at_the_end(self) -> None:
        spoilt = raw("sriov-roce-roce-existing")
        spoilt["fabric"]["rails"][0]["range_end"] = "192.168.15.199"
        of = parse(spoilt, where="a case")
        assert isinstance(of.fabric, SriovRoceFabric)
        _, spec = rails.address_pool(of.fabric.rails[0], of.fabric, 8, NODES)
        assert spec["exclusions"] == [{"startIP": "192.168.15.200", "endIP": "192.168.15.254"}]

    @pytest.mark.parametrize(("pods", "prefix"), [(1, 30), (5, 29), (6, 28), (13, 28), (14, 27)])
    def test_a_routed_rail_has_a_subnet_a_node(self, pods: int, prefix: int) -> None:
        spoilt = raw("sriov-roce-roce-existing-prefix")
        spoilt["fabric"]["ipam"]["per_node"] = pods
        of = parse(spoilt, where="a case")
        assert isinstance(of.fabric, SriovRoceFabric)
        kind, spec = rails.address_pool(of.fabric.rails[0], of.fabric, 8, NODES)
        assert kind == "CIDRPool"
        assert spec["perNodeNetworkPrefix"] == prefix
        # Its own address, its gateway and its broadcast address are no pod's.
        assert 2 ** (32 - prefix) - 3 >= pods > 2 ** (31 - prefix) - 3

    def test_flat_rails_carry_the_bootstrap_and_routed_ones_do_not(self) -> None:
        flat = stack("sriov-roce-roce-existing").fabric.bootstrap_interfaces()
        assert flat == tuple(f"net{i + 1}" for i in range(8))
        for identity in ("sriov-roce-roce-existing-routed", "sriov-ib-infiniband-existing"):
            assert stack(identity).fabric.bootstrap_interfaces() == ("eth0",)

    def test_what_comes_from_a_routed_rail_leaves_by_it(self) -> None:
        of = stack("sriov-roce-roce-existing-routed")
        assert isinstance(of.fabric, SriovRoceFabric)
        types = [
            plugin["type"]
            for plugin in railed(of).chained(of.fabric.rails[0], of.fabric, shared_wire=True)
        ]
        assert types == ["sbr", "tuning", "rdma"]
        flat = stack("sriov-roce-roce-existing")
        assert isinstance(flat.fabric, SriovRoceFabric)
        chained = meta_plugins(flat)
        assert [p["type"] for p in json.loads(f"[{chained}]")] == ["tuning", "rdma"]

    @pytest.mark.parametrize("isolated", [True, False])
    def test_infiniband_functions_are_isolated_by_their_own_plugin(self, isolated: bool) -> None:
        """rdma-cni dropped ib-sriov (#21), whose README forbids the two together."""
        spoilt = raw("sriov-ib-infiniband-existing")
        if not isolated:
            spoilt["fabric"]["sriov"] = {"rdma_mode": "shared"}
        of = parse(spoilt, where="a case")
        result = arguments.networks(of)
        assert set(result) == {f"rail-{i}" for i in range(8)}
        for index, item in enumerate(result.values()):
            assert item["annotations"] == {
                "k8s.v1.cni.cncf.io/resourceName": f"nvidia.com/rail_{index}"
            }
            assert item["config"]["type"] == "ib-sriov"
            assert item["config"].get("rdmaIsolation", False) is isolated
            assert "plugins" not in item["config"]

    def test_shared_rdma_namespaces_move_no_rdma_device(self) -> None:
        of = stack("sriov-roce-roce-existing-shared")
        assert isinstance(of.fabric, SriovRoceFabric)
        chained = meta_plugins(of)
        assert [p["type"] for p in json.loads(f"[{chained}]")] == ["tuning"]

    @pytest.mark.parametrize(
        ("identity", "plugin"),
        [
            ("rdma-shared-roce-existing-own-networks", "macvlan"),
            ("ipoib-infiniband-existing-own-networks", "ipoib"),
            ("host-device-roce-existing-own-networks", "host-device"),
        ],
    )
    def test_without_an_operator_they_are_the_same_networks(
        self, identity: str, plugin: str
    ) -> None:
        result = networks(stack(identity))
        assert set(result) == {f"rail-{i}" for i in range(8)}
        for configuration in result.values():
            first = configuration.get("plugins", [configuration])[0]
            assert first["type"] == plugin
            assert first["ipam"]["type"] == "host-local"
            assert first.get("mtu") == (9000 if plugin == "macvlan" else None)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "identity",
        ["rdma-shared-roce-existing", "host-device-roce-existing", "ipoib-infiniband-existing"],
    )
    def test_stack_writes_its_own_networks_to_chain_plugins(self, identity: str) -> None:
        recording = recorded(next(case for case in every() if case.id == identity))
        for kind in ("MacvlanNetwork", "HostDeviceNetwork", "IPoIBNetwork"):
            assert not recording.kind(kind)
        written = recording.kind("NetworkAttachmentDefinition")
        assert len(written) == 8 * len(stack(identity).namespaces)
        chained = [json.loads(item.inputs["spec"]["config"]).get("plugins", []) for item in written]
        kept = {"type": "tuning"} if "ipoib" not in identity else None
        for plugins in chained:
            assert (kept is None) == (plugins == [])
            assert kept is None or plugins[1]["type"] == "tuning"

    def test_the_labs_network_is_one_plugin(self) -> None:
        (configuration,) = networks(stack("rdma-shared-roce-lab")).values()
        assert "plugins" not in configuration
        (moved,) = networks(stack("host-device-roce-lab")).values()
        assert (moved["type"], moved["device"]) == ("host-device", "rail0")


class TestClaims:
    def test_claim_has_a_class_and_a_selector(self) -> None:
        (spec,) = claims("dranet-roce-existing-selected").values()
        (request,) = spec["spec"]["devices"]["requests"]
        assert request["exactly"]["deviceClassName"] == "railhead-rdma"
        assert request["exactly"]["selectors"][0]["cel"]["expression"].startswith("has(device.")

    def test_managed_dranet_and_efa_have_classes_of_their_own(self) -> None:
        for identity, name in (
            ("dranet-gcp-rdma-gcp", "mrdma.google.com"),
            ("efa-efa-aws-dra", "efa.networking.k8s.aws"),
        ):
            (spec,) = claims(identity).values()
            (request,) = spec["spec"]["devices"]["requests"]
            assert request["exactly"]["deviceClassName"] == name

    def test_dra_requests_no_extended_resource(self) -> None:
        runtime = resolve(stack("efa-efa-aws-dra")).runtimes[0]
        assert "vpc.amazonaws.com/efa" not in runtime.devices
        claimed = runtime.pod["spec"]["resourceClaims"]
        assert claimed == [{"name": "rdma", "resourceClaimTemplateName": "railhead-nics-32"}]


class TestInstaller:
    """Google's plugins on nodes that may have jobs."""

    def run(self, plugin: NodePlugin, node: Path) -> subprocess.CompletedProcess[str]:
        (container,) = [
            c
            for c in gke_fabric.installer(plugin, MEGA.registry_mirrors)["template"]["spec"][
                "initContainers"
            ]
            if c["name"] == "install"
        ]
        script = container["command"][2].replace("/host/bin", str(node))
        environment = {e["name"]: e["value"] for e in container["env"]}
        return subprocess.run(
            ["sh", "-c", script],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def plugin(self, node: Path, version: str = "v2") -> NodePlugin:
        tcpx = FABRICS["tcpx"].plugin
        assert tcpx is not None
        return replace(
            tcpx,
            installer=replace(tcpx.installer, tag=version),
            qualified=replace(tcpx.qualified, plugin=version),
            script=f"mkdir -p {node}/nvidia/lib64\n"
            f"echo {version} > {node}/nvidia/lib64/new\n"
            f"cd {node}/nvidia/lib64 && cp -r --remove-destination new libnccl-net.so\n",
        )

    def test_it_says_what_it_has_installed_and_does_so_once(self, tmp_path: Path) -> None:
        library, marker = tmp_path / "nvidia/lib64/libnccl-net.so", tmp_path / "railhead/tcpx"
        assert self.run(self.plugin(tmp_path), tmp_path).returncode == 0
        assert marker.read_text() == self.plugin(tmp_path).release
        with library.open() as held:
            again = self.run(self.plugin(tmp_path), tmp_path)
            assert f"{self.plugin(tmp_path).release} is there" in again.stdout
            assert self.run(self.plugin(tmp_path, "v3"), tmp_path).returncode == 0
            # A process that has the old library open keeps it.
            assert (held.read(), library.read_text()) == ("v2\n", "v3\n")
        assert marker.read_text() == self.plugin(tmp_path, "v3").release

    def test_another_revision_of_one_version_is_another_release(self, tmp_path: Path) -> None:
        """Nodes of both would give one gang two NCCLs: each installs again, and the gate tells."""
        first = self.plugin(tmp_path)
        assert self.run(first, tmp_path).returncode == 0
        second = replace(first, revision=first.revision + 1)
        assert "is there" not in self.run(second, tmp_path).stdout
        marker = (tmp_path / "railhead/tcpx").read_text()
        assert marker == second.release != first.release

    def test_what_is_gone_is_installed_again(self, tmp_path: Path) -> None:
        library = tmp_path / "nvidia/lib64/libnccl-net.so"
        self.run(self.plugin(tmp_path), tmp_path)
        library.unlink()
        assert self.run(self.plugin(tmp_path), tmp_path).returncode == 0
        assert library.read_text() == "v2\n"

    def test_failed_installation_writes_no_marker(self, tmp_path: Path) -> None:
        for script in ("false\n", "true\n"):
            broken = replace(self.plugin(tmp_path), script=script)
            done = self.run(broken, tmp_path)
            assert done.returncode != 0
            assert not (tmp_path / "railhead/tcpx").exists()

    @pytest.mark.slow
    @pytest.mark.parametrize("plugin", PLUGINS, ids=lambda p: p.name)
    def test_installer_updates_on_delete_and_nothing_awaits_it(self, plugin: NodePlugin) -> None:
        assert gke_fabric.installer(plugin, MEGA.registry_mirrors)["updateStrategy"] == {
            "type": "OnDelete"
        }
        sets = recorded(case_of(f"{plugin.name}-{plugin.name}-gcp")).kind("DaemonSet")
        ours = [
            d.inputs["metadata"] for d in sets if d.inputs["metadata"]["namespace"] == "kube-system"
        ]
        assert f"railhead-{plugin.name}-installer" in {m["name"] for m in ours}
        assert all(m["annotations"]["pulumi.com/skipAwait"] == "true" for m in ours)

    def test_tcpx_leaves_the_images_nccl_alone(self, tmp_path: Path) -> None:
        """NCCL 2.19 before the image's own ends `import torch` since PyTorch 2.6."""
        tcpx = FABRICS["tcpx"].plugin
        assert tcpx is not None
        source, target = tmp_path / "tcpx/lib64", tmp_path / "nvidia/lib64"
        source.mkdir(parents=True)
        for library in ("libnccl.so", "libnccl.so.2", "libnccl.so.2.19.4", "libnccl-net.so"):
            (source / library).touch()
        script = tcpx.script.replace("/scripts/container_entry.sh install", "true")
        script = script.replace("/var/lib/tcpx", str(tmp_path / "tcpx"))
        script = script.replace("/usr/local/nvidia", str(tmp_path / "nvidia"))
        subprocess.run(["sh", "-ec", script], check=True)
        assert [path.name for path in target.iterdir()] == ["libnccl-net.so"]
        # Nodes of an earlier version have it already.
        (target / "libnccl.so.2").touch()
        bin_path = "/home/kubernetes/bin/nvidia"
        subprocess.run(
            ["sh", "-ec", tcpx.prepare.replace(bin_path, str(tmp_path / "nvidia"))], check=True
        )
        assert [path.name for path in target.iterdir()] == ["libnccl-net.so"]

    def test_the_injector_goes_to_the_machines_of_its_plugin(self) -> None:
        tcpxo = FABRICS["tcpxo"].plugin
        assert tcpxo is not None
        spec = gke_fabric.injector(tcpxo, MEGA.registry_mirrors)["template"]["spec"]["affinity"][
            "nodeAffinity"
        ]
        assert "nvidia-h100-mega-80gb" in json.dumps(spec)
        assert 'gke-gpu"' not in json.dumps(spec)

    def test_the_trainer_starts_after_a_daemon_that_serves(self) -> None:
        (daemon,) = resolve(stack("tcpxo-tcpxo-gcp")).runtimes[0].pod["spec"]["initContainers"]
        log = {"name": "HEALTH_CHECK_LOG_FILE", "value": "/run/health-check"}
        assert log in daemon["env"]
        assert daemon["startupProbe"]["exec"]["command"] == ["cat", "/run/health-check"]
        assert daemon["command"][2].endswith("entrypoint_rxdm_container.sh --num_hops=2")

    def test_a_rank_of_tcpx_starts_after_the_daemons_sockets(self) -> None:
        """google/nccl-plugin-gpudirecttcpx: a rank that finds no socket ends, without a retry."""
        (daemon,) = resolve(stack("tcpx-tcpx-gcp")).runtimes[0].pod["spec"]["initContainers"]
        *_, path = daemon["startupProbe"]["exec"]["command"]
        folder, _, name = path.rpartition("/")
        assert folder == daemon["command"][daemon["command"].index("--uds_path") + 1]
        assert name == "rx_rule_manager"
        assert folder in {mount["mountPath"] for mount in daemon["volumeMounts"]}

    def test_gib_leaves_the_images_nccl_alone(self) -> None:
        """container-engine-accelerators #606: 2da1c92f removed --install-nccl."""
        gib = FABRICS["gcp-rdma"].plugin
        assert gib is not None
        assert "--install-nccl" not in gib.script
        assert not gib.prepare


class TestProvider:
    def test_one_resource_and_nothing_else(self) -> None:
        of = stack("provider-native-infiniband-existing")
        nics = len(MACHINES[of.pools[0].instance_type].nics)
        wired = wiring(of)
        assert (wired.devices, wired.annotations, wired.host_network) == ({"rdma/ib": 1}, {}, False)
        assert wired.environment["NCCL_IB_HCA"].count("mlx5_") == nics
        assert wired.environment["NCCL_SOCKET_IFNAME"] == "=eth0"

    @pytest.mark.parametrize("gpus", [1, 4, 8])
    def test_virtual_functions_go_with_the_gpus_and_need_no_list(self, gpus: int) -> None:
        of = stack("provider-native-roce-existing-functions")
        machine = MACHINES[of.pools[0].instance_type]
        wired = wiring(of, gpus=gpus)
        share = len(machine.nics) * gpus // machine.gpus
        assert wired.devices == {"nvidia.com/rdma-vf": share}
        # As Oracle's manifests: the network once for each function, from the namespace `default`.
        assert json.loads(wired.annotations[NETWORKS_ANNOTATION]) == [
            {"name": "rdma-vf", "namespace": "default", "interface": f"net{i + 1}"}
            for i in range(share)
        ]
        guards = pod_guards.demand(of)
        assert (guards.attachment, guards.networks) == ("multus", ("rdma-vf",))
        networks = resolve(of).contract.fabric.networks
        assert {(n.namespace, n.name) for n in networks} == {("default", "rdma-vf")}
        # They are called as the kernel calls them, and there are no others in the pod.
        assert "NCCL_IB_HCA" not in wired.environment

    def test_the_nodes_network_has_its_devices_by_the_shared_plugin(self) -> None:
        """Bare-metal nodes of OKE advertise nothing, and its manifests are privileged."""
        of = stack("rdma-shared-roce-existing-host-network")
        (entry,) = json.loads(policy(of)["rdmaSharedDevicePlugin"]["config"])["configList"]
        assert entry["selectors"] == {"vendors": ["15b3"], "linkTypes": ["ether"]}
        runtime = resolve(of).runtimes[0]
        pod = runtime.pod["spec"]
        assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
        assert all(not c["securityContext"].get("privileged") for c in pod["containers"])
        wired = wiring(of)
        assert (wired.devices, wired.annotations) == ({"rdma/rdma_shared_device_a": 1}, {})
        assert wired.environment["NCCL_IB_HCA"].count("mlx5_") == 8
        spoilt = raw("rdma-shared-roce-existing-host-network")
        spoilt["fabric"]["rails"] = raw("rdma-shared-roce-existing")["fabric"]["rails"]
        spoilt["fabric"] |= {"ipam": {"kind": "nv-ipam"}, "cluster_ranges": ["10.0.0.0/8"]}
        with pytest.raises(InputError, match="cannot be with host_network"):
            parse(spoilt, where="x")

    def test_the_nodes_network_takes_the_whole_node(self) -> None:
        pod = resolve(stack("provider-native-roce-existing-host-network")).runtimes[0].pod["spec"]
        assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
        assert all(not c["securityContext"].get("privileged") for c in pod["containers"])
        spoilt = raw("provider-native-roce-existing-host-network")
        spoilt["runtimes"][0]["gpus_per_node"] = 1
        with pytest.raises(InputError, match="a pod takes every NIC of its node"):
            parse(spoilt, where="x")

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"per_pod": 9, "devices": 8}, "fabric.per_pod: a pod asks for 9 'rdma/ib' of the 8"),
            ({"per_pod": None, "devices": 4}, "fabric.devices: a pod asks for 8"),
            ({"hcas": ["mlx5_0"]}, "fabric.hcas: 1 HCAs for the 8 NICs"),
            ({"resource": "rdma"}, "fabric.resource: 'rdma' is not an extended resource's name"),
            ({"resource": "nvidia.com/rdma-vf"}, "fabric.network: is missing: "),
            (
                {"network": "default/x", "host_network": True},
                "fabric.network: cannot be with host_network",
            ),
            ({"network": "rdma-vf"}, "fabric.network: 'rdma-vf' is not a network's namespace"),
        ],
    )
    def test_what_would_never_start_is_refused(self, fields: dict[str, Any], message: str) -> None:
        spoilt = raw("provider-native-roce-existing")
        spoilt["fabric"] |= fields
        with pytest.raises(InputError) as caught:
            parse(spoilt, where="x")
        assert message in caught.value.problem


class TestGoogle:
    @pytest.mark.parametrize("plugin", PLUGINS, ids=lambda p: p.name)
    def test_installer_runs_only_on_its_own_machine_types(self, plugin: NodePlugin) -> None:
        spec = gke_fabric.installer(plugin, MEGA.registry_mirrors)["template"]["spec"]
        (term,) = spec["affinity"]["nodeAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]["nodeSelectorTerms"]
        (expression,) = term["matchExpressions"]
        assert expression["values"] == list(plugin.accelerators)
        mounted = {m["name"] for c in spec["initContainers"] for m in c.get("volumeMounts", [])}
        assert mounted == {v["name"] for v in spec["volumes"]}

    def test_images_are_pinned(self) -> None:
        for plugin in PLUGINS:
            for image in (plugin.installer, *([plugin.daemon.image] if plugin.daemon else [])):
                assert image.tag not in ("", "latest")


def test_profile_omits_variables_that_differ_between_machines() -> None:
    mixed = raw("gcp-rdma-gcp-rdma-existing")
    other = {"name": "b200", "instance_type": "a4-highgpu-8g", "node_selector": {"gpu": "b200"}}
    mixed["pools"][0]["node_selector"] = {"gpu": "h200"}
    mixed["pools"].append(mixed["pools"][0] | other)
    mixed["queues"][0]["pools"].append("b200")
    of = parse(mixed, where="a case")
    files = nccl_profile(of)
    assert "NCCL_TUNER_CONFIG_PATH" not in files["nccl.conf"]
    assert "NCCL_NET=gIB\n" in files["nccl.conf"]
    # The library path is the loader's, which reads no file of NCCL.
    assert "LD_LIBRARY_PATH" not in files["nccl.conf"]
    assert "LD_LIBRARY_PATH=/usr/local/gib/lib64" in files["environment"]
    assert wiring(of, of.pools[1]).environment["NCCL_TUNER_CONFIG_PATH"].endswith("a4.txtpb")
