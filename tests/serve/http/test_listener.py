"""On which addresses the server listens."""

from __future__ import annotations

import errno
import socket
from typing import Any

import pytest

from gpuproof.serve.http.listener import _listen_on_all

HERE = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
# 192.0.2.0/24 is reserved for documentation (RFC 5737).
ELSEWHERE = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))


@pytest.mark.parametrize("addresses", [[HERE, ELSEWHERE], [ELSEWHERE, HERE]])
def test_an_address_that_this_machine_lacks_is_skipped(addresses: list[Any]) -> None:
    (listening,) = _listen_on_all(addresses)
    with listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_a_host_without_any_address_of_this_machine_is_an_error() -> None:
    with pytest.raises(OSError, match=r".") as caught:
        _listen_on_all([ELSEWHERE])
    assert caught.value.errno == errno.EADDRNOTAVAIL


def test_a_port_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        used = (*HERE[:4], taken.getsockname())
        with pytest.raises(OSError, match=r".") as caught:
            _listen_on_all([used, HERE])
    assert caught.value.errno == errno.EADDRINUSE
