"""Every row says where its figures come from, and rows refer to rows that exist."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from railhead.catalog.digests import DIGESTS, references
from railhead.catalog.images import IMAGES
from railhead.catalog.own import problems
from railhead.catalog.versions import (
    ADDONS,
    COMBINATIONS,
    PARTS,
    Bundled,
    Combination,
    HttpChart,
    Managed,
    Manifest,
    ModuleChart,
    OciChart,
    unrun,
)
from railhead.fabric.kind import FabricKind
from railhead.fabric.kinds import FABRICS
from railhead.fabric.modes import MODES
from railhead.machines import FIGURES, MACHINES, Machine, accelerators, rows
from railhead.machines.accelerators import ACCELERATORS
from railhead.platform.registry import PLATFORMS
from tests.unit.catalog.figures import EFA_CARDS

# Issue 4 names families; these are their types.
NAMED_BY_THE_ISSUE = {
    "p4d.24xlarge",
    "p4de.24xlarge",
    "p5.48xlarge",
    "p5e.48xlarge",
    "p5en.48xlarge",
    "p6-b200.48xlarge",
    "p6-b300.48xlarge",
    "p6e-gb200.36xlarge",
    "a3-highgpu-8g",
    "a3-megagpu-8g",
    "a3-ultragpu-8g",
    "a4-highgpu-8g",
    "a4x-highgpu-4g",
    "Standard_ND96asr_v4",
    "Standard_ND96amsr_A100_v4",
    "Standard_ND96isr_H100_v5",
    "Standard_ND96isr_H200_v5",
    "BM.GPU4.8",
    "BM.GPU.A100-v2.8",
    "BM.GPU.H100.8",
    "BM.GPU.H200.8",
    "BM.GPU.B200.8",
    "BM.GPU.B300.8",
    "BM.GPU.GB300.4",
    *(f"{kind}-{gpu}" for kind in ("dgx", "hgx") for gpu in ("a100", "h100", "h200", "b200")),
    "dgx-gb200",
    "hgx-gb200",
}
# Add-ons that a combination of an older Kubernetes cannot have, on record.
NEWER_THAN = {"kueue-0.15": {"aws-dranet"}}


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda m: m.name)
def test_every_figure_of_a_machine_has_a_source(machine: Machine) -> None:
    assert set(machine.sources) == set(FIGURES)
    assert all(machine.sources.values())
    assert machine.fabrics <= set(FABRICS)
    assert machine.platforms
    places = [(nic.card, nic.device) for nic in machine.host_nics + machine.nics]
    assert len(set(places)) == len(places)
    assert all(measured.source for measured in machine.published)


def test_no_shipped_row_takes_the_place_of_another() -> None:
    names = Counter(row.name for row in rows.shipped())
    assert [name for name, count in names.items() if count > 1] == []


def test_malformed_row_is_named_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "FOLDER", tmp_path)
    (tmp_path / "acme.yaml").write_text("machines: [{name: x1, gpu: 8}]\n")
    with pytest.raises(ValidationError, match="gpu") as caught:
        rows.shipped.__wrapped__()
    assert caught.value.__notes__ == ["railhead/machines/rows/acme.yaml: machine 'x1'"]


def test_efa_is_on_the_cards_that_the_ec2_user_guide_names() -> None:
    """One ENA interface first; EFA on device 0 of each card, on device 1 where ENA has device 0."""
    assert {
        machine.name: (
            [(nic.card, nic.device, nic.interface) for nic in machine.host_nics],
            [(nic.card, nic.device, nic.interface) for nic in machine.nics],
        )
        for machine in MACHINES.values()
        if machine.provider == "aws"
    } == {
        name: (
            [(0, 0, "interface")],
            [(card, 0 if card else 1, "efa-only") for card in cards],
        )
        for name, cards in EFA_CARDS.items()
    }


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda m: m.name)
def test_a_machine_is_consistent_in_itself(machine: Machine) -> None:
    assert list(problems(machine, FABRICS, PLATFORMS)) == []
    assert (machine.accelerator is None) == (machine.provider == "lab")
    if "assumed" in machine.sources["schedulable"]:
        assert machine.vcpus is not None
        assert machine.memory_gib is not None
        assert machine.schedulable_vcpus == machine.vcpus - 4
        assert machine.schedulable_memory_gib == machine.memory_gib * 92 // 100


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda m: m.name)
def test_a_published_bandwidth_is_possible_on_the_machine(machine: Machine) -> None:
    nic_bytes = machine.line_rate_gbps / 8
    for measured in machine.published:
        ranks = measured.nodes * machine.gpus
        if measured.transport == "nvlink" or measured.collective != "all_reduce":
            continue
        algbw = measured.busbw * ranks / (2 * (ranks - 1))
        # In-network reduction sends a message once; anything above that left by another way.
        assert algbw <= nic_bytes * 1.03, measured


@pytest.mark.parametrize("name", ACCELERATORS)
def test_every_figure_of_an_accelerator_has_a_source(name: str) -> None:
    accelerator = ACCELERATORS[name]
    assert accelerator.name == name
    assert set(accelerator.sources) == set(accelerators.FIGURES)
    assert all(accelerator.sources.values())
    assert any(machine.accelerator == name for machine in MACHINES.values())


def test_every_instance_type_of_the_issue_is_there() -> None:
    assert set(MACHINES) >= NAMED_BY_THE_ISSUE


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=lambda f: f.name)
def test_every_variable_of_a_fabric_has_a_reason(fabric: FabricKind) -> None:
    assert all(v.reason and v.source for v in fabric.environment)
    assert all(fabric.not_set.values())
    assert all(device.source and device.per_pod <= device.per_node for device in fabric.devices)
    assert not {v.name for v in fabric.environment} & set(fabric.not_set)
    assert any(fabric.name in mode.fabrics for mode in MODES.values())
    assert fabric.proofs


def test_every_variable_of_an_image_has_a_reason() -> None:
    assert all(v.reason and v.source for image in IMAGES.values() for v in image.environment)


@pytest.mark.parametrize("combination", COMBINATIONS.values(), ids=lambda c: c.name)
def test_a_combination_is_whole(combination: Combination) -> None:
    for controller in (combination.kueue, combination.jobset, combination.trainer):
        assert controller.tag == f"v{controller.version}"
        assert controller.source
    oldest, newest = (tuple(map(int, v.split("."))) for v in combination.kubernetes)
    assert oldest <= newest


def test_every_addon_names_its_chart_and_its_source() -> None:
    for name, addon in ADDONS.items():
        assert name == addon.name
        assert addon.source
        assert addon.version
        assert addon.namespace
        assert addon.image
        assert isinstance(addon.chart, (OciChart, HttpChart))
        url = addon.chart.url if isinstance(addon.chart, OciChart) else addon.chart.repository
        assert url.startswith(("oci://", "https://"))
        assert addon.tag or "not read" in addon.source
        assert addon.kubernetes is None or addon.kubernetes.source
        assert all(image.repository and image.tag for image in addon.operands.values())


def test_every_part_says_how_it_gets_there() -> None:
    for name, part in PARTS.items():
        assert name == part.name
        assert part.source
        assert part.kubernetes is None or part.kubernetes.source
        assert all(image.repository and image.tag for image in part.images)
        if isinstance(part.delivery, Bundled):
            assert part.delivery.by in ADDONS
        elif isinstance(part.delivery, Managed):
            assert part.version is None
        else:
            assert isinstance(part.delivery, Manifest)
            pinned = [part.delivery.url, *(image.tag for image in part.images)]
            assert any((part.version or "sha256:") in text for text in pinned)


def test_custom_resources_are_named_by_kind_group_and_version() -> None:
    for crds in [a.crds for a in ADDONS.values()] + [p.crds for p in PARTS.values()]:
        for crd in crds:
            kind, _, rest = crd.partition(".")
            group, _, version = rest.partition("/")
            assert kind[0].isupper()
            assert "." in group
            assert version.startswith("v")


def test_kubernetes_is_what_every_chosen_part_serves() -> None:
    production = COMBINATIONS["newest-read"]
    assert production.kubernetes_with([]) == production.kubernetes
    oldest, newest = production.kubernetes_with(["gpu-operator", "network-operator"])
    assert (oldest, newest) == ("1.33", "1.35")
    network_operator = production.addon("network-operator").kubernetes
    assert network_operator is not None
    assert network_operator.holds(newest)
    assert not network_operator.holds("1.36")
    with pytest.raises(KeyError, match="gpu-operator"):
        production.addon("gpu-opreator")


@pytest.mark.parametrize("combination", COMBINATIONS.values(), ids=lambda c: c.name)
def test_every_addon_runs_on_some_kubernetes_of_its_combination(combination: Combination) -> None:
    minor = [tuple(map(int, v.split("."))) for v in combination.kubernetes]
    for name, addon in combination.addons.items():
        if addon.kubernetes and tuple(map(int, addon.kubernetes.oldest.split("."))) > minor[1]:
            assert name in NEWER_THAN.get(combination.name, set())
            continue
        oldest, newest = combination.kubernetes_with([name])
        assert tuple(map(int, oldest.split("."))) <= tuple(map(int, newest.split(".")))


def test_shipped_versions_are_those_that_ran() -> None:
    """The versions are those that the lab's tests ran; only the charts' place differs."""
    proven, lab = COMBINATIONS["proven"], COMBINATIONS["lab"]
    for mine, run in zip(proven.controllers, lab.controllers, strict=True):
        assert isinstance(mine.chart, OciChart)
        assert isinstance(run.chart, ModuleChart)
        assert dataclasses.replace(mine, chart=run.chart, source=run.source) == run
    own = {"name", "kueue", "jobset", "trainer", "source", "ran"}
    for field in (f.name for f in dataclasses.fields(lab) if f.name not in own):
        assert getattr(lab, field) == getattr(proven, field), field
    for stack in (Path(__file__).resolve().parents[3] / "stacks").glob("Pulumi.*.yaml"):
        shipped = yaml.safe_load(stack.read_text())["config"]["railhead:cluster"]["versions"]
        assert COMBINATIONS[shipped].ran, stack


@pytest.mark.parametrize("combination", COMBINATIONS.values(), ids=lambda c: c.name)
def test_untested_versions_say_so_in_one_line(combination: Combination) -> None:
    text = unrun(c.version for c in combination.controllers)
    assert bool(text) == (not combination.ran)
    assert "\n" not in text
    assert all(run.what and run.where and run.source for run in combination.ran)


def test_mixed_versions_count_as_untested() -> None:
    assert "'proven' is what ran" in unrun(["0.16.2", "0.10.1", "2.3.0"])


def test_both_ways_of_charging_a_gang_have_a_subject() -> None:
    assert {c.gang_charge for c in COMBINATIONS.values()} == {"job", "template"}


@pytest.mark.parametrize("row", [*MACHINES.values(), *FABRICS.values(), *IMAGES.values()])
def test_rows_are_frozen(row: object) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.name = "x"  # type: ignore[attr-defined]


@pytest.mark.parametrize("combination", COMBINATIONS.values(), ids=lambda c: c.name)
def test_claims_of_nics_do_not_keep_a_job_from_being_admitted(combination: Combination) -> None:
    """Kueue 0.18 and newer refuse a DeviceClass that they do not charge; older have no gate."""
    charges = tuple(map(int, combination.kueue.version.split("."))) >= (0, 18)
    gates = {name: on for name, on in combination.kueue.gates.items() if "DRA" in name}
    off = ("KueueDRAIntegration", "KueueDRARejectWorkloadsWhenDRADisabled")
    assert {name: gates.get(name) for name in off} == dict.fromkeys(off, False if charges else None)


@pytest.mark.parametrize("combination", COMBINATIONS.values(), ids=lambda c: c.name)
def test_no_gate_of_kueue_is_on_without_what_it_needs(combination: Combination) -> None:
    """Kueue ends as it starts (v0.18.4, v0.19.2, pkg/config/validation.go)."""
    newer = tuple(map(int, combination.kueue.version.split("."))) >= (0, 19)
    gates = combination.kueue.gates
    # By default all are on in 0.19, and the last two off before.
    on = {
        "KueueDRAIntegration": gates.get("KueueDRAIntegration", True),
        "KueueDRAIntegrationExtendedResource": newer,
        "KueueDRAIntegrationPartitionableDevices": newer,
    }
    on |= {name: value for name, value in gates.items() if name in on}
    assert on["KueueDRAIntegration"] or not any(on.values())


@pytest.mark.parametrize("combination", COMBINATIONS.values(), ids=lambda c: c.name)
def test_kueue_does_not_finish_jobs_that_just_began(combination: Combination) -> None:
    """Kueue 0.16.6 to 0.17.2 may take the owner of a new Workload for gone."""
    affected = combination.kueue.version in ("0.16.6", "0.16.7", "0.17.1", "0.17.2")
    gate = combination.kueue.gates.get("FinishOrphanedWorkloads")
    assert gate is (False if affected else None)


def test_a_digest_is_of_an_image_that_a_row_pins() -> None:
    """One that is left behind when a version changes would be another release's."""
    assert set(DIGESTS) <= set(references())
    for digest, source in DIGESTS.values():
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", digest)
        assert source
    assert len({digest for digest, _ in DIGESTS.values()}) == len(DIGESTS)
