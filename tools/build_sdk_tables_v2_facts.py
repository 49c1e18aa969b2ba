"""Prints, as JSON, behaviour of sagemaker v2 that is not in signatures, found by running it.

Runs inside the environment of sagemaker v2 (`build_sdk_tables.py` starts it there). No call reaches AWS: estimators
and models are only constructed, with fake keys.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import logging
import pkgutil
import re
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FRAMEWORKS: dict[str, dict[str, Any]] = {
    "sagemaker.pytorch.estimator.PyTorch": {"framework_version": "2.1", "py_version": "py310"},
    "sagemaker.tensorflow.estimator.TensorFlow": {"framework_version": "2.11", "py_version": "py39"},
    "sagemaker.huggingface.estimator.HuggingFace": {
        "transformers_version": "4.26",
        "pytorch_version": "1.13",
        "py_version": "py39",
    },
    "sagemaker.mxnet.estimator.MXNet": {"framework_version": "1.8.0", "py_version": "py37"},
}
LAUNCHERS = [name for name in FRAMEWORKS if not name.endswith(".MXNet")]
"""Estimators that share the common configuration of a distribution; MXNet has its own."""
MODELS: dict[str, dict[str, Any]] = {
    "sagemaker.pytorch.model.PyTorchModel": {"framework_version": "2.1", "py_version": "py310"},
    "sagemaker.tensorflow.model.TensorFlowModel": {"framework_version": "2.11"},
    "sagemaker.huggingface.model.HuggingFaceModel": {
        "transformers_version": "4.26",
        "pytorch_version": "1.13",
        "py_version": "py39",
    },
}
ROLE = "arn:aws:iam::123456789012:role/nobody"
INSTANCE = {"instance_count": 1, "instance_type": "ml.g5.xlarge"}
ENABLED = {
    "smdistributed": {"dataparallel": {"enabled": True}},
    "instance_groups": ["group"],
}


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    # The SDK prints the paths of its configuration.
    with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as folder:
        entry = Path(folder, "train.py")
        entry.write_text("", encoding="utf-8")
        common = {"entry_point": str(entry), "role": ROLE, "sagemaker_session": _session()}
        found = {
            "distribution": {name: _distribution_keys(name, common) for name in LAUNCHERS},
            "needs": [*_constructor_needs(common), *_deploy_needs(common)],
            "renamed_words": _renamed_words(),
            "renamed_names": _renamed_names(),
            "does_nothing": sorted(_does_nothing()),
        }
    json.dump(found, sys.stdout, indent=1, sort_keys=True)


def _session() -> Any:
    import boto3

    sagemaker = importlib.import_module("sagemaker")
    aws = boto3.Session(region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none")
    return sagemaker.Session(boto_session=aws, default_bucket="bucket", sagemaker_config={})


def _distribution_keys(name: str, common: dict[str, Any]) -> list[str]:
    """Keys of `distribution=` that have an effect on the request of the estimator; others are silently ignored."""
    estimator = _named(name)
    kept: list[str] = []
    for key in _words_near_distribution(estimator):
        value = ENABLED.get(key, {"enabled": True})
        made = estimator(**common, **INSTANCE, **FRAMEWORKS[name])
        made.distribution = {key: value}
        configure = next(
            getattr(made, each)
            for each in (
                "_pytorch_distribution_configuration",
                "_huggingface_distribution_configuration",
                "_distribution_configuration",
            )
            if hasattr(made, each)
        )
        try:
            if configure(made.distribution):
                kept.append(key)
        except ValueError:
            # Known, but rejected for this instance type or version.
            kept.append(key)
    return kept


def _words_near_distribution(estimator: type) -> list[str]:
    """Every key that the SDK reads from a distribution."""
    words: set[str] = set()
    for cls in estimator.__mro__[:-1]:
        words |= _looked_up(inspect.getsource(sys.modules[cls.__module__]))
    return sorted(words | _looked_up(inspect.getsource(importlib.import_module("sagemaker.fw_utils"))))


def _looked_up(source: str) -> set[str]:
    patterns = (
        r'"(\w+)" in (?:self\.|validated_)?distribution\b',
        r'distribution\.get\("(\w+)"',
        r'distribution\["(\w+)"\]',
    )
    return {word for pattern in patterns for word in re.findall(pattern, source)}


def _constructor_needs(common: dict[str, Any]) -> Iterator[dict[str, str]]:
    """Arguments whose default is None and whose absence is a ValueError, found by omitting each."""
    model = {key: value for key, value in common.items() if key != "entry_point"}
    model |= {"model_data": "s3://bucket/model.tar.gz"}
    for name, versions in (FRAMEWORKS | MODELS).items():
        given = {**common, **INSTANCE, **versions} if name in FRAMEWORKS else {**model, **versions}
        if name.endswith(".PyTorchModel"):
            given["entry_point"] = common["entry_point"]
        cls = _named(name)
        cls(**given)
        for word in versions:
            less = {key: value for key, value in given.items() if key != word}
            if message := _value_error(cls, less):
                spared = "image_uri" if not _value_error(cls, {**less, "image_uri": "image"}) else ""
                other = "tensorflow_version" if word == "pytorch_version" else ""
                yield {"call": name, "needs": word, "or": other, "unless": spared, "says": message}


def _deploy_needs(common: dict[str, Any]) -> Iterator[dict[str, str]]:
    name = "sagemaker.pytorch.model.PyTorchModel"
    model = _named(name)(model_data="s3://bucket/model.tar.gz", **common, **MODELS[name])
    yield from _without_each("sagemaker.model.Model.deploy", model.deploy)
    name = "sagemaker.pytorch.estimator.PyTorch"
    estimator = _named(name)(**common, **INSTANCE, **FRAMEWORKS[name])
    # A finished training job: the only AWS response that `deploy` reads before it checks its arguments.
    estimator.latest_training_job = types.SimpleNamespace(name="job")
    estimator.sagemaker_session.sagemaker_client = types.SimpleNamespace(describe_training_job=_described)
    yield from _without_each("sagemaker.estimator.EstimatorBase.deploy", estimator.deploy)


def _described(TrainingJobName: str) -> dict[str, Any]:  # noqa: N803 - AWS's word
    """The description of a finished training job."""
    artifacts = {"S3ModelArtifacts": f"s3://bucket/{TrainingJobName}/model.tar.gz"}
    return {"TrainingJobName": TrainingJobName, "ModelArtifacts": artifacts}


def _without_each(name: str, deploy: Any) -> Iterator[dict[str, str]]:
    given = {"initial_instance_count": 1, "instance_type": "ml.g5.xlarge"}
    for word in given:
        less = {key: value for key, value in given.items() if key != word}
        if message := _value_error(deploy, less):
            yield {
                "call": name,
                "needs": word,
                "or": "",
                "unless": "serverless_inference_config inference_recommendation_id",
                "says": message,
            }


def _value_error(call: Any, given: dict[str, Any]) -> str:
    try:
        call(**given)
    except ValueError as error:
        return str(error)
    except TypeError:
        # The signature already has it.
        return ""
    return ""


def _renamed_words() -> list[dict[str, str]]:
    """Keyword renames of the SDK's own upgrade tool from v1, by callable."""
    found: list[dict[str, str]] = []
    for module in _modifiers():
        for cls in vars(module).values():
            if isinstance(cls, type) and cls.__module__ == module.__name__ and hasattr(cls, "old_param_name"):
                rename = cls()
                # The common base of these classes has no callable.
                found += [
                    {"call": name, "old": rename.old_param_name, "new": rename.new_param_name}
                    for name in rename.calls_to_modify or ()
                ]
        if module.__name__.endswith(".training_params"):
            found += [
                {"call": name, "old": word, "new": word.removeprefix("train_")}
                for name in module.ESTIMATORS
                for word in module.PARAMS
            ]
    return found


def _renamed_names() -> dict[str, str]:
    """v1 names with the v2 names that replace them, from the upgrade tool of the SDK; each exists in v2."""
    serde = importlib.import_module("sagemaker.cli.compatibility.v2.modifiers.serde")
    classes = serde.OLD_CLASS_NAME_TO_NEW_CLASS_NAME | serde.OLD_OBJECT_NAME_TO_NEW_CLASS_NAME
    found = {
        old: f"sagemaker.{'de' if new.endswith('Deserializer') else ''}serializers.{new}"
        for old, new in classes.items()
    }
    found |= {
        "RealTimePredictor": "sagemaker.predictor.Predictor",
        "s3_input": "sagemaker.inputs.TrainingInput",
        "get_image_uri": "sagemaker.image_uris.retrieve",
        "create_image_uri": "sagemaker.image_uris.retrieve",
        "get_ecr_image_uri_prefix": "sagemaker.image_uris.retrieve",
        "get_xgboost_image_uri": "sagemaker.image_uris.retrieve",
        "default_framework_uri": "sagemaker.image_uris.retrieve",
        "registry": "sagemaker.image_uris.retrieve",
        "sagemaker.tensorflow.serving.Model": "sagemaker.tensorflow.TensorFlowModel",
        "sagemaker.tensorflow.serving.Predictor": "sagemaker.tensorflow.TensorFlowPredictor",
    }
    for new in found.values():
        _named(new)
    return found


def _does_nothing() -> Iterator[str]:
    """Methods that still work, with a warning."""
    for each in pkgutil.iter_modules(importlib.import_module("sagemaker").__path__, "sagemaker."):
        if each.ispkg or each.name.split(".")[-1].startswith("_"):
            continue
        module = importlib.import_module(each.name)
        for name, cls in vars(module).items():
            if isinstance(cls, type) and cls.__module__ == module.__name__:
                yield from (
                    f"{each.name}.{name}.{method}"
                    for method, value in vars(cls).items()
                    if "removed_function" in getattr(value, "__qualname__", "")
                )


def _modifiers() -> Iterator[Any]:
    package = importlib.import_module("sagemaker.cli.compatibility.v2.modifiers")
    for each in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        yield importlib.import_module(each.name)


def _named(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


if __name__ == "__main__":
    main()
