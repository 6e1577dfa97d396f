"""A job of two roles on the lab: one gang, whose trainer reaches its servers and ends them."""

from __future__ import annotations

import pytest

from tests.lab.jobs import Jobs, unique, wait

pytestmark = pytest.mark.lab

PORT = 8000
ASKS = f"""
import os, time, urllib.request
for host in os.environ["RAILHEAD_HOSTS_SERVERS"].split(","):
    for _ in range(120):
        try:
            with urllib.request.urlopen(f"http://{{host}}:{PORT}/", timeout=5) as page:
                print(f"{{host}} answered {{page.status}}", flush=True)
            break
        except OSError:
            time.sleep(1)
    else:
        raise SystemExit(f"{{host}} never answered")
"""


def test_a_trainer_reaches_its_servers_and_ends_them(jobs: Jobs) -> None:
    name = unique("roles")
    servers = {
        "nodes": 2,
        "gpus_per_node": 2,
        "launcher": "none",
        "command": ["python3", "-m", "http.server", str(PORT)],
    }
    jobs.launch(
        name,
        nodes=1,
        gpus_per_node=2,
        command=["python3", "-c", ASKS],
        roles={"servers": servers},
    )
    wait(lambda: jobs.status(name)["phase"] == "completed", 120, f"{name} completed")
    text = jobs.run("logs", name, "--tail", "50").stdout
    for node in range(2):
        assert f"{name}-servers-0-{node}.{name} answered 200" in text, text
    # JobSet deletes the servers, which have no end of their own.
    wait(lambda: not [p for p in jobs.pods(name) if _runs(p)], 60, "the servers to go")
    assert jobs.run("cancel", name).returncode == 0


def _runs(pod: dict[str, object]) -> bool:
    status = pod["status"]
    assert isinstance(status, dict)
    return status.get("phase") in ("Pending", "Running")
