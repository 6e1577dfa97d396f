"""A cluster of two machines, as checks of acceptance see it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railhead.accept.site import Facts
from railhead.fabric.kinds import FABRICS
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


@pytest.fixture
def machines(facts: Facts) -> Facts:
    """Two machines of eight GPUs and eight NICs, whose fabric is RoCE."""
    roce = FABRICS["roce"]
    contract = facts.contract.model_copy(
        update={
            "platform": "existing",
            "stand_in": False,
            "fabric": facts.contract.fabric.model_copy(
                update={"rdma": True, "proofs": roce.proofs, "gpudirect": roce.gpudirect}
            ),
        }
    )
    pool = facts.pool.model_copy(
        update={"instance_type": "own", "line_rate_gbps": 3200, "nics": 8, "nvlink_domain": 8}
    )
    return replace(facts, contract=contract, pool=pool)
