"""Facts of the SDK that were proven by running it (sagemaker 2.257.7 and 3.27.0), asked of the tables."""

import pytest

from gpuproof.linter.sdk import v2, v2_needs, v3


def unknown(path: str, keyword: str) -> str | None:
    signature = v2().signature(path)
    assert signature is not None, path
    return None if signature.accepts(keyword) else signature.unknown


@pytest.mark.parametrize(
    ("path", "keyword"),
    [
        ("sagemaker.pytorch.PyTorchModel", "instance_type"),
        ("sagemaker.tensorflow.TensorFlowModel", "py_version"),
        ("sagemaker.huggingface.HuggingFaceModel", "instance_type"),
        ("sagemaker.processing.ScriptProcessor", "environment"),
        ("sagemaker.transformer.Transformer", "role"),
    ],
)
def test_models_and_processors_refuse_unknown_words(path: str, keyword: str) -> None:
    assert unknown(path, keyword) == "error"


@pytest.mark.parametrize("keyword", ["env", "job_name", "metrics_definition"])
@pytest.mark.parametrize(
    "path",
    ["sagemaker.pytorch.PyTorch", "sagemaker.tensorflow.TensorFlow", "sagemaker.huggingface.HuggingFace"],
)
def test_estimators_swallow_unknown_words(path: str, keyword: str) -> None:
    assert unknown(path, keyword) == "ignored"


def test_deploy_of_a_model_swallows_predictor_cls() -> None:
    assert unknown("sagemaker.pytorch.PyTorchModel.deploy", "predictor_cls") == "ignored"


def test_deploy_of_an_estimator_hands_predictor_cls_to_the_model() -> None:
    assert unknown("sagemaker.pytorch.PyTorch.deploy", "predictor_cls") is None


def test_deploy_of_an_estimator_refuses_what_its_model_does_not_know() -> None:
    assert unknown("sagemaker.pytorch.PyTorch.deploy", "instance_typ") == "error"


@pytest.mark.parametrize(
    "word", ["entry_point", "role", "instance_type", "max_run", "use_spot_instances", "checkpoint_s3_uri"]
)
def test_an_estimator_takes_the_words_of_its_bases(word: str) -> None:
    assert unknown("sagemaker.pytorch.PyTorch", word) is None


def test_a_default_is_kept_where_it_is_a_plain_value() -> None:
    signature = v2().signature("sagemaker.estimator.Estimator")
    assert signature is not None
    assert next(each.default for each in signature.parameters if each.name == "max_run") == "86400"


def test_a_method_is_found_on_a_base() -> None:
    signature = v2().signature("sagemaker.tensorflow.TensorFlow.fit")
    assert signature is not None
    assert signature.positional[:3] == ("inputs", "wait", "logs")


def test_old_words_are_renamed_by_the_estimator_itself() -> None:
    signature = v2().signature("sagemaker.pytorch.PyTorch")
    assert signature is not None
    assert signature.renamed["train_instance_type"] == "instance_type"


def test_words_given_by_position_are_in_the_order_of_the_signature() -> None:
    signature = v2().signature("sagemaker.tensorflow.TensorFlow")
    assert signature is not None
    assert signature.positional[:2] == ("py_version", "framework_version")


def test_a_class_is_found_through_the_package_that_offers_it() -> None:
    assert v2().definition("sagemaker.pytorch.PyTorch") == "sagemaker.pytorch.estimator.PyTorch"
    assert v2().is_subclass("sagemaker.pytorch.PyTorchModel", "sagemaker.model.Model")
    assert not v2().is_subclass("sagemaker.pytorch.PyTorchModel", "sagemaker.estimator.EstimatorBase")


def test_deploy_needs_a_type_and_a_count_unless_it_is_serverless() -> None:
    needs = v2_needs("sagemaker.pytorch.PyTorchModel.deploy")
    assert {need.needs for need in needs} == {("initial_instance_count",), ("instance_type",)}
    assert all("serverless_inference_config" in need.unless for need in needs)


def test_a_framework_needs_both_its_versions_unless_an_image_is_given() -> None:
    needs = v2_needs("sagemaker.pytorch.PyTorch")
    assert {need.needs for need in needs} == {("framework_version",), ("py_version",)}
    assert all(need.unless == ("image_uri",) for need in needs)


@pytest.mark.parametrize(
    "path",
    [
        "sagemaker.pytorch",
        "sagemaker.tensorflow.TensorFlow",
        "sagemaker.estimator.Estimator",
        "sagemaker.train.Mode",
        "sagemaker.train.distributed.Distributed",
        "sagemaker.serve.configs.InferenceSpec",
        "sagemaker.mlops.processing",
    ],
)
def test_v3_does_not_have(path: str) -> None:
    assert v3().has(path) is False


@pytest.mark.parametrize(
    "path",
    [
        "sagemaker.train.ModelTrainer",
        "sagemaker.train.configs.Compute",
        "sagemaker.train.distributed.Torchrun",
        "sagemaker.serve.ModelBuilder",
        "sagemaker.serve.InferenceSpec",
        "sagemaker.core.resources.TrainingJob",
        "sagemaker.core.shapes.StoppingCondition",
        "sagemaker.core.image_uris",
    ],
)
def test_v3_has(path: str) -> None:
    assert v3().has(path) is True


@pytest.mark.parametrize(
    "path", ["sagemaker.core._private", "sagemaker.core.constants.SOME_NAME", "sagemaker.core.local.x"]
)
def test_paths_that_were_not_read_are_unknown(path: str) -> None:
    assert v3().has(path) is None


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("sagemaker.train.configs.Compute", "use_spot_instances"),
        ("sagemaker.train.configs.SourceCode", "entry_point"),
        ("sagemaker.train.ModelTrainer", "image_uri"),
    ],
)
def test_fields_that_the_migration_guide_invents_are_errors(path: str, field: str) -> None:
    signature = v3().signature(path)
    assert signature is not None
    assert not signature.accepts(field)
    assert signature.unknown == "error"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("sagemaker.train.configs.Compute", "enable_managed_spot_training"),
        ("sagemaker.train.configs.SourceCode", "entry_script"),
        ("sagemaker.train.ModelTrainer", "training_image"),
        ("sagemaker.train.configs.StoppingCondition", "max_runtime_in_seconds"),
        ("sagemaker.train.distributed.Torchrun", "process_count_per_node"),
    ],
)
def test_fields_that_v3_has(path: str, field: str) -> None:
    signature = v3().signature(path)
    assert signature is not None
    assert signature.accepts(field)


def test_tables_say_what_they_were_read_from() -> None:
    assert v2().version == "2.257.7"
    assert v3().version == "3.27.0"
    assert "2.257.7" in v2().source


def test_every_estimator_takes_what_the_base_of_all_estimators_takes() -> None:
    sdk = v2()
    estimators = {
        sdk.definition(f"{module}.{name}")
        for module in sdk.modules
        for name in sdk.names(module) or ()
        if sdk.is_subclass(f"{module}.{name}", "sagemaker.estimator.EstimatorBase")
    }
    assert len(estimators) > 15
    for path in estimators:
        signature = sdk.signature(path)
        assert signature is None or (signature.accepts("instance_type") and signature.accepts("max_run")), (
            path
        )


@pytest.mark.parametrize("path", ["sagemaker.estimator.Estimator", "sagemaker.pytorch.PyTorch"])
def test_a_call_that_takes_any_word_is_open(path: str) -> None:
    signature = v2().signature(f"{path}.set_hyperparameters")
    assert signature is not None
    assert signature.unknown == "open"
