"""Converts between frame contents and the requests and responses that a model handles."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from gpuproof.serve.interface import DecodedArray, Request, Response
from gpuproof.serve.ipc.memo import memoized
from gpuproof.serve.ipc.messages import (
    CUSTOM_ATTRIBUTES,
    INFERENCE_ID,
    TARGET_MODEL,
    TARGET_VARIANT,
    RequestHeaders,
    SharedBody,
    pack_headers,
    read_headers,
)
from gpuproof.serve.ipc.shared_memory import OpenedMemory


def request_from(packed: bytes, body: memoryview) -> Request:
    """The request with the given packed headers and body."""
    return Request(body, *_properties(packed))


def shared_request(packed: bytes, shared: SharedBody, memory: OpenedMemory) -> Request:
    """The request with the given packed headers and a body in shared memory."""
    request = request_from(packed, memory.part(shared.offset, shared.length))
    if shared.shape:
        data = memory.part(shared.array, 4 * math.prod(shared.shape))
        request.decoded = DecodedArray(data, shared.shape)
    return request


@memoized
def _properties(packed: bytes) -> tuple[Any, ...]:
    """The fields of `Request` that follow the body."""
    headers = RequestHeaders(read_headers(packed))
    get = headers.get
    return (
        get("content-type", ""),
        get("accept", ""),
        get(CUSTOM_ATTRIBUTES, ""),
        get(INFERENCE_ID, ""),
        headers,
        get(TARGET_MODEL, ""),
        get(TARGET_VARIANT, ""),
    )


def packed_headers(response: Response) -> bytes:
    """A response's headers, packed."""
    if response.custom_attributes is None and not response.headers:
        return _packed_content_type(response.content_type)
    headers = [("content-type", response.content_type)]
    if response.custom_attributes is not None:
        headers.append((CUSTOM_ATTRIBUTES, response.custom_attributes))
    headers.extend((str(name).lower(), str(value)) for name, value in response.headers.items())
    return pack_headers(headers)


@lru_cache(maxsize=64)
def _packed_content_type(content_type: str) -> bytes:
    return pack_headers([("content-type", content_type)])
