"""Calls to AWS through the AWS CLI, which every Deep Learning AMI has; with the credentials of the instance's role."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from typing import Callable

_CODE = re.compile(r"An error occurred \((\w+)\)")
# No repetition changes these; the last is a full disk.
_FINAL = ("NoSuchBucket", "NoSuchKey", "404", "ResourceNotFoundException", "InvalidParameterException")
_FULL = "No space left on device"
# Of a new instance profile, and while the clock is wrong (HeadObject's 403 has no code): both end by themselves.
_REFUSED = ("AccessDenied", "AccessDeniedException", "403")
_REFUSED_S = 60.0
_LONGEST_PAUSE = 15.0
_STEP_S = 0.2
_SKIPPED = 2  # exit status of `aws s3` when it left out files, such as sockets

Wait = Callable[[float], None]
"""Waits for some seconds; may raise an exception to end the call."""


class AwsFailed(Exception):
    """A call failed.

    Args:
        code: AWS's error code; empty if there was no response.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class AwsCli:
    """The AWS CLI.

    Args:
        wait: called while a program runs, and between attempts.
        retry_for: seconds for which calls that failed are repeated.
        clock: seconds, of a monotonic clock.
    """

    def __init__(self, wait: Wait, retry_for: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._wait = wait
        self._retry_for = retry_for
        self._clock = clock

    def run(self, *words: str, content: bytes | None = None) -> str:
        """Run `aws WORDS` until it succeeds, and return its output.

        Raises:
            AwsFailed: it still fails after the time for repetitions, or for a reason that does not pass.
        """
        start, pause = self._clock(), 1.0
        while True:
            try:
                return self.attempt(*words, content=content)
            except AwsFailed as failed:
                passed = self._clock() - start
                limit = min(self._retry_for, _REFUSED_S) if failed.code in _REFUSED else self._retry_for
                if failed.code in _FINAL or _FULL in str(failed) or passed + pause > limit:
                    raise
            self._wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def attempt(self, *words: str, content: bytes | None = None) -> str:
        """Run `aws WORDS` once; as `run`."""
        process = start_cli(words, has_input=content is not None)
        try:
            while True:
                try:
                    output, errors = process.communicate(content, timeout=_STEP_S)
                except subprocess.TimeoutExpired:
                    content = None  # it is being sent
                    self._wait(0.0)
                    continue
                return check_output(process.returncode, output, errors)
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()


def start_cli(words: Sequence[str], *, has_input: bool = False) -> subprocess.Popen[bytes]:
    """Start `aws WORDS`; its output is for `check_output`.

    Raises:
        AwsFailed: the AMI has no AWS CLI.
    """
    try:
        return subprocess.Popen(
            ["aws", *words],
            stdin=subprocess.PIPE if has_input else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise AwsFailed(f"the AWS CLI cannot be started: {error}") from error


def check_output(status: int, output: bytes, errors: bytes) -> str:
    """Return the output of a CLI that has ended.

    Raises:
        AwsFailed: it failed.
    """
    if status in (0, _SKIPPED):
        return output.decode(errors="replace")
    text = errors.decode(errors="replace").strip() or f"aws ended with status {status}"
    found = _CODE.search(text)
    # The last line has the reason; of many files, one is enough.
    raise AwsFailed(" ".join(text.splitlines()[-1].split()), found[1] if found else "")
