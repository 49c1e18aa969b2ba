"""Bodies with `Content-Encoding`."""

from __future__ import annotations

import gzip

import pytest

from gpuproof.serve.codecs.content_coding import decoded, is_supported
from gpuproof.serve.errors import RequestError
from gpuproof.serve.interface import Request

TEXT = b"a" * 1000


def request(body: bytes, coding: str = "gzip") -> Request:
    return Request(memoryview(body), "text/plain", headers={"content-encoding": coding, "x-user": "1"})


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip"])
def test_gzip_is_decoded_once(coding: str) -> None:
    done = decoded(request(gzip.compress(TEXT), coding), 1000)
    assert done.body == TEXT
    assert done.headers == {"x-user": "1"}, "the handler must not decode it again"


def test_members_are_joined() -> None:
    assert decoded(request(gzip.compress(b"a") + gzip.compress(b"b")), 2).body == b"ab"


def test_identity_is_no_coding() -> None:
    assert decoded(request(TEXT, "identity"), 1000).body == TEXT


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (gzip.compress(TEXT + b"b"), 413),
        (gzip.compress(b"a" * 999) + gzip.compress(b"bb"), 413),
        (gzip.compress(bytes(50 * 1024 * 1024)), 413),
        (gzip.compress(TEXT)[:-5], 400),
        (b"text", 400),
        (b"", 400),
    ],
    # The bytes contain the time, which differs between the processes of one test run.
    ids=["one byte more", "in two members", "a bomb", "cut off", "not gzip", "empty"],
)
def test_what_is_too_large_or_broken_is_refused(body: bytes, status: int) -> None:
    with pytest.raises(RequestError) as caught:
        decoded(request(body), 1000)
    assert caught.value.status == status


@pytest.mark.parametrize("coding", ["br", "deflate", "zstd", "gzip, gzip"])
def test_other_codings_are_not_supported(coding: str) -> None:
    assert not is_supported(coding)
    with pytest.raises(RequestError) as caught:
        decoded(request(TEXT, coding), 1000)
    assert caught.value.status == 415
