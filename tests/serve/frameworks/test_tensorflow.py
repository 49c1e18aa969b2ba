"""SavedModels as AWS's TensorFlow Serving container serves them: several models and versions, all forms of bodies."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.interface import Device, Model, Request
from gpuproof.serve.model.importer import HandlerModules
from gpuproof.serve.model.loader import load_model
from gpuproof.serve.settings import Settings

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def leave_no_modules() -> Iterator[None]:
    yield
    if HandlerModules._active is not None:
        HandlerModules._active.deactivate()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`half/1` computes x/2 + 1 and `half/2` x/2 + 2, of any rank; `third/7` x/3; `column` takes rows of one number."""
    tf = pytest.importorskip("tensorflow")
    folder = tmp_path_factory.mktemp("saved")

    def save(name: str, factor: float, offset: float, shape: Any = None) -> None:
        module = tf.Module()

        @tf.function(input_signature=[tf.TensorSpec(shape, tf.float32, name="x")])
        def predict(x: Any) -> Any:
            return {"y": x * factor + offset}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
        def regress(inputs: Any) -> Any:
            parsed = tf.io.parse_example(inputs, {"x": tf.io.FixedLenFeature([1], tf.float32)})
            return {"outputs": parsed["x"] * factor + offset}

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="inputs")])
        def classify(inputs: Any) -> Any:
            scores = tf.io.parse_example(inputs, {"x": tf.io.FixedLenFeature([2], tf.float32)})["x"]
            return {
                "classes": tf.tile(tf.constant([["cat", "dog"]]), [tf.shape(scores)[0], 1]),
                "scores": scores,
            }

        signatures = {"serving_default": predict, "regress": regress, "classify": classify}
        module.functions = list(signatures.values())
        tf.saved_model.save(module, str(folder / name), signatures=signatures)

    save("half/00000001", 0.5, 1)
    save("half/2", 0.5, 2)
    save("third/7", 1 / 3, 0)
    save("column/1", 1, 0, [None, 1])
    return folder


@pytest.fixture
def several(saved: Path, tmp_path: Path) -> Path:
    for name in ("half", "third"):
        shutil.copytree(saved / name, tmp_path / "model" / name)
    return tmp_path / "model"


@pytest.fixture(scope="module")
def half(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("half")
    shutil.copytree(saved / "half", folder / "half")
    return load_model(folder, Settings(), Device())


def ask(model: Model, body: str, attributes: str = "", kind: str = "application/json") -> Any:
    request = Request(body.encode(), kind, custom_attributes=attributes)
    if model.has_transform:
        return json.loads(model.transform(request).body)  # type: ignore[arg-type]
    return json.loads(model.encode(model.predict(model.decode(request), request), request).body)  # type: ignore[arg-type]


def test_custom_attributes_select_model_and_version(several: Path) -> None:
    model = load_model(several, Settings(), Device())
    body = '{"instances": [6.0]}'
    assert ask(model, body) == {"predictions": [5.0]}
    assert ask(model, body, "tfs-model-version=1") == {"predictions": [4.0]}
    assert ask(model, body, "tfs-model-name=third,tfs-model-version=7") == {"predictions": [2.0]}
    for attributes in (
        "tfs-model-name=fourth",
        "tfs-model-version=3",
        "tfs-model-name=third,tfs-model-version=1",
    ):
        with pytest.raises(RequestError) as caught:
            ask(model, body, attributes)
        assert caught.value.status == 404


def test_the_environment_selects_the_default_model(several: Path) -> None:
    assert ask(
        load_model(several, Settings(tfs_default_model="third"), Device()), '{"instances": [6.0]}'
    ) == {"predictions": [2.0]}
    with pytest.raises(LoadError, match="half, third"):
        load_model(several, Settings(tfs_default_model="fourth"), Device())


def test_requests_for_different_versions_are_not_batched_together(several: Path) -> None:
    model = load_model(several, Settings(), Device())
    requests = [
        Request(b'{"instances": [6.0]}', "application/json", custom_attributes=f"tfs-model-version={version}")
        for version in (1, 2, 2)
    ]
    data = [model.decode(request) for request in requests]
    first, second, third = (model.batch_key(item) for item in data)
    assert first != second == third


@pytest.mark.parametrize("name", ["input_handler", "handler"])
def test_handlers_of_the_container_reach_every_version(several: Path, name: str) -> None:
    text = {
        "input_handler": """
            def input_handler(data, context):
                return data.read()
            def output_handler(response, context):
                return response.content, "application/json"
        """,
        "handler": """
            import urllib.error, urllib.request
            def handler(data, context):
                try:
                    with urllib.request.urlopen(context.rest_uri, data.read()) as answer:
                        return answer.read(), "application/json"
                except urllib.error.HTTPError as error:
                    return '{"status": %d}' % error.code, "application/json"
        """,
    }[name]
    (several / "code").mkdir()
    (several / "code" / "inference.py").write_text(textwrap.dedent(text))
    model = load_model(several, Settings(), Device())
    try:
        body = '{"instances": [6.0]}'
        assert ask(model, body) == {"predictions": [5.0]}
        assert ask(model, body, "tfs-model-version=1") == {"predictions": [4.0]}
        assert ask(model, body, "tfs-model-name=third") == {"predictions": [2.0]}
        if name == "handler":
            assert ask(model, body, "tfs-model-name=fourth") == {"status": 404}
        else:
            with pytest.raises(RequestError) as caught:
                ask(model, body, "tfs-model-name=fourth")
            assert caught.value.status == 404
    finally:
        model.unload()


def test_a_handler_gets_tensorflow_servings_refusal_where_the_default_handler_wraps(several: Path) -> None:
    plain = load_model(several, Settings(), Device())
    assert ask(plain, "[6.0]") == {"predictions": [[5.0]]}
    (several / "code").mkdir()
    (several / "code" / "inference.py").write_text(
        textwrap.dedent("""
            import urllib.error, urllib.request
            def handler(data, context):
                try:
                    with urllib.request.urlopen(context.rest_uri, data.read()) as answer:
                        return answer.read(), "application/json"
                except urllib.error.HTTPError as error:
                    return error.read(), "application/json"
        """)
    )
    model = load_model(several, Settings(), Device())
    try:
        assert "Is not object" in ask(model, "[6.0]")["error"]
        assert ask(model, "{}") == {"error": "Missing 'inputs' or 'instances' key"}
        unknown = ask(model, '{"instances": [6.0], "signature_name": "none"}')
        assert unknown == {"error": 'Serving signature name: "none" not found in signature def'}
        assert ask(model, '{"instances": [6.0]}') == {"predictions": [5.0]}
    finally:
        model.unload()


def test_the_status_of_the_rest_api_lists_the_versions(several: Path) -> None:
    (several / "code").mkdir()
    (several / "code" / "inference.py").write_text(
        "def handler(data, context):\n    return b'', 'text/plain'\n"
    )
    model: Any = load_model(several, Settings(), Device())
    try:
        status, body = model._rest.status("/v1/models/half")
        assert status == 200
        assert [load["version"] for load in json.loads(body)["model_version_status"]] == ["2", "1"]
        assert model._rest.status("/v1/models/half/versions/3")[0] == 404
        assert model._rest.status("/v1/models/fourth")[0] == 404
    finally:
        model.unload()


def test_a_predict_fn_receives_the_requested_model(several: Path) -> None:
    (several / "code").mkdir()
    (several / "code" / "inference.py").write_text(
        "batch = True\n"
        "def predict_fn(data, model):\n"
        "    return model.signatures['serving_default'](__import__('tensorflow').constant(data, 'float32'))['y'].numpy()\n"
    )
    model = load_model(several, Settings(), Device())
    assert not model.batch.enabled
    assert ask(model, "[6.0]", "tfs-model-version=1") == [4.0]
    assert ask(model, "[6.0]") == [5.0]


def test_the_multi_model_api_names_the_model(several: Path) -> None:
    model = load_model(several / "half", Settings(multi_model=True), Device(), "anything")
    assert ask(model, '{"instances": [6.0]}', "tfs-model-name=third") == {"predictions": [5.0]}
    assert ask(model, '{"instances": [6.0]}', "tfs-model-version=1") == {"predictions": [4.0]}


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("application/json", '{"instances": [2.0, 4.0]}', [3, 4]),
        ("application/json", "[2.0, 4.0]", [[3, 4]]),
        ("application/json", "[[2.0, 4.0], [6.0, 8.0]]", [[3, 4], [5, 6]]),
        ("application/json", '[{"x": 2.0}, {"x": 4.0}]', [3, 4]),
        ("application/json", "[2.0, 4.0]\n[6.0, 8.0]", [[3, 4], [5, 6]]),
        ("application/json", '{"x": [2.0]}\r\n{"x": [4.0]}\r\n', [[3], [4]]),
        ("application/jsons", "[2.0, 4.0]\n[6.0, 8.0]", [[3, 4], [5, 6]]),
        ("application/jsonlines", "2.0\n4.0", [3, 4]),
        ("text/csv", "2.0", [3]),
        ("text/csv", "0.0\n2.0\n4.0", [2, 3, 4]),
        ("text/csv", "2.0,4.0", [[3, 4]]),
        ("text/csv", "2.0,4.0\n6.0,8.0", [[3, 4], [5, 6]]),
    ],
)
def test_bodies_are_read_as_by_the_container(half: Model, kind: str, body: str, expected: list[Any]) -> None:
    assert ask(half, body, kind=kind) == {"predictions": expected}


def test_a_column_of_csv_stays_one_if_the_model_takes_rows(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved / "column", tmp_path / "column")
    model = load_model(tmp_path, Settings(), Device())
    assert ask(model, "1\n2", kind="text/csv") == {"predictions": [[1], [2]]}


def test_a_malformed_json_body_keeps_the_place_of_its_error(half: Model) -> None:
    with pytest.raises(RequestError, match="line 2, column 5"):
        ask(half, "[\n[1]]]\n[")


def test_regress_and_classify_take_examples(half: Model) -> None:
    examples = '{"signature_name": "regress", "examples": [{"x": 2.0}, {"x": 4}], "context": {}}'
    with pytest.raises(RequestError, match="lacks inputs"):
        ask(half, examples)
    assert ask(half, examples.replace("4}", "4.0}"), "tfs-method=regress") == {"results": [3, 4]}
    assert ask(
        half, '{"signature_name": "classify", "examples": [{"x": [0.25, 0.75]}]}', "tfs-method=classify"
    ) == {"results": [[["cat", 0.25], ["dog", 0.75]]]}
    context = '{"signature_name": "regress", "context": {"x": 2.0}, "examples": [{}]}'
    assert ask(half, context, "tfs-method=regress,tfs-model-version=1") == {"results": [2]}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"examples": [{"x": 1.0}]}', "serving_default does not support regress"),
        (
            '{"signature_name": "classify", "examples": [{"x": [1.0, 2.0]}]}',
            "does not support regress: its outputs are",
        ),
        ('{"signature_name": "regress", "examples": []}', "list of examples"),
        ('{"signature_name": "regress", "examples": [1]}', "Example 0"),
        ('{"signature_name": "regress", "examples": [{"x": null}]}', "Feature x of example 0"),
        ('{"signature_name": "regress", "examples": [{"x": "text"}]}', "examples lack .* Key: x"),
        ("[1]", "list of examples"),
    ],
)
def test_a_body_that_regress_cannot_read_is_400(half: Model, body: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        ask(half, body, "tfs-method=regress")
    assert caught.value.status == 400


def test_a_graph_of_tensorflow_1_is_served_in_a_session(tmp_path: Path) -> None:
    """As in the model of AWS's own tests: the signature's input is parsed from examples, but may be fed in any shape."""
    tf = pytest.importorskip("tensorflow")
    v1 = tf.compat.v1
    with v1.Session(graph=tf.Graph()) as session:
        example = v1.placeholder(tf.string, None, name="example")
        parsed = v1.parse_example(example, {"x": v1.FixedLenFeature([1], tf.float32)})
        x = tf.identity(parsed["x"], name="x")
        outputs = tf.add(x * 0.5, 3.0, name="y")
        builder = v1.saved_model.Builder(str(tmp_path / "1"))
        signatures = {
            "serving_default": v1.saved_model.predict_signature_def({"x": x}, {"y": outputs}),
            "regress": v1.saved_model.regression_signature_def(example, outputs),
        }
        builder.add_meta_graph_and_variables(session, ["serve"], signatures)
        builder.save()
    from gpuproof.serve.frameworks.tensorflow_session import SessionModel

    model = SessionModel(tf, tmp_path / "1")
    import numpy as np

    assert [spec.name for spec in model.specs("")] == ["x"]
    assert model.call({"x": np.array([1.0, 2.0])}, "")["y"].tolist() == [3.5, 4.0]
    features = tf.train.Features(feature={"x": tf.train.Feature(float_list=tf.train.FloatList(value=[2.0]))})
    rows = np.array([tf.train.Example(features=features).SerializeToString()], object)
    assert model.call({"inputs": rows}, "regress")["outputs"].tolist() == [[4.0]]
    with pytest.raises(RequestError, match="no signature 'other'"):
        model.specs("other")
