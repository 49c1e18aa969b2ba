"""Handlers in published styles, unchanged, over real HTTP."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.handler_examples import Case, Example, examples
from support.model_server import Answer, Server
from support.raw_connections import served

pytestmark = pytest.mark.slow


def each_handler(*without: str) -> list[object]:
    """All of one handler's tests share one server, and those of a framework the worker that has imported it."""
    return [
        pytest.param(
            example,
            id=example.name,
            marks=pytest.mark.xdist_group(f"serve-{_framework(example) or example.name}"),
        )
        for example in examples()
        if example.name not in without
    ]


def _framework(one: Example) -> str | None:
    return next((name for name in ("tensorflow", "torch") if name in one.needs), None)


@pytest.fixture(scope="module")
def published(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Example, Server]]:
    handler: Example = request.param
    for module in handler.needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    folder = tmp_path_factory.mktemp(handler.name)
    with served(folder, handler.build(folder / "model"), **handler.environment) as server:
        yield handler, server


@pytest.mark.parametrize("published", each_handler(), indirect=True)
def test_a_published_handler_answers_as_in_its_own_container(published: tuple[Example, Server]) -> None:
    handler, server = published
    for case in handler.cases:
        check(case, ask(server, case))


# These two tell how much was computed together: another answer each time.
@pytest.mark.parametrize("published", each_handler("batch_function", "batch_true"), indirect=True)
def test_eight_clients_at_once_each_get_their_own_answer(published: tuple[Example, Server]) -> None:
    handler, server = published
    cases = [case for case in handler.cases if case.status == 200] * 8
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda case: ask(server, case), cases))
    for case, answer in zip(cases, answers, strict=True):
        check(case, answer)


def test_at_least_fifteen_handlers_are_tested_including_torch_and_tensorflow() -> None:
    needs = [module for handler in examples() for module in handler.needs]
    assert len(examples()) >= 15
    assert needs.count("torch") >= 5
    assert needs.count("tensorflow") >= 4


def ask(server: Server, case: Case) -> Answer:
    headers = {"Content-Type": case.content_type, **case.headers}
    if case.accept:
        headers["Accept"] = case.accept
    if case.custom_attributes:
        headers["X-Amzn-SageMaker-Custom-Attributes"] = case.custom_attributes
    return server.ask("POST", "/invocations", case.body, headers)


def check(case: Case, answer: Answer) -> None:
    assert answer.status == case.status, f"{case.about}: {answer.body[:500]!r}"
    if case.status != 200:
        return
    case.check(answer.headers["content-type"], answer.body)
    assert (answer.headers.get("transfer-encoding") == "chunked") is bool(case.document.get("streamed"))
    for name, value in case.document.get("answer_headers", {}).items():
        assert answer.headers[name.lower()] == value
    if "answer_custom_attributes" in case.document:
        assert (
            answer.headers["x-amzn-sagemaker-custom-attributes"] == case.document["answer_custom_attributes"]
        )
