"""The `context` argument of handlers, as in AWS's toolkits and the TensorFlow Serving container."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuproof.serve.frameworks.tensorflow_models import Target
from gpuproof.serve.interface import Device, Request
from gpuproof.serve.ipc.messages import CUSTOM_ATTRIBUTES
from gpuproof.version import __version__

SERVER = "gpuproof"
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""RFC 9110, 5.6.2: a token."""


class Headers(dict):  # type: ignore[type-arg]
    """A request's headers with case-insensitive lookup."""

    def get(self, key: Any, default: Any = None) -> Any:
        value = super().get(key)
        return super().get(str(key).lower(), default) if value is None else value

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key if key in self.keys() else str(key).lower())

    def __contains__(self, key: Any) -> bool:
        return super().__contains__(key) or super().__contains__(str(key).lower())


class RequestProcessor:
    """A request's properties, and the status and headers of its response."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = Headers(headers)
        self.status = 200
        self.phrase = ""
        self.answer: dict[str, str] = {}
        self.content_type: str | None = None

    def get_request_property(self, key: str) -> Any:
        return self._headers.get(key)

    def get_request_properties(self) -> Headers:
        return self._headers

    def report_status(self, code: int, reason_phrase: str | None = None) -> None:
        status = int(code)
        if not 200 <= status <= 599:
            raise ValueError(f"{code} is not a valid status: use 200 to 599")
        self.status, self.phrase = status, reason_phrase or ""

    def get_response_status_code(self) -> int:
        return self.status

    def get_response_status_phrase(self) -> str:
        return self.phrase

    def add_response_property(self, key: str, value: str) -> None:
        if not _HEADER_NAME.fullmatch(str(key)):
            raise ValueError(f"{key!r} is not a valid HTTP header name")
        # NUL is the separator in messages to the frontend.
        self.answer[str(key)] = str(value).replace("\0", " ")

    def get_response_headers(self) -> dict[str, str]:
        return self.answer

    def get_response_header(self, key: str) -> str | None:
        return self.answer.get(key)


class Metrics:
    """Metrics API for handlers written for TorchServe and multi-model-server. Keeps the latest value of each metric."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def add_counter(self, name: str, value: Any, *_: Any, **__: Any) -> None:
        self.values[name] = self.values.get(name, 0) + value

    def add_metric(self, name: str, value: Any, *_: Any, **__: Any) -> None:
        self.values[name] = value

    add_time = add_size = add_percent = add_error = add_metric


class Context:
    """The `Context` of TorchServe and multi-model-server.

    Sources: mms/context.py of multi-model-server 1.1.11; for TorchServe's additions its docs, "Custom service".
    """

    def __init__(
        self, name: str, folder: str, device: Device, batch_size: int, request: Request | None = None
    ) -> None:
        self.model_name = name
        self.manifest: dict[str, Any] = {"model": {"modelName": name, "modelFile": "", "serializedFile": ""}}
        self.system_properties: dict[str, Any] = {
            "model_dir": folder,
            "gpu_id": device.gpu_id,
            "batch_size": batch_size,
            "server_name": SERVER,
            "server_version": __version__,
        }
        self.metrics = Metrics()
        self.model_yaml_config: dict[str, Any] = {}
        headers = dict(request.headers) if request is not None else {}
        if request is not None:
            _add_missing_headers(headers, request)
        self.request_ids: dict[int, str] = {0: request.inference_id if request is not None else ""}
        self.request_processor = [RequestProcessor(headers)]

    def get_request_id(self, idx: int = 0) -> str:
        return self.request_ids.get(idx, "")

    def get_request_header(self, idx: int, key: str, exp: bool = False) -> Any:  # noqa: ARG002
        return self._of(idx).get_request_property(key)

    def get_all_request_header(self, idx: int) -> Headers:
        return self._of(idx).get_request_properties()

    def get_response_content_type(self, idx: int) -> str | None:
        return self._of(idx).content_type

    def set_response_content_type(self, idx: int, value: str) -> None:
        self._of(idx).content_type = str(value)

    def get_response_status(self, idx: int) -> tuple[int, str]:
        return self._of(idx).status, self._of(idx).phrase

    def set_response_status(self, code: int = 200, phrase: str = "", idx: int = 0) -> None:
        self._of(idx).report_status(code, phrase)

    def set_all_response_status(self, code: int = 200, phrase: str = "") -> None:
        self._of(0).report_status(code, phrase)

    def get_response_headers(self, idx: int) -> dict[str, str]:
        return self._of(idx).get_response_headers()

    def set_response_header(self, idx: int, key: str, value: str) -> None:
        self._of(idx).add_response_property(key, value)

    @property
    def answer(self) -> RequestProcessor:
        """The status, content type and headers that the handler has set."""
        return self.request_processor[0]

    def _of(self, idx: int) -> RequestProcessor:
        """Ignore the index: handlers receive requests one by one."""
        del idx
        return self.request_processor[0]


@dataclass
class ServingContext:
    """The context of the TensorFlow Serving container, with the fields of the named tuple in its `python_service.py`."""

    model_name: str
    model_version: str | None
    method: str
    rest_uri: str
    grpc_uri: str
    custom_attributes: str
    request_content_type: str
    accept_header: str
    content_length: int
    headers: Mapping[str, str] = field(default_factory=dict)


def serving_context(
    model: str, target: Target, request: Request, rest: str, default_accept: str
) -> ServingContext:
    """The context of one request.

    Args:
        rest: URL of TensorFlow Serving's REST API, up to the port.
    """
    at = f"/versions/{target.version}" if target.version else ""
    return ServingContext(
        model_name=model,
        model_version=target.version or None,
        method=target.method,
        rest_uri=f"{rest}/v1/models/{model}{at}:{target.method}",
        grpc_uri="",
        custom_attributes=request.custom_attributes,
        request_content_type=request.content_type or "application/json",
        accept_header=request.accept if request.accept not in ("", "*/*") else default_accept,
        content_length=len(request.body),
        headers=dict(request.headers),
    )


def _add_missing_headers(headers: dict[str, str], request: Request) -> None:
    """Add headers to a request without any, such as a warm-up request."""
    for name, value in (
        ("content-type", request.content_type),
        ("accept", request.accept),
        (CUSTOM_ATTRIBUTES, request.custom_attributes),
    ):
        if value:
            headers.setdefault(name, value)
