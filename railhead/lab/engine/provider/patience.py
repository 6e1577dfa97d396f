"""Waiting for what is away in the middle of an operation: the API server, its etcd, a webhook."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from railhead.kube.errors import ApiError, NoAnswerError
from railhead.lab.engine.provider.awaiting import StatusLog

# A controller that starts again is back by then. A resource's own timeout replaces it.
AWAY_S = 180.0
_SLOWEST_S = 5.0
#: Answers of 500 and more that no wait mends: a webhook's refusal; an apply against the schema
#: (kubernetes #139253, apimachinery v0.35.8, pkg/util/managedfields/internal/structuredmerge.go),
#: unless a conversion webhook is away; what is too large for etcd (etcd v3.6.5,
#: api/v3rpc/rpctypes/error.go) or its client (grpc v1.72.1, stream.go).
_FINAL = re.compile(
    "denied the request|failed to create typed|failed to convert (?!.*conversion webhook)"
    "|request is too large|to send message larger than max",
    re.DOTALL,
)

_Result = TypeVar("_Result")


class StillAwayError(Exception):
    """Time ran out while it was away; the message says what to do."""


def is_away(error: Exception) -> bool:
    """Return whether the same request may be taken later; a user's own mistake never is."""
    if isinstance(error, ApiError):
        return error.status >= 500 and _FINAL.search(error.message) is None
    return isinstance(error, NoAnswerError)


def patiently(
    attempt: Callable[[], _Result],
    *,
    report: StatusLog,
    cancel: threading.Event,
    urn: str,
    limit_s: float,
    away: Callable[[Exception], bool] = is_away,
) -> _Result:
    """Return the result of the first attempt for which nothing was away; say what is.

    Raises:
        StillAwayError: it was away for longer than ``limit_s``.
    """
    since, last, wait_s = 0.0, "", 0.25
    while True:
        try:
            result = attempt()
        except Exception as error:
            if not away(error):
                raise
            since = since or time.monotonic()
            if time.monotonic() - since > limit_s:
                raise StillAwayError(
                    f"waited {limit_s:g} s for the API server: {error}; run the command again "
                    "when that is over: it goes on from here"
                ) from error
            # The engine shows a message's first line, and each on a line where nobody watches.
            if (text := " ".join(str(error).split())) != last:
                last = text
                report.status(f"waiting for the API server, {limit_s:g} s at most: {last}", urn)
            if cancel.wait(wait_s):
                raise
            wait_s = min(wait_s * 2, _SLOWEST_S)
            continue
        if last:
            report.status("", urn)
        return result
