"""Errors of real frameworks for data that does not fit, and errors that no request has caused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gpuproof.serve.codecs import tensorflow_json
from gpuproof.serve.errors import RequestError
from gpuproof.serve.frameworks import tensorflow
from gpuproof.serve.frameworks import torch as torch_models
from gpuproof.serve.frameworks.numpy_arrays import NumPy
from gpuproof.serve.interface import Device
from gpuproof.serve.model.user_errors import (
    decoding_error,
    encoding_error,
    handler_error,
    is_out_of_host_memory,
    is_out_of_memory,
    prediction_error,
)
from gpuproof.serve.settings import Settings


def _raised(call: Callable[[], Any]) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the frameworks' own
        call()
    return caught.value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("linear", "expected 4 values in the last dimension, given 3"),
        ("a single number", "expected at least 1 dimension"),
        ("channels", "expected 3 channels, given 1"),
        ("dimensions", "given shape [3, 4]"),
        ("kernel", "expected at least the kernel's size (3 x 3), given (2 x 2)"),
        ("recurrent", "expected 4 values in the last dimension, given 3"),
        ("layer norm", "expected shape [*, 4], given [2, 3]"),
        ("batch norm", "expected 4 channels, given 3"),
        ("batch norm's rank", "expected 4D input, given 2D"),
        ("type", "given Double"),
        ("indices", "an index is outside of the model's table"),
        ("float indices", "expected values of type Long, Int, given Float"),
        ("broadcast", "expected size 4 in dimension 1, given 3"),
        ("view", "expected what fits into shape [2, 4], given 6 values"),
        ("names for a script", "expected (Tensor input) and given more inputs"),
        ("two for a script", "expected (Tensor input) and given more inputs"),
        ("names for a program", "the program's inputs have no names"),
        ("two for a program", "as many inputs as the program was exported with, given another number"),
        ("other names for a program", "expected inputs named 'input', given others"),
    ],
)
def test_pytorchs_refusals_are_422_with_shapes(given: str, message: str) -> None:
    torch = pytest.importorskip("torch")
    nn = torch.nn
    calls: dict[str, Callable[[], Any]] = {
        "linear": lambda: nn.Linear(4, 1)(torch.zeros(2, 3)),
        "a single number": lambda: nn.Linear(4, 1)(torch.tensor(5.0)),
        "channels": lambda: nn.Conv2d(3, 1, 3)(torch.zeros(1, 1, 8, 8)),
        "dimensions": lambda: nn.Conv2d(3, 1, 3)(torch.zeros(3, 4)),
        "kernel": lambda: nn.Conv2d(1, 1, 3)(torch.zeros(1, 1, 2, 2)),
        "recurrent": lambda: nn.LSTM(4, 1)(torch.zeros(1, 1, 3)),
        "layer norm": lambda: nn.LayerNorm(4)(torch.zeros(2, 3)),
        "batch norm": lambda: nn.BatchNorm1d(4).eval()(torch.zeros(2, 3)),
        "batch norm's rank": lambda: nn.BatchNorm2d(4)(torch.zeros(2, 3)),
        "type": lambda: nn.Linear(4, 1)(torch.zeros(2, 4, dtype=torch.float64)),
        "indices": lambda: nn.Embedding(4, 1)(torch.tensor([9])),
        "float indices": lambda: nn.Embedding(4, 1)(torch.tensor([1.0])),
        "broadcast": lambda: torch.zeros(2, 3) + torch.zeros(2, 4),
        "view": lambda: torch.zeros(2, 3).view(2, 4),
        "names for a script": lambda: torch.jit.script(nn.Identity())(a=torch.zeros(1), b=torch.zeros(1)),
        "two for a script": lambda: torch.jit.script(nn.Identity())(torch.zeros(1), torch.zeros(1)),
        "names for a program": lambda: _exported(torch)(a=torch.zeros(1), b=torch.zeros(1)),
        "two for a program": lambda: _exported(torch)(torch.zeros(1), torch.zeros(1)),
        "other names for a program": lambda: _exported(torch, "input")(x=torch.zeros(1)),
    }
    refusal = prediction_error(_raised(calls[given]))
    assert refusal is not None
    assert refusal.status == 422
    assert message in refusal.message


def _exported(torch: Any, *names: str) -> Any:
    given = torch.zeros(1)
    named = dict.fromkeys(names, given)
    return torch.export.export(torch.nn.Identity(), () if named else (given,), named).module()


@pytest.mark.slow
def test_a_compiled_models_refusal_is_422_with_shapes_too() -> None:
    import torch

    model = torch.compile(torch.nn.Linear(4, 2), backend="eager")
    # From the second time on its sizes may be symbols.
    for shape in ((1, 3), (10, 3), (1, 5), (7, 6)):
        data = torch.zeros(shape)
        refusal = prediction_error(_raised(lambda data=data: model(data)), data)
        assert refusal is not None
        assert refusal.status == 422
        last, whole = shape[-1], f"shape {shape}"
        message = refusal.message.partition("expected 4 values in the last dimension, given ")[2]
        assert message in (f"{last}.", f"{whole}.")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("axis", "expected 4 values in dimension -1, given shape (2, 3)"),
        ("shape", "expected shape (None, 4), given (2, 3)"),
        ("rank", "expected at least 2 dimensions, given 1"),
        ("matmul", "expected 4 values in the last dimension, given shape [2,3]"),
        ("reshape", "expected 8 values, given 6"),
        ("gather", "expected indices below 4, given 9"),
        ("add", "expected what goes with shape [2,4], given [2,3]"),
    ],
)
def test_tensorflows_refusals_are_422_with_shapes(given: str, message: str) -> None:
    tf = pytest.importorskip("tensorflow")
    import keras

    dense = keras.layers.Dense(1)
    dense.build((None, 4))
    entry = keras.Input((4,))
    functional = keras.Model(entry, entry * 2)
    calls: dict[str, Callable[[], Any]] = {
        "axis": lambda: dense(tf.zeros((2, 3))),
        "shape": lambda: functional(tf.zeros((2, 3))),
        "rank": lambda: keras.layers.Dense(1)(tf.zeros(3)),
        "matmul": lambda: tf.matmul(tf.zeros((2, 3)), tf.zeros((4, 1))),
        "reshape": lambda: tf.reshape(tf.zeros((2, 3)), (2, 4)),
        "gather": lambda: tf.gather(tf.zeros(4), 9),
        "add": lambda: tf.zeros((2, 3)) + tf.zeros((2, 4)),
    }
    refusal = prediction_error(_raised(calls[given]))
    assert refusal is not None, _raised(calls[given])
    assert message in refusal.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        ("linear", [["a", 2, 3, 4]], "expected numbers, given the text 'a' at [0][0]"),
        ("linear", [[1, 2, 3, None]], "expected numbers, given null at [0][3]"),
        ("linear", [[1, 2, 3, 10**400]], "given a number that is too large at [0][3]"),
        ("linear", [[1, 2, 3], ["a", 2]], "given the text 'a' at [1][0]"),
        ("linear", (["a", "2", "3", "4"],), "expected numbers, given texts"),
        ("linear", ([1, 2, 3, float("nan")],), "expected no missing values (NaN or null), given some"),
        ("linear", ([1, 2, 3, float("inf")],), "expected finite numbers, given infinity"),
        ("linear", ([[1, 2, 3, 4]],), "expected at most 2 dimensions, given 3"),
        ("linear", ([1j, 2, 3, 4],), "expected real numbers, given complex ones"),
        ("forest", [["a", 2, 3, 4]], "expected numbers, given the text 'a' at [0][0]"),
        ("forest", (["a", "2", "3", "4"],), "expected numbers, given texts"),
        ("forest", [[1, 2, 3, {}]], "expected numbers, given an object at [0][3]"),
        ("forest", {"a": 1}, "expected numbers, given an object."),
        ("linear", json.loads("[" * 700 + '"a"' + "]" * 700), "given the text 'a' within 700 lists"),
    ],
)
def test_scikit_learns_refusals_are_422(model: str, data: Any, message: str) -> None:
    """A tuple stands for an array."""
    np = pytest.importorskip("numpy")
    pytest.importorskip("sklearn")
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LinearRegression

    estimator = LinearRegression() if model == "linear" else RandomForestClassifier(1)
    estimator.fit(np.eye(4), [0, 1, 0, 1])
    given = np.array(data) if isinstance(data, tuple) else data
    error = _raised(lambda: NumPy(Settings(), Device("cpu")).predict(given, estimator))
    refusal = error if isinstance(error, RequestError) else prediction_error(error, given)
    assert refusal is not None, error
    assert refusal.status == 422
    assert message in refusal.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("columns", "expected 4 values in the last dimension, given 3"),
        ("columns in place", "expected 4 values in the last dimension, given 3"),
        ("one row without its list", "expected 4 values in the last dimension, given 1"),
        ("one dimension", "expected 2 dimensions, given shape (4,)"),
        ("infinity", "expected finite numbers, given infinity"),
        ("texts", "expected numbers, given texts"),
        ("other names", "expected inputs named ['a', 'b', 'c', 'd'], given ['a', 'b', 'c', 'e']"),
        ("no names", "expected inputs named a, b, c, d, given some without names"),
    ],
)
def test_xgboosts_refusals_are_422(given: str, message: str) -> None:
    np = pytest.importorskip("numpy")
    xgboost: Any = pytest.importorskip("xgboost")
    rows, classes = np.eye(4), [0, 1, 0, 1]
    estimator = xgboost.XGBClassifier(n_estimators=1).fit(rows, classes)
    booster = estimator.get_booster()
    named = xgboost.train({}, xgboost.DMatrix(rows, classes, feature_names=list("abcd")), 1)
    data: dict[str, Any] = {
        "one dimension": np.zeros(4),
        "infinity": np.full((1, 4), np.inf),
        "texts": np.array([list("abcd")]),
    }
    calls: dict[str, Callable[[], Any]] = {
        "columns": lambda: estimator.predict(rows[:, :3]),
        "columns in place": lambda: booster.inplace_predict(rows[:, :3]),
        "one row without its list": lambda: estimator.predict(rows[0]),
        "other names": lambda: named.predict(xgboost.DMatrix(rows, feature_names=list("abce"))),
        "no names": lambda: named.predict(xgboost.DMatrix(rows)),
    }
    refusal = prediction_error(
        _raised(calls.get(given) or (lambda: booster.predict(xgboost.DMatrix(data[given])))), data.get(given)
    )
    assert refusal is not None
    assert refusal.status == 422
    assert message in refusal.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "kind", "message"),
    [
        ((1, 3), "f8", "expected 4 values in the last dimension, given 3"),
        ((4,), "f8", "expected 2 dimensions, given shape (4,)"),
        ((1, 2, 2), "f8", "expected 2 dimensions, given shape (1, 2, 2)"),
        ((1, 4), "U1", "expected numbers, given texts"),
    ],
)
def test_lightgbms_refusals_are_422(shape: tuple[int, ...], kind: str, message: str) -> None:
    np = pytest.importorskip("numpy")
    lightgbm: Any = pytest.importorskip("lightgbm")
    rows, classes = np.eye(4).repeat(20, 0), [0, 1, 0, 1] * 20
    booster = lightgbm.train({"verbose": -1}, lightgbm.Dataset(rows, classes), 1)
    given = np.full(shape, "x" if kind == "U1" else 1, kind)
    refusal = prediction_error(_raised(lambda: booster.predict(given)), given)
    assert refusal is not None
    assert refusal.status == 422
    assert message in refusal.message


def test_a_models_own_mistake_with_strings_is_not_a_client_error() -> None:
    class Reader:
        def predict(self, data: Any) -> Any:
            raise ValueError("no such vocabulary")

    assert isinstance(_raised(lambda: NumPy(Settings(), Device("cpu")).predict(["a"], Reader())), ValueError)


@pytest.mark.slow
def test_another_number_of_arrays_than_forward_takes_is_422_and_a_mistake_within_is_not() -> None:
    torch = pytest.importorskip("torch")
    framework = torch_models.Torch(Settings(), Device("cpu"))
    framework.set_up()

    class Mistaken(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.nn.Linear(1, 1)(x, y)

    array = torch.zeros(1).numpy()
    refusal = _raised(lambda: framework.predict((array, array), torch.nn.Linear(1, 1)))
    assert isinstance(refusal, RequestError)
    assert (refusal.status, "it takes (input), given 2 arrays" in refusal.message) == (422, True)
    assert isinstance(_raised(lambda: framework.predict((array, array), Mistaken())), TypeError)


@pytest.mark.slow
def test_inputs_of_different_numbers_of_rows_are_422_where_the_model_fails_with_them() -> None:
    tf = pytest.importorskip("tensorflow")
    import keras

    framework = tensorflow.TensorFlow(Settings(), Device("cpu"))
    framework.set_up()
    entries = [keras.Input((2,), name="a"), keras.Input((3,), name="b")]
    model = framework.prepare(keras.Model(entries, keras.layers.Concatenate()(entries)), own_predict=False)

    def ask(a: Any, b: Any) -> Any:
        specs = framework.servable(model).specs("")
        return framework.predict(tensorflow_json.read({"inputs": {"a": a, "b": b}}, specs), model)

    del tf
    for _ in range(2):
        refusal = _raised(lambda: ask([[1, 2]], [[1, 2, 3], [1, 2, 3]]))
        assert isinstance(refusal, RequestError)
        assert (refusal.status, "a has 1, b has 2" in refusal.message) == (422, True)
        assert ask([[1, 2]], [[1, 2, 3]]).outputs


def test_the_data_determines_the_shape_where_the_error_does_not() -> None:
    np = pytest.importorskip("numpy")
    refusal = prediction_error(AssertionError("Guard failed: x.size()[1] == 784"), np.zeros((1, 3)))
    assert refusal is not None
    assert refusal.message.endswith("expected size 784 in dimension 1, given shape (1, 3).")


@pytest.mark.parametrize(
    "error",
    [KeyError("age"), RuntimeError("cannot read /opt/ml/model/secret"), ValueError("bad"), TypeError("no")],
)
def test_the_handlers_own_mistakes_are_no_refusals(error: Exception) -> None:
    assert prediction_error(error) is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"), True),
        (MemoryError(), True),
        (type("OutOfMemoryError", (RuntimeError,), {})("x"), True),
        (type("ResourceExhaustedError", (Exception,), {})("OOM when allocating tensor with shape[1]"), True),
        (RuntimeError("CUDA error: device-side assert triggered"), False),
        (ValueError("memory of the past"), False),
    ],
)
def test_running_out_of_memory_is_distinguished(error: BaseException, expected: bool) -> None:
    assert is_out_of_memory(error) is expected
    assert not expected or prediction_error(error) is None


@pytest.mark.slow
def test_pytorchs_own_allocator_is_recognised() -> None:
    torch = pytest.importorskip("torch")
    error = _raised(lambda: torch.empty(1 << 55))
    assert is_out_of_memory(error)
    assert is_out_of_host_memory(error)


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Requested unsupported ContentType in content_type: text/x", 415),
        ("This model only supports application/json input; content-type text/x is not supported", 415),
        ("unsupported content type text/x", 415),
        ("Content type text/x is not supported by this framework.", 415),
    ],
)
def test_what_published_handlers_raise_for_a_type_is_415(message: str, status: int) -> None:
    refusal = decoding_error(ValueError(message), b"", "text/x")
    assert refusal is not None
    assert refusal.status == status


def test_what_published_handlers_raise_for_an_accept_is_406() -> None:
    refusal = encoding_error(Exception("Requested unsupported ContentType in Accept: text/x"), "text/x")
    assert refusal is not None
    assert refusal.status == 406


def test_what_handlers_assert_of_a_type_is_415_or_406_and_other_assertions_are_theirs() -> None:
    def asserts_type(request_content_type: str = "text/x") -> None:
        assert request_content_type == "application/json"

    def asserts_in_words(kind: str = "text/x") -> None:
        assert kind == "image/png", f"Content type must be image/png, not {kind}"

    def asserts_accept(accept: str = "text/x") -> None:
        assert accept == "application/json"

    def asserts_data(data: str = "text/x") -> None:
        assert not data

    for action in (asserts_type, asserts_in_words):
        refusal = decoding_error(_raised(action), b"", "text/x")
        assert refusal is not None
        assert (refusal.status, refusal.message) == (415, "The model does not accept text/x.")
    refusal = encoding_error(_raised(asserts_accept), "text/x")
    assert refusal is not None
    assert refusal.status == 406
    assert decoding_error(_raised(asserts_accept), b"", "text/x") is None
    assert decoding_error(_raised(asserts_data), b"", "text/x") is None
    assert encoding_error(_raised(asserts_data), "text/x") is None
    # Raised by no line that could be read.
    assert decoding_error(AssertionError(), b"", "text/x") is None


def test_json_that_the_handler_could_not_read_is_400_with_the_place() -> None:
    refusal = decoding_error(_raised(lambda: json.loads("[1,]")), b"[1,]", "application/json")
    assert refusal is not None
    assert refusal.status == 400
    assert "column" in refusal.message


def test_text_that_is_not_the_bodys_is_the_handlers_fault() -> None:
    assert decoding_error(_raised(b"\xff".decode), b"other", "text/plain") is None


def test_the_toolkits_errors_carry_their_status() -> None:
    base = type("BaseInferenceToolkitError", (Exception,), {})
    error = base("x")
    error.status_code, error.message = 429, "Slow down."
    refusal = handler_error(error)
    assert isinstance(refusal, RequestError)
    assert (refusal.status, refusal.message) == (429, "Slow down.")
