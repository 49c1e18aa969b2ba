"""Memory growth that is only set for the first GPU fails on an instance with several GPUs.

"Memory growth cannot differ between GPU devices" (TensorFlow's `context.py`) is a ValueError at the first op, on the
larger instance that was meant to be faster. Memory growth must be set for each visible GPU.

Bad:

    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    tf.config.experimental.set_memory_growth(gpus[0], True)  # <-

Fixed:

    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)

Good:

    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)

Bad: all of them are visible

    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus, "GPU")
    tf.config.experimental.set_memory_growth(gpus[0], True)  # <-

Quiet: only that one is visible

    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[0], "GPU")
    tf.config.experimental.set_memory_growth(gpus[0], True)

Quiet: the instance has a single GPU

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    tf.config.experimental.set_memory_growth(gpus[0], True)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, largest_job
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.edit import Fix

_VISIBLE = re.compile(r"^CUDA_VISIBLE_DEVICES$")

rule = Rule("TF106", "memory-growth-partial", Severity.ERROR, needs=("set_memory_growth",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    calls = [
        candidate
        for candidate in calls_named(module, "set_memory_growth")
        if (candidate.name or "").startswith("tensorflow.")
    ]
    if len(calls) != 1 or is_test(module):
        return
    if uses(module, _VISIBLE, "string") or not all(
        map(_shows_all, calls_named(module, "set_visible_devices"))
    ):
        return
    call, job = calls[0], largest_job(project, module)
    gpus = gpus_per_host(project, job) if job is not None else None
    device = call.expression("device", 0)
    if gpus in (0, 1) or not isinstance(device, ast.Subscript) or evaluate(module, device.slice).number != 0:
        return
    listed = origin_call(module, device.value)
    if (
        listed is None
        or listed.method != "list_physical_devices"
        or listed.argument("device_type", 0).text != "GPU"
    ):
        return
    where = f"; `{job.instance_type.text}` has {gpus}" if job is not None and gpus else ""
    statement = module.parent(call.node)
    fix = None
    if isinstance(statement, ast.Expr):
        indent = " " * statement.col_offset
        text = module.text(call.node).replace(module.text(device), "gpu", 1)
        loop = f"for gpu in {module.text(device.value)}:\n{indent}    {text}"
        fix = Fix("Set it for each GPU", (replace_node(module, statement, loop),), safe="\n" not in text)
    yield rule.hit(
        call.span,
        f"Memory growth for only one GPU raises a ValueError if there are several{where}.",
        remedy="Set it for each GPU of list_physical_devices('GPU').",
        severity=rule.severity if gpus else lowered(rule.severity),
        fix=fix,
    )


def _shows_all(call: Call) -> bool:
    """Whether a call makes every GPU visible, or is about other devices."""
    kind = call.argument("device_type", 1)
    listed = origin_call(call.module, call.expression("devices", 0))
    if listed is not None and listed.method == "list_physical_devices":
        return True
    return kind.is_known and kind.text != "GPU"
