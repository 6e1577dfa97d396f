"""The reading of data in YAML that ships beside the package that reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

# LibYAML is ten times as fast; a wheel without it reads the same.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load(file: Path) -> Any:
    """Return the data of a file."""
    return yaml.load(file.read_text(encoding="utf-8"), _LOADER)  # noqa: S506
