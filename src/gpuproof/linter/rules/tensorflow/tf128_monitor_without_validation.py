"""A callback watches a value that does not exist, such as `val_loss` without validation data: it never does what it is there for.

`EarlyStopping` never stops, `ReduceLROnPlateau` never reduces, and `ModelCheckpoint(save_best_only=True)` saves nothing in Keras 2, and
every epoch's model in Keras 3; there is one warning line in the log. A file name with `{val_loss}` raises a KeyError after the first
epoch. The default of `monitor` is "val_loss". The same holds for a metric that the model is not compiled with: `metrics=["accuracy"]` is
`val_accuracy`, not `val_acc`.

Bad:

    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
    stop = keras.callbacks.EarlyStopping(patience=3)  # <-
    model.fit([], [], epochs=100, callbacks=[stop])

Bad: a file name

    import tensorflow as tf

    def train(x, y):
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
        callbacks = [tf.keras.callbacks.ModelCheckpoint("/opt/ml/checkpoints/{epoch}-{val_loss:.2f}.keras")]  # <-
        model.fit(x, y, epochs=100, callbacks=callbacks)

Bad: the metric has another name

    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    stop = keras.callbacks.EarlyStopping(monitor="val_acc", patience=3)  # <-
    model.fit([], [], epochs=100, validation_split=0.1, callbacks=[stop])

Good:

    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
    stop = keras.callbacks.EarlyStopping(patience=3)
    model.fit([], [], epochs=100, validation_split=0.1, callbacks=[stop])

Quiet: the training loss, and all models

    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
    stop = keras.callbacks.EarlyStopping(monitor="loss", patience=3)
    keep = keras.callbacks.ModelCheckpoint("/opt/ml/checkpoints/{epoch}.keras")
    model.fit([], [], epochs=100, callbacks=[stop, keep])
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.keras_fits import (
    callbacks_of,
    compiles_of,
    fits,
    is_of_keras,
    metric_names,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF128", "monitor-without-validation", Severity.WARNING, needs=("callbacks",))

_OF_KERAS = ("keras.", "tensorflow.keras.", "tf_keras.")
_EFFECTS = {
    "EarlyStopping": "it never stops",
    "ReduceLROnPlateau": "it never reduces the learning rate",
    "ModelCheckpoint": "it cannot tell which model is the best",
}


@rule.module
def check(module: Module, _: Project) -> Hits:
    for fit in fits(module):
        if not (fit.argument("validation_data").is_absent and fit.argument("validation_split").is_absent):
            yield from _unknown_metrics(module, fit)
            continue
        for made in callbacks_of(fit):
            monitored = _monitored(made)
            if monitored is None:
                continue
            fails = monitored.startswith("{")
            effect = "a KeyError after the first epoch" if fails else _EFFECTS[made.method]
            yield rule.hit(
                made.span,
                f"`{made.method}` uses `{monitored.strip('{}')}`, but fit gets no validation data: {effect}.",
                remedy='Pass validation_data or validation_split to fit, or monitor="loss".',
                severity=Severity.ERROR if fails else rule.severity,
            )


def _unknown_metrics(module: Module, fit: Call) -> Hits:
    """Callbacks that watch a metric with which the model is not compiled."""
    compiled = compiles_of(module, fit)
    known = metric_names(module, compiled[0]) if len(compiled) == 1 else None
    made_by = creations(module, fit.receiver)
    if known is None or not made_by or not all((each.name or "").startswith(_OF_KERAS) for each in made_by):
        return
    shown = sorted(known - {"lr", "learning_rate"})
    for made in callbacks_of(fit):
        monitor = made.argument("monitor", 1 if made.method == "ModelCheckpoint" else 0)
        if not is_of_keras(made, *(f"callbacks.{name}" for name in _EFFECTS)) or not monitor.is_known:
            continue
        name = monitor.text or ""
        if name.removeprefix("val_") in known or not name:
            continue
        if made.method == "ModelCheckpoint" and made.argument("save_best_only").flag is not True:
            continue
        yield rule.hit(
            made.span,
            f"`{made.method}` watches `{name}`, but the model has only {', '.join(shown)}: {_EFFECTS[made.method]}.",
            remedy=f'Watch one of them, such as monitor="val_{shown[0]}".',
        )


def _monitored(made: Call) -> str | None:
    """The metric of the validation that a callback uses, in braces if it is part of a file name; None if there is none."""
    if not is_of_keras(made, *(f"callbacks.{name}" for name in _EFFECTS)) or made.is_open:
        return None
    if made.method == "ModelCheckpoint":
        path = made.argument("filepath", 0)
        if path.is_known and path.text is not None and "{val_" in path.text:
            name = path.text.partition("{val_")[2].partition("}")[0].partition(":")[0]
            return f"{{val_{name}}}"
        if made.argument("save_best_only").flag is not True:
            return None
    monitor = made.argument("monitor", 1 if made.method == "ModelCheckpoint" else 0)
    name = "val_loss" if monitor.is_absent else monitor.text if monitor.is_known else None
    return name if name is not None and name.startswith("val_") else None
