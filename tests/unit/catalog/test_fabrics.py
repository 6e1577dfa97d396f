"""Fabrics and modes as rows: each fact has a reason, and each proof proves what it says."""

from __future__ import annotations

import csv
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

from railhead.catalog.images import cuda_major
from railhead.catalog.versions import COMBINATIONS
from railhead.fabric.kind import FabricKind
from railhead.fabric.kinds import FABRICS
from railhead.fabric.kinds.tcpxo import QUALIFIED
from railhead.fabric.mode import Mode
from railhead.fabric.modes import CONFIGS, MODES, modes_of
from railhead.fabric.modes.tcpxo import TcpxoFabric
from railhead.machines import MACHINES
from railhead.platform.registry import PLATFORMS, platforms_of

#: How ../shared/nccl-logs names the transport that a fabric's proof stands for.
LABELS = {
    "infiniband": "ib",
    "roce": "roce",
    "efa": "efa",
    "gcp-rdma": "gib",
    "tcpx": "tcpx",
    "tcpxo": "fastrak",
    "ethernet": "socket",
}


@pytest.mark.parametrize("mode", MODES.values(), ids=lambda m: m.name)
def test_a_mode_says_what_it_takes_and_why(mode: Mode) -> None:
    assert mode.fabrics <= set(FABRICS)
    assert platforms_of(mode)
    assert mode.summary
    assert mode.source
    assert all(c.reason and c.source and c.fabrics <= mode.fabrics for c in mode.capabilities)
    assert all(p.reason and p.source and p.fabrics <= mode.fabrics for p in mode.host_paths)
    assert bool(mode.capabilities) is not bool(mode.unprivileged)
    assert all(d.source for d in mode.devices)
    assert all("{resource}" in d.name or "/" in d.name for d in mode.devices)


def test_a_mode_is_found_by_the_name_of_its_file() -> None:
    """Components look for `components/fabric/modes/<mode>.py`, and people for both."""
    for name, config in CONFIGS.items():
        assert config.__module__ == f"railhead.fabric.modes.{name.replace('-', '_')}"
        assert get_args(config.model_fields["mode"].annotation) == (name,)


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=lambda f: f.name)
def test_a_fabric_pins_its_network_and_its_bootstrap(fabric: FabricKind) -> None:
    names = [v.name for v in fabric.environment]
    assert len(names) == len(set(names))
    assert {"NCCL_NET", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"} <= set(names)
    # A placeholder that nothing fills would reach the container as it is.
    for variable in fabric.environment:
        asked = {name.rstrip("0123456789") for name in re.findall(r"{(\w+)}", variable.value)}
        words = {"bootstrap", "gloo", "rails", "rail", "hcas"}
        assert asked <= words | {"traffic_class", "gid_family", "cross_nic"}
    assert fabric.userspace or fabric.name == "ethernet"


def test_additions_are_for_machines_that_the_catalogue_has() -> None:
    additions = [(fabric, row) for fabric in FABRICS.values() for row in fabric.additions]
    assert additions
    for fabric, addition in additions:
        assert set(addition.machines) <= set(MACHINES)
        assert all(fabric.name in MACHINES[m].fabrics for m in addition.machines)
        assert all(v.reason and v.source for v in addition.environment)


def test_every_machine_can_be_used_somewhere() -> None:
    for machine in MACHINES.values():
        for platform in machine.platforms:
            assert modes_of(machine.fabrics, PLATFORMS[platform].offers), (machine.name, platform)


def test_plugins_are_called_as_their_fabric() -> None:
    plugins = {name: row.plugin for name, row in FABRICS.items() if row.plugin}
    assert plugins
    assert all(plugin.name == name for name, plugin in plugins.items())


def test_every_operator_of_a_mode_has_a_version() -> None:
    charts = {
        "network": "network-operator",
        "sriov": "network-operator",
        "efa": "aws-efa-k8s-device-plugin",
        "dranet": "dranet",
    }
    for mode in MODES.values():
        for operator in mode.operators:
            if operator != "gke":
                assert COMBINATIONS["newest-read"].addon(charts[operator]).version


def logs(shared: Path) -> list[tuple[str, dict[str, str]]]:
    with (shared / "nccl-logs" / "INDEX.tsv").open(newline="") as index:
        rows = list(csv.DictReader(index, delimiter="\t"))
    return [
        ((shared / "nccl-logs" / row["file"]).read_text(errors="replace"), row)
        for row in rows
        if (shared / "nccl-logs" / row["file"]).is_file()
    ]


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=lambda f: f.name)
def test_other_transports_are_not_labelled_as_the_fabric(fabric: FabricKind, shared: Path) -> None:
    """Public logs: each one that all of a fabric's proofs match is labelled as that transport."""
    for text, row in logs(shared):
        if all(re.search(proof, text) for proof in fabric.proofs):
            allowed = {LABELS[fabric.name], "mixed", "unknown"}
            assert row["transport"] in allowed, (fabric.name, row["file"], row["transport"])


@pytest.mark.parametrize("name", ["infiniband", "roce", "efa"])
def test_each_proof_is_a_line_that_public_logs_have(name: str, shared: Path) -> None:
    """Excerpts seldom have all of them; each of them is a line that NCCL really writes."""
    right = [text for text, row in logs(shared) if row["transport"] == LABELS[name]]
    # Channel lines are the same on InfiniBand and RoCE, whose logs here are of failed starts.
    alike = [text for text, row in logs(shared) if row["transport"] in ("ib", "roce")]
    for proof in FABRICS[name].proofs:
        texts = alike if "via NET/IB" in proof else right
        assert any(re.search(proof, text) for text in texts), proof


def test_gpudirect_is_seen_where_it_was_and_not_where_it_was_not(shared: Path) -> None:
    pattern = FABRICS["efa"].gpudirect
    assert pattern is not None
    for text, row in logs(shared):
        if row["gdr"] == "yes" and "via NET/" in text:
            assert re.search(pattern, text), row["file"]
        if row["gdr"] == "no":
            # 109 is the log of a job with GPUDirect on one of its nodes only.
            assert not re.search(pattern, text) or row["file"].startswith("109-"), row["file"]


# What a3plus_guest_config.textproto enforces: the checker ends a job that sets another value. As
# dumped from v1.0.17 in elideng-sg/hypercomputer-internode-deepdive,
# assets/lab-23/guest_config_enforced.txt; v1.0.16 has the same profile (nccl-env-profile.sh).
ENFORCED = {
    "NCCL_CROSS_NIC": "0",
    "NCCL_PROTO": "Simple,LL128",
    "NCCL_MIN_NCHANNELS": "4",
    "NCCL_NVLSTREE_MAX_CHUNKSIZE": "131072",
    "NCCL_P2P_NET_CHUNKSIZE": "524288",
    "NCCL_P2P_PCI_CHUNKSIZE": "524288",
    "NCCL_P2P_NVL_CHUNKSIZE": "1048576",
    "NCCL_FASTRAK_NUM_FLOWS": "2",
    "NCCL_FASTRAK_USE_SNAP": "1",
    "NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL": "0",
    "NCCL_BUFFSIZE": "8388608",
    "NCCL_NET_GDR_LEVEL": "PIX",
    "NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING": "0",
    "NCCL_FASTRAK_USE_LLCM": "1",
}
REQUIRED = {
    "LD_LIBRARY_PATH",
    "NCCL_FASTRAK_CTRL_DEV",
    "NCCL_FASTRAK_IFNAME",
    "NCCL_SOCKET_IFNAME",
    "NCCL_SHIMNET_GUEST_CONFIG_CHECKER_CONFIG_FILE",
}


def test_tcpxo_has_the_environment_that_its_checker_enforces() -> None:
    values = {v.name: v.value for v in FABRICS["tcpxo"].environment}
    assert {name: values.get(name) for name in ENFORCED} == ENFORCED
    assert set(values) >= REQUIRED
    # Of other profiles, and flagged.
    assert not {"NCCL_ALGO", "NCCL_NVLS_ENABLE", "NCCL_DYNAMIC_CHUNK_SIZE"} & set(values)


def test_tcpx_has_the_environment_of_its_release() -> None:
    """container-engine-accelerators, gpudirect-tcpx/README.md, Jun 22, 2026 (v3.1.12)."""
    values = {v.name: v.value for v in FABRICS["tcpx"].environment}
    assert values["NCCL_ALGO"] == "Ring,Tree"
    assert values["NCCL_BUFFSIZE"] == "4194304"
    assert values["NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS"] == "500000"
    bindings = values["NCCL_GPUDIRECTTCPX_TX_BINDINGS"].format(
        **{f"rail{i}": f"eth{i + 1}" for i in range(4)}
    )
    assert bindings == "eth1:8-21,112-125;eth2:8-21,112-125;eth3:60-73,164-177;eth4:60-73,164-177"
    assert "NCCL_GPUDIRECTTCPX_FORCE_ACK" not in values


def test_a_plugin_goes_with_what_its_vendor_published_with_it() -> None:
    plugin = FABRICS["tcpxo"].plugin
    assert plugin is not None
    assert plugin.daemon is not None
    (other,) = (row for row in QUALIFIED.values() if row != plugin.qualified)
    assert other.daemon is not None
    for change in (
        {"qualified": other},
        {"installer": replace(plugin.installer, tag=other.plugin)},
        {"daemon": replace(plugin.daemon, image=replace(plugin.daemon.image, tag=other.daemon))},
        {"daemon": None},
    ):
        with pytest.raises(ValueError, match="are not the published pair"):
            replace(plugin, **change)


def test_a_stack_chooses_the_plugin_of_its_drivers_branch() -> None:
    fabric = TcpxoFabric.model_validate({"kind": "tcpxo", "mode": "tcpxo", "plugin": "v1.0.17"})
    plugin = fabric.node_plugin
    assert (plugin.qualified.driver, plugin.installer.tag) == ("595", "v1.0.17")
    assert plugin.daemon is not None
    assert plugin.daemon.image.tag == "v1.0.23"
    assert plugin.release == "v1.0.17"
    with pytest.raises(ValidationError, match="not in the catalogue of TCPXO's plugins"):
        TcpxoFabric.model_validate({"kind": "tcpxo", "mode": "tcpxo", "plugin": "v1.0.15"})


# Fabric -> what its nodes keep, and the digest of what their installer runs.
SCRIPTS = {
    "gcp-rdma": ("v1.1.2", "ef3d5540acc78ccb"),
    "tcpx": ("v3.1.12-2", "f442e84de5889c3a"),
    "tcpxo": ("v1.0.16", "73b5e5cb62bc9b88"),
}


@pytest.mark.parametrize("name", [name for name, kind in FABRICS.items() if kind.plugin])
def test_scripts_change_with_their_revision(name: str) -> None:
    """Raise the plugin's revision where they leave other files; write the digest here in any case.

    Nodes of an earlier revision take no job until the installer's pod on them is deleted, so the
    first has no suffix: it ran on nodes whose marker is the version alone.
    """
    plugin = FABRICS[name].plugin
    assert plugin is not None
    scripts = hashlib.sha256(f"{plugin.prepare}\0{plugin.script}".encode()).hexdigest()
    assert (plugin.release, scripts[:16]) == SCRIPTS[name]


@pytest.mark.parametrize(
    ("image", "major"),
    [
        ("nvcr.io/nvidia/pytorch:25.06-py3", 12),
        ("nvcr.io/nvidia/pytorch:25.10-py3", 13),
        ("nvcr.io/nvidia/pytorch:26.03-py3-igpu", 13),
        ("nvcr.io/nvidia/pytorch:22.12-py3", None),
        ("docker.io/pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", 12),
        ("docker.io/pytorch/pytorch:2.9.0-cu130", 13),
        ("registry.example.com/team/llm:7", None),
        ("registry.example.com/cu13/llm:7", None),
        ("railhead.local/torch-cpu:lab", None),
    ],
)
def test_the_cuda_that_an_image_says(image: str, major: int | None) -> None:
    assert cuda_major(image) == major
