"""Handlers written for AWS's TensorFlow Serving container: `input_handler` and `output_handler`, or `handler`.

Source: the README of sagemaker-tensorflow-serving-container, "Pre/Post-Processing".
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import registry, tensorflow_json
from gpuproof.serve.errors import RequestError
from gpuproof.serve.model import user_errors
from gpuproof.serve.model.context import ServingContext, serving_context
from gpuproof.serve.model.interface import Request, Response
from gpuproof.serve.model.served_model import ServedModel

_CONTEXT = "serving context"


class TensorFlowServingModel(ServedModel):
    """A SavedModel whose handler speaks TensorFlow Serving's REST API, without a TensorFlow Serving beside it."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._rest: Any = None
        self.has_transform = "handler" in self._hooks
        if self.has_transform:
            from gpuproof.serve.model.tensorflow_rest import RestApi

            self._rest = RestApi(self, self._settings.safe_port_range)
            self.batch = replace(self.batch, enabled=False)

    def decode(self, request: Request) -> Any:
        self._home.enter()
        context = self._serving_context(request)
        try:
            body = self._hooks.found["input_handler"](io.BytesIO(request.body), context=context)
        except Exception as error:
            refusal = user_errors.unreadable(error, request.body, context.request_content_type)
            if refusal is None:
                raise
            raise refusal from error
        return self.read_rest(body.encode() if isinstance(body, str) else body)

    def encode(self, prediction: Any, request: Request) -> Response:
        self._home.enter()
        context = self._serving_context(request)
        answer = RestAnswer(self.write_rest(prediction))
        try:
            body, kind = self._hooks.found["output_handler"](answer, context=context)
        except Exception as error:
            refusal = user_errors.unanswerable(error, request.accept)
            if refusal is None:
                raise
            raise refusal from error
        return _response(body, kind)

    def transform(self, request: Request) -> Response:
        self._home.enter()
        context = self._serving_context(request)
        try:
            body, kind = self._hooks.found["handler"](io.BytesIO(request.body), context=context)
        except Exception as error:
            refusal = user_errors.unreadable(error, request.body, context.request_content_type)
            if refusal is None:
                raise
            raise refusal from error
        return _response(body, kind)

    def read_rest(self, body: Any) -> Any:
        """A body of the REST API as tensors. Raises RequestError."""
        framework: Any = self._framework
        try:
            return framework.read_tensors(body, media_types.JSON)
        except RecursionError:
            raise registry.too_deep() from None

    def write_rest(self, prediction: Any) -> bytes:
        """A prediction as the REST API answers it."""
        return registry.write_body(tensorflow_json.write(prediction), media_types.JSON)

    def unload(self) -> None:
        if self._rest is not None:
            self._rest.close()
        super().unload()

    def _serving_context(self, request: Request) -> ServingContext:
        context = request.notes.get(_CONTEXT)
        if context is None:
            rest = self._rest.address if self._rest is not None else ""
            context = serving_context(self.name, request, rest, self._settings.default_accept)
            if context.method != "predict":
                raise RequestError(400, f"tfs-method={context.method[:40]} is not served; predict is.")
            request.notes[_CONTEXT] = context
        return context


class RestAnswer:
    """What an `output_handler` gets: the parts of `requests.Response` that describe an answer."""

    def __init__(self, content: bytes, status_code: int = 200) -> None:
        self.content = content
        self.status_code = status_code
        self.encoding = "utf-8"
        self.reason = "OK" if status_code == 200 else "Bad Request"
        self.headers: Mapping[str, str] = {
            "Content-Type": media_types.JSON,
            "Content-Length": str(len(content)),
        }

    @property
    def ok(self) -> bool:
        return self.status_code < 400

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)

    def raise_for_status(self) -> None:
        """Nothing: what the model refuses never comes here."""


def _response(body: Any, kind: str) -> Response:
    content = getattr(body, "content", body)
    return Response(content.encode() if isinstance(content, str) else bytes(content), kind)
