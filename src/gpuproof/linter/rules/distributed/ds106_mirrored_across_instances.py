"""`MirroredStrategy` works within one host: on several hosts, each trains its own model.

It distributes a step over the GPUs of one machine. For several machines TensorFlow has `MultiWorkerMirroredStrategy`,
which requires `TF_CONFIG`; SageMaker's SDK sets it with `distribution={"multi_worker_mirrored_strategy": {"enabled":
True}}`.
Source: https://www.tensorflow.org/guide/distributed_training.

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.g5.12xlarge",  # <-
    )
    # file: train.py
    import tensorflow as tf

    with tf.distribute.MirroredStrategy().scope():
        model = tf.keras.Sequential()
        model.compile()
    model.fit([])

Good:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", framework_version="2.11", py_version="py39",
        instance_count=2, instance_type="ml.g5.12xlarge",
        distribution={"multi_worker_mirrored_strategy": {"enabled": True}},
    )
    # file: train.py
    import os
    import tensorflow as tf

    with tf.distribute.MultiWorkerMirroredStrategy().scope():
        model = tf.keras.Sequential()
        model.compile()
    model.fit([])
    model.save(os.path.join(os.environ["SM_MODEL_DIR"], "1"))

Quiet: one host

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.12xlarge")
    # file: train.py
    import tensorflow as tf

    with tf.distribute.MirroredStrategy().scope():
        model = tf.keras.Sequential()

Quiet: the script depends on the number of hosts

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", role="role", instance_count=2, instance_type="ml.g5.12xlarge")
    # file: train.py
    import json
    import os
    import tensorflow as tf

    if len(json.loads(os.environ["SM_HOSTS"])) > 1:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    else:
        strategy = tf.distribute.MirroredStrategy()
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_to
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import hourly_price, hourly_text, no_price
from gpuproof.linter.knowledge.distribution.launchers import (
    format_distribution,
    host_count,
    reads_hosts,
    shards_input,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("DS106", "mirrored-across-instances", Severity.ERROR, when="link")

_OTHERS = re.compile(
    r"(^|\.)(MultiWorkerMirroredStrategy|CollectiveAllReduceStrategy|ParameterServerStrategy\w*|RunConfig)$"
    r"|^(horovod|smdistributed|herring)\."
)
_NAMES = re.compile(r"^train_distribute$")


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    count, script = host_count(job), job.script
    if job.kind != "training" or script is None or count is None or count < 2:
        return
    modules = local_modules(script)
    uses = any(calls_to(module, "tensorflow.distribute.MirroredStrategy") for module in modules)
    connects = (
        script_uses(script, _OTHERS, "call", "name")
        or reads_hosts(script)
        or script_uses(script, _NAMES, "keyword")
    )
    if not uses or connects or shards_input(job):
        return
    name = job.instance_type.text
    price = hourly_price(project, name, "training") if name else None
    cost = f", {hourly_text(price, count)} in total" if price else no_price(project) if name else ""
    yield rule.hit(
        job.where(job.instance_count, job.instance_type),
        f"MirroredStrategy in `{job.script_title}` works within one host: {count} instances train {count} models{cost}.",
        remedy="Use tf.distribute.MultiWorkerMirroredStrategy() with "
        f"{format_distribution(job, 'multi_worker_mirrored_strategy')}, or one instance.",
        severity=rule.severity if job.instance_count.is_known else lowered(rule.severity),
    )
