"""The number of GPUs is only printed: without a usable GPU the job prints 0 and trains on the CPU, at the price of the GPU.

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import tensorflow as tf

    print("GPUs:", len(tf.config.list_physical_devices("GPU")))  # <-
    model.fit(dataset)

Good:

    # file: train.py
    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        raise SystemExit("No usable GPU.")
    model.fit(dataset)

Quiet: no GPU job runs it

    import tensorflow as tf

    print("GPUs:", len(tf.config.list_physical_devices("GPU")))
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_to, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, host_text, largest_job
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF105", "gpu-check-only-prints", Severity.NOTE, when="strict", needs=("list_physical_devices",))

_LISTS = (
    "tensorflow.config.list_physical_devices",
    "tensorflow.config.experimental.list_physical_devices",
)


@rule.module
def check(module: Module, project: Project) -> Hits:
    job = largest_job(project, module)
    lists = calls_to(module, *_LISTS)
    if job is None or not gpus_per_host(project, job) or not lists:
        return
    printed = [
        call
        for log in calls_named(module, "print", "info", "debug", "warning")
        for call in calls_within(lists, log.node)
    ]
    if len(printed) == len(lists):
        yield rule.hit(
            printed[0].span,
            f"Without a usable GPU this only prints, and the job trains on the CPU of {host_text(job)}.",
            remedy='Stop the job: if not tf.config.list_physical_devices("GPU"): raise SystemExit("No usable GPU.")',
        )
