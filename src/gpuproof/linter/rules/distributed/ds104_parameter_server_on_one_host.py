"""TensorFlow's container does not start a parameter server on a single instance: the setting is ignored.

The training toolkit only starts parameter servers if there is more than one host. On one host, `distribution` does
not change the training, and the SDK also turns the debugger hook off. It does not distribute work over several GPUs
of one host either; for that, use `tf.distribute.MirroredStrategy` in the script.
Source: sagemaker-tensorflow-training, `training.py`, which requires more than one host.

Bad:

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=1, instance_type="ml.g5.xlarge",
        distribution={"parameter_server": {"enabled": True}},  # <-
    )

Fixed:

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=1, instance_type="ml.g5.xlarge",
    )

Good:

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.g5.xlarge", distribution={"parameter_server": {"enabled": True}},
    )

Quiet: turned off

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=1, instance_type="ml.g5.xlarge", distribution={"parameter_server": {"enabled": False}},
    )

Quiet: the number of hosts is defined elsewhere

    import sys
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=int(sys.argv[1]), instance_type="ml.g5.xlarge",
        distribution={"parameter_server": {"enabled": True}},
    )
"""

from gpuproof.findings import Severity
from gpuproof.linter.fixing.edits import remove_keyword
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.launchers import enabled_launchers, host_count
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.edit import Fix

rule = Rule("DS104", "parameter-server-on-one-host", Severity.WARNING)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if job.kind != "training" or job.framework != "tensorflow" or host_count(job) != 1:
        return
    if enabled_launchers(job) != ("parameter_server",):
        return
    sure = job.instance_count.is_known
    # If the count is only a default, a hyperparameter tuner or a later line may still raise it.
    edit = remove_keyword(job.call, "distribution") if job.call is not None and sure else None
    gpus = gpus_per_host(project, job)
    instead = " to use its GPUs, train under tf.distribute.MirroredStrategy()" if gpus and gpus > 1 else ""
    yield rule.hit(
        job.where(job.distribution),
        "The container starts no parameter server on a single instance: this `distribution` has no effect.",
        remedy=f"Remove it{';' + instead if instead else ''}.",
        severity=rule.severity if sure else lowered(rule.severity),
        fix=Fix("Remove distribution", (edit,), safe=True) if edit is not None else None,
    )
