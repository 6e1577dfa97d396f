"""Everything the lab needs that is built or installed once, in a cache keyed by what goes in."""

from railhead.lab.artifacts.missing import plan
from railhead.lab.artifacts.store import (
    Artifacts,
    Simulation,
    build_on_request,
    ensure,
    ensure_kwok,
    installed,
    locate,
    main_build,
)
from railhead.lab.artifacts.template import clone_template, import_archive

__all__ = [
    "Artifacts",
    "Simulation",
    "build_on_request",
    "clone_template",
    "ensure",
    "ensure_kwok",
    "import_archive",
    "installed",
    "locate",
    "main_build",
    "plan",
]
