"""What PyTorch and TensorFlow models do where their handler leaves it to the defaults."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.interface import Device, Model, Request
from gpuproof.serve.model.importer import HandlerModules
from gpuproof.serve.model.loader import load_model
from gpuproof.serve.settings import Settings
from support.handler_examples import example

pytestmark = pytest.mark.slow

HANDLER = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 1)
        torch.nn.init.ones_(self.fc.weight)
        torch.nn.init.zeros_(self.fc.bias)
        self.recorded = []

    def forward(self, x):
        self.recorded.append((x.dtype, self.training, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
        return self.fc(x)

def model_fn(model_dir):
    return Net()
"""


@pytest.fixture(autouse=True)
def leave_no_modules() -> Iterator[None]:
    """Handlers of other tests are called `inference` too."""
    yield
    if HandlerModules._active is not None:
        HandlerModules._active.deactivate()


@pytest.fixture
def net(tmp_path: Path) -> Path:
    pytest.importorskip("torch")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "inference.py").write_text(HANDLER)
    return tmp_path


def ask(model: Model, body: bytes, kind: str = "application/json", accept: str = "") -> Any:
    request = Request(body, kind, accept)
    return model.encode(model.predict(model.decode(request), request), request)


def npy(array: Any) -> bytes:
    import numpy as np

    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def recorded(model: Model) -> Any:
    return model._model.recorded[-1]  # type: ignore[attr-defined]


def test_a_default_prediction_is_in_evaluation_mode_without_gradients(net: Path) -> None:
    import torch

    model = load_model(net, Settings(), Device())
    assert json.loads(ask(model, b"[[1, 2]]").body) == [[3]]
    assert recorded(model) == (torch.float32, False, False, False)


def test_float64_arrays_become_what_the_weights_are(net: Path) -> None:
    import numpy as np
    import torch

    model = load_model(net, Settings(), Device())
    response = ask(model, npy(np.array([[1.0, 2.0]])), "application/x-npy", "application/x-npy")
    assert recorded(model)[0] == torch.float32
    assert np.load(io.BytesIO(response.body)).dtype == np.float32


@pytest.mark.parametrize("dtype", [">f4", ">f8"])
def test_an_array_from_a_machine_of_the_other_byte_order_is_the_same_numbers(net: Path, dtype: str) -> None:
    import numpy as np

    model = load_model(net, Settings(), Device())
    for _ in range(2):
        response = ask(model, npy(np.array([[1.0, 2.0]], dtype)), "application/x-npy")
        assert json.loads(response.body) == [[3]]


def test_an_array_that_pytorch_has_no_type_for_is_422(net: Path) -> None:
    import numpy as np

    with pytest.raises(RequestError, match="no tensors of type <U1") as caught:
        ask(load_model(net, Settings(), Device()), npy(np.array([["a"]])), "application/x-npy")
    assert caught.value.status == 422


def test_autocast_computes_in_bfloat16_and_answers_in_numbers(net: Path) -> None:
    model = load_model(net, Settings(autocast="bf16"), Device())
    assert json.loads(ask(model, b"[[1, 2]]").body) == [[3]]
    assert recorded(model)[3]


def test_a_half_precision_model_takes_json(net: Path) -> None:
    (net / "code" / "inference.py").write_text(HANDLER.replace("return Net()", "return Net().bfloat16()"))
    assert json.loads(ask(load_model(net, Settings(), Device()), b"[[1, 2]]").body) == [[3]]


def test_compilation_keeps_the_answers(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    modes: list[Any] = []

    def compile_eagerly(model: Any, mode: str | None) -> Any:
        modes.append(mode)
        return torch._dynamo.optimize("eager")(model)

    # The real compiler takes half a minute on a CPU; only its call and arguments are tested.
    monkeypatch.setattr(torch, "compile", compile_eagerly)
    model = load_model(net, Settings(compile=True, cuda_graphs=True), Device())
    assert modes == ["reduce-overhead"]
    assert json.loads(ask(model, b"[[1, 2]]").body) == [[3]]


def test_unsupported_compilation_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    torch = pytest.importorskip("torch")
    torch.jit.script(torch.nn.Linear(2, 1)).save(tmp_path / "model.pt")
    load_model(tmp_path, Settings(compile=True), Device())
    assert [record.message.partition(":")[0] for record in caplog.records] == ["--compile has no effect"]


def test_unsupported_mixed_precision_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "inference.py").write_text("def model_fn(d): return len\n")
    load_model(tmp_path, Settings(autocast="bf16"), Device())
    assert "--autocast has no effect" in caplog.text


def test_a_handlers_own_predict_fn_finds_the_model_as_model_fn_left_it(net: Path) -> None:
    own = "\ndef predict_fn(data, model):\n    return model(data)\n"
    (net / "code" / "inference.py").write_text(HANDLER + own)
    model = load_model(net, Settings(), Device())
    ask(model, b"[[1, 2]]")
    assert recorded(model)[1:3] == (True, True)


HUGGING_FACE = """
import torch

def model_fn(model_dir):
    return torch.nn.Linear(2, 1), len

def predict_fn(data, model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    inputs = data.pop("inputs", data)
    parameters = data.pop("parameters", {})
    return {"tokens": [tokenizer(text) for text in inputs], "left": data, "parameters": parameters}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"inputs": ["a", "bcd"]}, {"tokens": [1, 3], "left": {}, "parameters": {}}),
        (
            {"inputs": ["ab"], "parameters": {"bad_words_ids": [[7]]}},
            {"tokens": [2], "left": {}, "parameters": {"bad_words_ids": [[7]]}},
        ),
    ],
)
def test_a_json_object_comes_to_a_handlers_own_predict_fn_as_hugging_face_hands_it_over(
    net: Path, body: Any, expected: Any
) -> None:
    (net / "code" / "inference.py").write_text(HUGGING_FACE)
    model = load_model(net, Settings(), Device())
    assert json.loads(ask(model, json.dumps(body).encode()).body) == expected


def test_instances_come_to_a_handlers_own_predict_fn_as_a_tensor(net: Path) -> None:
    own = "\ndef predict_fn(data, model):\n    return model(data)\n"
    (net / "code" / "inference.py").write_text(HANDLER + own)
    model = load_model(net, Settings(), Device())
    assert json.loads(ask(model, b'{"instances": [[1, 2]]}').body) == [[3]]


def test_arrays_of_a_handlers_own_input_fn_reach_a_model_that_is_not_a_module(net: Path) -> None:
    own = """
import json
import numpy as np
import torch

class Session:
    def __init__(self):
        self.weights = torch.nn.Linear(2, 1)

    def __call__(self, texts):
        return [type(texts).__name__, *map(len, texts)]

def model_fn(model_dir):
    return Session()

def input_fn(body, content_type):
    return np.array(json.loads(body))
"""
    (net / "code" / "inference.py").write_text(own)
    model = load_model(net, Settings(), Device())
    assert json.loads(ask(model, b'["ab", "c"]').body) == ["ndarray", 2, 1]


@pytest.mark.parametrize("names", [("arr_0",), ("x",)])
def test_an_npz_file_with_one_array_is_the_models_input(net: Path, names: tuple[str, ...]) -> None:
    import numpy as np

    stream = io.BytesIO()
    np.savez(stream, **{name: np.ones((1, 2), np.float32) for name in names})
    model = load_model(net, Settings(), Device())
    assert json.loads(ask(model, stream.getvalue(), "application/x-npz").body) == [[2]]


def test_arrays_that_numpy_named_by_their_places_go_to_the_inputs_in_this_order(net: Path) -> None:
    import numpy as np

    two = "\nclass Two(torch.nn.Module):\n    def forward(self, a, b):\n        return a - b\n"
    (net / "code" / "inference.py").write_text(HANDLER + two + "\ndef model_fn(d):\n    return Two()\n")
    stream = io.BytesIO()
    np.savez(stream, np.array([5.0]), np.array([3.0]))
    model = load_model(net, Settings(), Device())
    assert json.loads(ask(model, stream.getvalue(), "application/x-npz").body) == [2]


def test_a_word_in_a_csv_of_numbers_is_400_with_its_place(net: Path) -> None:
    with pytest.raises(RequestError, match=r"row 1, field 2 is 'height'") as caught:
        ask(load_model(net, Settings(), Device()), b"1,height\n2,3\n", "text/csv")
    assert caught.value.status == 400


@pytest.mark.parametrize("body", [b"5", b"[1, 2]", b"[[[1, 2]]]", b"[[1, 2, 3]]"])
def test_an_exported_program_names_the_whole_shape_that_it_takes(tmp_path: Path, body: bytes) -> None:
    torch = pytest.importorskip("torch")
    export = torch.export
    rows = {0: export.Dim("rows")}
    program = export.export(torch.nn.Linear(2, 1), (torch.zeros(2, 2),), dynamic_shapes=(rows,))
    export.save(program, tmp_path / "model.pt2")
    model = load_model(tmp_path, Settings(), Device())
    with pytest.raises(RequestError, match=r"expected shape \(any, 2\), given \(") as caught:
        ask(model, body)
    assert caught.value.status == 422
    assert len(json.loads(ask(model, b"[[1, 2], [3, 4], [5, 6]]").body)) == 3


def test_a_file_that_was_cut_off_is_not_taken_for_weights(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "model.pt").write_bytes(b"PK\x03\x04cut")
    with pytest.raises(LoadError, match="truncated") as caught:
        load_model(tmp_path, Settings(), Device())
    assert "again" in (caught.value.remedy or "")


def test_a_truncated_keras_file_is_reported_by_its_own_name(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    # Hugging Face's cache calls files by their digest, without a suffix, and links to them.
    (tmp_path / "0a1b2c").write_bytes(b"PK\x03\x04cut")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "digits.keras").symlink_to(tmp_path / "0a1b2c")
    with pytest.raises(LoadError, match="truncated") as caught:
        load_model(tmp_path / "model", Settings(), Device())
    assert caught.value.message.startswith(str(tmp_path / "0a1b2c"))


def test_code_under_another_name_is_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch = pytest.importorskip("torch")
    torch.jit.script(torch.nn.Linear(2, 1)).save(tmp_path / "model.pt")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "handler.py").write_text("def model_fn(d): return 1\n")
    load_model(tmp_path, Settings(), Device())
    assert "handler.py is not used" in caplog.text
    assert "SAGEMAKER_PROGRAM=handler.py" in caplog.text


def test_words_for_a_model_that_takes_numbers_are_400(net: Path) -> None:
    with pytest.raises(RequestError) as caught:
        ask(load_model(net, Settings(), Device()), b'["a"]')
    assert caught.value.status == 400


def test_a_state_dict_without_a_handler_is_refused_with_the_way_out(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"weight": torch.zeros(1)}, tmp_path / "model.pth")
    with pytest.raises(LoadError, match="a state dict, or a whole model") as caught:
        load_model(tmp_path, Settings(), Device())
    assert caught.value.remedy is not None
    assert "load_state_dict" in caught.value.remedy


def test_a_pickled_model_is_never_unpickled_by_default(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save(Trap(), tmp_path / "model.pt")
    with pytest.raises(LoadError):
        load_model(tmp_path, Settings(), Device())
    assert Trap.sprung == 0


class Trap:
    sprung = 0

    def __reduce__(self) -> Any:
        return (spring, ())


def spring() -> None:
    Trap.sprung += 1


def test_several_programs_need_a_name(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    for name in ("a.pt", "b.pt"):
        torch.jit.trace(torch.nn.Linear(1, 1), torch.zeros(1, 1)).save(str(tmp_path / name))
    with pytest.raises(LoadError, match=r"a\.pt, b\.pt"):
        load_model(tmp_path, Settings(), Device())


def test_a_truncated_program_is_reported(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = example("torchscript_default").build(tmp_path)
    content = (folder / "model.pth").read_bytes()
    (folder / "model.pth").write_bytes(content[:-100])
    with pytest.raises(LoadError, match=r"model\.pth"):
        load_model(folder, Settings(), Device())


def test_tensors_of_saved_models_are_batched_by_signature(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    model = load_model(example("tf_saved_model").build(tmp_path), Settings(), Device())
    rows = [Request(json.dumps({"instances": [[n, 0, 0]]}).encode(), "application/json") for n in range(3)]
    other = Request(b'{"instances": [[1, 0, 0]], "signature_name": "total"}', "application/json")
    data = [model.decode(row) for row in rows]
    assert len({model.batch_key(item) for item in data}) == 1
    assert model.batch_key(model.decode(other)) != model.batch_key(data[0])
    for _ in range(2):
        answers = [model.encode(p, r).body for p, r in zip(model.predict_batch(data), rows, strict=True)]
        assert [json.loads(answer) for answer in answers] == [
            {"predictions": [[2.0 * n, 0, 0]]} for n in range(3)
        ]
    assert model.batch.enabled


def test_a_broken_saved_model_is_a_load_error(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"broken")
    with pytest.raises(LoadError, match="cannot be loaded by TensorFlow"):
        load_model(tmp_path, Settings(), Device())


def test_a_framework_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorflow", None)
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(LoadError, match="needs tensorflow") as caught:
        load_model(tmp_path, Settings(), Device())
    assert caught.value.remedy == "pip install tensorflow"


def test_a_mapping_with_a_type_of_its_own_is_walked_like_any_other() -> None:
    """TensorDict is one."""
    import torch

    from gpuproof.serve.frameworks.torch import _map_arrays

    class Typed(dict[str, Any]):
        dtype = None

    moved = _map_arrays(
        Typed(a=torch.ones(1), b=[torch.ones(2)]), torch.Tensor, lambda tensor: tensor.numpy()
    )
    assert moved["a"].tolist() == [1]
    assert moved["b"][0].tolist() == [1, 1]
