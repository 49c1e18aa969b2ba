"""`jit_compile=True` in Keras 3 under a strategy of several GPUs: training hangs or fails.

XLA compiles the training step of each replica on its own, and the collective operations between the replicas do not
fit into it. Keras turns `jit_compile="auto"`, its default, off under a `tf.distribute` strategy, but obeys an explicit
`True`. The hang costs all GPUs until the job's time limit. (keras/src/trainers/trainer.py, `model_supports_jit`; Keras
issues 18145 and 20763.)

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="r", framework_version="2.18", py_version="py310", instance_count=1,
        instance_type="ml.g5.12xlarge",
    ).fit()
    # file: train.py
    import keras
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(loss="mse", jit_compile=True)  # <-
    model.fit([], [])

Good:

    import keras
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(loss="mse")
    model.fit([], [])

Quiet: one GPU

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="r", framework_version="2.18", py_version="py310", instance_count=1,
        instance_type="ml.g5.xlarge",
    ).fit()
    # file: train.py
    import keras
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(loss="mse", jit_compile=True)
    model.fit([], [])

Quiet: no strategy

    import keras

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(loss="mse", jit_compile=True)
    model.fit([], [])
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.strategies import scope_around
from gpuproof.linter.knowledge.frameworks.tensorflow import has_keras_3, targets_old_tensorflow
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("TF115", "jit-compile-under-strategy", Severity.WARNING, needs=("jit_compile",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("keras", "tensorflow") or targets_old_tensorflow(module):
        return
    jobs = [job for job in project.jobs_running(module) if job.kind == "training"]
    gpus = [(gpus_per_host(project, job) or 0) * int(job.instance_count.number or 1) for job in jobs]
    if jobs and max(gpus) < 2:
        return
    keras_3 = has_keras_3(module, project)
    if keras_3 == "no":
        return
    for call in calls_named(module, "compile"):
        compiled = call.argument("jit_compile")
        if not compiled.is_known or compiled.flag is not True or call.receiver is None:
            continue
        name = _strategy_around(module, call)
        if name is None:
            continue
        where = f" on {max(gpus)} GPUs ({jobs[gpus.index(max(gpus))].title})" if jobs else ""
        yield rule.hit(
            module.span(call.expression("jit_compile") or call.node),
            f"`jit_compile=True` under {name}{where}: Keras 3's training hangs or fails.",
            remedy='Remove it: "auto", the default, compiles only where it works.',
            severity=rule.severity if jobs and keras_3 == "yes" else lowered(rule.severity),
        )


def _strategy_around(module: Module, call: Call) -> str | None:
    """The strategy under which a model is compiled: around the call, its model's creation, or a call of its function."""
    nodes: list[ast.AST] = [call.node]
    made = origin_call(module, call.receiver)
    if made is not None:
        nodes.append(made.node)
    function = module.function_of(call.node)
    if function is not None:
        nodes += [other.node for other in calls_named(module, function.name)]
    for node in nodes:
        strategy = scope_around(module, node)
        created = origin_call(module, strategy) if strategy is not None else None
        name = created.name if created is not None else None
        if name and name.startswith("tensorflow.distribute.") and name.endswith("MirroredStrategy"):
            return name.rpartition(".")[2]
    return None
