"""A Keras generator with one worker decodes and augments every image on one CPU core, while the GPU waits.

`ImageDataGenerator` and `Sequence` run in Python; `fit` uses a single thread for them unless `workers` is set (Keras
2), or the dataset object sets it (`PyDataset(workers=...)`, Keras 3). A tf.data pipeline does the same without
Python.

Bad:

    import tensorflow as tf

    generator = tf.keras.preprocessing.image.ImageDataGenerator(rescale=1 / 255, horizontal_flip=True)
    train = generator.flow_from_directory("train", batch_size=32)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.fit(train, epochs=3)  # <-

Bad: from a function of another file

    # file: train.py
    import tensorflow as tf
    from generators import make

    def run(model, epochs):
        training, validation = make("train"), make("validation")
        model.fit(training, validation_data=validation, epochs=epochs)  # <-

    run(tf.keras.Sequential([tf.keras.layers.Dense(1)]), 3)
    # file: generators.py
    from tensorflow.keras.preprocessing.image import ImageDataGenerator

    def make(folder):
        return ImageDataGenerator(rescale=1 / 255).flow_from_directory(folder, batch_size=32)

Good:

    import tensorflow as tf

    train = tf.keras.utils.image_dataset_from_directory("train", batch_size=32)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    model.fit(train, epochs=3)

Quiet: several workers

    import tensorflow as tf

    generator = tf.keras.preprocessing.image.ImageDataGenerator(rescale=1 / 255)
    train = generator.flow_from_directory("train", batch_size=32)
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.fit(train, epochs=3, workers=8, use_multiprocessing=True)

Bad: one worker is the default, and one that does not reach the base class is none

    import keras

    class Images(keras.utils.PyDataset):
        def __init__(self, files, **options):
            super().__init__()
            self.files = files

    model = keras.Sequential([keras.layers.Dense(1)])
    model.fit(Images([], workers=8), epochs=3)  # <-

Quiet: it reaches the base class

    import keras

    class Images(keras.utils.PyDataset):
        def __init__(self, files, **options):
            super().__init__(**options)
            self.files = files

    class Tiles(keras.utils.PyDataset):
        def __init__(self, files):
            super().__init__(workers=4, use_multiprocessing=True)

    model = keras.Sequential([keras.layers.Dense(1)])
    model.fit(Images([], workers=8), epochs=3)
    model.fit(Tiles([]), epochs=3)

Quiet: the dataset sets it

    import tensorflow as tf

    class Images(tf.keras.utils.PyDataset):
        def __getitem__(self, index):
            return tf.io.read_file(str(index))

    tf.keras.Sequential().fit(Images(workers=8), epochs=3)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_within
from gpuproof.linter.analysis.flow.call_targets import find_definition, methods
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test, runs_without_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "IO105",
    "keras-generator-single-worker",
    Severity.WARNING,
    needs=(".fit(", ".fit_generator("),
)

_FLOWS = ("flow", "flow_from_directory", "flow_from_dataframe")
_BASES = ("keras.utils.Sequence", "keras.utils.PyDataset", "keras.utils.data_utils.Sequence")


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("tensorflow", "keras") or is_test(module) or runs_without_gpu(module, project):
        return
    for call in calls_named(module, "fit", "fit_generator"):
        keyword = "x" if call.method == "fit" else "generator"
        workers = call.argument("workers")
        if not (workers.is_absent or (workers.is_known and workers.number in (0, 1))):
            continue
        kinds = [_generator(made) for made in creations(module, call.expression(keyword, 0))]
        if not kinds or None in kinds:
            continue
        yield rule.hit(
            call.span,
            f"`{kinds[0]}` runs in one thread: one CPU core prepares the batches while the GPU waits.",
            remedy="Read with tf.data (image_dataset_from_directory, map(num_parallel_calls=...), prefetch), or pass "
            "workers=8 to fit (Keras 2) or to the PyDataset (Keras 3).",
        )


def _generator(made: Call) -> str | None:
    """The generator that runs in one thread; None if it is something else or has its own workers."""
    if made.method in _FLOWS and made.receiver is not None:
        sources = creations(made.module, made.receiver)
        if sources and all(source.method == "ImageDataGenerator" for source in sources):
            return f"ImageDataGenerator.{made.method}"
        return None
    found = find_definition(made.module, made.node.func)
    if found is None or not isinstance(found.node, ast.ClassDef):
        return None
    if _has_workers(found.module, found.node, made):
        return None
    return made.method if any(base.endswith(_BASES) for base in found.module.bases(found.node)) else None


def _has_workers(module: Module, owner: ast.ClassDef, made: Call) -> bool:
    """Whether the base class may get several workers: directly, or from `__init__` of the class."""
    initializer = next((method for method in methods(owner) if method.name == "__init__"), None)
    calls = [made]
    if initializer is not None:
        calls = [
            call
            for call in calls_within(calls_named(module, "__init__"), initializer)
            if isinstance(call.receiver, ast.Call)
        ]
        # Without `super().__init__()`, the base class has no workers at all.
    return any(
        call.is_open
        or any(
            not (given := call.argument(name)).is_unset and not (given.is_known and given.value in few)
            for name, few in (("workers", (0, 1)), ("use_multiprocessing", (False,)))
        )
        for call in calls
    )
