"""Errors between Railhead and an API server."""

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
    """An API server cannot be reached with the present credentials."""

    def __str__(self) -> str:
        # Other sentences quote it; the command line prints the remedy by itself.
        return self.problem


class KubeconfigError(UnreachableError, InputError):
    """The file is not a kubeconfig, or names something that it does not define."""


class CredentialError(UnreachableError, PrerequisiteError):
    """A credential plugin gave no credentials."""


class NoAnswerError(UnreachableError, PrerequisiteError):
    """The server refused the connection, timed out, or is not trusted."""


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
        """True when the object, its namespace or its kind does not exist."""
        return self.status == 404

    @property
    def already_exists(self) -> bool:
        """True when an object of that name exists."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """True when another field manager owns a field, or the resource version moved."""
        return self.status == 409 and self.reason == "Conflict"
