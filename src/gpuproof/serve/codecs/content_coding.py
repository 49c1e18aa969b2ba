"""Decodes request bodies with `Content-Encoding: gzip`, up to the maximum size of a body."""

from __future__ import annotations

import zlib
from dataclasses import replace

from gpuproof.serve.errors import RequestError
from gpuproof.serve.interface import Body, Request

HEADER = "content-encoding"
_GZIP = ("gzip", "x-gzip")
_IDENTITY = ("identity", "")
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_MOST = 1 << 30
"""Bytes that a body may have after decoding if the size of bodies is not limited."""


def is_supported(coding: str) -> bool:
    """Whether a body with this `Content-Encoding` can be decoded."""
    return coding.strip().lower() in (*_GZIP, *_IDENTITY)


def decoded(request: Request, limit: int) -> Request:
    """The request with its body decoded and without the header.

    Args:
        limit: maximum size of the decoded body in bytes.

    Raises:
        RequestError: 400 for a malformed body, 413 for one that is too large, 415 for another coding.
    """
    coding = request.headers.get(HEADER, "")
    if not is_supported(coding):
        raise RequestError(415, "The body's content coding is not supported.")
    headers = {name: value for name, value in request.headers.items() if name != HEADER}
    if coding.strip().lower() in _IDENTITY:
        return replace(request, headers=headers)
    return replace(request, body=_gunzip(request.body, min(limit, _MOST)), headers=headers)


def _gunzip(body: Body, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    rest = bytes(body)
    while rest or not pieces:
        member = zlib.decompressobj(_GZIP_FORMAT)
        try:
            piece = member.decompress(rest, limit - size + 1)
        except zlib.error as error:
            raise RequestError(400, f"The body is not valid gzip: {error}.") from None
        size += len(piece)
        if size > limit:
            raise RequestError(413, f"The decoded body has more than {limit} bytes.")
        if not member.eof:
            raise RequestError(400, "The body is not valid gzip: it ends too early.")
        pieces.append(piece)
        # A file may consist of several members (RFC 1952, 2.2).
        rest = member.unused_data
    return b"".join(pieces)
