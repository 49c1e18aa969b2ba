"""A callback watches `val_loss`, but `fit` gets no validation data: it never does what it is there for.

`EarlyStopping` never stops, `ReduceLROnPlateau` never reduces, and `ModelCheckpoint(save_best_only=True)` saves nothing in Keras 2, and
every epoch's model in Keras 3; there is one warning line in the log. A file name with `{val_loss}` raises a KeyError after the first
epoch. The default of `monitor` is "val_loss".

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
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.keras_fits import callbacks_of, fits, is_of_keras
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF128", "monitor-without-validation", Severity.WARNING, needs=("callbacks",))

_EFFECTS = {
    "EarlyStopping": "it never stops",
    "ReduceLROnPlateau": "it never reduces the learning rate",
    "ModelCheckpoint": "it cannot tell which model is the best",
}


@rule.module
def check(module: Module, _: Project) -> Hits:
    for fit in fits(module):
        if not (fit.argument("validation_data").is_absent and fit.argument("validation_split").is_absent):
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
