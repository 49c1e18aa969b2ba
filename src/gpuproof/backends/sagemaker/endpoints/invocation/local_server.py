"""Invocations of a server by its URL, such as `gpuproof serve` on this machine."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from gpuproof.backends.sagemaker.endpoints.invocation.errors import model_error, timed_out
from gpuproof.backends.sagemaker.endpoints.invocation.payload import Payload
from gpuproof.backends.sagemaker.endpoints.invocation.prediction import InvocationOptions, Prediction
from gpuproof.errors import GPUproofError, UsageError

LIMIT_S = 60.0
_PATH = "/invocations"
_LOGS = "the server's output"


def is_url(name: str) -> bool:
    """Whether a name is that of a server, and not of an endpoint."""
    return name.startswith(("http://", "https://"))


def invoke(url: str, payload: Payload, options: InvocationOptions) -> Prediction:
    """Send one request to a server; a URL without a path means `/invocations`.

    Raises:
        UsageError: the URL is invalid, or an option is only for endpoints.
        ModelFailed: the server answered with an error, or not in time.
        GPUproofError: no server listens there.
    """
    parts = _parse(url)
    if options.target_variant:
        raise UsageError("--target-variant is only for endpoints: a server has no variants.")
    if payload.uri:
        raise UsageError(f"{payload.uri}: only asynchronous endpoints read their data from S3.")
    limit = options.timeout or LIMIT_S
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=limit)
    headers = {"Content-Type": payload.content_type}
    if options.accept:
        headers["Accept"] = options.accept
    if options.target_model:
        headers["X-Amzn-SageMaker-Target-Model"] = options.target_model
    path = (parts.path.rstrip("/") or _PATH) + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, payload.content, headers)
        response = connection.getresponse()
        if not 200 <= response.status < 300:
            text = response.read().decode("utf-8", "replace")
            connection.close()
            raise model_error(url, response.status, text, payload.content_type, _LOGS)
    except TimeoutError as error:
        connection.close()
        raise timed_out(url, limit, _LOGS) from error
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise _unreachable(url, error) from error
    pieces = _pieces(url, connection, response, limit)
    return Prediction(response.getheader("Content-Type") or "", pieces)


def _parse(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"{url} is not a URL: {error}.") from error
    if not parts.hostname:
        raise UsageError(f"{url} names no host.", remedy="gpuproof predict http://127.0.0.1:8080 --data FILE")
    return parts


def _pieces(
    url: str, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, limit: float
) -> Iterator[bytes]:
    try:
        while content := response.read1(1 << 16):
            yield content
        if response.length:
            raise GPUproofError(f"The response of {url} ended early: {response.length} bytes are missing.")
    except TimeoutError as error:
        raise timed_out(url, limit, _LOGS) from error
    except (OSError, http.client.HTTPException) as error:
        raise GPUproofError(f"The response of {url} ended early: {error}.") from error
    finally:
        connection.close()


def _unreachable(url: str, error: Exception) -> GPUproofError:
    if isinstance(error, ConnectionRefusedError):
        return GPUproofError(f"No server listens at {url}.", remedy="Start one: gpuproof serve MODEL")
    return GPUproofError(f"{url} cannot be reached: {error}.")
