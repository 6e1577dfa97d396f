"""Machines by a second entry, and what one more row is enough for."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from railhead.catalog.machines import MACHINES, Machine

REPO = Path(__file__).resolve().parents[3]
DATA = Path(__file__).with_name("machines.tsv")
ROWS = {
    line.split("\t")[0]: line.split("\t")
    for line in DATA.read_text().splitlines()
    if not line.startswith("#")
}


def test_every_machine_has_its_test_data_and_no_more() -> None:
    assert set(ROWS) == set(MACHINES)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=lambda m: m.name)
def test_a_machine_is_what_its_second_entry_says(machine: Machine) -> None:
    assert ROWS[machine.name] == [
        machine.name,
        machine.provider,
        machine.accelerator or "-",
        str(machine.gpus),
        str(machine.vcpus or "-"),
        str(machine.memory_gib or "-"),
        str(len(machine.nics)),
        str(machine.line_rate_gbps),
        str(machine.nvlink_domain),
        "+".join(sorted(machine.fabrics)),
    ]


def test_one_more_row_is_all_that_a_new_machine_needs() -> None:
    """A row that is not in the catalogue, through every part that reads it."""
    program = """
        import dataclasses, json, sys
        from railhead.catalog import machines_metal

        [like] = [m for m in machines_metal.MACHINES if m.name == "dgx-h200"]
        new = dataclasses.replace(like, name="acme-x1", gpus=4, nics=like.nics[:4], nvlink_domain=4)
        machines_metal.MACHINES = (*machines_metal.MACHINES, new)

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
