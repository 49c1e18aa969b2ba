"""The `context` that handlers take, as AWS's toolkits and the TensorFlow Serving container give it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuproof.serve.ipc.messages import CUSTOM_ATTRIBUTES
from gpuproof.serve.model.interface import Device, Request
from gpuproof.version import __version__

SERVER = "gpuproof"
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""RFC 9110, 5.6.2: a token."""


class Headers(dict):  # type: ignore[type-arg]
    """A request's headers; asked for in any case of letters."""

    def get(self, key: Any, default: Any = None) -> Any:
        value = super().get(key)
        return super().get(str(key).lower(), default) if value is None else value

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key if key in self.keys() else str(key).lower())

    def __contains__(self, key: Any) -> bool:
        return super().__contains__(key) or super().__contains__(str(key).lower())


class RequestProcessor:
    """A request's properties and what is said back, beside the body."""

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
            raise ValueError(f"{code} is no status of an answer: 200 to 599 are")
        self.status, self.phrase = status, reason_phrase or ""

    def get_response_status_code(self) -> int:
        return self.status

    def get_response_status_phrase(self) -> str:
        return self.phrase

    def add_response_property(self, key: str, value: str) -> None:
        if not _HEADER_NAME.fullmatch(str(key)):
            raise ValueError(f"{key!r} is no name of an HTTP header")
        # NUL parts the fields on the way to the front.
        self.answer[str(key)] = str(value).replace("\0", " ")

    def get_response_headers(self) -> dict[str, str]:
        return self.answer

    def get_response_header(self, key: str) -> str | None:
        return self.answer.get(key)


class Metrics:
    """Takes the measurements of handlers written for TorchServe and multi-model-server; keeps the newest of each."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def add_counter(self, name: str, value: Any, *_: Any, **__: Any) -> None:
        self.values[name] = self.values.get(name, 0) + value

    def add_metric(self, name: str, value: Any, *_: Any, **__: Any) -> None:
        self.values[name] = value

    add_time = add_size = add_percent = add_error = add_metric


class Context:
    """What TorchServe's and multi-model-server's `Context` offers a handler.

    Sources: mms/context.py of multi-model-server 1.1.11; the names that TorchServe adds are in its docs, "Custom service".
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
            _complete(headers, request)
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
        """What the handler said beside the body."""
        return self.request_processor[0]

    def _of(self, idx: int) -> RequestProcessor:
        """Requests reach a handler one by one, whatever index it names."""
        del idx
        return self.request_processor[0]


@dataclass
class ServingContext:
    """The context of the TensorFlow Serving container: a named tuple of these fields in its `python_service.py`."""

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


def serving_context(name: str, request: Request, rest: str, default_accept: str) -> ServingContext:
    """The context of one request, with what its custom attributes say: `tfs-model-name`, `tfs-model-version`,
    `tfs-method`.

    Args:
        rest: where TensorFlow Serving's REST API is to be found, up to the port.
    """
    said = dict(re.findall(r"tfs-(model-name|model-version|method)=([^,;\s]+)", request.custom_attributes))
    model, version = said.get("model-name", name), said.get("model-version")
    method = said.get("method", "predict")
    at = f"/versions/{version}" if version else ""
    return ServingContext(
        model_name=model,
        model_version=version,
        method=method,
        rest_uri=f"{rest}/v1/models/{model}{at}:{method}",
        grpc_uri="",
        custom_attributes=request.custom_attributes,
        request_content_type=request.content_type or "application/json",
        accept_header=request.accept if request.accept not in ("", "*/*") else default_accept,
        content_length=len(request.body),
        headers=dict(request.headers),
    )


def _complete(headers: dict[str, str], request: Request) -> None:
    """A request that was made without headers (a warm-up, a test) still says what it is."""
    for name, value in (
        ("content-type", request.content_type),
        ("accept", request.accept),
        (CUSTOM_ATTRIBUTES, request.custom_attributes),
    ):
        if value:
            headers.setdefault(name, value)
