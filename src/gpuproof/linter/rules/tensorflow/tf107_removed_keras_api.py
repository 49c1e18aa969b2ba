"""A name, method or parameter that Keras has removed: the script fails at that line, after the GPU instance has started.

TensorFlow 2.16 and later install Keras 3, which has no `fit_generator`, no `fit(workers=...)` and no `lr=`. It is an
error if the job or the project pins such a TensorFlow, and a warning if nothing is pinned.

Bad:

    # file: requirements.txt
    tensorflow==2.17.0
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.Adam(lr=0.001))  # <-
    model.fit_generator(iter([]), epochs=3)  # <-

Fixed:

    # file: requirements.txt
    tensorflow==2.17.0
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.Adam(learning_rate=0.001))
    model.fit(iter([]), epochs=3)

Bad:

    from keras.models import Sequential

    model = Sequential()
    model.fit([], workers=8)  # <-

Bad: names

    # file: requirements.txt
    tensorflow==2.18.0
    # file: train.py
    import tensorflow as tf
    from tensorflow.keras.layers.experimental import preprocessing  # <-

    optimizer = tf.keras.optimizers.legacy.Adam(1e-3)  # <-
    tf.keras.backend.set_learning_phase(1)  # <-

Good:

    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile(loss="mse")
    model.fit(iter([]), epochs=3)

Quiet: the job runs an older TensorFlow

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="r", framework_version="2.11", py_version="py39",
        instance_count=1, instance_type="ml.g4dn.xlarge",
    )
    # file: train.py
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.fit_generator(iter([]), epochs=3)

Quiet: the absence is handled

    # file: requirements.txt
    tensorflow==2.18.0
    # file: train.py
    import tensorflow as tf

    try:
        Adam = tf.keras.optimizers.legacy.Adam
    except AttributeError:
        Adam = tf.keras.optimizers.Adam

Quiet: not Keras's fit

    from lightgbm import LGBMClassifier

    LGBMClassifier().fit([], [], workers=4)
"""

import ast
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.knowledge.frameworks.tensorflow import (
    RemovedKerasName,
    removed_from_keras,
    targets_old_tensorflow,
    tensorflow_is_at_least,
)
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.sdk.names import used_names
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.linter.source.span import Span

rule = Rule("TF107", "removed-keras-api", Severity.ERROR, needs=("keras", "tensorflow"))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("keras", "tensorflow") or targets_old_tensorflow(module) or is_test(module):
        return
    yield from _names(module, project)
    for gone in removed_from_keras():
        for call in _uses(module, gone):
            verdict = tensorflow_is_at_least(module, project, gone.since)
            if verdict == "no":
                continue
            what = (
                f"`{gone.name}=`"
                if gone.kind in ("optimizer", "fit")
                else f"`{gone.name.rpartition('.')[2]}`"
            )
            yield rule.hit(
                call.span,
                f"{what} does not exist in the Keras of TensorFlow {gone.since} and later.",
                remedy=f"Use {gone.instead}.",
                severity=rule.severity if verdict == "yes" else lowered(rule.severity),
                fix=_fix(call, gone),
            )


def _names(module: Module, project: Project) -> Hits:
    """Names of Keras's modules that are gone, at their import or where they are used as an attribute."""
    gone = {row.name: row for row in removed_from_keras() if row.kind == "name"}
    for used in (name for package in _PACKAGES for name in used_names(module, package, inner=True)):
        path = _below_keras(used.path)
        row = next((gone[prefix] for prefix in _prefixes(path) if prefix in gone), None)
        if row is None or used.guarded:
            continue
        verdict = tensorflow_is_at_least(module, project, row.since)
        if verdict == "no" or (verdict == "unknown" and row.since == "2.16"):
            continue
        yield rule.hit(
            module.span(used.node),
            f"`keras.{row.name}` does not exist in the Keras of TensorFlow {row.since} and later.",
            remedy=f"Use {row.instead}."
            if row.instead
            else "Pin an older TensorFlow, or install tf-keras and set TF_USE_LEGACY_KERAS=1.",
            severity=rule.severity if verdict == "yes" else lowered(rule.severity),
        )


_PACKAGES = ("tensorflow", "keras")


def _below_keras(path: str) -> str:
    return path.removeprefix("tensorflow.").removeprefix("keras.") if "keras." in path else ""


def _prefixes(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition(".")[0]


def _uses(module: Module, gone: RemovedKerasName) -> Iterator[Call]:
    match gone.kind:
        case "method":
            yield from (
                candidate for candidate in calls_named(module, gone.name) if candidate.receiver is not None
            )
        case "function":
            yield from calls_to(module, gone.name, f"tensorflow.{gone.name}")
        case "name":
            return
        case "optimizer":
            yield from (call for call in module.derived(_optimizer_calls) if gone.name in call.keywords)
        case _:
            for call in calls_named(module, "fit"):
                is_model = (
                    call.receiver is not None and type_of(module, call.receiver).kind is TypeKind.KERAS_MODEL
                )
                if is_model and gone.name in call.keywords:
                    yield call


def _optimizer_calls(module: Module) -> list[Call]:
    """The calls that create an optimizer of Keras, but for the legacy ones."""
    found: list[Call] = []
    for call in all_calls(module):
        name = call.name or ""
        is_keras = name.startswith(("keras.optimizers.", "tensorflow.keras.optimizers."))
        if is_keras and ".legacy." not in name and ".schedules." not in name:
            found.append(call)
    return found


def _fix(call: Call, gone: RemovedKerasName) -> Fix | None:
    module = call.module
    if gone.kind == "optimizer":
        keyword = next(argument for argument in call.node.keywords if argument.arg == gone.name)
        text = f"{gone.instead}={module.text(keyword.value)}"
        return Fix(f"Write {gone.instead}", (replace_node(module, keyword, text),), safe=True)
    function = call.node.func
    if gone.kind == "method" and gone.instead.isidentifier() and isinstance(function, ast.Attribute):
        if gone.name.endswith("_generator") and set(call.keywords) & {
            "workers",
            "use_multiprocessing",
            "max_queue_size",
        }:
            return None
        end = module.span(function)
        at = Span(end.unit, end.end_line, end.end_column - len(gone.name), end.end_line, end.end_column)
        safe = gone.name == "fit_generator" and "generator" not in call.keywords
        return Fix(f"Write {gone.instead}", (Edit(at, gone.instead),), safe=safe)
    return None
