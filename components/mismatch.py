"""What only the cloud's answer shows to be wrong, and so only inside an Output."""

from __future__ import annotations

import pulumi

from railhead.base.errors import InputError


class MismatchError(InputError, pulumi.RunError):
    """What is there is not what the stack's file says.

    A ``RunError`` as well, so that the engine prints its message without a traceback.
    """
