"""The context that a handler may ask for."""

from __future__ import annotations

import pytest

from gpuproof.serve.frameworks.tensorflow_models import read_target
from gpuproof.serve.interface import Device, Request, Response
from gpuproof.serve.model.context import Context, RequestProcessor, serving_context
from gpuproof.serve.model.response import with_context


def test_the_context_has_the_attributes_of_the_toolkits_context() -> None:
    request = Request(b"", "text/csv", "application/json", headers={"x-user": "1"}, inference_id="i-1")
    context = Context("model", "/opt/ml/model", Device("cuda", 2), 8, request)
    assert context.system_properties["gpu_id"] == 2
    assert context.system_properties["model_dir"] == "/opt/ml/model"
    assert context.get_request_header(0, "X-User") == "1"
    assert context.get_all_request_header(0)["Content-Type"] == "text/csv"
    assert context.request_processor[0].get_request_property("Accept") == "application/json"
    assert context.get_request_id(0) == "i-1"


def test_the_serving_containers_context_reads_its_custom_attributes() -> None:
    request = Request(
        b"12", "text/csv", "", custom_attributes="tfs-model-name=other,tfs-model-version=3,tfs-method=predict"
    )
    target = read_target(request.custom_attributes)
    context = serving_context("other", target, request, "http://127.0.0.1:1", "application/json")
    assert context.rest_uri == "http://127.0.0.1:1/v1/models/other/versions/3:predict"
    assert (context.content_length, context.accept_header) == (2, "application/json")


@pytest.mark.parametrize("code", [-5, 0, 100, 101, 199, 600, 10**12])
def test_a_status_that_no_answer_may_have_is_the_handlers_own_error(code: int) -> None:
    context = Context("model", "/opt/ml/model", Device(), 1)
    with pytest.raises(ValueError, match="not a valid status"):
        context.set_response_status(code, "what")
    assert context.answer.status == 200


@pytest.mark.parametrize("name", ["", "bad name", "x:", "x\r\ny", "ж"])
def test_a_name_that_no_header_may_have_is_the_handlers_own_error(name: str) -> None:
    context = Context("model", "/opt/ml/model", Device(), 1)
    with pytest.raises(ValueError, match="not a valid HTTP header name"):
        context.set_response_header(0, name, "1")


def test_how_an_answer_travels_is_not_the_handlers_to_say() -> None:
    processor = RequestProcessor({})
    for name in ("Content-Length", "transfer-encoding", "Connection", "X-Own"):
        processor.add_response_property(name, "3")
    assert with_context(Response(b"whole", "text/plain"), processor).headers == {"X-Own": "3"}


def test_a_content_type_among_the_headers_is_the_only_one() -> None:
    processor = RequestProcessor({})
    processor.add_response_property("Content-Type", "text/html")
    answer = with_context(Response(b"<p>", "application/json"), processor)
    assert (answer.content_type, dict(answer.headers)) == ("text/html", {})


@pytest.mark.parametrize("status", [204, 304])
def test_what_has_no_body_by_its_status_is_sent_without(status: int) -> None:
    processor = RequestProcessor({})
    processor.report_status(status)
    assert with_context(Response(b"left over", "text/plain"), processor).body == b""


def test_a_header_cannot_break_the_fields_on_the_way_to_the_front() -> None:
    processor = RequestProcessor({})
    processor.add_response_property("X-Own", "a\0x-other\0b")
    assert with_context(Response(b"", "text/plain"), processor).headers == {"X-Own": "a x-other b"}
