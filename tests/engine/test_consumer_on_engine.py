"""`examples/consumer`, a project of its own, reads contracts that the real engine stored."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.engine.recorded import REPO, Project

pytestmark = pytest.mark.slow


class Consumer:
    """A copy of the example beside a project of the repository's, with the same state backend."""

    def __init__(self, producer: Project, *, stack: str) -> None:
        self.producer = producer
        self.folder = producer.folder.parent / "consumer"
        shutil.copytree(REPO / "examples" / "consumer", self.folder)
        self.run("stack", "init", "team")
        self.run("config", "set", "stack", f"organization/railhead/{stack}")

    def run(self, *arguments: str, fails: bool = False) -> str:
        """Run `pulumi`; both streams in one text, after checking how it ended."""
        done = subprocess.run(
            [str(self.producer.pulumi), *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.producer.environment | {"PYTHONPATH": str(REPO)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
        )
        text = done.stdout.decode(errors="replace")
        assert (done.returncode != 0) == fails, text
        return text

    def outputs(self) -> dict[str, object]:
        result: dict[str, object] = json.loads(self.run("stack", "output", "--json"))
        return result


def test_it_creates_something_from_the_contract_of_a_cloud_stack(tmp_path: Path) -> None:
    producer = Project(tmp_path, "aws-p5-prod")
    producer.up()
    consumer = Consumer(producer, stack="aws-p5-prod")
    before = len(producer.entries())
    preview = consumer.run("preview")
    assert "team-defaults" in preview
    assert len(producer.entries()) == before, "a preview made something"

    consumer.run("up", "--yes", "--skip-preview")
    [made] = producer.entries()[before:]
    cluster = yaml.safe_load(producer.file.read_text())["config"]["railhead:cluster"]
    data = made["inputs"]["data"]
    assert made["inputs"]["metadata"]["namespace"] == cluster["queues"][0]["namespace"]
    assert data["queue"] == cluster["queues"][0]["name"]
    assert data["runtime"] == cluster["runtimes"][0]["name"]
    assert data["most_nodes"] == str(cluster["pools"][0]["nodes"])
    assert json.loads(data["environment"])["NCCL_NET"] == "AWS Libfabric"
    assert consumer.outputs() == {
        "cluster": cluster["name"],
        "platform": "aws",
        "gpus": 8 * sum(pool["nodes"] for pool in cluster["pools"]),
    }
    # The kubeconfig came as a secret and is one in the consumer's own state.
    state = next((tmp_path / "state").rglob("railhead-consumer/team.json")).read_text()
    assert "certificate-authority-data" not in state
    assert "current-context" not in state

    consumer.run("up", "--yes", "--skip-preview", "--expect-no-changes")


@pytest.mark.exhaustive
def test_a_missing_output_is_named_without_a_traceback(tmp_path: Path) -> None:
    producer = Project(tmp_path, "lab")
    consumer = Consumer(producer, stack="lab")
    text = consumer.run("preview", fails=True)
    # The engine reads both at once, and may report either first.
    assert re.search(
        r"stack 'organization/railhead/lab' has no output '(contract|kubeconfig)'", text
    ), text
    assert "it was never deployed" in text
    assert "Traceback" not in text

    producer.up()
    # The lab's stack publishes no kubeconfig: the consumer did not name a file.
    text = consumer.run("preview", fails=True)
    assert "has no output 'kubeconfig'; there are: contract" in text
    assert "Traceback" not in text

    kubeconfig = tmp_path / "cache" / "labs" / "lab" / "kubeconfig"
    consumer.run("config", "set", "kubeconfig", str(kubeconfig))
    consumer.run("up", "--yes", "--skip-preview")
    assert consumer.outputs()["cluster"] == "lab"
