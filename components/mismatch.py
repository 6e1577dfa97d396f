"""Mistakes that only the cloud's answer shows, and so only inside an Output."""

from __future__ import annotations

import pulumi

from railhead.base.errors import InputError


class MismatchError(InputError, pulumi.RunError):
    """The error that the cloud has something else than the stack's file says.

    A ``RunError`` as well, so that the engine prints its message without a traceback.
    """
