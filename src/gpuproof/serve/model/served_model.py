"""A loaded model with the functions of its handler, or the framework's defaults for those that are missing."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import arrays, registry
from gpuproof.serve.codecs.text import read_text
from gpuproof.serve.errors import RequestError
from gpuproof.serve.frameworks.base import Framework
from gpuproof.serve.frameworks.device_check import check_device
from gpuproof.serve.interface import BatchSettings, Device, DeviceReport, Model, Request, Response
from gpuproof.serve.model import collate, user_errors
from gpuproof.serve.model.context import Context
from gpuproof.serve.model.hooks import Hooks
from gpuproof.serve.model.importer import HandlerModules
from gpuproof.serve.model.response import is_stream, response_of, with_context
from gpuproof.serve.settings import Settings

_CONTEXT = "context"


class ServedModel(Model):
    """A model that follows AWS's handler contract.

    Args:
        folder: the model's folder, which was passed to `model_fn`.
        model: the object that `model_fn` returned.
        device_report: result of the device check after loading.
    """

    def __init__(
        self,
        *,
        name: str,
        folder: str,
        model: Any,
        hooks: Hooks,
        framework: Framework,
        modules: HandlerModules,
        settings: Settings,
        device: Device,
        device_report: DeviceReport,
        loaded_by: str,
    ) -> None:
        self.name = name
        self.device_report = device_report
        self.has_transform = "transform_fn" in hooks
        own_input = "input_fn" in hooks or self.has_transform
        self.accepts_decoded = framework.accepts_decoded and not own_input
        self._folder = folder
        self._model = model
        self._hooks = hooks
        self._framework = framework
        self._modules = modules
        self._settings = settings
        self._device = device
        self._loaded_by = loaded_by
        self._own_predict = "predict_fn" in hooks or "batch_fn" in hooks
        self._proven_calls: set[Hashable] = set()
        self.batch = BatchSettings(self._supports_batches(), hooks.max_batch_size or settings.max_batch_size)

    @property
    def framework(self) -> str:
        """`torch`, `tensorflow` or `none`."""
        return self._framework.name

    def decode(self, request: Request) -> Any:
        self._modules.activate()
        hook = self._hooks.get("input_fn")
        if hook is None:
            try:
                return self._framework.read(request, self._model, self._own_predict)
            except RecursionError:
                raise arrays.too_deep() from None
        content_type = media_types.without_charset(request.content_type) or media_types.JSON
        try:
            return hook(
                _handler_body(content_type, request.body), content_type, context=self._context(request)
            )
        except Exception as error:
            request_error = user_errors.handler_error(error) or user_errors.decoding_error(
                error, request.body, content_type
            )
            if request_error is None:
                raise
            raise request_error from error

    def batch_key(self, data: Any) -> Hashable | None:
        if not self.batch.enabled:
            return None
        return ("any",) if "batch_fn" in self._hooks else collate.batch_key_of(data)

    def predict(self, data: Any, request: Request) -> Any:
        self._modules.activate()
        try:
            return self._predict(data, request)
        except Exception as error:
            request_error = user_errors.handler_error(error) or user_errors.prediction_error(error, data)
            if request_error is None:
                raise
            raise request_error from error

    def predict_batch(self, items: Sequence[Any]) -> list[Any]:
        self._modules.activate()
        hook = self._hooks.get("batch_fn")
        if hook is not None:
            given = list(
                hook([self._on_device(item) for item in items], self._model, context=self._context(None))
            )
            if len(given) != len(items):
                raise TypeError(f"batch_fn returned {len(given)} predictions for {len(items)} requests")
            return given
        if len(items) == 1:
            return [self._predict(items[0], None)]
        if not self._own_predict and (call := collate.call_of(items[0])) not in self._proven_calls:
            return self._prove_batching(items, call)
        return self._predict_together(items)

    def encode(self, prediction: Any, request: Request) -> Response:
        self._modules.activate()
        hook = self._hooks.get("output_fn")
        if hook is None:
            return self._apply_context(self._write(prediction, request), request)
        accept = media_types.handler_accept(request.accept, self._settings.default_accept)
        try:
            return self._to_response(
                hook(prediction, accept, context=self._context(request)), accept, request
            )
        except Exception as error:
            request_error = user_errors.handler_error(error) or user_errors.encoding_error(
                error, request.accept
            )
            if request_error is None:
                raise
            raise request_error from error

    def transform(self, request: Request) -> Response:
        self._modules.activate()
        hook = self._hooks.found["transform_fn"]
        content_type = media_types.without_charset(request.content_type) or media_types.JSON
        accept = media_types.handler_accept(request.accept, self._settings.default_accept)
        body = _handler_body(content_type, request.body)
        try:
            model = self._framework.select(request, self._model)
            return self._to_response(
                hook(model, body, content_type, accept, context=self._context(request)), accept, request
            )
        except Exception as error:
            request_error = (
                user_errors.handler_error(error)
                or user_errors.decoding_error(error, request.body, content_type)
                or user_errors.prediction_error(error)
            )
            if request_error is None:
                raise
            raise request_error from error

    def check_device(self) -> DeviceReport:
        """Check the device again: many handlers move the model in their first `predict_fn`."""
        self.device_report = check_device(self._model, self._device, self._loaded_by)
        return self.device_report

    def unload(self) -> None:
        self._model = None
        self._hooks = Hooks({})
        self._modules.deactivate()
        self._framework.release()

    def _supports_batches(self) -> bool:
        if self.has_transform or self._settings.batching is False or "output_handler" in self._hooks:
            return False
        if self._own_predict and self._framework.several_models:
            # A call of predict_fn receives one model.
            return False
        if "batch_fn" in self._hooks or self._hooks.batch or self._settings.batching:
            return True
        return not self._own_predict and "input_fn" not in self._hooks and self._framework.batches

    def _predict(self, data: Any, request: Request | None) -> Any:
        hook = self._hooks.get("predict_fn")
        if hook is None:
            if "batch_fn" in self._hooks:
                return self.predict_batch([data])[0]
            return self._framework.predict(data, self._model)
        with self._framework.precision():
            model = self._framework.select(request, self._model)
            return hook(self._on_device(data), model, context=self._context(request))

    def _on_device(self, data: Any) -> Any:
        """Move data of the default `input_fn` to the device for the handler's functions, as AWS's toolkit does."""
        return data if "input_fn" in self._hooks else self._framework.to_device(data)

    def _predict_together(self, items: Sequence[Any]) -> list[Any]:
        joined = collate.join(items, self._framework.concatenate)
        # Once per batch instead of once per request.
        bring = self._framework.to_host if "output_fn" in self._hooks else self._framework.to_arrays
        prediction = bring(self._predict(joined, None))
        try:
            return collate.split(prediction, [collate.length_of(item) for item in items])
        except collate.NotSplittable as error:
            raise TypeError(
                f"predict_fn opted into batches (batch = True), but returned {error}: it must return one row per input row."
            ) from error

    def _prove_batching(self, items: Sequence[Any], call: Hashable) -> list[Any]:
        """Compute the first batch both ways: the first dimension may not be a batch, but the steps of a sequence."""
        singly = self._predict_singly(items)
        try:
            probes = collate.probes_for(items)
            if probes is None:
                return singly
            expected = singly if probes is items else self._predict_singly(probes)
            same = all(collate.almost_equal(*pair) for pair in zip(expected, self._predict_together(probes)))
        except Exception as error:  # noqa: BLE001 - models without batches raise various errors
            if user_errors.is_out_of_memory(error):
                return singly
            same = False
        if same:
            self._proven_calls.add(call)
        else:
            self.batch = replace(self.batch, enabled=False)
        return singly

    def _predict_singly(self, items: Sequence[Any]) -> list[Any]:
        return [self._framework.to_host(self._predict(item, None)) for item in items]

    def _write(self, prediction: Any, request: Request) -> Response:
        array = hasattr(prediction, "dtype")
        if not array and is_stream(prediction):
            return response_of(
                prediction,
                media_types.negotiate(request.accept, registry.STREAMABLE, self._settings.default_accept),
            )
        if not array and isinstance(prediction, (bytes, bytearray, memoryview)):
            content_type = media_types.negotiate(
                request.accept, (media_types.OCTETS, *registry.WRITABLE), media_types.OCTETS
            )
            return Response(bytes(prediction), content_type)
        default = self._settings.default_accept
        content_type = media_types.negotiate(
            request.accept, registry.WRITABLE, default if default in registry.WRITABLE else media_types.JSON
        )
        return Response(self._encode(prediction, content_type, request), content_type)

    def _encode(self, prediction: Any, content_type: str, request: Request) -> bytes:
        try:
            return self._framework.write(prediction, content_type)
        except RequestError as error:
            # The client accepts any type, so that the handler is at fault: log its error.
            if error.__cause__ is not None and request.accept.strip() in ("", media_types.ANY):
                raise error.__cause__ from None
            raise

    def _to_response(self, result: Any, accept: str, request: Request) -> Response:
        content_type = accept
        context = request.notes.get(_CONTEXT)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], str):
            result, content_type = result
        elif context is not None and context.answer.content_type:
            content_type = context.answer.content_type
        if isinstance(result, (str, bytes, bytearray, memoryview)) or is_stream(result):
            return self._apply_context(response_of(result, content_type), request)
        written = content_type if content_type in registry.WRITABLE else media_types.JSON
        return self._apply_context(Response(self._encode(result, written, request), content_type), request)

    def _apply_context(self, response: Response, request: Request) -> Response:
        context: Context | None = request.notes.get(_CONTEXT)
        return response if context is None else with_context(response, context.answer)

    def _context(self, request: Request | None) -> Any:
        if not self._hooks.takes_context:
            return None
        if request is None:
            return Context(self.name, self._folder, self._device, self.batch.max_batch_size)
        context = request.notes.get(_CONTEXT)
        if context is None:
            context = Context(self.name, self._folder, self._device, self.batch.max_batch_size, request)
            request.notes[_CONTEXT] = context
        return context


def _handler_body(content_type: str, body: Any) -> Any:
    """The body as passed to `input_fn`: text for JSON and CSV, otherwise bytes."""
    return (
        read_text(body) if media_types.without_parameters(content_type) in media_types.TEXTS else bytes(body)
    )
