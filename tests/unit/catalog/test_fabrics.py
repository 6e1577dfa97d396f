"""Fabrics and modes as rows: each fact has a reason, and each proof proves what it says."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import get_args

import pytest

from railhead.catalog.machines import MACHINES
from railhead.catalog.versions import COMBINATIONS
from railhead.fabric.kind import Fabric
from railhead.fabric.kinds import FABRICS
from railhead.fabric.mode import Mode
from railhead.fabric.modes import CONFIGS, MODES, modes_of
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
def test_a_fabric_pins_its_network_and_its_bootstrap(fabric: Fabric) -> None:
    names = [v.name for v in fabric.environment]
    assert len(names) == len(set(names))
    assert {"NCCL_NET", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"} <= set(names)
    # A placeholder that nothing fills would reach the container as it is.
    for variable in fabric.environment:
        assert set(re.findall(r"{(\w+)}", variable.value)) <= {"bootstrap", "rails", "hcas"}
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
                assert COMBINATIONS["production"].addon(charts[operator]).version


def logs(shared: Path) -> list[tuple[str, dict[str, str]]]:
    with (shared / "nccl-logs" / "INDEX.tsv").open(newline="") as index:
        rows = list(csv.DictReader(index, delimiter="\t"))
    return [
        ((shared / "nccl-logs" / row["file"]).read_text(errors="replace"), row)
        for row in rows
        if (shared / "nccl-logs" / row["file"]).is_file()
    ]


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=lambda f: f.name)
def test_no_other_transport_is_taken_for_the_fabric(fabric: Fabric, shared: Path) -> None:
    """On public logs: whatever all of a fabric's proofs match is labelled as that transport."""
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
