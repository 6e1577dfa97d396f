"""The lock that a killed `pulumi` leaves in a ``file://`` backend.

`pulumi` removes its lock when it ends, on Ctrl-C and on SIGTERM too, but not when it is killed with
SIGKILL; the next command then stops until `pulumi cancel` is run. The plugins outlive the killed
process by a moment and clear its lock: only the lock file that names their own parent's process,
on this machine, and only once that process is gone.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from urllib.parse import unquote, urlsplit


def backend_folder() -> Path | None:
    """The directory of the ``file://`` backend in use; None for another kind of backend."""
    url = os.environ.get("PULUMI_BACKEND_URL") or _logged_in_url()
    if not url.startswith("file://"):
        return None
    parts = urlsplit(url)
    path = unquote(parts.netloc + parts.path)
    return Path(path).expanduser().absolute() if path else None


def _logged_in_url() -> str:
    home = Path(os.environ.get("PULUMI_HOME") or Path.home() / ".pulumi").expanduser()
    try:
        return str(json.loads((home / "credentials.json").read_text()).get("current") or "")
    except (OSError, ValueError, AttributeError):
        return ""


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")


def clear_dead_lock(pid: int) -> list[Path]:
    """Remove the locks that process ``pid`` of this machine holds, if that process is gone.

    Returns:
        The removed files.
    """
    folder = backend_folder()
    if folder is None or _is_running(pid):
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
