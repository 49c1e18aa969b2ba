"""A parameter server on one host is not started: TensorFlow's container ignores the setting with a single instance.

The training toolkit starts parameter servers only where it has more than one host. With one, `distribution` changes
nothing about the training, and the SDK turns the debugger hook off on top. It does not make several GPUs of one host
work together either; that is what `tf.distribute.MirroredStrategy` in the script is for.
Source: sagemaker-tensorflow-training, `training.py`, which asks for more than one host.

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

Quiet: how many hosts there are is decided elsewhere

    import sys
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=int(sys.argv[1]), instance_type="ml.g5.xlarge",
        distribution={"parameter_server": {"enabled": True}},
    )
"""

from gpuproof.check.fixing.edits import drop_keyword
from gpuproof.check.jobs.definition import JobDefinition
from gpuproof.check.knowledge.launchers import hosts, launchers
from gpuproof.check.project import Project
from gpuproof.check.rule import Fix, Hits, Rule, lowered
from gpuproof.findings import Severity

rule = Rule("DS104", "parameter-server-on-one-host", Severity.WARNING)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if job.kind != "training" or job.framework != "tensorflow" or hosts(job) != 1:
        return
    if launchers(job) != ("parameter_server",):
        return
    sure = job.instance_count.is_known
    # A hyperparameter tuner or a later line may still raise the count where it is only a default.
    edit = drop_keyword(job.call, "distribution") if job.call is not None and sure else None
    gpus = project.gpus(job)
    instead = " for its GPUs, train under tf.distribute.MirroredStrategy()" if gpus and gpus > 1 else ""
    yield rule.hit(
        job.where(job.distribution),
        "The container starts no parameter server on one instance: this `distribution` does nothing.",
        remedy=f"Remove it{';' + instead if instead else ''}.",
        severity=rule.severity if sure else lowered(rule.severity),
        fix=Fix("Remove distribution", (edit,), safe=True) if edit is not None else None,
    )
