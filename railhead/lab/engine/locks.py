"""The lock that a killed `pulumi` leaves in a ``file://`` backend.

`pulumi` removes its lock when it ends, on Ctrl-C and on SIGTERM too, but not when it is killed with
SIGKILL; the next command then stops until `pulumi cancel` is run. The language host therefore
starts a guard, a small process that outlives a killed `pulumi` for a moment: once `pulumi` and the
stand-ins that it started are gone, the guard removes the lock file that names that very process on
this machine. What is left to `pulumi cancel` is a kill within the first moments, before `pulumi`
has started the language host.

Runs as a script of its own with the standard library only, so that it starts in no time.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Set by the launchers (install.py): the process that started the plugin.
ENGINE_PID = "RAILHEAD_ENGINE_PID"
_POLL_S = 0.1
_SIBLINGS_END_WITHIN_S = 10.0


def backend_folder() -> Path | None:
    """Return the directory of the ``file://`` backend in use; None for another kind of backend."""
    url = os.environ.get("PULUMI_BACKEND_URL") or _project_url() or _logged_in_url()
    if not url.startswith("file://"):
        return None
    parts = urlsplit(url)
    path = unquote(parts.netloc + parts.path)
    return Path(path).expanduser().absolute() if path else None


def _project_url() -> str:
    # `backend: {url: ...}` of Pulumi.yaml, read without a YAML parser: the guard must start fast.
    for folder in (Path.cwd(), *Path.cwd().parents):
        file = folder / "Pulumi.yaml"
        if not file.is_file():
            continue
        inside = False
        for line in file.read_text(errors="replace").splitlines():
            if line[:1] not in (" ", "\t"):
                inside = line.split("#")[0].strip() == "backend:"
            elif inside and line.strip().startswith("url:"):
                url = line.split("url:", 1)[1].split(" #")[0].strip().strip("'\"")
                relative = url.removeprefix("file://")
                # Pulumi counts a relative path from the project's directory.
                return f"file://{folder / relative}" if url.startswith("file://.") else url
        return ""
    return ""


def _logged_in_url() -> str:
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi").expanduser()
    try:
        return str(json.loads((home / "credentials.json").read_text()).get("current") or "")
    except (OSError, ValueError, AttributeError):
        return ""


def is_running(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")


def siblings(pid: int) -> list[int]:
    """Return the stand-ins, and what they started, that process ``pid`` started."""
    wanted = f"{ENGINE_PID}={pid}".encode()
    results = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if wanted in variables and is_running(int(entry.name)):
                results.append(int(entry.name))
    return results


def clear_dead_lock(pid: int) -> list[Path]:
    """Remove the locks that process ``pid`` of this machine holds, if that process is gone.

    Returns:
        The removed files.
    """
    folder = backend_folder()
    if folder is None or is_running(pid):
        return []
    removed = []
    for path in (folder / ".pulumi" / "locks").glob("**/*.json"):
        try:
            lock = json.loads(path.read_text())
            if lock.get("pid") == pid and lock.get("hostname") == socket.gethostname():
                path.unlink()
                removed.append(path)
        except (OSError, ValueError, AttributeError):
            continue
    return removed


def start_guard(pid: int) -> subprocess.Popen[bytes]:
    """Start a guard over process ``pid``; it ends by itself when that process has."""
    environment = {key: value for key, value in os.environ.items() if key != ENGINE_PID}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(pid)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def guard(pid: int) -> None:
    """Wait until process ``pid`` and its stand-ins are gone, then clear its lock."""
    while is_running(pid):
        time.sleep(_POLL_S)
    # Another run must not begin while, say, a Helm of this one still cleans up.
    deadline = time.monotonic() + _SIBLINGS_END_WITHIN_S
    while siblings(pid) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    clear_dead_lock(pid)


if __name__ == "__main__":
    guard(int(sys.argv[1]))
