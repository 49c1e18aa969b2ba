"""Exceptions of notebook instances."""

from __future__ import annotations

from gpuproof.errors import ExitCode, GPUproofError


class NotebookFailed(GPUproofError):
    """SageMaker could not bring a notebook instance into service."""

    exit_code = ExitCode.AWS_REFUSED

    def __init__(self, message: str, remedy: str | None = None, *, reason: str = "") -> None:
        super().__init__(message, remedy)
        self.reason = reason


class NotebookTimeout(GPUproofError):
    """A notebook instance did not reach a state within the time limit.

    Args:
        status: the state that it is in.
    """

    exit_code = ExitCode.UNDECIDED

    def __init__(self, message: str, remedy: str | None = None, *, status: str = "") -> None:
        super().__init__(message, remedy)
        self.status = status


class NotebookGone(GPUproofError):
    """The notebook instance was deleted by another user or command in the meantime."""


class NotebookNotFound(GPUproofError):
    """There is no notebook instance of that name."""

    exit_code = ExitCode.USAGE
