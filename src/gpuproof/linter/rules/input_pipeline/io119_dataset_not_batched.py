"""A `tf.data` dataset reaches `fit` without `batch`: the model gets single samples as if they were batches.

Keras does not batch datasets, whatever `batch_size` says. The shapes then lack their first dimension: `fit` fails ("expected shape (None, 8),
found (8,)"), or the first axis of each sample is taken for the batch.

Bad:

    import tensorflow as tf

    def train(model, x, y):
        ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).prefetch(tf.data.AUTOTUNE)
        model.fit(ds, epochs=10)  # <-

Good:

    import tensorflow as tf

    def train(model, x, y):
        ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32).prefetch(tf.data.AUTOTUNE)
        model.fit(ds, epochs=10)

Quiet: a generator that may yield batches, and steps that may batch

    import tensorflow as tf

    def train(model, batches, x, group):
        signature = tf.TensorSpec((None, 8), tf.float32)
        model.fit(tf.data.Dataset.from_generator(batches, output_signature=signature).prefetch(tf.data.AUTOTUNE))
        model.fit(tf.data.Dataset.from_tensor_slices(x).apply(group).prefetch(tf.data.AUTOTUNE))
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.tf_pipelines import read_pipeline
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("IO119", "dataset-not-batched", Severity.ERROR, needs=("fit",))

_KEEPS = frozenset(
    {"shuffle", "map", "prefetch", "cache", "repeat", "filter", "take", "skip", "shard", "with_options"}
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("tensorflow", "keras") or is_test(module):
        return
    for call in calls_named(module, "fit"):
        if call.receiver is None:
            continue
        pipeline = read_pipeline(module, call.expression("x", 0))
        if not pipeline.is_complete or not _has_single_samples(pipeline.steps[0]):
            continue
        if any(
            step.method not in _KEEPS or (step.method == "map" and _may_batch(step))
            for step in pipeline.steps[1:]
        ):
            continue
        yield rule.hit(
            call.span,
            f"The dataset is never batched: `{module.text(call.node.func)}` gets single samples.",
            remedy="Append .batch(32) to the pipeline, before prefetch.",
        )


def _has_single_samples(source: Call) -> bool:
    """Whether a source certainly yields samples: slices of arrays, or a generator with a scalar among its values."""
    if source.method == "from_tensor_slices":
        return True
    if source.method != "from_generator":
        return False
    signature = source.expression("output_signature")
    shapes = [
        node.args[0]
        for node in ast.walk(signature or source.node.func)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "TensorSpec"
        and node.args
    ]
    return any(isinstance(shape, (ast.Tuple, ast.List)) and not shape.elts for shape in shapes)


def _may_batch(step: Call) -> bool:
    """Whether the function of a `map` may add the axis of a batch itself."""
    node = step.expression("map_func", 0)
    functions = [step.module.functions.get(node.id)] if isinstance(node, ast.Name) else [node]
    return any(
        isinstance(child, ast.Attribute)
        and child.attr in ("expand_dims", "newaxis", "reshape", "parse_example")
        for function in functions
        if function is not None
        for child in ast.walk(function)
    )
