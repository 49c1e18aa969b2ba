"""Standard streams that may be closed, full, or unable to show all characters."""

from __future__ import annotations

import io
import os
import sys


def prepare() -> None:
    """Opens closed standard streams as /dev/null, and lets no character fail to be printed.

    With `>&-` Python has no `sys.stdout`, and the next file that is opened would get its number.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    # Python has no object for a stream that was closed when it started.
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A file name may contain characters that the terminal cannot show; printing it must not fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Discards what is still buffered, after an error of standard output: Python would print another error at exit."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):  # standard output has no file descriptor
        pass


def output_failed(error: OSError) -> bool:
    """Whether an error is that of writing to standard output: a full disk, or a device that is gone."""
    try:
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), b"\n")  # without a buffer, only writing again shows it
    except OSError as again:
        return again.errno == error.errno
    except ValueError:  # closed
        return False
    return False
