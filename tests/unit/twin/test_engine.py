"""The engine of a twin is ended when nothing more becomes ready, and not for being slow."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from railhead.twin.program import _why
from railhead.twin.twin import Twin

LIMIT_S = 1.5
PULUMI = """#!/bin/sh
while [ "$1" != --event-log ]; do shift; done
log=$2
tell() {
  echo '{"'$1'": {"metadata": {"urn": "urn::'$2'", "op": "create", "type": "a:b:C"}}}' >> "$log"
}
interrupted() {
  tell resOutputsEvent slow
  echo '{"diagnosticEvent": {"severity": "error", "message": "update canceled"}}' >> "$log"
  exit 1
}
trap interrupted INT
for name in a b c d e f; do
  tell resourcePreEvent $name
  sleep 0.4
  tell resOutputsEvent $name
done
tell resourcePreEvent slow
sleep PAUSE
tell resOutputsEvent slow
"""


def ran(folder: Path, pause: str) -> Any:
    pulumi = folder / "pulumi"
    pulumi.write_text(PULUMI.replace("PAUSE", pause))
    pulumi.chmod(0o755)
    certificate = SimpleNamespace(pair=SimpleNamespace(certificate="x"))
    parts: dict[str, Any] = dict.fromkeys(
        ("stack", "checkout", "cluster", "client", "world", "loop", "researcher")
    )
    twin = Twin(
        **parts,
        folder=folder,
        pulumi=pulumi,
        plane=SimpleNamespace(authority=certificate, processes=SimpleNamespace(running={})),  # type: ignore[arg-type]
        laid=SimpleNamespace(project=folder, environment={}),  # type: ignore[arg-type]
    )
    return twin.engine("up", limit_s=LIMIT_S)


def test_a_slow_machine_is_not_a_failure(tmp_path: Path) -> None:
    result = ran(tmp_path, pause="0")
    assert (result.status, result.operations) == (0, {"create": 7})
    assert result.seconds > LIMIT_S


def test_what_was_waited_for_is_named(tmp_path: Path) -> None:
    result = ran(tmp_path, pause="60")
    assert result.status == -1
    assert "still waited for: create slow" in _why(result)
