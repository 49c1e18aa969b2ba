"""A stream of an S3 object's content that survives lost connections."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from gpuproof.backends.aws.error_translation import stream_errors

_ATTEMPTS = 4


class ObjectStream(io.RawIOBase):
    """Reads an object from its start, and continues at the same offset after a lost connection.

    Args:
        body: botocore's response body, from the object's start.
        size: the object's size in bytes.
        open_at: opens the same content at an offset.
        translated: context that translates botocore's exceptions.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        body: Any,
        size: int,
        open_at: Callable[[int], Any],
        translated: Callable[[], AbstractContextManager[None]],
        sleep: Callable[[float], None],
    ) -> None:
        super().__init__()
        self._body = body
        self._size = size
        self._open_at = open_at
        self._translated = translated
        self._sleep = sleep
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer)
        with self._translated():
            content = self._read(len(view))
        view[: len(content)] = content
        self._at += len(content)
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._body.close()
        super().close()

    def _read(self, most: int) -> bytes:
        if self._at >= self._size:
            return b""
        for attempt in range(1, _ATTEMPTS):
            try:
                if content := self._body.read(most):
                    return content
            except stream_errors():
                pass
            self._body.close()
            self._sleep(0.25 * 2**attempt)
            self._body = self._open_at(self._at)
        return self._body.read(most)
