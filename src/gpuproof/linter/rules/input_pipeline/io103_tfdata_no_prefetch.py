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

Bad: a loop of its own, over what a class makes

    import tensorflow as tf

    class Data:
        def __init__(self, files):
            self.train = tf.data.TFRecordDataset(files).map(tf.io.parse_tensor, num_parallel_calls=tf.data.AUTOTUNE).batch(8)

    def step(model, optimizer, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    def train(model, optimizer, data):
        for batch in data.train:  # <-
            step(model, optimizer, batch)

    train(tf.keras.Sequential([tf.keras.layers.Dense(1)]), tf.keras.optimizers.Adam(), Data(["a"]))

Bad: a `fit` of its own

    import tensorflow as tf

    class Trainer:
        def __init__(self, model, optimizer):
            self.model, self.optimizer = model, optimizer

        def fit(self, dataset):
            for x in dataset:  # <-
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(self.model(x))
                gradients = tape.gradient(loss, self.model.trainable_variables)
                self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))

    trainer = Trainer(tf.keras.Sequential([tf.keras.layers.Dense(1)]), tf.keras.optimizers.Adam())
    trainer.fit(tf.data.Dataset.from_tensor_slices([1.0]).shuffle(9).batch(2))

Quiet: a loop that only reads

    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices([1.0]).batch(2)
    for batch in dataset:
        print(batch)

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
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.flow.repeats import trains
from gpuproof.linter.analysis.flow.sources import targets
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types.loops import find_iterated
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.fixing.edits import wrap
from gpuproof.linter.knowledge.frameworks.tensorflow import tensorflow_alias, tensorflow_is_at_least
from gpuproof.linter.knowledge.frameworks.tf_pipelines import Pipeline, pipelines
from gpuproof.linter.knowledge.frameworks.torch import is_test, runs_without_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule(
    "IO103",
    "tfdata-no-prefetch",
    Severity.WARNING,
    needs=("tf.data", "tensorflow.data", ".fit(", "GradientTape", "tensorflow"),
)

_OPTION = re.compile(r"^inject_prefetch$")
_MAY_PREFETCH = frozenset({"prefetch", "apply", "with_options"})


@rule.module
def check(module: Module, project: Project) -> Hits:
    if is_test(module) or runs_without_gpu(module, project) or not _is_about_tensorflow(module):
        return
    for dataset, how in _consumed(module):
        found = pipelines(module, dataset)
        if not found or not all(map(_is_unprefetched, found)):
            continue
        last = found[0].steps[-1]
        if last.module.unit is not module.unit:
            yield rule.hit(
                last.span,
                f"`{last.module.excerpt(last.node)}` is {how} without prefetch: the GPU waits while each batch is prepared.",
                remedy="Append .prefetch(tf.data.AUTOTUNE) to the pipeline.",
            )
            continue
        yield rule.hit(
            module.span(dataset),
            f"`{module.excerpt(dataset)}` is {how} without prefetch: the GPU waits while each batch is prepared.",
            remedy="Append .prefetch(tf.data.AUTOTUNE) to the pipeline.",
            fix=_fix(module, dataset, project),
        )


def _is_about_tensorflow(module: Module) -> bool:
    return any(other.imports("tensorflow") for other in program_modules(module, "tensorflow"))


def _consumed(module: Module) -> Iterator[tuple[ast.expr, str]]:
    """The datasets that `fit` gets, or that a loop trains with, and how."""
    for call in calls_named(module, "fit"):
        dataset = call.expression("x", 0)
        # A `fit` of the project's own is a loop, or calls that of Keras.
        if call.receiver is not None and dataset is not None and not targets(module, call.node.func):
            yield dataset, "passed to fit"
    for loop in module.nodes(ast.For):
        dataset = find_iterated(module, loop.iter).value
        if isinstance(dataset, (ast.Name, ast.Attribute, ast.Call)) and trains(module, loop):
            yield dataset, "iterated"


def _is_unprefetched(pipeline: Pipeline) -> bool:
    """Whether a pipeline is known from its source on, makes batches, and nothing in it may prefetch."""
    return (
        pipeline.is_complete
        and any(step.method in ("batch", "padded_batch") for step in pipeline.steps)
        and not any(map(_may_prefetch, pipeline.steps))
    )


def _fix(module: Module, dataset: ast.expr, project: Project) -> Fix | None:
    name = tensorflow_alias(module)
    new_enough = tensorflow_is_at_least(module, project, "2.4") != "no"
    if name is None or not isinstance(dataset, (ast.Name, ast.Call)) or not new_enough:
        return None
    return Fix(
        "Append .prefetch", wrap(module, dataset, "", f".prefetch({name}.data.AUTOTUNE)")[1:], safe=True
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
