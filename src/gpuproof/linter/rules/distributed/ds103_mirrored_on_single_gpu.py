"""`MirroredStrategy` creates a single replica on an instance with one GPU, so it has no effect except a slower start.

This is harmless, but may mean that a larger instance was intended. The rule reports scripts whose jobs all have a
single GPU.

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.2xlarge")
    # file: train.py
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()  # <-

Good:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.14", py_version="py310",
        instance_count=1, instance_type="ml.g5.12xlarge",
    )
    # file: train.py
    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()

Quiet: no job defines the instance

    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()

Quiet: only if there are several GPUs

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.2xlarge")
    # file: train.py
    import tensorflow as tf

    if len(tf.config.list_physical_devices("GPU")) > 1:
        strategy = tf.distribute.MirroredStrategy()
    else:
        strategy = tf.distribute.get_strategy()
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS103", "mirrored-on-single-gpu", Severity.NOTE, when="link", needs=("MirroredStrategy",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in project.jobs_running(module) if job.kind == "training"]
    if not jobs or any(gpus_per_host(project, job) != 1 or not job.instance_type.is_known for job in jobs):
        return
    for call in calls_to(module, "tensorflow.distribute.MirroredStrategy"):
        if module.enclosing(call.node, ast.If, ast.IfExp, ast.Try) is not None:
            continue
        yield rule.hit(
            call.span,
            f"`{jobs[0].instance_type.text}` has one GPU: MirroredStrategy creates a single replica "
            f"({jobs[0].title}).",
            remedy="Remove the strategy, or use an instance with several GPUs.",
        )
