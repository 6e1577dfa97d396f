"""Every row says where its figures come from, and rows refer to rows that exist."""

from __future__ import annotations

import dataclasses

import pytest

from railhead.catalog.fabrics import FABRICS, Fabric
from railhead.catalog.images import IMAGES
from railhead.catalog.machines import MACHINES, Machine
from railhead.catalog.versions import COMBINATIONS, Combination

FIGURES = ("gpus", "gpu_memory_gib", "vcpus", "memory_gib", "nics")


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda m: m.name)
def test_every_figure_of_a_machine_has_a_source(machine: Machine) -> None:
    assert set(machine.sources) == set(FIGURES)
    assert all(machine.sources.values())
    assert machine.fabrics <= set(FABRICS)
    assert machine.platforms
    assert len({(nic.card, nic.device) for nic in machine.nics}) == len(machine.nics)


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=lambda f: f.name)
def test_every_variable_of_a_fabric_has_a_reason(fabric: Fabric) -> None:
    assert all(v.reason and v.source for v in fabric.environment)
    assert all(c.reason and c.source for c in fabric.capabilities)
    assert all(device.source and device.per_pod <= device.per_node for device in fabric.devices)
    assert not {v.name for v in fabric.environment} & set(fabric.not_set)
    assert fabric.modes


def test_every_variable_of_an_image_has_a_reason() -> None:
    assert all(v.reason and v.source for image in IMAGES.values() for v in image.environment)


@pytest.mark.parametrize("combination", COMBINATIONS.values(), ids=lambda c: c.name)
def test_a_combination_is_whole(combination: Combination) -> None:
    for controller in (combination.kueue, combination.jobset, combination.trainer):
        assert controller.tag == f"v{controller.version}"
        assert controller.source
    oldest, newest = (tuple(map(int, v.split("."))) for v in combination.kubernetes)
    assert oldest <= newest


def test_both_ways_of_charging_a_gang_have_a_subject() -> None:
    assert {c.gang_charge for c in COMBINATIONS.values()} == {"job", "template"}


@pytest.mark.parametrize("row", [*MACHINES.values(), *FABRICS.values(), *IMAGES.values()])
def test_rows_are_frozen(row: object) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.name = "x"  # type: ignore[attr-defined]
