"""Frames: whatever pieces a stream comes in, the same frames come out."""

from __future__ import annotations

import random

import pytest

from gpuproof.serve.ipc import frames
from gpuproof.serve.ipc.frames import FrameReader, pack
from gpuproof.serve.ipc.messages import (
    Phases,
    RequestHeaders,
    pack_headers,
    read_headers,
    read_request,
    read_response,
    request_fields,
    response_fields,
)


def stream(*bodies: bytes) -> bytes:
    return b"".join(
        pack(frames.REQUEST, number, b"field %d" % number, len(body)) + body
        for number, body in enumerate(bodies)
    )


def read(data: bytes, sizes: list[int]) -> list[tuple[int, bytes, bytes]]:
    """What a reader finds in data that comes in pieces of these sizes, or as much of each as it has room for."""
    reader = FrameReader()
    usual = memoryview(bytearray(700_000))
    found: list[tuple[int, bytes, bytes]] = []
    at = 0
    for size in [*sizes, *[len(usual)] * 20]:
        into = reader.buffer(usual)
        piece = data[at : at + min(size, len(into))]
        into[: len(piece)] = piece
        found += [(f.id, f.fields, bytes(f.body)) for f in reader.received(usual, len(piece))]
        at += len(piece)
    assert at == len(data)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_any_split_yields_the_same_frames(seed: int) -> None:
    chance = random.Random(seed)
    bodies = [chance.randbytes(chance.choice([0, 1, 20, 5000, 400_000, 1_000_000])) for _ in range(12)]
    data = stream(*bodies)
    sizes = [chance.choice([1, 20, 21, 22, 300, 65_536, 262_144, 700_000]) for _ in range(40)]
    assert read(data, sizes) == [(n, b"field %d" % n, body) for n, body in enumerate(bodies)]


def test_every_single_byte_may_be_a_piece_of_its_own() -> None:
    data = stream(b"abc", b"", b"defg")
    assert [body for _, _, body in read(data, [1] * len(data))] == [b"abc", b"", b"defg"]


def test_a_body_stays_as_it_was_when_more_is_read() -> None:
    reader = FrameReader()
    (first,) = reader.feed(stream(b"first"))
    reader.feed(stream(b"other"))
    assert bytes(first.body) == b"first"


def test_a_requests_fields_come_back() -> None:
    headers = RequestHeaders({"content-type": "application/json", "x-bytes": "\xff\xe9", "x-empty": ""})
    data = pack(frames.REQUEST, 1, request_fields(12.5, headers))
    (frame,) = FrameReader().feed(data)
    deadline, packed = read_request(frame.fields)
    assert deadline == 12.5
    assert dict(read_headers(packed)) == headers


def test_an_answers_fields_come_back() -> None:
    phases = Phases(1.5, 0.25, 0.125, 2.0, 0.5, 7)
    headers = (("content-type", "text/csv"), ("a", ""), ("a", "b"))
    assert read_response(response_fields(200, phases, pack_headers(headers))) == (200, phases, headers)
    assert read_response(response_fields(204, phases)) == (204, phases, ())
