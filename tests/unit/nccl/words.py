"""Every word that a reading of a log may say, by its key."""

from __future__ import annotations

WORDS = {
    "transport": {
        "ib",
        "roce",
        "verbs",
        "efa",
        "libfabric",
        "tcpx",
        "gib",
        "socket",
        "p2p/shm-only",
        "unknown",
    },
    "gdr": {"yes", "no", "unknown"},
    "verdict": {
        "ok",
        "measured",
        "wired",
        "tcp-fallback",
        "init-failure",
        "hang",
        "timeout",
        "low-bandwidth",
        "other",
    },
}
