"""`tf.device("/GPU:1")` with a GPU that does not exist runs on the CPU: TensorFlow places operations elsewhere, silently.

Soft placement is on by default in TensorFlow 2. `tf.debugging.set_log_device_placement(True)` shows where operations run, and
`tf.config.set_soft_device_placement(False)` makes a missing device an error.

Bad:

    import tensorflow as tf

    with tf.device("/GPU:0"):  # <-
        model.fit(dataset)

Good:

    import tensorflow as tf

    tf.config.set_soft_device_placement(False)
    with tf.device("/GPU:0"):
        model.fit(dataset)

Quiet: the CPU

    import tensorflow as tf

    with tf.device("/CPU:0"):
        dataset = load()

Quiet: the script makes sure that there is one

    import tensorflow as tf

    if not tf.config.list_physical_devices("GPU"):
        raise SystemExit("no GPU")
    with tf.device("/GPU:0"):
        model.fit(dataset)
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF102", "hard-coded-device", Severity.NOTE, when="strict", needs=("tf.device", "device("))

_GPU = re.compile(r"gpu", re.IGNORECASE)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if calls_named(module, "set_soft_device_placement", "list_physical_devices", "list_logical_devices"):
        return
    for call in calls_to(module, "tensorflow.device"):
        name = call.argument("device_name", 0)
        if name.is_known and _GPU.search(name.text or ""):
            yield rule.hit(
                call.span,
                f"If `{name.text}` does not exist, TensorFlow silently runs this on the CPU.",
                remedy="Call tf.config.set_soft_device_placement(False), or check list_physical_devices first.",
            )
