"""States of the stacks as an earlier version left them, and what the present code would do to them.

``before/<stack>.json.gz.base64`` is what ``pulumi stack export`` gave at commit 203d95d on the
recording providers. ``before/<stack>.expected.txt`` lists every operation of today's preview on it
that is not ``same`` or ``read``, below a comment line that says why. Rewrite the lists and keep
the comments::

    python -m tests.engine.before_states [STACK...]

New lines go below a comment of their own, which the test refuses until it says why. With
``--record``, run in a checkout of another commit, the states themselves are written.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from railhead.lab.recorders.shapes import completed
from tests.components.recording import STACKS
from tests.engine.recorded import Project

BEFORE = Path(__file__).with_name("before")
UNEXPLAINED = "# why?"
_FOLDER = "@FOLDER@"
# Fields that say where and when a resource was registered, and not what it is.
_LEFT_OUT = ("created", "modified", "sourcePosition", "stackTrace")
# What leaves all as it is, and the parts of a replacement, which is listed as one operation.
_UNLISTED = ("same", "read", "create-replacement", "delete-replaced")
# What the upgrade asks for: networks were in a namespace of the fabric's, where jobs from then look
# for them; and nodes on AWS are launched with another text.
_ASKED = {
    "onprem-ib-sriov": ("cluster", "ib-sriov"),
    "onprem-roce-shared": ("cluster", "roce-shared"),
    "aws-p5-prod": ("pool", "h100"),
    "aws-p5en-block": ("pool", "h200"),
}
# What the files of then said of each pool and file system: files are their teams', and what they
# say now is another edit than the upgrade.
_SAID: dict[str, dict[str, dict[str, str | None]]] = {
    "gcp-a3-mega": {"pools": {"driver": "latest"}, "storage": {"addresses": None}},
    "gcp-a3-ultra": {"pools": {"driver": "latest"}},
}


def expected_file(stack: str) -> Path:
    """Return the list of a stack's expected operations."""
    return BEFORE / f"{stack}.expected.txt"


def record(stack: str, folder: Path) -> bytes:
    """Make the stack with the present code; its state, without paths, times and ciphertexts."""
    project = Project(folder, stack)
    project.up()
    state = json.loads(
        project.run("stack", "export", "--show-secrets").replace(str(folder), _FOLDER)
    )
    deployment = state["deployment"]
    del deployment["manifest"]
    for resource in deployment["resources"]:
        for key in _LEFT_OUT:
            resource.pop(key, None)
    packed = gzip.compress(json.dumps(state, sort_keys=True).encode(), mtime=0)
    return base64.encodebytes(packed)


def earlier(stack: str, folder: Path) -> Project:
    """Return a stack as the earlier version left it, with what its upgrade asks for."""
    project = Project(folder, stack)
    packed = base64.decodebytes((BEFORE / f"{stack}.json.gz.base64").read_bytes())
    state = json.loads(gzip.decompress(packed).decode().replace(_FOLDER, str(folder)))
    for resource in state["deployment"]["resources"]:
        # What the recorder of then did not fill in, and a cloud had.
        if "outputs" in resource:
            resource["outputs"] = completed(resource["type"], resource["outputs"])
    file = folder / "before.json"
    file.write_text(json.dumps(state))
    project.run("stack", "import", "--file", str(file))
    if stack in _ASKED:
        kind, name = _ASKED[stack]
        removal = {"kind": kind, "name": name, "loses": ["jobs"]}
        project.change(lambda cluster: cluster.update(removals=[removal]))
    if fields := _SAID.get(stack):
        project.change(lambda cluster: _say(cluster, fields))
    return project


def operations(stack: str, folder: Path) -> list[str]:
    """Return what today's code would do to the recorded state: ``OPERATION TYPE NAME``, sorted."""
    project = earlier(stack, folder)
    steps = [step for step in project.preview().steps if step[0] not in _UNLISTED]
    assert not project.entries(), "a preview made something"
    return sorted(f"{operation} {_type_and_name(urn)}" for operation, urn in steps)


def _say(cluster: dict[str, Any], fields: dict[str, dict[str, str | None]]) -> None:
    rows = {"pools": cluster["pools"], "storage": cluster["platform"]["storage"]}
    for part, update in fields.items():
        for row in rows[part]:
            row.update(update)


def _type_and_name(urn: str) -> str:
    _, _, types, name = urn.split("::", 3)
    return f"{types.rsplit('$', 1)[-1]} {name}"


def read_expected(text: str) -> dict[str, str]:
    """Return operation -> the comment above it, empty without one."""
    why, result = "", {}
    for line in text.splitlines():
        if line.startswith("#"):
            why = line
        elif line:
            result[line] = why
    return result


def write_expected(now: Iterable[str], before: dict[str, str]) -> str:
    """Return the operations of ``now`` below the comments that they had ``before``."""
    groups: dict[str, list[str]] = {}
    for line in sorted(now):
        groups.setdefault(before.get(line) or UNEXPLAINED, []).append(line)
    order = [*dict.fromkeys(before.values()), UNEXPLAINED]
    return "\n".join(
        "\n".join([why, *groups[why], ""]) for why in dict.fromkeys(order) if why in groups
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the lists of the stacks named, else of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("stacks", nargs="*", metavar="STACK", help="one that is shipped")
    parser.add_argument("--record", action="store_true", help="write the states, not the lists")
    chosen: Any = parser.parse_args(arguments)
    for stack in chosen.stacks or STACKS:
        with tempfile.TemporaryDirectory() as folder:
            if chosen.record:
                (BEFORE / f"{stack}.json.gz.base64").write_bytes(record(stack, Path(folder)))
                continue
            file = expected_file(stack)
            before = read_expected(file.read_text()) if file.exists() else {}
            file.write_text(write_expected(operations(stack, Path(folder)), before))


if __name__ == "__main__":
    main()
