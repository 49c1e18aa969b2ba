"""Only one GPU is made visible to TensorFlow, and the instance of the job has several: the others are idle.

`tf.config.set_visible_devices(gpus[0], "GPU")` hides all other GPUs from this process. With one process per GPU, the index is
the local rank; with one process, MirroredStrategy uses all of them.

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.12xlarge").fit()
    # file: train.py
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[0], "GPU")  # <-
    model.fit(dataset)

Good:

    # file: train.py
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = build()
        model.compile("adam", "mse")

Quiet: one process per GPU

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.12xlarge").fit()
    # file: train.py
    import horovod.tensorflow as hvd
    import tensorflow as tf

    hvd.init()
    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

Quiet: the instance has one GPU

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[0], "GPU")
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, host_text, largest_job
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "TF103", "gpus-hidden-from-tensorflow", Severity.WARNING, when="link", needs=("set_visible_devices",)
)


@rule.module
def check(module: Module, project: Project) -> Hits:
    job = largest_job(project, module)
    gpus = gpus_per_host(project, job) if job is not None else None
    if job is None or gpus is None or gpus < 2:
        return
    for call in calls_named(module, "set_visible_devices"):
        if call.argument("device_type", 1).text != "GPU" or not (call.name or "").startswith("tensorflow."):
            continue
        given = call.expression("devices", 0)
        if isinstance(given, ast.List) and len(given.elts) == 1:
            given = given.elts[0]
        if not isinstance(given, ast.Subscript) or isinstance(given.slice, ast.Slice):
            continue
        index = evaluate(module, given.slice)
        if index.is_known and isinstance(index.number, int):
            yield rule.hit(
                call.span,
                f"Only GPU {index.number} is visible to TensorFlow: {gpus - 1} of {gpus} GPUs of {host_text(job)} are idle ({job.title}).",
                remedy="Remove it and use MirroredStrategy, or take an instance type with one GPU.",
            )
