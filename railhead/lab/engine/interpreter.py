"""The choice of the Python that runs a Pulumi program or a policy pack."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railhead.base.errors import PrerequisiteError

TOOLCHAINS = ("pip", "poetry", "uv")


def virtualenv_dir(options: Mapping[str, Any], root: Path) -> Path | None:
    """Return the absolute virtual environment named in ``runtime.options``, or None.

    A relative path counts from the directory of Pulumi.yaml or PulumiPolicy.yaml. The ``uv``
    toolchain defaults to ``.venv``, as the official language host does.
    """
    named = options.get("virtualenv")
    if not named and options.get("toolchain") == "uv":
        named = ".venv"
    if not named:
        return None
    return (root / Path(str(named)).expanduser()).absolute()


def find_python(options: Mapping[str, Any], root: Path) -> Path:
    """Return the interpreter for a program whose Pulumi.yaml lies in ``root``.

    Raises:
        PrerequisiteError: the toolchain is unknown or the virtual environment does not exist.
    """
    toolchain = str(options.get("toolchain") or "pip")
    if toolchain not in TOOLCHAINS:
        raise PrerequisiteError(
            f"runtime option toolchain is {toolchain!r}; allowed: {', '.join(TOOLCHAINS)}",
            remedy="correct runtime.options.toolchain in Pulumi.yaml",
        )
    venv = virtualenv_dir(options, root)
    if venv is None:
        return Path(sys.executable)
    for candidate in (venv / "bin" / "python", venv / "Scripts" / "python.exe"):
        if candidate.exists():
            return candidate
    raise PrerequisiteError(
        f"the virtual environment {str(options.get('virtualenv') or '.venv')!r} named in "
        f"{root} has no Python at {venv / 'bin' / 'python'}",
        remedy="create it with `pulumi install`, or remove runtime.options.virtualenv",
    )


def environment_for(python: Path) -> dict[str, str]:
    """Return this process's environment with the interpreter's environment activated."""
    env = dict(os.environ)
    env.pop("PYTHONHOME", None)
    venv = python.parent.parent
    if (venv / "pyvenv.cfg").exists():
        env["VIRTUAL_ENV"] = str(venv)
        env["PATH"] = f"{python.parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    return env
