"""Without `prefetch` the GPU waits while the CPU prepares the next batch, and the CPU waits while the GPU computes.

`prefetch(tf.data.AUTOTUNE)` at the end of a pipeline overlaps the two; TensorFlow's guide to tf.data performance
lists it first. `fit` does not add it. The rule follows a pipeline from its source to `fit`, and does not report
pipelines of which any part is defined by another package.

Bad:

    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices([1.0]).shuffle(10)
    dataset = dataset.batch(2)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.fit(dataset, epochs=3)  # <-

Fixed:

    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices([1.0]).shuffle(10)
    dataset = dataset.batch(2)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.fit(dataset.prefetch(tf.data.AUTOTUNE), epochs=3)

Bad: a function of another file makes the dataset

    # file: data.py
    import tensorflow as tf

    def load(folder):
        files = tf.data.Dataset.list_files(folder + "/*")
        return files.map(tf.io.read_file, num_parallel_calls=tf.data.AUTOTUNE).batch(32)  # <-
    # file: train.py
    import tensorflow as tf
    from data import load

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    model.fit(load("data"))

Good:

    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices([1.0]).shuffle(10).batch(2).prefetch(tf.data.AUTOTUNE)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    model.fit(dataset, epochs=3)

Quiet: image_dataset_from_directory prefetches itself

    import tensorflow as tf

    dataset = tf.keras.utils.image_dataset_from_directory("images")
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.fit(dataset)

Quiet: a dataset that is returned to the caller

    import tensorflow as tf

    def read(paths):
        return tf.data.TFRecordDataset(paths).batch(2)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_within, origin_call
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.fixing.edits import wrap
from gpuproof.linter.knowledge.tensorflow import pipeline_calls, tensorflow_alias, tensorflow_is_at_least
from gpuproof.linter.knowledge.torch import is_test, runs_without_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("IO103", "tfdata-no-prefetch", Severity.WARNING, needs=("tf.data", "tensorflow.data", ".fit("))

_OPTION = re.compile(r"^inject_prefetch$")
_MAY_PREFETCH = frozenset({"prefetch", "apply", "with_options"})


@rule.module
def check(module: Module, project: Project) -> Hits:
    if is_test(module) or runs_without_gpu(module, project):
        return
    for call in calls_named(module, "fit"):
        dataset = call.expression("x", 0)
        if call.receiver is None or dataset is None:
            continue
        if (batch := _returned_batch(module, dataset)) is not None:
            yield rule.hit(
                batch.span,
                f"`{batch.module.text(batch.node)[-60:]}` is passed to fit without prefetch: the GPU waits while each batch is "
                "prepared.",
                remedy="Append .prefetch(tf.data.AUTOTUNE) to the pipeline.",
            )
            return
        if type_of(module, dataset).kind is not TypeKind.TF_DATASET:
            continue
        steps = pipeline_calls(module, dataset)
        if (
            steps is None
            or any(map(_may_prefetch, steps))
            or not any(step.method == "batch" for step in steps)
        ):
            continue
        name = tensorflow_alias(module)
        plain = isinstance(dataset, (ast.Name, ast.Call))
        new_enough = tensorflow_is_at_least(module, project, "2.4") != "no"
        fix = None
        if name is not None and plain and new_enough:
            edits = wrap(module, dataset, "", f".prefetch({name}.data.AUTOTUNE)")[1:]
            fix = Fix("Append .prefetch", edits, safe=True)
        yield rule.hit(
            module.span(dataset),
            f"`{module.text(dataset)[:60]}` is passed to fit without prefetch: the GPU waits while each batch is prepared.",
            remedy="Append .prefetch(tf.data.AUTOTUNE) to the pipeline.",
            fix=fix,
        )


def _may_prefetch(step: Call) -> bool:
    """Whether a step may prefetch: not `apply` of a function of TensorFlow that does something else, nor options without it."""
    module = step.module
    if step.method == "apply":
        applied = origin_call(module, step.expression("transformation_func", 0))
        name = applied.name if applied is not None else None
        return name is None or not name.startswith("tensorflow.") or "prefetch" in name or "copy_to" in name
    if step.method == "with_options":
        return bool(uses(module, _OPTION, "attribute"))
    return step.method in _MAY_PREFETCH


def _returned_batch(module: Module, dataset: ast.expr) -> Call | None:
    """The `batch()` that a function of the project returns as it is; None if the function may prefetch."""
    made = module.origin(dataset)
    maker = find_definition(module, made.func) if isinstance(made, ast.Call) else None
    if maker is None or maker.module is module or isinstance(maker.node, ast.ClassDef):
        return None
    if any(map(_may_prefetch, calls_within(calls_named(maker.module, *_MAY_PREFETCH), maker.node))):
        return None
    returned = [
        node.value
        for node in ast.walk(maker.node)
        if isinstance(node, ast.Return) and maker.module.function_of(node) is maker.node
    ]
    calls = [origin_call(maker.module, value) for value in returned]
    if len(calls) != 1 or calls[0] is None or calls[0].method != "batch":
        return None
    return calls[0] if type_of(maker.module, calls[0].receiver).kind is TypeKind.TF_DATASET else None
