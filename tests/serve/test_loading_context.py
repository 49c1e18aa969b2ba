"""The context that a handler may ask for."""

from __future__ import annotations

from tarmac.serve.handler import Device, Request
from tarmac.serve.loading.context import Context, serving_context


def test_the_context_tells_what_the_toolkits_tell() -> None:
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
    context = serving_context("model", request, "http://127.0.0.1:1", "application/json")
    assert context.rest_uri == "http://127.0.0.1:1/v1/models/other/versions/3:predict"
    assert (context.content_length, context.accept_header) == (2, "application/json")
