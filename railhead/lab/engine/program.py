"""Runs one Pulumi program; started as a script by the language host, in the program's interpreter.

It imports the Pulumi SDK and nothing of Railhead, because the program's virtual environment need
not have Railhead installed. Exit status 0: the program ended well; 32: it failed and the error has
been shown; anything else: it ended on its own account.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

ERROR_SHOWN = 32


def _program_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the program's first frame on, without our own frames above."""
    here = str(Path(__file__).resolve())
    skip = (here, runpy.__file__, "<frozen runpy>", "<frozen importlib._bootstrap>")
    current = trace
    seen_runpy = False
    while current is not None:
        name = current.tb_frame.f_code.co_filename
        if name in skip:
            seen_runpy = seen_runpy or name != here
        elif seen_runpy:
            return current
        current = current.tb_next
    return trace


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("project", "stack", "organization", "root", "pwd", "monitor", "engine"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--parallel", type=int, default=0)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("program")
    parser.add_argument("args", nargs="*")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run the program named on the command line; returns the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda signum, _frame: os._exit(128 + signum))
    args = _arguments(argv)
    # As a script this file's directory leads sys.path and would shadow modules of the program.
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    try:
        import pulumi
        import pulumi.runtime
        from pulumi.runtime import settings, stack
    except ImportError as error:
        print(
            f"the Pulumi SDK cannot be imported by {sys.executable}: {error}\n"
            "install the program's requirements, for example with `pulumi install`",
            file=sys.stderr,
        )
        return 1

    os.chdir(args.pwd or ".")
    config: dict[str, Any] = json.loads(os.environ.pop("PULUMI_CONFIG", "{}"))
    secret_keys: list[str] = json.loads(os.environ.pop("PULUMI_CONFIG_SECRET_KEYS", "[]"))
    settings.reset_options(
        project=args.project,
        stack=args.stack,
        organization=args.organization or None,
        root_directory=args.root,
        parallel=args.parallel,
        engine_address=args.engine,
        monitor_address=args.monitor,
        preview=args.dry_run,
    )
    pulumi.runtime.set_all_config(config, secret_keys)
    sys.argv = [args.program, *args.args]
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def run() -> None:
        runpy.run_path(args.program, run_name="__main__")

    status = ERROR_SHOWN
    try:
        loop.run_until_complete(stack.run_in_stack(run))
        status = 0
    except pulumi.RunError as error:
        pulumi.log.error(str(error))
    except SystemExit as error:
        code = error.code
        if isinstance(code, str):
            pulumi.log.error(code)
        else:
            status = code or 0
    except Exception as error:  # noqa: BLE001 - whatever the program raised is shown
        if isinstance(error, SyntaxError):
            lines = traceback.format_exception_only(type(error), error)
        else:
            frames = _program_frames(error.__traceback__)
            lines = traceback.format_exception(type(error), error, frames)
        pulumi.log.error("Program failed with an unhandled exception:\n" + "".join(lines))
    finally:
        loop.close()
        sys.stdout.flush()
        sys.stderr.flush()
    return status


if __name__ == "__main__":
    # Not sys.exit: gRPC's threads may keep the interpreter alive after the program is done.
    os._exit(main(sys.argv[1:]))
