"""URLs and the bytes of a request."""

from __future__ import annotations

import pytest

from gpuproof.errors import UsageError
from gpuproof.loadtest import Target


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://127.0.0.1:8080/"])
def test_a_url_without_a_path_means_invocations(url: str) -> None:
    assert Target.parse(url).url == "http://127.0.0.1:8080/invocations"


def test_a_path_and_a_query_are_kept() -> None:
    assert Target.parse("http://[::1]:80/models/a/invoke?x=1").url == "http://[::1]:80/models/a/invoke?x=1"


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "http://", "ftp://a", "http://a:99999", "http://u:p@a"])
def test_an_address_that_is_not_a_server_is_wrong_usage(url: str) -> None:
    with pytest.raises(UsageError):
        Target.parse(url)


def test_a_sagemaker_endpoint_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="SageMaker endpoints are not supported yet"):
        Target.parse("sagemaker:digits")


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("localhost", True),
        ("[::1]", True),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("0.0.0.0", False),
    ],
)
def test_only_addresses_of_this_machine_are_loopback(host: str, here: bool) -> None:
    assert Target.parse(f"http://{host}:1").loopback is here


def test_a_request_states_the_length_of_its_body() -> None:
    head, _, body = Target("h", 1, "/p", b"abc", "text/csv", {"X-A": "b"}).request().partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"POST /p HTTP/1.1",
        b"Host: h:1",
        b"Content-Type: text/csv",
        b"Content-Length: 3",
        b"X-A: b",
    ]
    assert body == b"abc"
