"""Errors for the user, with a message, a remedy and an exit code.

A user's mistake raises a `GPUproofError`; `gpuproof` prints it in a few lines and exits with its code. Any other
exception is a bug and shows its traceback.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Self


class ExitCode(IntEnum):
    """Exit codes of `gpuproof`."""

    OK = 0
    """Success: no findings at or above the threshold; the GPU was used, or none was requested."""
    FAILED = 1
    """Findings, or the user's job failed."""
    USAGE = 2
    """Wrong usage or an invalid job description."""
    UNDECIDED = 3
    """Could not decide: no credentials, no GPU to examine, data missing."""
    GPU_UNUSED = 4
    """The job ran but did not use the GPU that it requested."""
    AWS_REFUSED = 5
    """AWS refused: quota, capacity, permission."""
    INTERNAL_ERROR = 70
    """A bug of GPUproof: `gpuproof check` could not run a rule on a file (`EX_SOFTWARE` of sysexits.h)."""
    INTERRUPTED = 130
    """Interrupted; the run was stopped before."""


class GPUproofError(Exception):
    """An error that the user can fix.

    Args:
        message: what happened and why, in a sentence or two.
        remedy: what to type or change next.
    """

    exit_code: ExitCode = ExitCode.FAILED

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        if remedy:
            self.add_note(remedy)  # printed below a traceback, as in a notebook

    def replaced(self, message: str, remedy: str | None) -> Self:
        """A new error with another message and remedy, and otherwise the same class and fields."""
        error = type(self).__new__(type(self), message)
        error.__dict__.update(self.__dict__)
        error.message, error.remedy = message, remedy
        error.__notes__ = [remedy] if remedy else []
        return error


class UsageError(GPUproofError):
    """Wrong usage: an invalid flag, path or name."""

    exit_code = ExitCode.USAGE


class Problem(NamedTuple):
    """One problem in a job description; a named tuple, because every start imports this module.

    Args:
        message: one sentence that names the key; it has no file name and no line number.
        line: line in the file, counted from 1; None if the job was not read from a file.
        path: the keys that lead to the value, as in `("resources", "gpu")`; `()` is the whole job or file.
    """

    message: str
    line: int | None = None
    path: tuple[str | int, ...] = ()


class InvalidJob(GPUproofError):
    """An invalid job description; the message names file, line and key where they are known.

    Args:
        message: what is wrong, one problem per line.
        remedy: what to type or change next.
        problems: the same problems with line and key as fields; empty if the error is not about single keys.
    """

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, remedy: str | None = None, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message, remedy)
        self.problems = tuple(problems)


class GpuRequired(GPUproofError):
    """A GPU is required, but there is none or none was used."""

    exit_code = ExitCode.GPU_UNUSED


class RunNotFound(GPUproofError):
    """No run has this name."""

    exit_code = ExitCode.USAGE
