"""Data sets and scratch: every mistake is named where it was made."""

from __future__ import annotations

from typing import Any

import pytest

from railhead.config import parse
from tests.unit.config.test_config import WHERE, Raw, lab, mistakes, put


def reading() -> Raw:
    """Return the lab's stack with scratch and a data set that its first runtime reads."""
    raw = lab()
    raw["datasets"] = [
        {"name": "words", "namespace": "training", "volume": "words-a", "mount_path": "/data/words"}
    ]
    raw["runtimes"][0] |= {"datasets": ["words"], "scratch": {"size": "1Gi"}}
    return raw


ONE = [
    ("datasets[0].namespace", "trianing", "datasets[0].namespace", "did you mean 'training'?"),
    ("datasets[0].mount_path", "data", "datasets[0].mount_path", "absolute"),
    ("datasets[0].mount_path", "/usr/data", "datasets[0].mount_path", "would hide"),
    ("datasets[0].claim", "checkpoints", "datasets[0]", "is one of checkpoints"),
    ("datasets[0].size", "1Gi", "datasets[0].size", ""),
    ("runtimes[0].datasets", ["word"], "runtimes[0].datasets[0]", "did you mean 'words'?"),
    ("runtimes[0].datasets", ["words", "words"], "runtimes[0].datasets[1]", "given twice"),
    ("runtimes[0].scratch.size", "much", "runtimes[0].scratch.size", "quantity"),
    ("datasets[0].mount_path", "/scratch/words", "runtimes[0].scratch.mount_path", "lie in"),
    ("datasets[0].mount_path", "/checkpoints", "runtimes[0].datasets[0]", "of checkpoint"),
    ("datasets[0].mount_path", "/workspace", "runtimes[0].datasets[0]", "a job's files"),
    ("runtimes[0].scratch.mount_path", "/dev/shm", "runtimes[0].scratch.mount_path", "shared"),
]


@pytest.mark.parametrize(("path", "value", "where", "words"), ONE)
def test_a_mistake_is_named(path: str, value: Any, where: str, words: str) -> None:
    raw = reading()
    parse(raw, where=WHERE)
    put(raw, path, value)
    text = mistakes(raw)
    assert any(line.startswith(f"{where}: ") and words in line for line in text), text


def test_a_runtime_reads_in_every_namespace_or_in_none() -> None:
    raw = reading()
    raw["namespaces"].append("second")
    second = {"namespace": "second"}
    raw["checkpoints"].append(raw["checkpoints"][0] | second)
    (mistake,) = mistakes(raw)
    assert mistake.startswith("runtimes[0].datasets[0]: namespace 'second' has no data set 'words'")
    raw["datasets"].append(raw["datasets"][0] | second | {"volume": "words-b"})
    parse(raw, where=WHERE)
    raw["datasets"][1]["mount_path"] = "/elsewhere"
    (mistake,) = mistakes(raw)
    assert mistake.startswith("datasets[1].mount_path: '/elsewhere' differs from '/data/words'")


def test_a_data_set_is_given_once() -> None:
    raw = reading()
    raw["datasets"].append(dict(raw["datasets"][0]))
    assert any("taken by datasets[0]" in line for line in mistakes(raw))
