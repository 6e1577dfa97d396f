"""One more row is all that a new machine needs."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_one_more_row_is_all_that_a_new_machine_needs() -> None:
    """A row that is not in the catalogue, through every part that reads it."""
    program = """
        import dataclasses, json, sys
        from railhead import machines

        like = machines.MACHINES["dgx-h200"]
        machines.add(
            dataclasses.replace(like, name="acme-x1", gpus=4, nics=like.nics[:4], nvlink_domain=4)
        )

        from pathlib import Path
        import yaml
        from railhead import cli, config
        from railhead.config.live import described
        from railhead.config.schema import stack_schema
        from railhead.resolve.cluster import resolve

        raw = yaml.safe_load(Path("stacks/Pulumi.onprem-ib-sriov.yaml").read_text())
        raw = raw["config"]["railhead:cluster"]
        raw["pools"][0]["instance_type"] = "acme-x1"
        del raw["pools"][0]["schedulable"]
        del raw["fabric"]["rails"][4:]
        cluster = config.parse(raw, where="x")
        contract = resolve(cluster).contract
        [pool] = contract.node_pools
        [promise] = described(cluster)
        defined = stack_schema()["$defs"]["existing"]["$defs"]
        names = defined["ExistingPool"]["properties"]["instance_type"]["enum"]
        cli.run(["catalog", "show", "acme-x1", "--json"])
        print(json.dumps({
            "gpus": pool.gpus_per_node,
            "nics": pool.nics,
            "hcas": pool.hcas,
            "line_rate": pool.line_rate_gbps,
            "quota": pool.capacity["nvidia.com/gpu"],
            "cpu": promise.capacity["cpu"],
            "in_schema": "acme-x1" in names,
        }))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=REPO,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *shown, last = done.stdout.strip().rpartition("\n")
    assert json.loads("".join(shown))["machines"]["gpus"] == 4
    assert json.loads(last) == {
        "gpus": 4,
        "nics": 4,
        "hcas": ["mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5"],
        "line_rate": 1600,
        "quota": "4",
        "cpu": "220",
        "in_schema": True,
    }
