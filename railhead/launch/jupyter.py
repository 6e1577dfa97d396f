"""JupyterLab in a pod of a job, for `railhead dev --jupyter`.

The token is made in the pod, in a file that its user alone may read. It comes here through `kubectl
exec` and is printed once: it is in no object of the cluster, and in no log of the pod.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from railhead.base.errors import PrerequisiteError, RailheadError

MISSING = 127
# A fixed text: the seconds are its argument. Jupyter writes where it listens into its runtime
# folder once it does, and its log has `...` for a token from a file (jupyter_server v2.20.0,
# serverapp.py, server_info and _get_urlparts; auth/identity.py, _token_default).
START = """\
command -v jupyter-lab >/dev/null || exit 127
umask 077
at=${TMPDIR:-/tmp}/railhead-jupyter-$(id -u)
mkdir -p "$at" || exit 1
reports() {
  for file in "$at"/jpserver-*.json; do
    pid=${file##*-}
    if kill -0 "${pid%.json}" 2>/dev/null; then
      case $(cat "$file") in *'}') cat "$file"; exit 0 ;; esac
    fi
  done
}
reports
rm -f "$at"/jpserver-*.json
od -An -v -N24 -tx1 /dev/urandom | tr -d ' \\n' >"$at/token"
JUPYTER_RUNTIME_DIR=$at JUPYTER_TOKEN_FILE=$at/token nohup jupyter-lab --no-browser --allow-root \\
  --ServerApp.ip=127.0.0.1 --ServerApp.root_dir=/ --ServerApp.shutdown_no_activity_timeout="$1" \\
  --MappingKernelManager.cull_idle_timeout="$1" --TerminalManager.cull_inactive_timeout="$1" \\
  >"$at/log" 2>&1 </dev/null &
tries=0
while [ $tries -lt 120 ]; do
  sleep 0.5
  reports
  kill -0 $! 2>/dev/null || break
  tries=$((tries + 1))
done
tail -n 5 "$at/log" >&2
exit 1
"""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server in a pod: its port there, and the rest of its address with the token."""

    port: int
    path: str
    scheme: str

    def url(self, port: int) -> str:
        """Return its address by a port of this machine."""
        return f"{self.scheme}://localhost:{port}{self.path}"


def words(idle: str) -> tuple[str, ...]:
    """Return the command that starts a server in a container, or finds it, and prints its facts."""
    return ("sh", "-c", START, "railhead-jupyter", idle)


def start(command: Sequence[str], name: str) -> Server:
    """Run :func:`words` by kubectl in a job's container.

    Args:
        command: kubectl's words, and those.
        name: the job's, for errors.

    Raises:
        PrerequisiteError: the image has no JupyterLab.
        RailheadError: it does not start.
    """
    result = subprocess.run(
        list(command), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if result.returncode == MISSING:
        raise PrerequisiteError(
            f"--jupyter: {name}'s image has no jupyter-lab on its PATH",
            remedy="begin another with an image that has it (--image): the runtime's, and `RUN pip "
            "install jupyterlab` in a Dockerfile",
        )
    try:
        facts: dict[str, Any] = json.loads(result.stdout)
        query = f"?{urlencode({'token': facts['token']})}" if facts["token"] else ""
        return Server(
            port=int(facts["port"]),
            path=f"{facts['base_url']}lab{query}",
            scheme="https" if facts["secure"] else "http",
        )
    except (ValueError, KeyError, TypeError):
        last = result.stderr.strip() or f"kubectl ended with {result.returncode}"
        raise RailheadError(
            f"--jupyter: JupyterLab does not start in {name}: {last}",
            remedy=f"look into /tmp/railhead-jupyter-*/log by `railhead exec {name} -- sh`",
        ) from None
