"""Keras 3 only saves to a file whose name ends in `.keras` or `.h5`: a folder raises a ValueError.

"Invalid filepath extension for saving." TensorFlow 2.16 and later install Keras 3. The error occurs after the
training, and the model is lost. `model.export` writes the SavedModel that TensorFlow Serving and SageMaker require.

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

Good:

    # file: requirements.txt
    tensorflow==2.17.0
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.save("/opt/ml/model/model.keras")

Quiet: an older TensorFlow

    # file: requirements.txt
    tensorflow==2.11.0
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.save("/opt/ml/model/1")

Quiet: the TensorFlow version is unknown

    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.save("/opt/ml/model/1")
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.knowledge.tensorflow import targets_old_tensorflow, tensorflow_is_at_least
from gpuproof.linter.knowledge.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.linter.source.span import Span

rule = Rule("TF111", "save-without-extension", Severity.ERROR, needs=(".save(",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("tensorflow", "keras") or is_test(module) or targets_old_tensorflow(module):
        return
    for call in calls_named(module, "save"):
        path = call.argument("filepath", 0)
        end = path.text if path.text is not None else path.suffix
        if not end or end.endswith((".keras", ".h5", ".hdf5")) or call.receiver is None:
            continue
        if type_of(module, call.receiver).kind is not TypeKind.KERAS_MODEL:
            continue
        if tensorflow_is_at_least(module, project, "2.16") != "yes":
            continue
        function, fix = call.node.func, None
        if isinstance(function, ast.Attribute) and len(call.node.args) == 1 and not call.node.keywords:
            at = module.span(function)
            name = Span(at.unit, at.end_line, at.end_column - len("save"), at.end_line, at.end_column)
            fix = Fix("Export a SavedModel", (Edit(name, "export"),), safe=path.certainty == "known")
        yield rule.hit(
            call.span,
            f"`{module.text(call.node)[:60]}`: Keras 3 (TensorFlow 2.16 and later) only saves to .keras or .h5 (ValueError).",
            remedy="To serve the model, call export; otherwise save to a name that ends in .keras.",
            severity=lowered(rule.severity) if path.certainty == "default" else rule.severity,
            fix=fix,
        )
