"""Served models under the tracer: handlers and models without one are loaded as `gpuproof serve` does, and answer requests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.serve.errors import LoadError
from gpuproof.trace.document import CATEGORIES, Trace, TraceFailure, read_trace
from gpuproof.trace.handler import framework_of
from support.traced_scripts import run_tracer

pytestmark = pytest.mark.slow

_TIMEOUT_S = 300.0
_NETWORK = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    def forward(self, rows):
        return self.body(rows)
"""
_HANDLER = (
    _NETWORK
    + """
import json
import os


def model_fn(model_dir):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Net()
    model.load_state_dict(torch.load(os.path.join(model_dir, "model.pth"), map_location=device))
    return model.to(device).eval()


def input_fn(body, content_type):
    assert content_type == "application/json"
    return torch.tensor(json.loads(body), dtype=torch.float32)


def predict_fn(data, model):
    with torch.no_grad():
        return model(data.to("cuda")).softmax(-1)


def output_fn(prediction, accept):
    return json.dumps(prediction.cpu().numpy().tolist())
"""
)
_PARAMETERS = 64 * 256 + 256 + 256 * 10 + 10
_KERAS_HANDLER = """
import json
import os

import keras
import numpy as np


def model_fn(model_dir):
    return keras.models.load_model(os.path.join(model_dir, "model.keras"))


def input_fn(body, content_type):
    return np.array(json.loads(body)["instances"], "float32")


def predict_fn(data, model):
    return model.predict(data, verbose=0)


def output_fn(prediction, accept):
    return json.dumps({"predictions": prediction.tolist()})
"""


def served(folder: Path, *words: str, body: object = None) -> Trace | TraceFailure:
    """What the tracer says of a model's folder."""
    output, scratch = folder.parent / "trace.json", folder.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    options = [
        "--output",
        str(output),
        "--scratch",
        str(scratch),
        "--mode",
        "serving",
        "--timeout",
        "200",
        *words,
    ]
    if body is not None:
        request = folder.parent / "request.json"
        request.write_text(json.dumps(body))
        options += ["--request", str(request)]
    errors = run_tracer([*options, "--", str(folder)], folder.parent, _frameworks(folder))
    assert output.exists(), errors
    return read_trace(output.read_text())


def _frameworks(folder: Path) -> set[str]:
    try:
        return {framework_of(folder)}
    except LoadError:
        return set()


def trace_of(folder: Path, *words: str, body: object = None) -> Trace:
    found = served(folder, *words, body=body)
    assert isinstance(found, Trace), found
    return found


def failure_of(folder: Path, *words: str, body: object = None) -> TraceFailure:
    found = served(folder, *words, body=body)
    assert isinstance(found, TraceFailure), found
    return found


def torch_model(folder: Path, handler: str = _HANDLER) -> Path:
    """A model's folder with a handler and random weights."""
    import torch

    names: dict[str, object] = {}
    exec(_NETWORK, names)
    code = folder / "model" / "code"
    code.mkdir(parents=True)
    (code / "inference.py").write_text(handler)
    torch.save(names["Net"]().state_dict(), folder / "model" / "model.pth")  # type: ignore[operator]
    return folder / "model"


def test_a_handler_answers_requests_on_the_gpu(tmp_path: Path) -> None:
    trace = trace_of(torch_model(tmp_path), body=[[0.5] * 64] * 2)
    assert (trace.mode, trace.steps, trace.parameters, trace.optimizer) == ("serving", 3, _PARAMETERS, None)
    names = [
        (operator.name, operator.shapes[1] if len(operator.shapes) > 1 else None, operator.calls)
        for operator in trace.operators
    ]
    assert names == [
        ("aten.addmm", (2, 64), 1),
        ("aten.relu", None, 1),
        ("aten.addmm", (2, 256), 1),
        ("aten._softmax", None, 1),
    ]
    assert trace.flops == pytest.approx(2 * 2 * (64 * 256 + 256 * 10), rel=0.05)
    assert (trace.input.samples, trace.input.bytes) == (2, 2 * 64 * 4)
    assert trace.input.host_s is not None
    assert trace.input.host_s > 0
    assert {operator.phase for operator in trace.operators} == {"forward"}
    held = sum(size for size, kind in trace.memory.blocks if CATEGORIES[kind] == "parameter")
    assert held == 4 * _PARAMETERS


def test_weights_that_are_loaded_onto_the_gpu_take_its_memory_until_they_are_copied(tmp_path: Path) -> None:
    trace = trace_of(torch_model(tmp_path), body=[[0.5] * 64])
    loading = trace.memory.events[: trace.memory.events.index(0)]
    assert loading[:8] == [1, 2, 3, 4, 5, 6, 7, 8], "weights of the file, then those of the model"
    assert set(loading[8:12]) == {-1, -2, -3, -4}


def test_twice_the_rows_are_made_behind_input_fn(tmp_path: Path) -> None:
    trace = trace_of(torch_model(tmp_path), "--batch-scale", "2", body=[[0.5] * 64] * 3)
    assert (trace.input.samples, trace.operators[0].shapes[1]) == (6, (6, 64))


def test_a_response_without_a_row_for_each_row_is_no_batch(tmp_path: Path) -> None:
    handler = _HANDLER.replace(".softmax(-1)", ".mean(0)")
    trace = trace_of(torch_model(tmp_path, handler), body=[[0.5] * 64] * 3)
    assert trace.input.samples is None


def test_without_a_request_zeros_are_sent_in_a_shape_that_the_model_accepts(tmp_path: Path) -> None:
    trace = trace_of(torch_model(tmp_path))
    assert trace.operators[0].shapes[1] == (1, 64)
    assert [note.code for note in trace.assumptions] == ["request"]
    assert "(1, 64)" in trace.assumptions[0].message
    # What the rejected requests allocated is no part of the plan.
    sizes = [trace.memory.blocks[event - 1][0] for event in trace.memory.events if event > 0]
    assert min(sizes) > 4


def test_a_model_that_takes_no_zeros_needs_a_request(tmp_path: Path) -> None:
    handler = _HANDLER.replace("json.loads(body)", 'json.loads(body)["rows"]')
    found = failure_of(torch_model(tmp_path, handler))
    assert found.code == "no-request"
    assert "--request FILE" in found.remedy


def test_a_request_that_the_model_rejects_is_an_error_with_its_message(tmp_path: Path) -> None:
    found = failure_of(torch_model(tmp_path), body=[[0.5] * 63])
    assert found.code == "request"
    assert "422" in found.message
    assert "64" in found.message


def test_a_handler_that_stays_on_the_cpu_is_an_error_that_says_what_to_add(tmp_path: Path) -> None:
    handler = _HANDLER.replace('"cuda" if torch.cuda.is_available() else "cpu"', '"cpu"')
    found = failure_of(torch_model(tmp_path, handler), body=[[0.5] * 64])
    assert found.code == "not-on-gpu"
    assert "model.to(" in found.remedy


def test_an_error_in_model_fn_names_its_line(tmp_path: Path) -> None:
    handler = _HANDLER.replace("model.pth", "weights.pth")
    found = failure_of(torch_model(tmp_path, handler), body=[[0.5] * 64])
    line = handler[: handler.index("weights.pth")].count("\n") + 1
    assert (found.code, Path(found.file or "").name, found.line) == ("model", "inference.py", line)
    assert "weights.pth" in found.message


def test_an_error_in_predict_fn_names_its_line(tmp_path: Path) -> None:
    handler = _HANDLER.replace("return model(data", "return modle(data")
    found = failure_of(torch_model(tmp_path, handler), body=[[0.5] * 64])
    line = handler[: handler.index("modle")].count("\n") + 1
    assert (Path(found.file or "").name, found.line) == ("inference.py", line)
    assert "modle" in found.message


def test_a_transform_fn_is_traced_without_a_batch(tmp_path: Path) -> None:
    start = _HANDLER.index("def input_fn")
    handler = (
        _HANDLER[:start]
        + """
def transform_fn(model, body, content_type, accept):
    rows = torch.tensor(json.loads(body), dtype=torch.float32).cuda()
    with torch.inference_mode():
        return json.dumps(model(rows).tolist()), accept
"""
    )
    trace = trace_of(torch_model(tmp_path, handler), body=[[0.5] * 64])
    assert (trace.input.samples, len(trace.operators)) == (None, 3)


@pytest.mark.parametrize("kind", ["script", "exported"])
def test_programs_without_a_handler(tmp_path: Path, kind: str) -> None:
    import torch

    (tmp_path / "network.py").write_text(_NETWORK)
    sys.path.insert(0, str(tmp_path))
    try:
        import network  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(tmp_path))
        sys.modules.pop("network", None)
    folder = tmp_path / "model"
    folder.mkdir()
    model = network.Net().eval()
    if kind == "script":
        torch.jit.script(model).save(str(folder / "model.pt"))
    else:
        rows = torch.export.Dim("rows")
        program = torch.export.export(model, (torch.randn(2, 64),), dynamic_shapes={"rows": {0: rows}})
        torch.export.save(program, folder / "model.pt2")
    trace = trace_of(folder, body=[[0.5] * 64] * 2)
    assert [operator.name for operator in trace.operators] == ["aten.addmm", "aten.relu", "aten.addmm"]
    assert (trace.parameters, trace.input.samples) == (_PARAMETERS, 2)


def keras_model(folder: Path, handler: str | None) -> Path:
    """A model's folder with a Keras model."""
    model = folder / "model"
    (model / "code").mkdir(parents=True)
    if handler is not None:
        (model / "code" / "inference.py").write_text(handler)
    script = f"""
import keras
layers = [keras.Input((28, 28, 1)), keras.layers.Conv2D(8, 3), keras.layers.Flatten(), keras.layers.Dense(10)]
keras.Sequential(layers).save({str(model / "model.keras")!r})
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=_TIMEOUT_S)
    return model


@pytest.mark.parametrize("handler", [_KERAS_HANDLER, None], ids=["handler", "no-handler"])
def test_a_keras_model_is_planned_by_the_graph_of_a_request(tmp_path: Path, handler: str | None) -> None:
    body = {"instances": [[[[0.5]] * 28] * 28] * 3}
    trace = trace_of(keras_model(tmp_path, handler), "--batch-scale", "2", body=body)
    assert (trace.framework, trace.mode, trace.input.samples) == ("tensorflow", "serving", 6)
    convolution = next(operator for operator in trace.operators if operator.name == "Conv2D")
    assert (convolution.shapes[0], convolution.calls) == ((6, 28, 28, 1), 1)
    assert trace.parameters == 8 * 9 + 8 + 26 * 26 * 8 * 10 + 10


def test_a_saved_model_is_an_error_that_says_what_to_pass(tmp_path: Path) -> None:
    script = f"""
import keras
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
model.export({str(tmp_path / "model" / "1")!r})
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=_TIMEOUT_S)
    found = failure_of(tmp_path / "model", body={"instances": [[1.0] * 4]})
    assert found.code == "no-step"
    assert ".keras" in found.remedy
