"""TensorFlow 2's `ParameterServerStrategy` rejects the `TF_CONFIG` that SageMaker sets for parameter servers.

With `distribution: parameter_server`, SageMaker's TensorFlow toolkit names the first task `master`, as TensorFlow 1 does;
GPUproof sets the same. `ParameterServerStrategy` accepts `chief`, `worker`, `ps` and `evaluator` only, and raises
`ValueError: Disallowed task type found in cluster spec` (seen with TensorFlow 2.21). `gpuproof.runtime.strategy()`
renames the task.

Bad:

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="r", framework_version="2.14", py_version="py310",
        instance_count=3, instance_type="ml.g5.xlarge", distribution={"parameter_server": {"enabled": True}},
    )
    # file: train.py
    import os
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(resolver)  # <-
    with strategy.scope():
        weight = tf.Variable(0.0)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    coordinator.schedule(lambda: weight.assign_add(1.0))
    coordinator.join()
    tf.saved_model.save(tf.Module(), os.path.join(os.environ["SM_MODEL_DIR"], "1"))

Good:

    # file: gpuproof.yaml
    kind: training
    entry_point: train.py
    framework: tensorflow
    instance_type: ml.g5.xlarge
    instance_count: 3
    distribution: parameter_server
    # file: train.py
    import tensorflow as tf
    import gpuproof.runtime as rt

    strategy = rt.strategy()
    with strategy.scope():
        weight = tf.Variable(0.0)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    coordinator.schedule(lambda: weight.assign_add(1.0))
    coordinator.join()
    tf.saved_model.save(tf.Module(), str(rt.paths.model / "1"))

Quiet: the script renames the task

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="r", framework_version="2.14", py_version="py310",
        instance_count=3, instance_type="ml.g5.xlarge", distribution={"parameter_server": {"enabled": True}},
    )
    # file: train.py
    import json
    import os
    import tensorflow as tf

    config = json.loads(os.environ["TF_CONFIG"])
    config["cluster"]["chief"] = config["cluster"].pop("master")
    if config["task"]["type"] == "master":
        config["task"]["type"] = "chief"
    os.environ["TF_CONFIG"] = json.dumps(config)
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    coordinator.join()
    tf.saved_model.save(tf.Module(), os.path.join(os.environ["SM_MODEL_DIR"], "1"))

Quiet: a cluster of the script's own

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="r", framework_version="2.14", py_version="py310",
        instance_count=3, instance_type="ml.g5.xlarge",
    )
    # file: train.py
    import os
    import tensorflow as tf
    from cluster import start_cluster

    start_cluster()
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    coordinator.join()
    tf.saved_model.save(tf.Module(), os.path.join(os.environ["SM_MODEL_DIR"], "1"))
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.distribution.launchers import enabled_launchers, host_count
from gpuproof.linter.knowledge.distribution.strategies import PARAMETER_SERVER, is_conditional
from gpuproof.linter.knowledge.frameworks.tensorflow import tensorflow_is_at_least
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule(
    "TF114",
    "parameter-server-rejects-master",
    Severity.ERROR,
    when="link",
    needs=("ParameterServerStrategy",),
)

# tf.distribute.experimental.ParameterServerStrategy is another class before.
_FIRST_VERSION = "2.6"
_RESOLVER = "tensorflow.distribute.cluster_resolver.TFConfigClusterResolver"
_TF_CONFIG = "TF_CONFIG"


@rule.module
def check(module: Module, project: Project) -> Hits:
    jobs = [job for job in project.jobs_running(module) if _has_servers(job)]
    if not jobs or tensorflow_is_at_least(module, project, _FIRST_VERSION) == "no":
        return
    for call in calls_to(module, *sorted(PARAMETER_SERVER)):
        if not _reads_tf_config(call):
            continue
        # Tutorials create the strategy in the branch of the task that is none of worker, server and evaluator.
        certain = not is_conditional(module, call.node) and jobs[0].instance_count.is_known
        yield rule.hit(
            call.span,
            f"ParameterServerStrategy rejects the task `master` of the job's TF_CONFIG ({jobs[0].title}).",
            remedy="Use gpuproof.runtime.strategy(), or rename `master` to `chief` in os.environ['TF_CONFIG'] first.",
            severity=rule.severity if certain else lowered(rule.severity),
        )


def _has_servers(job: JobDefinition) -> bool:
    return (
        job.kind == "training"
        and (host_count(job) or 1) > 1
        and enabled_launchers(job) == ("parameter_server",)
        and job.script is not None
        and not any(map(_sets_tf_config, local_modules(job.script)))
    )


def _sets_tf_config(module: Module) -> bool:
    """Whether a module may change TF_CONFIG; reading it renames no task."""
    if any(
        isinstance(node.ctx, ast.Store)
        and module.qualified(node.value) == "os.environ"
        and evaluate(module, node.slice).text in (_TF_CONFIG, None)
        for node in module.nodes(ast.Subscript)
    ):
        return True
    texts = {use.node for use in find_uses(module, "string") if use.text == _TF_CONFIG}
    return any(
        module.tree.is_within(text, call.node)
        for call in calls_named(module, "update", "setdefault", "putenv")
        for text in texts
    )


def _reads_tf_config(call: Call) -> bool:
    resolver = origin_call(call.module, call.expression("cluster_resolver", 0))
    return resolver is not None and resolver.name == _RESOLVER and not resolver.is_open
