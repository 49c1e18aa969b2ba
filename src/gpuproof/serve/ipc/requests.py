"""Requests and responses, as a model knows them, from and to what frames say."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from gpuproof.serve.ipc.memo import remembered
from gpuproof.serve.ipc.messages import (
    CUSTOM_ATTRIBUTES,
    INFERENCE_ID,
    TARGET_MODEL,
    TARGET_VARIANT,
    Numbers,
    Place,
    RequestHeaders,
    pack_headers,
    read_headers,
)
from gpuproof.serve.ipc.shared_memory import OpenedMemory
from gpuproof.serve.model.interface import Request, Response


def request_of(packed: bytes, body: memoryview) -> Request:
    """A request, of its packed headers and its body."""
    return Request(body, *_words(packed))


def request_at(packed: bytes, place: Place, memory: OpenedMemory) -> Request:
    """The same, with a body that lies in the shared memory."""
    request = request_of(packed, memory.part(place.offset, place.length))
    if place.shape:
        numbers = memory.part(place.numbers, 4 * math.prod(place.shape))
        request.numbers = Numbers(numbers, place.shape)
    return request


@remembered
def _words(packed: bytes) -> tuple[Any, ...]:
    """What a `Request` says beside its body."""
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


def headers_of(response: Response) -> bytes:
    """A response's headers, packed."""
    if response.custom_attributes is None and not response.headers:
        return _only(response.content_type)
    headers = [("content-type", response.content_type)]
    if response.custom_attributes is not None:
        headers.append((CUSTOM_ATTRIBUTES, response.custom_attributes))
    headers.extend((str(name).lower(), str(value)) for name, value in response.headers.items())
    return pack_headers(headers)


@lru_cache(maxsize=64)
def _only(content_type: str) -> bytes:
    return pack_headers([("content-type", content_type)])
