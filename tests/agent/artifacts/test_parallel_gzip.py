"""What several threads write is one gzip member, the same whatever their number."""

import gzip
import io
import os
import random

import pytest

from gpuproof.agent.artifacts.parallel_gzip import ParallelGzip

MIB = 1 << 20  # several blocks


def written(content: bytes, threads: int, piece: int = 100_000) -> bytes:
    sink = io.BytesIO()
    with ParallelGzip(sink, 1, threads) as zipped:
        for start in range(0, len(content), piece):
            zipped.write(content[start : start + piece])
    return sink.getvalue()


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 5 * MIB + 17])
def test_any_size_comes_back(size: int) -> None:
    content = random.Random(size).randbytes(size)
    assert gzip.decompress(written(content, threads=3)) == content


def test_the_bytes_depend_neither_on_threads_nor_on_the_pieces_written() -> None:
    content = os.urandom(MIB) + b"weights" * 500_000
    assert (
        written(content, threads=1)
        == written(content, threads=4)
        == written(content, threads=4, piece=3 * MIB)
    )


def test_an_archive_that_ends_in_an_error_is_not_a_complete_gzip() -> None:
    sink = io.BytesIO()
    with pytest.raises(KeyboardInterrupt), ParallelGzip(sink, 1, 2) as zipped:
        zipped.write(os.urandom(3 * MIB))
        raise KeyboardInterrupt
    with pytest.raises(EOFError):
        gzip.decompress(sink.getvalue())


def test_a_failing_sink_is_reported() -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            if self.tell() > 100:
                raise OSError("no space left")
            return super().write(data)  # pyright: ignore[reportArgumentType]

    with pytest.raises(OSError, match="no space left"), ParallelGzip(Full(), 1, 2) as zipped:
        zipped.write(os.urandom(20 * MIB))
