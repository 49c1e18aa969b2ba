"""`fit` gets labels or `validation_split` together with a `tf.data` dataset: Keras raises a ValueError.

A dataset contains its labels, and it has no length at which it could be split. Both are only for arrays.

Bad:

    import tensorflow as tf

    def train(x, y):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
        ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(32).prefetch(tf.data.AUTOTUNE)
        model.fit(ds, epochs=3, validation_split=0.2)  # <-

Good:

    import tensorflow as tf

    def train(x, y):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
        ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(32).prefetch(tf.data.AUTOTUNE)
        model.fit(ds.skip(10), epochs=3, validation_data=ds.take(10))

Quiet: arrays

    import tensorflow as tf

    def train(x, y):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
        model.fit(x, y, epochs=3, validation_split=0.2)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.knowledge.frameworks.keras_fits import fits
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF129", "fit-argument-conflict", Severity.ERROR, needs=("fit",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    for fit in fits(module):
        data = fit.expression("x", 0)
        if data is None or type_of(module, data).kind is not TypeKind.TF_DATASET:
            continue
        labels, split = fit.argument("y", 1), fit.argument("validation_split")
        written = fit.expression("y", 1)
        if written is not None and not (labels.is_known and labels.value is None):
            what, remedy = f"y={module.text(written)}", "Remove y: the dataset contains the labels."
        elif split.is_known and split.number:
            what = f"validation_split={split.number:g}"
            remedy = "Pass validation_data, such as a dataset made with take() and skip()."
        else:
            continue
        yield rule.hit(
            fit.span,
            f"`fit` raises a ValueError: {what} is for arrays, and `{module.excerpt(data, 40)}` is a tf.data dataset.",
            remedy=remedy,
        )
