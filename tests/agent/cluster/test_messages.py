"""Messages as lines of limited length."""

from __future__ import annotations

import pytest

from gpuproof.agent.cluster.messages import Kind, LineBuffer, ProtocolError, encode, message


def test_messages_arrive_whatever_the_pieces() -> None:
    sent = [message(Kind.READY), message(Kind.HEARTBEAT, idle=1.5)]
    stream = b"".join(map(encode, sent))
    for size in (1, 7, 1000):
        lines = LineBuffer(100)
        pieces = [stream[start : start + size] for start in range(0, len(stream), size)]
        assert [message for piece in pieces for message in lines.feed(piece)] == sent


@pytest.mark.parametrize(
    "received", [b"GET / HTTP/1.1\r\n", b"[]\n", b"\n", b"\xff\n", b"[" * 90_000 + b"\n"]
)
def test_what_is_no_message_is_refused(received: bytes) -> None:
    with pytest.raises(ProtocolError):
        LineBuffer(100_000).feed(received)


@pytest.mark.parametrize("received", [b"x" * 101, b"{}\n" + b"x" * 101, b'"' + b"x" * 101 + b'"\n'])
def test_a_longer_line_is_refused_before_it_ends(received: bytes) -> None:
    with pytest.raises(ProtocolError, match="more than 100 bytes"):
        LineBuffer(100).feed(received)
