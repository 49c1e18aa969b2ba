"""One loaded model with its handler's functions and, where it has none, the framework's defaults."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import registry
from gpuproof.serve.errors import RequestError
from gpuproof.serve.frameworks.base import Framework
from gpuproof.serve.model import collate, user_errors
from gpuproof.serve.model.context import Context
from gpuproof.serve.model.hooks import Hooks
from gpuproof.serve.model.importer import Home
from gpuproof.serve.model.interface import BatchSettings, Device, Model, ModelPlacement, Request, Response
from gpuproof.serve.model.response import answer_of, is_stream, with_said
from gpuproof.serve.settings import Settings
from gpuproof.serve.workers.device_check import look

_CONTEXT = "context"


class ServedModel(Model):
    """A model under AWS's handler contract.

    Args:
        name: its name under the multi-model API.
        folder: the model's folder, which `model_fn` was given.
        model: what `model_fn` gave.
        hooks: the handler's functions.
        framework: whose defaults stand in for functions that it lacks.
        home: where the handler's modules live.
        placement: what the check of its device found at load.
        loaded_by: who loaded it, for the message.
    """

    def __init__(
        self,
        *,
        name: str,
        folder: str,
        model: Any,
        hooks: Hooks,
        framework: Framework,
        home: Home,
        settings: Settings,
        device: Device,
        placement: ModelPlacement,
        loaded_by: str,
    ) -> None:
        self.name = name
        self.placement = placement
        self.has_transform = "transform_fn" in hooks
        own_input = "input_fn" in hooks or self.has_transform
        self.takes_numbers = framework.takes_numbers and not own_input
        self._folder = folder
        self._model = model
        self._hooks = hooks
        self._framework = framework
        self._home = home
        self._settings = settings
        self._device = device
        self._loaded_by = loaded_by
        self._own_predict = "predict_fn" in hooks or "batch_fn" in hooks
        self._proven = self._own_predict
        self.batch = BatchSettings(self._may_batch(), hooks.max_batch_size or settings.max_batch_size)

    @property
    def framework(self) -> str:
        """`torch`, `tensorflow` or `none`."""
        return self._framework.name

    def decode(self, request: Request) -> Any:
        self._home.enter()
        hook = self._hooks.get("input_fn")
        if hook is None:
            try:
                return self._framework.read(request, self._model, self._own_predict)
            except RecursionError:
                raise registry.too_deep() from None
        kind = media_types.without_charset(request.content_type) or media_types.JSON
        try:
            return hook(_body_for(kind, request.body), kind, context=self._context(request))
        except Exception as error:
            refusal = user_errors.told_by_handler(error) or user_errors.unreadable(error, request.body, kind)
            if refusal is None:
                raise
            raise refusal from error

    def batch_key(self, data: Any) -> Hashable | None:
        if not self.batch.enabled:
            return None
        return ("any",) if "batch_fn" in self._hooks else collate.key_of(data)

    def predict(self, data: Any, request: Request) -> Any:
        self._home.enter()
        try:
            return self._predict(data, request)
        except Exception as error:
            refusal = user_errors.told_by_handler(error) or user_errors.refused(error, data)
            if refusal is None:
                raise
            raise refusal from error

    def predict_batch(self, items: Sequence[Any]) -> list[Any]:
        self._home.enter()
        hook = self._hooks.get("batch_fn")
        if hook is not None:
            given = list(
                hook([self._placed(item) for item in items], self._model, context=self._context(None))
            )
            if len(given) != len(items):
                raise TypeError(f"batch_fn gave {len(given)} predictions for {len(items)} requests")
            return given
        if len(items) == 1:
            return [self._predict(items[0], None)]
        if not self._proven:
            return self._prove(items)
        return self._together(items)

    def encode(self, prediction: Any, request: Request) -> Response:
        self._home.enter()
        hook = self._hooks.get("output_fn")
        if hook is None:
            return self._finish(self._write(prediction, request), request)
        accept = media_types.for_handler(request.accept, self._settings.default_accept)
        try:
            return self._answer(hook(prediction, accept, context=self._context(request)), accept, request)
        except Exception as error:
            refusal = user_errors.told_by_handler(error) or user_errors.unanswerable(error, request.accept)
            if refusal is None:
                raise
            raise refusal from error

    def transform(self, request: Request) -> Response:
        self._home.enter()
        hook = self._hooks.found["transform_fn"]
        kind = media_types.without_charset(request.content_type) or media_types.JSON
        accept = media_types.for_handler(request.accept, self._settings.default_accept)
        body = _body_for(kind, request.body)
        try:
            return self._answer(
                hook(self._model, body, kind, accept, context=self._context(request)), accept, request
            )
        except Exception as error:
            refusal = (
                user_errors.told_by_handler(error)
                or user_errors.unreadable(error, request.body, kind)
                or user_errors.refused(error)
            )
            if refusal is None:
                raise
            raise refusal from error

    def look_at_placement(self) -> ModelPlacement:
        """Looks again where the model is: many handlers move it in their first `predict_fn`."""
        self.placement = look(self._model, self._device, self._loaded_by)
        return self.placement

    def unload(self) -> None:
        self._model = None
        self._hooks = Hooks({})
        self._home.leave()
        self._framework.release()

    def _may_batch(self) -> bool:
        if self.has_transform or self._settings.batching is False or "output_handler" in self._hooks:
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
        with self._framework.watch():
            return hook(self._placed(data), self._model, context=self._context(request))

    def _placed(self, data: Any) -> Any:
        """What the default `input_fn` read comes to the handler's own functions on the device, as the toolkit's does."""
        return data if "input_fn" in self._hooks else self._framework.to_device(data)

    def _together(self, items: Sequence[Any]) -> list[Any]:
        joined = collate.join(items, self._framework.concatenate)
        # Once for the batch instead of once for each request.
        bring = self._framework.to_host if "output_fn" in self._hooks else self._framework.to_arrays
        prediction = bring(self._predict(joined, None))
        try:
            return collate.split(prediction, [collate.length_of(item) for item in items])
        except collate.Inseparable as error:
            raise TypeError(
                f"predict_fn takes batches (batch = True), but gave {error}: it must give one row for each row."
            ) from error

    def _prove(self, items: Sequence[Any]) -> list[Any]:
        """The first batch is computed both ways: some models' first dimension is no batch (a sequence's steps, say)."""
        singly = self._one_by_one(items)
        try:
            probes = collate.different(items)
            if probes is None:
                return singly
            expected = singly if probes is items else self._one_by_one(probes)
            same = all(collate.alike(*pair) for pair in zip(expected, self._together(probes)))
        except Exception as error:  # noqa: BLE001 - a model that takes no batches says so in its own way
            if user_errors.out_of_memory(error):
                return singly
            same = False
        self._proven = same
        if not same:
            self.batch = replace(self.batch, enabled=False)
        return singly

    def _one_by_one(self, items: Sequence[Any]) -> list[Any]:
        return [self._framework.to_host(self._predict(item, None)) for item in items]

    def _write(self, prediction: Any, request: Request) -> Response:
        array = hasattr(prediction, "dtype")
        if not array and is_stream(prediction):
            return answer_of(
                prediction,
                media_types.choose(request.accept, registry.STREAMED, self._settings.default_accept),
            )
        if not array and isinstance(prediction, (bytes, bytearray, memoryview)):
            kind = media_types.choose(
                request.accept, (media_types.OCTETS, *registry.WRITTEN), media_types.OCTETS
            )
            return Response(bytes(prediction), kind)
        default = self._settings.default_accept
        kind = media_types.choose(
            request.accept, registry.WRITTEN, default if default in registry.WRITTEN else media_types.JSON
        )
        return Response(self._written(prediction, kind, request), kind)

    def _written(self, prediction: Any, kind: str, request: Request) -> bytes:
        try:
            return self._framework.write(prediction, kind)
        except RequestError as error:
            # Whom any form suits could ask for no better one: it is the handler's failure, and the log's matter.
            if error.__cause__ is not None and request.accept.strip() in ("", media_types.ANY):
                raise error.__cause__ from None
            raise

    def _answer(self, result: Any, accept: str, request: Request) -> Response:
        kind = accept
        context = request.notes.get(_CONTEXT)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], str):
            result, kind = result
        elif context is not None and context.answer.content_type:
            kind = context.answer.content_type
        if isinstance(result, (str, bytes, bytearray, memoryview)) or is_stream(result):
            return self._finish(answer_of(result, kind), request)
        written = kind if kind in registry.WRITTEN else media_types.JSON
        return self._finish(Response(self._written(result, written, request), kind), request)

    def _finish(self, response: Response, request: Request) -> Response:
        context: Context | None = request.notes.get(_CONTEXT)
        return response if context is None else with_said(response, context.answer)

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


def _body_for(kind: str, body: Any) -> Any:
    """The body as an `input_fn` gets it: JSON and CSV as text, all else as bytes."""
    return registry.text_of(body) if media_types.bare(kind) in media_types.TEXTS else bytes(body)
