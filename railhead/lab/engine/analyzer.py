"""``pulumi-analyzer-policy-python``: a stand-in for the official runner of Python policy packs.

The engine calls it with its own address and the pack's directory, from within that directory. The
pack runs in the virtual environment that PulumiPolicy.yaml names.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from railhead.base.errors import RailheadError
from railhead.lab.engine.interpreter import environment_for, find_python


def pack_options(directory: Path) -> dict[str, Any]:
    """Return ``runtime.options`` of the PulumiPolicy.yaml in ``directory``; empty without one."""
    import yaml

    try:
        text = (directory / "PulumiPolicy.yaml").read_text()
    except OSError:
        return {}
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise RailheadError(f"{directory / 'PulumiPolicy.yaml'} is no YAML: {error}") from error
    runtime = document.get("runtime") if isinstance(document, dict) else None
    options = runtime.get("options") if isinstance(runtime, dict) else None
    return dict(options) if isinstance(options, dict) else {}


def main(argv: list[str]) -> None:
    """Replace this process by the pack's interpreter."""
    # The engine repeats the runtime's options as -key=value; PulumiPolicy.yaml already has them.
    arguments = [arg for arg in argv if not arg.startswith("-")]
    directory = Path(arguments[-1] if arguments else ".").absolute()
    try:
        python = find_python(pack_options(directory), directory)
    except RailheadError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from error
    runner = str(Path(__file__).with_name("policy_pack.py"))
    argv = [str(python), "-u", runner, *arguments]
    os.execve(python, argv, environment_for(python))  # noqa: S606 - no shell on purpose


if __name__ == "__main__":
    main(sys.argv[1:])
