"""`railhead dev` on the lab: a researcher's shell and port, and the job's end by itself."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from railhead.twin.plane import free_port
from tests.lab.jobs import Jobs, researcher, unique, wait

pytestmark = pytest.mark.lab


def answers(port: int) -> bool:
    """Return whether a server answers on a port of this machine."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as page:
            return bool(page.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def test_a_researcher_works_in_a_shell_and_leaves_it(
    jobs: Jobs, kubeconfig: Path, tmp_path: Path
) -> None:
    name, port = unique("dev"), free_port()
    mine = ("--kubeconfig", str(researcher(kubeconfig, tmp_path)))
    (tmp_path / "note.txt").write_text("as it was here\n")
    jobs.made.append(name)
    words = [
        *("dev", *mine, "--name", name, "--nodes", "2", "--gpus", "1", "--idle", "10s"),
        *("--port", f"{port}:8000", "--files", str(tmp_path / "note.txt")),
        *("--", "echo", "beside it"),
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "railhead", *words],
        env=jobs.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as shell:
        assert shell.stdin is not None
        shell.stdin.write(
            "cat /workspace/note.txt\n"
            "python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 &\n"
        )
        shell.stdin.flush()
        try:
            # Also where the first ones find no server in the pod yet.
            wait(lambda: answers(port), 60, "the port of the pod to answer here")
        finally:
            out, err = shell.communicate("kill $!\nexit 7\n", timeout=60)
            sys.stderr.write(err)
    assert (shell.returncode, out) == (7, "as it was here\n")
    assert f"`railhead dev {name}` opens another shell" in err
    assert not answers(port)
    # It is there, on every node, until nothing has run in it for a while.
    again = jobs.run("exec", name, *mine, "--node", "1", "--", "cat", "/workspace/note.txt")
    assert again.stdout == "as it was here\n", again.stderr
    assert "beside it" in jobs.run("logs", name, *mine, "--node", "0").stdout
    jobs.phase(name, "completed", 60)
