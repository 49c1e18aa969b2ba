"""Keras 3's `fit` and `evaluate` do not work under a strategy of several hosts: the job fails when it calls them.

TensorFlow 2.16 and later install Keras 3, whose `fit` raises `ValueError: Attempt to convert a value (PerReplica...)`
under `MultiWorkerMirroredStrategy` and `ParameterServerStrategy` (seen with TensorFlow 2.21 and Keras 3.15). Building,
saving and `predict` work. Either install `tf_keras` and set `TF_USE_LEGACY_KERAS=1` before TensorFlow is imported, or
write the training loop with `strategy.run`. It is an error if the job or the project pins such a TensorFlow, and a
warning if nothing is pinned.

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="r", framework_version="2.18", py_version="py310",
        instance_count=2, instance_type="ml.g5.xlarge",
        distribution={"multi_worker_mirrored_strategy": {"enabled": True}},
    )
    # file: train.py
    import os
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(loss="mse")
    model.fit(tf.data.Dataset.from_tensor_slices(([1.0], [1.0])).batch(64).prefetch(1))  # <-
    model.save(os.path.join(os.environ["SM_MODEL_DIR"], "model.keras"))

Bad:

    # file: gpuproof.yaml
    kind: training
    entry_point: train.py
    framework: tensorflow
    instance_type: ml.g5.xlarge
    instance_count: 2
    distribution: parameter_server
    # file: train.py
    import tensorflow as tf
    import gpuproof.runtime as rt

    def build():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(loss="mse")
        return model

    with rt.strategy().scope():
        model = build()
    model.fit(tf.data.Dataset.from_tensor_slices(([1.0], [1.0])).batch(64).prefetch(1))  # <-
    rt.save(model)

Good:

    # file: gpuproof.yaml
    kind: training
    entry_point: train.py
    framework: tensorflow
    instance_type: ml.g5.xlarge
    instance_count: 2
    distribution: multi_worker_mirrored
    environment: {TF_USE_LEGACY_KERAS: "1"}
    # file: train.py
    import tensorflow as tf
    import gpuproof.runtime as rt

    with rt.strategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(loss="mse")
    model.fit(tf.data.Dataset.from_tensor_slices(([1.0], [1.0])).batch(64).prefetch(1))
    rt.save(model)

Quiet: the job's TensorFlow has Keras 2

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="r", framework_version="2.14", py_version="py310",
        instance_count=2, instance_type="ml.g5.xlarge",
        distribution={"multi_worker_mirrored_strategy": {"enabled": True}},
    )
    # file: train.py
    import os
    import tensorflow as tf

    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(loss="mse")
    model.fit(tf.data.Dataset.from_tensor_slices(([1.0], [1.0])).batch(64).prefetch(1))
    model.save(os.path.join(os.environ["SM_MODEL_DIR"], "1"))

Quiet: a training loop of its own

    # file: gpuproof.yaml
    kind: training
    entry_point: train.py
    framework: tensorflow
    framework_version: "2.18"
    instance_type: ml.g5.xlarge
    instance_count: 2
    distribution: multi_worker_mirrored
    # file: train.py
    import tensorflow as tf
    import gpuproof.runtime as rt

    strategy = rt.strategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        optimizer = tf.keras.optimizers.SGD()

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    data = tf.data.Dataset.from_tensor_slices([[1.0]]).batch(64).prefetch(1)
    for x in strategy.experimental_distribute_dataset(data):
        strategy.run(step, args=(x,))
    rt.save(model)

Quiet: one host

    # file: gpuproof.yaml
    kind: training
    entry_point: train.py
    framework: tensorflow
    framework_version: "2.18"
    instance_type: ml.g5.12xlarge
    distribution: multi_worker_mirrored
    # file: train.py
    import tensorflow as tf
    import gpuproof.runtime as rt

    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(loss="mse")
    model.fit(tf.data.Dataset.from_tensor_slices(([1.0], [1.0])).batch(64).prefetch(1))
    rt.save(model)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.distribution.launchers import host_count
from gpuproof.linter.knowledge.distribution.strategies import (
    is_conditional,
    scope_around,
    strategy_across_hosts,
)
from gpuproof.linter.knowledge.frameworks.tensorflow import (
    has_keras_3,
    sets_legacy_keras,
    targets_old_tensorflow,
)
from gpuproof.linter.knowledge.version_pins import pinned_versions
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("TF113", "keras-fit-across-hosts", Severity.ERROR, when="link", needs=("fit", "evaluate"))

_LEGACY = "TF_USE_LEGACY_KERAS"
_LEGACY_MODULE = re.compile(r"^tf_keras(\.|$)")


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in project.jobs_running(module) if job.kind == "training" and _has_several_hosts(job)]
    if not jobs or not module.imports("keras", "tensorflow") or targets_old_tensorflow(module):
        return
    keras_3 = has_keras_3(module, project)
    if keras_3 == "no" or "tf-keras" in pinned_versions(module.unit):
        return
    for call in calls_named(module, "fit", "evaluate"):
        if is_conditional(module, call.node):
            continue
        job, strategy = next(((job, name) for job in jobs if (name := _strategy_of(call, job))), (None, ""))
        if job is None:
            continue
        certain = keras_3 == "yes" and job.instance_count.is_known
        keras = "Keras 3's" if certain else "With Keras 3 (TensorFlow 2.16 and later),"
        yield rule.hit(
            call.span,
            f"{keras} model.{call.method} fails under {strategy} on {host_count(job)} hosts ({job.title}).",
            remedy="Install tf_keras and set TF_USE_LEGACY_KERAS=1 in the job's environment, or write the loop with "
            "strategy.run(step) and optimizer.apply_gradients().",
            severity=rule.severity if certain else lowered(rule.severity),
        )


def _has_several_hosts(job: JobDefinition) -> bool:
    legacy = job.environment.at(_LEGACY)
    is_off = legacy.is_unset or (legacy.is_known and str(legacy.value).lower() in ("0", "false", ""))
    if (host_count(job) or 1) < 2 or not is_off:
        return False
    script = job.script
    return script is None or not (
        any(map(sets_legacy_keras, local_modules(script)))
        or script_uses(script, _LEGACY_MODULE, "name", "call")
    )


def _strategy_of(call: Call, job: JobDefinition) -> str | None:
    """The strategy of several hosts in whose scope the model of a call was certainly built."""
    module, model = call.module, call.receiver
    if not isinstance(model, ast.Name):
        return None
    bindings = module.reaching(model)
    if len(bindings) != 1 or bindings[0].value is None or is_conditional(module, bindings[0].value):
        return None
    built = bindings[0].value
    strategy = scope_around(module, built)
    if strategy is None or origin_call(module, model) is None:
        return None
    is_model = type_of(module, model).kind is TypeKind.KERAS_MODEL
    return strategy_across_hosts(module, strategy, job) if is_model else None
