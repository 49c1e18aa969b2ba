"""`cache()` after random augmentation: every epoch gets the images of the first one.

The cache keeps what the steps before it return. Random flips, crops and noise are computed once, and from the second epoch on the model
sees the same changed images: the augmentation adds nothing. `cache()` belongs before the random step.

Bad:

    import tensorflow as tf

    def augment(image, label):
        image = tf.image.random_flip_left_right(image)
        return tf.image.random_brightness(image, 0.2), label

    def load(x, y):
        ds = tf.data.Dataset.from_tensor_slices((x, y))
        ds = ds.map(augment, num_parallel_calls=tf.data.AUTOTUNE).cache()  # <-
        return ds.shuffle(1000).batch(32).prefetch(tf.data.AUTOTUNE)

Bad: layers of Keras

    import tensorflow as tf

    augmentation = tf.keras.Sequential([tf.keras.layers.RandomFlip("horizontal"), tf.keras.layers.RandomRotation(0.1)])

    def load(folder):
        ds = tf.keras.utils.image_dataset_from_directory(folder)
        ds = ds.map(lambda x, y: (augmentation(x, training=True), y), num_parallel_calls=tf.data.AUTOTUNE)
        return ds.cache().prefetch(tf.data.AUTOTUNE)  # <-

Good:

    import tensorflow as tf

    def augment(image, label):
        return tf.image.random_flip_left_right(image), label

    def load(x, y):
        ds = tf.data.Dataset.from_tensor_slices((x, y)).cache()
        ds = ds.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.shuffle(1000).batch(32).prefetch(tf.data.AUTOTUNE)

Quiet: the function is not random

    import tensorflow as tf

    def decode(path):
        return tf.io.decode_jpeg(tf.io.read_file(path))

    def load(files):
        ds = tf.data.Dataset.from_tensor_slices(files).map(decode, num_parallel_calls=tf.data.AUTOTUNE).cache()
        return ds.shuffle(1000).batch(32).prefetch(tf.data.AUTOTUNE)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import reached, uses
from gpuproof.linter.knowledge.frameworks.tf_pipelines import read_pipeline, step_calls
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span

rule = Rule("IO113", "augmentation-cached", Severity.WARNING, needs=("cache",))

_RANDOM = re.compile(
    r"^tensorflow\.image\.(random_|stateless_random_)|^tensorflow\.random\.(uniform|normal|truncated_normal|stateless_\w+)$"
    r"|keras\.layers\.(\w+\.)*Random[A-Z]\w+$"
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("tensorflow") or is_test(module):
        return
    for call in step_calls(module, "cache"):
        random = next(
            (
                step
                for step in read_pipeline(module, call.receiver).steps
                if step.method == "map" and _is_random(step)
            ),
            None,
        )
        if random is None:
            continue
        end = module.span(call.node.func)
        yield rule.hit(
            Span(module.unit, end.end_line, end.end_column - len("cache"), end.end_line, end.end_column),
            f"`cache()` keeps the random results of `{random.module.excerpt(random.node.args[0], 40)}`: every epoch gets the same ones.",
            remedy="Call cache() before the random step.",
        )


def _is_random(step: Call) -> bool:
    """Whether the function that a `map` applies certainly draws random numbers."""
    node = step.expression("map_func", 0)
    if isinstance(node, ast.Lambda):
        return uses(step.module, _RANDOM, "call", within=reached(step.module, node))
    found = find_definition(step.module, node) if node is not None else None
    return found is not None and uses(found.module, _RANDOM, "call", within=reached(found.module, found.node))
