"""Keras 3 reads and writes only `.keras`, `.h5` and `.weights.h5` files: a folder or another suffix raises ValueError.

TensorFlow 2.16 and later install Keras 3. `save` and `save_model` to a folder, `save_format="tf"`, `save_weights` to a
checkpoint and a `ModelCheckpoint` of a folder fail, and a save fails after the training: the model is lost.
`model.export` writes the SavedModel that TensorFlow Serving and SageMaker require; `load_model` does not read it back.

Bad:

    # file: requirements.txt
    tensorflow==2.17.0
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.save("/opt/ml/model/1")  # <-

Fixed:

    # file: requirements.txt
    tensorflow==2.17.0
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.export("/opt/ml/model/1")

Bad: only the folder is defined elsewhere

    # file: requirements.txt
    tensorflow==2.18.0
    # file: train.py
    import os

    from tensorflow import keras

    model = keras.Sequential([keras.layers.Dense(1)])
    keras.models.save_model(model, os.path.join(os.environ["SM_MODEL_DIR"], "1"), save_format="tf")  # <-

Fixed:

    # file: requirements.txt
    tensorflow==2.18.0
    # file: train.py
    import os

    from tensorflow import keras

    model = keras.Sequential([keras.layers.Dense(1)])
    model.export(os.path.join(os.environ["SM_MODEL_DIR"], "1"))

Bad: the functions and callbacks

    # file: requirements.txt
    tensorflow==2.18.0
    # file: train.py
    import os

    import tensorflow as tf
    from tensorflow import keras

    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(loss="mse")
    checkpoints = keras.callbacks.ModelCheckpoint("/opt/ml/checkpoints/{epoch}", save_weights_only=True)  # <-
    model.fit([[0.0]], [[0.0]], callbacks=[checkpoints])
    model.save_weights("/opt/ml/model/weights.ckpt")  # <-
    model.save_weights("/opt/ml/model/a.weights.h5", save_format="h5")  # <-
    tf.keras.models.save_model(model, os.path.join(os.environ["SM_MODEL_DIR"], "1"))  # <-
    keras.models.save_model(model, os.environ["OUT"], save_format="tf")  # <-
    again = keras.models.load_model("/opt/ml/model/1")  # <-

Good:

    # file: requirements.txt
    tensorflow==2.17.0
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.save("/opt/ml/model/model.keras")
    model.save_weights("/opt/ml/model/model.weights.h5")
    tf.keras.models.save_model(model, "/opt/ml/model/model.h5")
    model.export("/opt/ml/model/1")
    tf.keras.models.load_model("/opt/ml/model/model.keras")

Quiet: an older TensorFlow

    # file: requirements.txt
    tensorflow==2.11.0
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.save("/opt/ml/model/1")
    tf.keras.models.save_model(model, "/opt/ml/model/2", save_format="tf")

Quiet: the TensorFlow version is unknown

    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.save("/opt/ml/model/1")

Quiet: the path is defined elsewhere, and other objects that save

    # file: requirements.txt
    tensorflow==2.17.0
    # file: train.py
    import sys

    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.save(sys.argv[1])
    tf.keras.models.load_model(sys.argv[1])
    tf.train.Checkpoint(model=model).save("/opt/ml/checkpoints/ckpt")
    tf.saved_model.save(model, "/opt/ml/model/1")
"""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.knowledge.frameworks.tensorflow import has_keras_3, targets_old_tensorflow
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.linter.source.span import Span

rule = Rule(
    "TF111",
    "save-without-extension",
    Severity.ERROR,
    needs=("save", "load_model", "load_weights", "ModelCheckpoint"),
)

_MODEL = (".keras", ".h5", ".hdf5", ".zip")
_JOINS = ("os.path.join", "posixpath.join")
_WEIGHTS = (".weights.h5", ".weights.json")


class _Format(NamedTuple):
    """What one function of Keras 3 accepts, read from keras 3.15.

    Attributes:
        place: position of the path.
        suffixes: of the path.
        removed: arguments that it rejects.
        instead: what to do.
    """

    place: int
    suffixes: tuple[str, ...]
    removed: tuple[str, ...]
    instead: str


_EXPORT = "To serve the model, call {model}.export({path}); otherwise save to a name that ends in .keras."
_SAVE = _Format(0, _MODEL, ("signatures", "options", "save_traces"), _EXPORT)
_METHODS = {
    "save": _SAVE,
    "save_weights": _Format(
        0, _WEIGHTS, ("save_format", "options"), "Save to a name that ends in .weights.h5."
    ),
    "load_weights": _Format(
        0,
        (*_MODEL, *_WEIGHTS),
        ("options",),
        "Load a .weights.h5 file; Keras 3 does not read TensorFlow checkpoints.",
    ),
}
_FUNCTIONS = {
    "save_model": _SAVE._replace(place=1),
    "load_model": _Format(
        0,
        _MODEL,
        ("options",),
        "Load a .keras file, or the SavedModel with "
        'keras.layers.TFSMLayer({path}, call_endpoint="serving_default") or tf.saved_model.load({path}).',
    ),
    "ModelCheckpoint": _Format(
        0, (".keras", ".h5"), ("save_format", "period", "options"), "End the path in .keras."
    ),
}


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("tensorflow", "keras") or is_test(module) or targets_old_tensorflow(module):
        return
    for call, accepted in _calls(module):
        problem = _problem(call, accepted)
        if problem is None or has_keras_3(module, project) != "yes":
            continue
        path, reason, certain = problem
        yield rule.hit(
            call.span,
            f"`{module.excerpt(call.node)}`: {reason}.",
            remedy=accepted.instead.format(model=_model(call), path=_text(call, accepted) or "path"),
            severity=rule.severity if certain else lowered(rule.severity),
            fix=_export(call, safe=certain and bool(_ends(path))),
        )


def _calls(module: Module) -> Iterator[tuple[Call, _Format]]:
    for name, accepted in _METHODS.items():
        for call in calls_named(module, name):
            if call.receiver is not None and type_of(module, call.receiver).kind is TypeKind.KERAS_MODEL:
                yield call, accepted
    for name, accepted in _FUNCTIONS.items():
        for call in calls_named(module, name, *module.aliases.get(name, ())):
            is_keras = (call.name or "").startswith(("keras.", "tensorflow.keras."))
            if is_keras and (call.name or "").endswith("." + name):
                weights = name == "ModelCheckpoint" and call.argument("save_weights_only", 4).flag is True
                yield (
                    call,
                    (
                        accepted._replace(suffixes=_WEIGHTS[:1], instead="End the path in .weights.h5.")
                        if weights
                        else accepted
                    ),
                )


def _problem(call: Call, accepted: _Format) -> tuple[Value, str, bool] | None:
    """The path, why the call raises, and whether that is certain; None if it does not, or if that is unknown."""
    path = call.argument("filepath", accepted.place)
    removed = next((name for name in accepted.removed if name in call.keywords), None)
    if removed is not None:
        return path, f"`{_name(call)}` of Keras 3 (TensorFlow 2.16 and later) has no `{removed}=`", True
    listed = " or ".join(
        suffix for suffix in accepted.suffixes if suffix not in (".hdf5", ".zip", ".weights.json")
    )
    end = _ends(path)
    if not end:
        written = call.argument("save_format")
        if _name(call) in ("save", "save_model") and written.text == "tf":
            return (
                path,
                f'Keras 3 (TensorFlow 2.16 and later) has no save_format="tf", only {listed} (ValueError)',
                False,
            )
        checkpoint = origin_call(call.module, call.expression("filepath", accepted.place))
        if _name(call) == "load_weights" and checkpoint and checkpoint.method == "latest_checkpoint":
            return path, f"Keras 3 (TensorFlow 2.16 and later) only loads {listed} (ValueError)", True
        return None
    if end.endswith(accepted.suffixes) or (path.text or "").startswith(("hf://", "kaggle://")):
        return None
    if _name(call) == "load_weights" and "." not in end.rpartition("/")[2]:
        return None  # a folder of Orbax checkpoints
    verb = "loads" if _name(call).startswith("load") else "saves to"
    certain = path.certainty != "default" or _ends_in_text(
        call.module, call.expression("filepath", accepted.place)
    )
    return path, f"Keras 3 (TensorFlow 2.16 and later) only {verb} {listed} (ValueError)", certain


def _name(call: Call) -> str:
    """The last part of the function's own name: `load_model`, whatever the file calls it."""
    return call.name.rpartition(".")[2] if call.name else call.method


def _ends(path: Value) -> str:
    """What is known of the end of a path."""
    return path.text if path.text is not None else path.suffix


def _ends_in_text(module: Module, node: ast.expr | None) -> bool:
    """Whether the last part of a path is written out, whatever its folder is: `os.path.join(args.model_dir, "1")`."""
    match module.origin(node):
        case ast.Call(func=function, args=[*_, last]) if module.qualified(function) in _JOINS:
            return _ends_in_text(module, last)
        case ast.BinOp(right=right):
            return _ends_in_text(module, right)
        case ast.JoinedStr(values=[*_, ast.Constant()]) | ast.Constant(value=str()):
            return True
        case _:
            return False


def _model(call: Call) -> str:
    model = call.receiver if _name(call) == "save" else call.expression("model", 0)
    return call.module.text(model) if model is not None else "model"


def _text(call: Call, accepted: _Format) -> str:
    written = call.expression("filepath", accepted.place)
    return call.module.text(written) if written is not None else ""


def _export(call: Call, *, safe: bool) -> Fix | None:
    """Write `model.export(path)`; only for saves of a path."""
    function, module = call.node.func, call.module
    if _name(call) == "save" and isinstance(function, ast.Attribute):
        if len(call.node.args) != 1 or call.node.keywords:
            return None
        at = module.span(function)
        name = Span(at.unit, at.end_line, at.end_column - len("save"), at.end_line, at.end_column)
        return Fix("Export a SavedModel", (Edit(name, "export"),), safe=safe)
    if _name(call) == "save_model" and len(call.node.args) == 2 and set(call.keywords) <= {"save_format"}:
        text = f"{module.text(call.node.args[0])}.export({module.text(call.node.args[1])})"
        return Fix("Export a SavedModel", (Edit(call.span, text),), safe=safe)
    return None
