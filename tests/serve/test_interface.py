"""Handlers in the styles that people publish, each loaded and asked for real."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.serve.interface import Device, Model, Request
from gpuproof.serve.model.loader import load_model
from gpuproof.serve.settings import read_settings
from support.handler_examples import Case, Example, examples


@pytest.fixture(autouse=True)
def leave_no_modules() -> Iterator[None]:
    """Handlers of other tests are called `inference` too."""
    from gpuproof.serve.model.importer import HandlerModules

    yield
    if HandlerModules._active is not None:
        HandlerModules._active.deactivate()


@pytest.mark.parametrize(
    "handler",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.slow] if each.is_slow else [])
        for each in examples()
    ],
)
def test_a_published_style_answers_as_its_container_does(handler: Example, tmp_path: Path) -> None:
    model = _load(handler, tmp_path / "model")
    try:
        for case in handler.cases:
            _ask(model, case)
        if handler.batch is not None:
            assert (model.batch.enabled, model.batch.max_batch_size) == (True, handler.batch)
    finally:
        model.unload()


def _load(handler: Example, folder: Path) -> Model:
    for module in handler.needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    return load_model(handler.build(folder), read_settings(handler.environment), Device())


def _ask(model: Model, case: Case) -> None:
    request = Request(
        body=case.body,
        content_type=case.content_type,
        accept=case.accept,
        headers=case.headers,
        custom_attributes=case.custom_attributes,
    )
    if case.status != 200:
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the status tells which it is
            answer(model, request)
        status = getattr(caught.value, "status", 500)
        assert status == case.status, f"{case.about}: {caught.value!r}"
        assert case.document.get("message", "") in str(caught.value)
        return
    response = answer(model, request)
    body: Any = response.body
    assert isinstance(body, bytes) is not bool(case.document.get("streamed")), f"{case.about}: {body!r}"
    case.check(response.content_type, body if isinstance(body, bytes) else b"".join(body))
    for name, value in case.document.get("answer_headers", {}).items():
        assert response.headers[name] == value
    assert response.custom_attributes == case.document.get(
        "answer_custom_attributes", response.custom_attributes
    )


def answer(model: Model, request: Request) -> Any:
    if model.has_transform:
        return model.transform(request)
    return model.encode(model.predict(model.decode(request), request), request)
