"""Places of the documentation's job files: in the installed package, or beside it."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
#: pyproject.toml puts them into the wheel under the first; a checkout has the second.
FOLDERS = (_PACKAGE / "examples", _PACKAGE.parent / "examples")


def example(framework: str) -> Path:
    """Return the job file of a framework; torch's for a framework without one."""
    for name in (framework, "torch-ddp"):
        for folder in FOLDERS:
            if (file := folder / f"{name}.yaml").is_file():
                return file
    return FOLDERS[0] / "torch-ddp.yaml"
