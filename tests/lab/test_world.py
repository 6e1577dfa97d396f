"""One world of the requested size, or a job that fails at once, for every submitter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.kube import client as kube
from tests.lab.jobs import NAMESPACE, Jobs, submitting, unique
from tests.sdk import submit

pytestmark = pytest.mark.lab

# What the SDK's documentation begins with: nothing but a function.
SDK = """
from kubeflow.trainer import CustomTrainer, TrainerClient

def train():
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).square().mean()
        loss.backward()
        optimizer.step()
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} ended with {loss.item():.6f}")
    dist.destroy_process_group()

client = TrainerClient()
print(client.train(runtime=client.get_runtime("torch"), trainer=CustomTrainer(func=train)))
"""

# What it starts cannot be seen when it is submitted, and its label says so.
ALONE = """
cat > /tmp/train.py <<EOF
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    model(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()
print("trained alone")
EOF
python3 /tmp/train.py
"""


@pytest.fixture
def jobs(lab_env: dict[str, str], kubeconfig: Path, tmp_path: Path) -> Iterator[Jobs]:
    with submitting(lab_env, kubeconfig, tmp_path) as jobs:
        yield jobs


def test_a_function_of_the_kubeflow_sdk_trains_to_its_end(
    jobs: Jobs, kubeconfig: Path, tmp_path: Path
) -> None:
    name = submit(SDK, kubeconfig=kubeconfig, namespace=NAMESPACE, folder=tmp_path)[-1]
    jobs.made.append(name)
    jobs.phase(name, "completed", 120)
    text = jobs.run("logs", name, "--tail", "500").stdout
    assert text.count("of 8 ended with") == 8


@pytest.mark.parametrize(
    ("env", "phase"),
    [
        pytest.param({}, "failed", id="it is not said"),
        pytest.param(
            {"RAILHEAD_LAUNCHER": "none"},
            "completed",
            id="it is said in words",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_independent_nodes_must_be_requested(jobs: Jobs, env: dict[str, str], phase: str) -> None:
    name = unique("alone")
    variables = [{"name": key, "value": value} for key, value in env.items()]
    body = jobs.raw(name, numNodes=2, command=["bash", "-c", ALONE], env=variables)
    done = jobs.kubectl("apply", "-f", "-", stdin=body)
    assert done.returncode == 0, done.stderr
    jobs.phase(name, phase, 120)
    text = jobs.run("logs", name, "--tail", "500").stdout
    if env:
        assert text.count("trained alone") == 2
        return
    why = "training begins in a process that has joined no world"
    assert why in text
    assert "trained alone" not in text
    assert why in jobs.run("status", name).stdout
    assert jobs.cluster.get(kube.jobset(NAMESPACE, name))["status"].get("restarts", 0) == 0
