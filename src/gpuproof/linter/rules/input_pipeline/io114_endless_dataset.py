"""A dataset that repeats forever, without a number of steps: the first epoch never ends.

`repeat()` without a count has no last batch. `fit` then runs until the job's time limit, without a validation, a checkpoint or a saved
model, and a loop over the dataset never gets to its next line. Keras 2 refuses such a dataset; Keras 3 starts.

Bad:

    import tensorflow as tf

    def train(model, x, y):
        ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32).repeat().prefetch(tf.data.AUTOTUNE)
        model.fit(ds, epochs=10)  # <-

Bad: the validation never ends

    import tensorflow as tf

    def train(model, files, test):
        val = tf.data.TFRecordDataset(test).batch(32).repeat()
        train = tf.data.TFRecordDataset(files).batch(32).prefetch(tf.data.AUTOTUNE)
        model.fit(train, epochs=10, validation_data=val)  # <-

Bad: a loop

    import tensorflow as tf

    def train(step, x, y):
        ds = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(32).prefetch(tf.data.AUTOTUNE)
        for epoch in range(10):
            for batch in ds:  # <-
                step(batch)

Good:

    import tensorflow as tf

    def train(model, x, y):
        ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32).repeat().prefetch(tf.data.AUTOTUNE)
        model.fit(ds, epochs=10, steps_per_epoch=100)

Quiet: a count, a limit, or a way out of the loop

    import tensorflow as tf

    def train(model, step, x, y, epochs):
        ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(32).prefetch(tf.data.AUTOTUNE)
        model.fit(ds.repeat(epochs))
        model.fit(ds.repeat().take(1000), epochs=epochs)
        for index, batch in enumerate(ds.repeat()):
            step(batch)
            if index == 1000:
                break
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.local_imports import local_units
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.tf_pipelines import read_pipeline
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("IO114", "endless-dataset", Severity.ERROR, needs=("repeat", "fit"))

_LIMITS = frozenset({"take", "take_while", "zip", "apply", "scan", "choose"})
_LEAVES = (ast.Break, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module) or not _may_repeat(module):
        return
    for call in calls_named(module, "fit"):
        yield from _of_fit(module, call)
    for loop in module.nodes(ast.For) if module.imports("tensorflow") else ():
        if _endless(module, loop.iter) is not None and not any(
            isinstance(child, _LEAVES) or _may_leave(child) for child in ast.walk(loop)
        ):
            yield rule.hit(
                module.span(loop.iter),
                f"`{module.excerpt(loop.iter)}` repeats forever, and nothing leaves the loop.",
                remedy="Pass a count to repeat(), or .take(steps_per_epoch).",
            )


def _of_fit(module: Module, call: Call) -> Hits:
    if call.receiver is None:
        return
    steps, validation_steps = call.argument("steps_per_epoch"), call.argument("validation_steps")
    endless = _endless(module, call.expression("x", 0)) if steps.is_absent else None
    if endless is not None:
        yield rule.hit(
            call.span if endless.module is module else endless.span,
            "The dataset repeats forever, and fit gets no steps_per_epoch: the first epoch never ends.",
            remedy="Pass steps_per_epoch, or remove repeat(): fit starts the dataset again in each epoch.",
        )
        return
    endless = _endless(module, call.expression("validation_data")) if validation_steps.is_absent else None
    if endless is not None:
        yield rule.hit(
            call.span if endless.module is module else endless.span,
            "The validation data repeat forever, and fit gets no validation_steps: the first validation never ends.",
            remedy="Remove repeat() from the validation data, or pass validation_steps.",
        )


def _may_repeat(module: Module) -> bool:
    """Whether the module, or one of the project that it imports, has a `repeat()` of TensorFlow's datasets."""
    return any(".repeat(" in unit.source and "tensorflow" in unit.source for unit in local_units(module))


def _endless(module: Module, node: ast.expr | None) -> Call | None:
    """The `repeat` of a dataset that certainly has no end; None for others."""
    pipeline = read_pipeline(module, node)
    last = pipeline.last("repeat")
    if last < 0 or any(step.method in _LIMITS for step in pipeline.steps[last:]):
        return None
    count = pipeline.steps[last].argument("count", 0)
    is_endless = count.is_absent or (count.is_known and count.value in (None, -1))
    return pipeline.steps[last] if is_endless else None


def _may_leave(node: ast.AST) -> bool:
    """Whether a call ends the program."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("exit", "_exit")
    )
