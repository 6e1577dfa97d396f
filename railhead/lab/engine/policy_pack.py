"""Runs one Python policy pack as the official runner does: ``python -u -m pulumi.policy``.

Started as a script in the policy pack's own interpreter; it imports the SDK only. SIGINT and
SIGTERM end it without a traceback, which the engine would print otherwise.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from pathlib import Path


def main() -> None:
    """Run the pack; the engine's arguments are its address and the pack's directory."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    runpy.run_module("pulumi.policy", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
