"""What became of v1 and v2 names, as the SDK's own code and its packages say."""

import pytest

from gpuproof.linter.sdk import v1_method, v1_name, v1_parameter, v3, v3_replacement
from gpuproof.linter.sdk.changes import rows_of


@pytest.mark.parametrize(
    ("path", "new"),
    [
        ("sagemaker.predictor.csv_serializer", "sagemaker.serializers.CSVSerializer"),
        ("sagemaker.predictor.json_deserializer", "sagemaker.deserializers.JSONDeserializer"),
        ("sagemaker.s3_input", "sagemaker.inputs.TrainingInput"),
        ("sagemaker.RealTimePredictor", "sagemaker.predictor.Predictor"),
    ],
)
def test_names_of_v1_that_are_gone_have_a_successor(path: str, new: str) -> None:
    change = v1_name(path)
    assert change is not None
    assert (change.new, change.state) == (new, "gone")


def test_a_name_that_still_works_and_warns_is_deprecated() -> None:
    change = v1_name("sagemaker.session.s3_input")
    assert change is not None
    assert change.state == "deprecated"


def test_a_name_of_v2_is_unchanged() -> None:
    assert v1_name("sagemaker.pytorch.PyTorch") is None


@pytest.mark.parametrize(
    "path", ["sagemaker.tuner.HyperparameterTuner", "sagemaker.pytorch.estimator.PyTorch"]
)
def test_delete_endpoint_of_tuners_and_estimators_does_nothing(path: str) -> None:
    change = v1_method(f"{path}.delete_endpoint")
    assert change is not None
    assert change.state == "no-op"


def test_delete_endpoint_of_a_predictor_is_fine() -> None:
    assert v1_method("sagemaker.predictor.Predictor.delete_endpoint") is None


@pytest.mark.parametrize(
    ("path", "old", "new", "state"),
    [
        ("sagemaker.pytorch.PyTorch", "train_instance_type", "instance_type", "deprecated"),
        ("sagemaker.tensorflow.TensorFlow", "distributions", "distribution", "deprecated"),
        ("sagemaker.tensorflow.TensorFlow", "script_mode", "", "no-op"),
        ("sagemaker.pytorch.PyTorchModel", "image", "image_uri", "gone"),
        ("sagemaker.predictor.Predictor", "endpoint", "endpoint_name", "deprecated"),
        ("sagemaker.estimator.Estimator", "image_name", "image_uri", "no-op"),
    ],
)
def test_words_of_v1(path: str, old: str, new: str, state: str) -> None:
    change = v1_parameter(path, old)
    assert change is not None
    assert (change.new, change.state) == (new, state)


@pytest.mark.parametrize("word", ["instance_type", "role", "env"])
def test_words_that_v1_never_lost_are_no_change(word: str) -> None:
    assert v1_parameter("sagemaker.pytorch.PyTorch", word) is None


@pytest.mark.parametrize(
    ("path", "statement"),
    [
        ("sagemaker.pytorch", "from sagemaker.train import ModelTrainer"),
        ("sagemaker.pytorch.PyTorch", "from sagemaker.train import ModelTrainer"),
        ("sagemaker.pytorch.PyTorchModel", "from sagemaker.serve import ModelBuilder"),
        ("sagemaker.pytorch.PyTorchProcessor", "from sagemaker.core.processing import FrameworkProcessor"),
        ("sagemaker.processing.ScriptProcessor", "from sagemaker.core.processing import ScriptProcessor"),
        ("sagemaker.image_uris", "from sagemaker.core import image_uris"),
        ("sagemaker.image_uris.retrieve", "from sagemaker.core.image_uris import retrieve"),
        (
            "sagemaker.get_execution_role",
            "from sagemaker.core.helper.session_helper import get_execution_role",
        ),
        ("sagemaker.inputs.TrainingInput", "from sagemaker.train.configs import InputData"),
        ("sagemaker.serializers.JSONSerializer", "from sagemaker.core.serializers import JSONSerializer"),
        ("sagemaker.tuner.ContinuousParameter", "from sagemaker.core.parameter import ContinuousParameter"),
        ("sagemaker.mxnet.MXNet", ""),
    ],
)
def test_what_replaces_v2_in_v3(path: str, statement: str) -> None:
    assert v3_replacement(path) == statement


def test_a_name_that_v2_never_had_has_no_replacement() -> None:
    assert v3_replacement("sagemaker.pytorch.Nonsense") is None


def test_every_replacement_is_in_the_table_of_v3() -> None:
    statements = {row["statement"] for row in rows_of("changes_v3")} - {""}
    assert len(statements) > 50
    for statement in statements:
        _, module, _, name = statement.split(" ")
        assert v3().has(f"{module}.{name}") in (True, None), statement
