"""What goes wrong between us and an API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from railhead.base.errors import (
    ExitCode,
    InputError,
    PrerequisiteError,
    RailheadError,
)


class UnreachableError(RailheadError):
    """No usable connection to an API server."""

    def __str__(self) -> str:
        # It is put into other sentences; the command line prints the remedy by itself.
        return self.problem


class KubeconfigError(UnreachableError, InputError):
    """The kubeconfig is not one, or names what is not in it."""


class CredentialError(UnreachableError, PrerequisiteError):
    """A credential plugin gave no credentials."""


class NoAnswerError(UnreachableError, PrerequisiteError):
    """Refused, timed out, or not trusted."""


class ApiError(RailheadError):
    """The API server answered with an error.

    Args:
        status: the HTTP status.
        reason: Kubernetes' reason, such as ``NotFound`` or ``Forbidden``; may be empty.
        message: the server's own words.
        details: ``Status.details``, as the server sent it.
    """

    exit_code = ExitCode.REFUSED

    def __init__(
        self,
        *,
        status: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        remedy: str = "",
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = dict(details or {})

    def __str__(self) -> str:
        return self.message

    @property
    def not_found(self) -> bool:
        """The object, its namespace or its kind does not exist."""
        return self.status == 404

    @property
    def already_exists(self) -> bool:
        """An object of that name exists."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """Another field manager owns a field, or the resource version moved."""
        return self.status == 409 and self.reason == "Conflict"
