"""TensorFlow Serving's REST API for handlers, and where it listens."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing

import pytest

from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.frameworks.tensorflow_models import Target
from gpuproof.serve.model.tensorflow_serving import RestApi


@pytest.fixture
def free() -> Iterator[int]:
    """A port with a free one above it."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as one:
            port = one.getsockname()[1]
            try:
                socket.create_server(("127.0.0.1", port + 1)).close()
            except (OSError, OverflowError):
                continue
        yield port
        return


class _ServesNothing:
    def target_of_url(self, path: str) -> Target:
        raise RequestError(404, f"{path} does not exist")


def test_each_predictor_takes_the_next_port_of_the_range(free: int) -> None:
    model = _ServesNothing()
    with (
        closing(RestApi(model, (free, free + 1))) as first,
        closing(RestApi(model, (free, free + 1))) as second,
    ):
        assert [first.address, second.address] == [f"http://127.0.0.1:{free + n}" for n in (0, 1)]
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{second.address}/other")
        assert caught.value.code == 404


def test_a_range_that_is_taken_is_a_load_error_that_names_it(free: int) -> None:
    with (
        socket.create_server(("127.0.0.1", free)),
        pytest.raises(LoadError, match=f"{free}-{free} are in use"),
    ):
        RestApi(None, (free, free))


def test_without_a_range_any_free_port_will_do() -> None:
    with closing(RestApi(None)) as api:
        assert api.address.startswith("http://127.0.0.1:")
