"""One-hot labels with a sparse loss, or class numbers with `categorical_crossentropy`: `fit` fails at the first batch.

`sparse_categorical_crossentropy` expects class numbers, `categorical_crossentropy` one-hot vectors. The shapes do not fit together
("must have the same rank", "must have rank target.ndim - 1"), which only shows after all data is loaded.

Bad:

    import keras

    (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    y_train = keras.utils.to_categorical(y_train, 10)
    model = keras.Sequential([keras.Input((28, 28)), keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")])
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    model.fit(x_train, y_train, epochs=3)  # <-

Bad: class numbers

    import tensorflow as tf

    (x_train, y_train), _ = tf.keras.datasets.cifar10.load_data()
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10, activation="softmax")])
    model.compile(optimizer="adam", loss=tf.keras.losses.CategoricalCrossentropy())
    model.fit(x_train / 255.0, y_train, epochs=3)  # <-

Bad: images from folders have class numbers by default

    import tensorflow as tf

    train = tf.keras.utils.image_dataset_from_directory("train").prefetch(tf.data.AUTOTUNE)
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10, activation="softmax")])
    model.compile(optimizer="adam", loss="categorical_crossentropy")
    model.fit(train, epochs=3)  # <-

Good:

    import keras

    (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    model = keras.Sequential([keras.Input((28, 28)), keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")])
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    model.fit(x_train, y_train, epochs=3)

Quiet: a dataset that is changed, and labels of unknown form

    import tensorflow as tf

    def train(load):
        x, y = load()
        ds = tf.keras.utils.image_dataset_from_directory("train").map(lambda x, y: (x, tf.one_hot(y, 10)))
        model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10, activation="softmax")])
        model.compile(optimizer="adam", loss="categorical_crossentropy")
        model.fit(x, y, epochs=3)
        model.fit(ds.prefetch(tf.data.AUTOTUNE), epochs=3)
"""

import ast
from typing import Literal

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, origin_call
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.keras_fits import compiles_of, fits
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF122", "label-format-mismatch", Severity.ERROR, needs=("ategorical",))

Labels = Literal["one-hot", "numbers"]

_LOSSES: dict[str, Labels] = {
    "sparse_categorical_crossentropy": "numbers",
    "SparseCategoricalCrossentropy": "numbers",
    "categorical_crossentropy": "one-hot",
    "CategoricalCrossentropy": "one-hot",
}
_FOLDERS: dict[str, tuple[str, dict[object, Labels], Labels]] = {
    "image_dataset_from_directory": ("label_mode", {"int": "numbers", "categorical": "one-hot"}, "numbers"),
    "text_dataset_from_directory": ("label_mode", {"int": "numbers", "categorical": "one-hot"}, "numbers"),
    "flow_from_directory": (
        "class_mode",
        {"sparse": "numbers", "binary": "numbers", "categorical": "one-hot"},
        "one-hot",
    ),
}
"""Functions that read labels from folders: their parameter, its values, and the default."""
_SAME_LABELS = frozenset({"prefetch", "cache", "shuffle", "take", "skip", "repeat", "with_options", "astype"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    for fit in fits(module):
        expected = {_expected(module, call.expression("loss", 1)) for call in compiles_of(module, fit)}
        labels = _labels(module, fit.expression("y", 1)) or _labels_of_data(module, fit.expression("x", 0))
        if len(expected) != 1 or labels is None:
            continue
        wanted = expected.pop()
        if wanted is None or wanted == labels:
            continue
        what = "one-hot vectors" if labels == "one-hot" else "class numbers"
        other = "sparse_categorical_crossentropy" if labels == "numbers" else "categorical_crossentropy"
        yield rule.hit(
            fit.span,
            f"The labels are {what}, but the loss of `{module.text(fit.receiver or fit.node)}` expects "
            f"{'class numbers' if wanted == 'numbers' else 'one-hot vectors'}: the shapes do not match.",
            remedy=f'Use loss="{other}", or change the labels.',
        )


def _expected(module: Module, loss: ast.expr | None) -> Labels | None:
    value = module.origin(loss)
    if isinstance(value, ast.Constant):
        return _LOSSES.get(str(value.value))
    made = creations(module, loss)
    return _LOSSES.get(made[0].method) if len(made) == 1 and "keras" in (made[0].name or "") else None


def _labels(module: Module, node: ast.expr | None, depth: int = 0) -> Labels | None:
    """The form of an array of labels."""
    if depth > 4:
        return None
    match node:
        case ast.Subscript(value=value, slice=ast.Slice()):
            return _labels(module, value, depth + 1)
        case ast.Name():
            bindings = module.reaching(node)
            if len(bindings) != 1:
                return None
            if bindings[0].kind == "assign":
                return _labels(module, bindings[0].value, depth + 1)
            return "numbers" if _is_loaded_label(module, bindings[0].node, bindings[0].value) else None
        case ast.Call(func=ast.Attribute(attr="to_categorical" | "one_hot" | "get_dummies")):
            return "one-hot"
        case ast.Call(func=ast.Name(id="to_categorical")):
            return "one-hot"
        case _:
            return None


def _is_loaded_label(module: Module, name: ast.AST, value: ast.expr | None) -> bool:
    """Whether a name is the second of a pair from `load_data()` of Keras's classification datasets."""
    made = origin_call(module, value)
    if (
        made is None
        or made.method != "load_data"
        or ".datasets." not in (made.name or "")
        or "boston" in (made.name or "")
    ):
        return False
    if "california" in (made.name or ""):
        return False
    pair = module.parent(name)
    return (
        isinstance(pair, ast.Tuple)
        and isinstance(module.parent(pair), ast.Tuple)
        and pair.elts[1:2] == [name]
    )


def _labels_of_data(module: Module, node: ast.expr | None) -> Labels | None:
    """The form of the labels of a dataset that is read from folders."""
    for _ in range(10):
        made: Call | None = origin_call(module, node)
        if made is None:
            return None
        if made.method in _FOLDERS:
            name, forms, default = _FOLDERS[made.method]
            value = made.argument(name)
            return default if value.is_absent else forms.get(value.text) if value.is_known else None
        if made.method not in _SAME_LABELS:
            return None
        node = made.receiver
    return None
