"""Ray: a cluster of the job's own pods, the head in the first, on which the program runs.

A worker pod ends well when the head is gone: whether the job went well is the program's to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railhead.framework.base import NODE_RANK, NODES, Framework, Gang

if TYPE_CHECKING:
    from railhead.catalog.versions import Combination

#: Ray's own port for its head (ray start --help, 2.60).
_PORT = 6379
# Ports of Ray's agents, which would choose their own, and be abandoned if they take 15 s to report
# them (ray-project/ray issue 65983); a pod has its ports for itself.
_AGENTS = (
    "--dashboard-agent-listen-port=6380 --dashboard-agent-grpc-port=6381"
    " --runtime-env-agent-port=6382 --metrics-export-port=6383"
)
# Does the head's server listen; `ray health-check` is no public interface and takes 40 s to say no.
_ASK = (
    'import os, socket; host, port = os.environ["RAY_HEAD"].rsplit(":", 1); '
    "socket.create_connection((host, int(port)), 10)"
)
# A fixed text: the job's words are its arguments, and never part of it.
_SCRIPT = f"""\
start() {{ ray start "$@" {_AGENTS} --disable-usage-stats; }}
if [ "$RAILHEAD_NODE_RANK" = 0 ]; then
  start --head --port="$RAY_PORT" || exit 1
  "$@"
  code=$?
  ray stop
  exit $code
fi
until start --address="$RAY_HEAD"; do
  tries=$((${{tries:-0}} + 1))
  [ "$tries" -lt 60 ] || exit 1
  sleep 2
done
gone=0
while [ "$gone" -lt 3 ]; do
  sleep 2
  if python3 -c '{_ASK}' 2>/dev/null; then gone=0; else gone=$(($gone + 1)); fi
done
exit 0
"""


@dataclass(frozen=True, kw_only=True)
class Ray(Framework):
    """A Ray cluster of a job."""

    def ml_policy(self, combination: Combination, processes: int) -> dict[str, Any]:
        """Trainer has none for it: the pods get what the runtime and the job say."""
        del combination, processes
        return {}

    def wiring(self, gang: Gang) -> dict[str, str]:
        """Return the address of the head; ``ray.init()`` reads RAY_ADDRESS."""
        return {
            "RAY_ADDRESS": f"{gang.hosts[0]}:{_PORT}",
            "RAY_HEAD": f"{gang.hosts[0]}:{_PORT}",
            "RAY_PORT": str(_PORT),
        }

    def start(self, words: Sequence[str], gang: Gang) -> tuple[str, ...]:
        """Return each pod joins the cluster; the program runs on the head."""
        program = super().start(words, gang)
        return ("sh", "-c", _SCRIPT, "ray", *program)


_WIRED = ("RAY_ADDRESS", "RAY_HEAD", "RAY_PORT")

FRAMEWORK = Ray(
    name="ray",
    launcher="ray start",
    rendezvous=(NODE_RANK, NODES, *_WIRED),
    set_by_job=(NODES, *_WIRED),
    per_process=(),
    nodes_variable=NODES,
    one_process=True,
    source="Ray 2.60.0, doc/source/cluster/vms/user-guides/launching-clusters/on-premises.md "
    "(ray start --head, --address) and python/ray/_private/worker.py (RAY_ADDRESS)",
)
