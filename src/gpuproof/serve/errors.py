"""What can be wrong with a request, and with a model."""

from __future__ import annotations

import os


class RequestError(Exception):
    """A request that cannot be answered as asked; the client sees the status and the message, so no paths in it.

    Args:
        status: the HTTP status: 400 a body that cannot be decoded, 406 no such form of answer, 413 too long, 415 no such
            form of body, 422 a shape or type that the model refuses.
        message: what is wrong and, where it is known, the place.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class LoadError(Exception):
    """A model that cannot be served.

    Args:
        message: what was looked for and where, or what the handler raised.
        remedy: what to type or change next.
        details: the handler's own traceback, for the log.
    """

    def __init__(self, message: str, remedy: str | None = None, details: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.details = details

    @classmethod
    def of(cls, error: OSError) -> LoadError:
        """A file or folder that the system refuses."""
        user = os.geteuid()
        return cls(
            f"{error.filename}: {error.strerror}.",
            remedy=f"The server runs as user {user}; `ls -ld` tells who may read it."
            if isinstance(error, PermissionError)
            else None,
        )
