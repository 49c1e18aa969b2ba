"""The TensorFlow Serving container only loads `<number>/saved_model.pb` from the model's folder.

A Keras file (`model.h5`, `model.keras`), or a SavedModel in a folder whose name is not a version number, is trained
and uploaded without errors; the endpoint then fails with "no SavedModel bundles found!". The rule requires a training
script, its TensorFlow estimator, and a `deploy()` of that model without a custom inference script.

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    estimator = TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge")
    estimator.fit()
    estimator.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    # file: train.py
    import os
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.save(os.path.join(os.environ["SM_MODEL_DIR"], "model.h5"))  # <-

Bad: a SavedModel without a number

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow, TensorFlowModel

    estimator = TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge")
    estimator.fit()
    model = TensorFlowModel(model_data=estimator.model_data, role="role")
    model.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    tf.saved_model.save(model, "/opt/ml/model")  # <-

Good:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    estimator = TensorFlow(
        entry_point="train.py", role="role", framework_version="2.14", py_version="py310",
        instance_count=1, instance_type="ml.g5.xlarge",
    )
    estimator.fit()
    estimator.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    # file: train.py
    import os
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.export(os.path.join(os.environ["SM_MODEL_DIR"], "1"))

Quiet: trained but not deployed

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import keras

    keras.Sequential([]).save("/opt/ml/model/model.h5")

Quiet: the file is saved in addition to a SavedModel

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    estimator = TensorFlow(entry_point="train.py", instance_count=1, instance_type="ml.g5.xlarge")
    estimator.deploy(initial_instance_count=1, instance_type="ml.g5.xlarge")
    # file: train.py
    import keras

    model = keras.Sequential([])
    model.save("/opt/ml/model/model.h5")
    model.export("/opt/ml/model/1")
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.container_env import MODEL_DIR
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.contract.script_contract import keras_saves
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("SM103", "not-servable", Severity.ERROR)

_KERAS_FILE = (".h5", ".hdf5", ".keras")


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if (
        job.kind not in ("endpoint", "transform")
        or job.source != "sagemaker-v2"
        or job.framework != "tensorflow"
    ):
        return
    trained = _trained(job, project)
    if trained is None or trained.script is None or not job.image.is_unset or not trained.image.is_unset:
        return
    serves = job.call.argument("entry_point") if job.call is not None else job.entry_point
    if not serves.is_absent or (
        job.model is not trained and job.model and not job.model.entry_point.is_absent
    ):
        return
    saves = list(keras_saves(trained.script))
    if any(_fault(path) is None for _, path in saves):
        return
    for call, path in saves:
        yield rule.hit(
            path.span or call.span,
            f"{_fault(path)}; {job.title} serves it with TensorFlow Serving, which only loads "
            "`<number>/saved_model.pb`: the endpoint fails.",
            remedy='Keras 3: model.export(os.path.join(os.environ["SM_MODEL_DIR"], "1")); Keras 2: '
            'model.save() to the same folder "1".',
            severity=rule.severity if not path.is_unknown else lowered(rule.severity),
        )


def _trained(job: JobDefinition, project: Project) -> JobDefinition | None:
    """The training job whose model is served, by `estimator.deploy()` or a model with `estimator.model_data`."""
    if job.model is None or job.model.kind == "training":
        return job.model
    call = job.model.call
    data = call.module.origin(call.expression("model_data", 0)) if call is not None else None
    if call is None or not isinstance(data, ast.Attribute) or data.attr != "model_data":
        return None
    origin = call.module.origin(data.value)
    return next(
        (
            candidate
            for candidate in project.jobs
            if candidate.call is not None and candidate.call.node is origin
        ),
        None,
    )


def _fault(path: Value) -> str | None:
    """Why TensorFlow Serving does not find the model at this path; None if it may find it."""
    text = path.text
    shown = text or f"{path.prefix}...{path.suffix}"
    if (text or path.suffix).endswith(_KERAS_FILE):
        return f"`{shown}` is a Keras file"
    if text is None or not (text.rstrip("/") == MODEL_DIR or text.startswith(MODEL_DIR + "/")):
        return None
    last = text.rstrip("/").rpartition("/")[2]
    return None if last.isdigit() else f"`{shown}` has no folder with a version number"
