"""A cluster of two machines, as checks of acceptance see it."""

from __future__ import annotations

import pytest

from railhead.accept.site import Facts
from tests.unit.launch.conftest import CONTRACT


@pytest.fixture
def facts() -> Facts:
    """Two idle nodes of the lab's shape; a quick acceptance."""
    runtime = CONTRACT.runtimes[0]
    return Facts(
        contract=CONTRACT,
        runtime=runtime,
        pool=CONTRACT.pool(runtime),
        queue=CONTRACT.queue(),
        nodes=("lab-node-0", "lab-node-1"),
        quick=True,
    )
