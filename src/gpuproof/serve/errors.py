"""Errors of requests and of models."""

from __future__ import annotations

import os


class RequestError(Exception):
    """An invalid request. The client sees the status and the message, which must not contain paths.

    Args:
        status: the HTTP status: 400 for a malformed body, 406 for an unsupported type of response, 413 for a body that is
            too large, 415 for an unsupported type of body, 422 for a shape or type that the model rejects.
        message: what is wrong and, if known, where.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class LoadError(Exception):
    """A model that cannot be served.

    Args:
        message: what was searched for and where, or what the handler raised.
        details: the traceback of what the handler raised.
        headline: the message above the traceback, without what its last line says.
    """

    def __init__(
        self, message: str, remedy: str | None = None, details: str = "", headline: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.details = details
        self.headline = headline or message

    @classmethod
    def of(cls, error: OSError) -> LoadError:
        """The error for a file or folder that cannot be accessed."""
        user = os.geteuid()
        return cls(
            f"{error.filename}: {error.strerror}.",
            remedy=f"The server runs as user {user}; check the permissions with `ls -ld`."
            if isinstance(error, PermissionError)
            else None,
        )
