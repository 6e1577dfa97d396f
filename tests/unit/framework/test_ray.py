"""A Ray cluster of a job: whole before its program, and ended with it. Ray itself is a play."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from railhead.base.programs import program
from railhead.framework.base import PROGRAMS
from railhead.framework.programs import ray as starter

pytestmark = pytest.mark.slow

#: `ray start --head` marks its node; `--address --block` does too and lasts until it is stopped.
RAY = """#!/bin/sh
echo "$@" >> "$PLAY/called"
case "$*" in
stop*) touch "$PLAY/stopped.$RAILHEAD_NODE_RANK"; exit 0;;
*--head*) touch "$PLAY/alive.0"; exit 0;;
esac
trap 'exit 1' TERM
touch "$PLAY/alive.$RAILHEAD_NODE_RANK"
while [ ! -e "$PLAY/stopped.$RAILHEAD_NODE_RANK" ]; do
  [ -e "$PLAY/dead.$RAILHEAD_NODE_RANK" ] && exit 1
  sleep 0.05
done
"""
MODULE = """
import os, pathlib
init = lambda **_: None
shutdown = lambda: None
nodes = lambda: [{"Alive": True} for _ in pathlib.Path(os.environ["PLAY"]).glob("alive.*")]
"""


class Play:
    """Pods of one job as processes of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "ray").write_text(RAY)
        (folder / "ray").chmod(0o755)
        (folder / "ray.py").write_text(MODULE)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1] - 5
        self.pods: list[subprocess.Popen[str]] = []

    def pod(
        self, rank: int, *words: str, nodes: int = 2, joining: float = 0.0
    ) -> subprocess.Popen[str]:
        """Start one; the times of the program are cut to what a test can wait."""
        text = program(PROGRAMS, "ray.py").replace("PAUSE_SECONDS = 2.0", "PAUSE_SECONDS = 0.1")
        text = text.replace("JOINING_SECONDS = 15.0", f"JOINING_SECONDS = {joining}")
        text = text.replace("PATIENCE_SECONDS = 600.0", "PATIENCE_SECONDS = 10.0")
        environment = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.folder),
            "PLAY": str(self.folder),
            "RAILHEAD_NODE_RANK": str(rank),
            "RAILHEAD_NODES": str(nodes),
            "RAY_HEAD": f"127.0.0.1:{self.port}",
            "RAY_PORT": str(self.port),
        }
        pod = subprocess.Popen([sys.executable, "-c", text, *words], env=environment, text=True)
        self.pods.append(pod)
        return pod

    def await_file(self, name: str) -> None:
        """Wait until a process has written it."""
        deadline = time.monotonic() + 60
        while not (self.folder / name).exists():
            assert time.monotonic() < deadline, name
            time.sleep(0.05)


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    result = Play(tmp_path)
    yield result
    # The plays of `ray` outlive their pods' first processes.
    for rank in range(2):
        (tmp_path / f"stopped.{rank}").touch()
    for pod in result.pods:
        pod.kill()
        pod.wait()


def test_program_starts_once_all_nodes_have_joined(play: Play) -> None:
    count = 'ls "$PLAY" | grep -c alive > "$PLAY/joined"'
    head = play.pod(0, "sh", "-c", count)
    play.await_file("alive.0")
    time.sleep(0.5)
    assert not (play.folder / "joined").exists()
    worker = play.pod(1)
    assert (head.wait(60), worker.wait(60)) == (0, 0)
    assert (play.folder / "joined").read_text() == "2\n"
    assert (play.folder / "stopped.0").exists()
    assert (play.folder / "stopped.1").exists()


def test_head_fails_where_a_node_never_joins(play: Play) -> None:
    assert play.pod(0, "touch", str(play.folder / "ran")).wait(60) == 1
    assert not (play.folder / "ran").exists()


def test_program_that_fails_gives_the_head_its_code(play: Play) -> None:
    head, worker = play.pod(0, "sh", "-c", "exit 3"), play.pod(1)
    assert head.wait(60) == 3
    # Nobody said that the program had ended well.
    assert worker.poll() is None


def test_worker_whose_ray_dies_ends_with_a_failure(play: Play) -> None:
    worker = play.pod(1)
    play.await_file("alive.1")
    (play.folder / "dead.1").touch()
    assert worker.wait(60) == 1


@pytest.mark.parametrize(("own", "code"), [(7, 7), (0, 143)])
def test_program_may_save_at_sigterm_and_is_not_over(play: Play, own: int, code: int) -> None:
    saves = f"trap 'touch $PLAY/saved; exit {own}' TERM; touch $PLAY/began; "
    saves += "while :; do sleep 0.1; done"
    head = play.pod(0, "sh", "-c", saves, nodes=1)
    play.await_file("began")
    head.send_signal(signal.SIGTERM)
    assert head.wait(60) == code
    assert (play.folder / "saved").exists()


def connected(port: int) -> socket.socket:
    """Connect as soon as someone listens."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), 1)
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_strangers_at_the_port_change_nothing(play: Play) -> None:
    head = play.pod(0, "touch", str(play.folder / "ran"))
    play.await_file("alive.0")
    (play.folder / "alive.1").touch()
    play.await_file("ran")
    silent = connected(play.port + 5)
    with silent:
        worker = play.pod(1)
        assert (worker.wait(60), head.wait(60)) == (0, 0)


def test_worker_that_is_to_end_does_not_join_again(play: Play) -> None:
    worker = play.pod(1, joining=60.0)
    play.await_file("alive.1")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(60) == 1
    assert (play.folder / "called").read_text().count("--address") == 1


def test_signal_that_comes_before_its_process_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ending = threading.Event()
    ending.set()
    monkeypatch.setattr(starter, "ENDING", ending)
    assert starter._following()(["sleep", "60"]).wait(30) == -signal.SIGTERM
