"""Tests of what a lab runs: credentials, command lines, objects, addresses."""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import ValidationError

from railhead.base import paths
from railhead.base.errors import PrerequisiteError
from railhead.config import load
from railhead.fabric.kinds import FABRICS
from railhead.lab import bootstrap, cluster, preflight, processes, services
from railhead.lab import spec as addresses
from railhead.lab.pki import Authority, signing_key
from railhead.lab.spec import LabSpec, inside
from railhead.platform.lab import networks


def spec(**changes: object) -> LabSpec:
    return LabSpec.model_validate({"api_port": 6443, **changes})


class TestCredentials:
    def test_server_certificate_has_its_issuer_and_hosts(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path, "ca")
        pair = authority.issue("api", common_name="api", hosts=("127.0.0.1", "kubernetes"))
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        root = x509.load_pem_x509_certificate(authority.pair.certificate.read_bytes())
        certificate.verify_directly_issued_by(root)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert names.get_values_for_type(x509.DNSName) == ["kubernetes"]
        assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("127.0.0.1")]

    def test_a_clients_groups_are_its_organization(self, tmp_path: Path) -> None:
        pair = Authority(tmp_path, "ca").issue(
            "admin", common_name="me", organization="system:masters"
        )
        subject = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).subject
        assert subject.rfc4514_string() == "O=system:masters,CN=me"

    def test_files_are_private_and_kept_and_two_labs_share_nothing(self, tmp_path: Path) -> None:
        for lab in ("a", "b"):
            (tmp_path / lab).mkdir()
            signing_key(tmp_path / lab, "service-account")
            Authority(tmp_path / lab, "ca").issue("x", common_name="x")
        for file in tmp_path.rglob("*.*"):
            assert file.stat().st_mode & 0o777 == 0o600, file
        first = (tmp_path / "a" / "x.key").read_bytes()
        assert first != (tmp_path / "b" / "x.key").read_bytes()
        again = Authority(tmp_path / "a", "ca").issue("x", common_name="x")
        assert again.key.read_bytes() == first

    def test_keys_are_elliptic_curve_keys_of_256_bits(self, tmp_path: Path) -> None:
        pair = Authority(tmp_path, "ca").pair
        key = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        assert key.key_size == 256


class TestSpec:
    @pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a_b", "a" * 21, "../x", "a b"])
    def test_name_that_is_not_a_label_is_refused(self, name: str) -> None:
        with pytest.raises(ValidationError):
            spec(name=name)

    @pytest.mark.parametrize("changes", [{"nodes": 0}, {"nodes": 9}, {"rails": 0}, {"more": 1}])
    def test_out_of_range_is_refused(self, changes: dict[str, int]) -> None:
        with pytest.raises(ValidationError):
            spec(**changes)

    def test_the_labs_stack_lets_jobs_reach_its_name_server(self) -> None:
        cluster = load(Path(__file__).parents[3] / "stacks" / "Pulumi.lab.yaml")
        assert f"{addresses.CONTROL_ADDRESS}/32" in cluster.network_policy.dns

    def test_addresses_do_not_overlap(self) -> None:
        results = [
            ipaddress.ip_network(n)
            for n in (networks.NODE_NETWORK, networks.POD_NETWORK, networks.SERVICE_NETWORK)
        ]
        for item in results:
            assert not any(item.overlaps(other) for other in results if other is not item)
        nodes = {addresses.node_address(i) for i in range(8)}
        assert len(nodes) == 8
        assert addresses.CONTROL_ADDRESS not in nodes
        pods = ipaddress.ip_network(networks.POD_NETWORK)
        assert all(
            ipaddress.ip_network(addresses.pod_subnet(i)).subnet_of(pods)  # type: ignore[arg-type]
            for i in range(8)
        )

    def test_devices_are_those_of_the_fabric(self) -> None:
        devices = spec().device_resources()
        assert devices["nvidia.com/gpu"] == 8
        assert all(devices[d.name] == d.per_node for d in FABRICS["roce"].devices)

    def test_paths_are_translated_and_nothing_else_is_visible(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RAILHEAD_CACHE", str(tmp_path))
        assert inside(tmp_path / "bin" / "x", "lab") == "/run/railhead/cache/bin/x"
        assert inside(paths.lab_dir("lab") / "pki", "lab") == "/run/railhead/lab/pki"
        with pytest.raises(ValueError, match="not visible"):
            inside(Path("/etc/passwd"), "lab")


class TestServices:
    def test_roles_are_unique_and_nothing_listens_for_the_world(self) -> None:
        item = spec(nodes=3)
        made = [
            services.etcd("/b"),
            services.api_server("/b"),
            services.controller_manager("/b"),
            services.scheduler("/b"),
            services.coredns("/b"),
            services.volume_provisioner("/b"),
            services.gateway("/b"),
            services.kwok("/b", ["/s/a.yaml"]),
            *(services.containerd(i) for i in range(3)),
            *(services.kubelet("/b", item, i) for i in range(3)),
            *(services.kube_proxy("/b", i) for i in range(3)),
            *(services.device_plugin("/b", item, i) for i in range(3)),
            *(services.network_policy("/b", item, i) for i in range(3)),
        ]
        assert max(Counter(s.role for s in made).values()) == 1
        assert max(Counter(s.log for s in made).values()) == 1
        etcd = next(s for s in made if s.role == "etcd")
        assert all("127.0.0.1" in a for a in etcd.argv if "urls=" in a)

    def test_kubelets_differ_and_refuse_the_anonymous(self) -> None:
        item = spec(nodes=2)
        first, second = (services.kubelet_config(item, i, cgroup_root=f"/c/{i}") for i in range(2))
        assert first["address"] != second["address"]
        assert first["cgroupRoot"] != second["cgroupRoot"]
        assert first["authentication"]["anonymous"] == {"enabled": False}
        assert first["readOnlyPort"] == 0
        assert first["clusterDomain"] == "cluster.local"

    def test_only_a_disk_of_its_own_is_ever_full(self) -> None:
        shared, own = (
            services.kubelet_config(spec(disk_mib=size), 0, cgroup_root="/c") for size in (None, 64)
        )
        assert set(shared["evictionHard"].values()) == {"0%"}
        assert own["evictionHard"]["nodefs.available"] == "32Mi"
        # Disks are measured with it alone.
        assert own["localStorageCapacityIsolation"]
        assert not shared["localStorageCapacityIsolation"]

    def test_containerds_configuration_is_toml(self) -> None:
        text = tomli_w.dumps(services.containerd_config(restrict_oom_score_adj=True))
        assert "restrict_oom_score_adj = true" in text
        assert '[plugins."io.containerd.grpc.v1.cri".cni]' in text

    def test_pods_of_two_nodes_get_other_addresses(self) -> None:
        first, second = (json.dumps(services.cni_config(i)) for i in range(2))
        assert "10.244.0.0/24" in first
        assert "10.244.1.0/24" in second


class TestObjects:
    def test_names_are_unique_and_no_role_may_do_everything(self) -> None:
        objects = bootstrap.objects(network_crd={"kind": "X", "metadata": {"name": "x"}})
        keys = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects]
        assert len(keys) == len(set(keys))
        for role in (o for o in objects if o["kind"] == "ClusterRole"):
            assert all("*" not in rule["verbs"] for rule in role["rules"])
            assert all("secrets" not in rule["resources"] for rule in role["rules"])

    def test_simulated_nodes_are_tainted_and_spread_over_racks(self) -> None:
        nodes = bootstrap.simulated_nodes(spec(simulated_nodes=40))
        assert len({n["metadata"]["name"] for n in nodes}) == 40
        assert all(n["spec"]["taints"] == [bootstrap.SIMULATED_TAINT] for n in nodes)
        racks = {n["metadata"]["labels"]["topology.railhead.dev/rack"] for n in nodes}
        assert racks == {"rack-0", "rack-1", "rack-2"}


class TestPreflight:
    def test_a_cache_that_the_lab_would_hide_is_refused(self) -> None:
        cache = Path("/run/user/0/cache")
        with pytest.raises(PrerequisiteError, match="below /run") as refused:
            preflight.check_paths(cache / "labs" / "lab", cache)
        assert "RAILHEAD_CACHE" in refused.value.remedy

    def test_a_path_too_long_for_a_socket_is_refused(self) -> None:
        cache = Path("/srv") / ("x" * 100)
        with pytest.raises(PrerequisiteError, match="a socket's path may have"):
            preflight.check_paths(cache / "labs" / "lab", cache)

    def test_a_full_disk_is_named_with_what_is_needed(self, tmp_path: Path) -> None:
        with pytest.raises(PrerequisiteError, match="a lab needs 1e"):
            preflight.check_space(tmp_path / "not" / "there", need_gib=1e9)

    def test_a_free_port_is_found_and_a_taken_one_is_named(self) -> None:
        with preflight.listen(0) as listener:
            address, port = listener.getsockname()
            assert address == "127.0.0.1"
            with pytest.raises(PrerequisiteError, match=f"port {port} of 127.0.0.1"):
                preflight.listen(port)


def test_processes_are_found_below_their_parent() -> None:
    with subprocess.Popen(["sleep", "30"]) as child:
        try:
            assert child.pid in processes.children(os.getpid())
            assert child.pid in processes.descendants(os.getpid())
            assert processes.inner_pid(child.pid) > 0
            assert processes.pss_mib(os.getpid()) > 1
        finally:
            child.kill()
    assert processes.inner_pid(child.pid) == -1


def test_a_wait_for_nodes_names_what_each_lacks() -> None:
    lab = spec(name="lab", nodes=4)
    whole = {resource: str(count) for resource, count in lab.device_resources().items()}
    (gpus, *_) = whole

    def node(number: int, *, ready: bool = True, has: str = "8") -> cluster.Node:
        allocatable = {**whole, gpus: has}
        return cluster.Node(
            name=f"lab-node-{number}", ready=ready, simulated=False, allocatable=allocatable
        )

    live = (node(0), node(1, ready=False), node(2, has="0"))
    assert cluster.unready(lab, live) == [
        "lab-node-1 is not Ready",
        f"lab-node-2 has 0 of 8 {gpus}",
        "lab-node-3 has not joined",
    ]


def test_a_labs_kubeconfig_names_the_namespace_of_jobs(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "lab").pair
    document = cluster._kubeconfig("lab", "https://127.0.0.1:1", pair, pair)
    (context,) = document["contexts"]
    assert context["context"]["namespace"] == "training"
