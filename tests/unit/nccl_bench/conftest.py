"""A machine of the catalogue with a line rate, so that these tests need no row of a cloud."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

import pytest

from railhead import machines


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> str:
    """Eight NICs of 400 Gbit/s: 400 GB/s a node."""
    nics = tuple(machines.Nic(card=i, device=0, rate_gbps=400) for i in range(8))
    item = replace(machines.MACHINES["lab.8gpu"], name="test.8x400", nics=nics, published=())
    many: Mapping[str, machines.Machine] = MappingProxyType({**machines.MACHINES, item.name: item})
    monkeypatch.setattr(machines, "MACHINES", many)
    return item.name
