"""TensorFlow facts: the TensorFlow version of a script, removed Keras names, and the calls of a tf.data pipeline."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, uses
from gpuproof.linter.knowledge.frameworks.framework_version import (
    Ternary,
    framework_is_at_least,
    is_not_below,
)
from gpuproof.linter.knowledge.version_pins import pinned_versions
from gpuproof.linter.project import Project
from gpuproof.util.csv_table import read_rows

_OLD_NAMES = re.compile(r"^(tensorflow\.contrib|tf_keras)(\.|$)")
_LEGACY = "TF_USE_LEGACY_KERAS"
_OLD_TEXTS = re.compile(r"tensorflow==1\b")
_OLD_COMMANDS = re.compile(r"^\s*[!%].*(tensorflow_version 1|tensorflow(-gpu)?==1\b)")
"""IPython lines that select TensorFlow 1."""

_FIRST_WITH_KERAS_3 = "2.16"


class RemovedKerasName(NamedTuple):
    """One row of `data/keras_removed.csv`: a method, function or keyword, and the TensorFlow version that removed it."""

    kind: str
    name: str
    since: str
    instead: str


@cache
def removed_from_keras() -> tuple[RemovedKerasName, ...]:
    """Names that Keras has removed; the file has sources and dates."""
    path = Path(__file__).parents[2] / "data" / "keras_removed.csv"
    return tuple(
        RemovedKerasName(row["kind"], row["name"], row["since"], row["instead"]) for row in read_rows(path)
    )


def tensorflow_is_at_least(module: Module, project: Project, version: str) -> Ternary:
    """Whether a script runs on this TensorFlow version or newer (`yes`) or on an older one (`no`)."""
    return framework_is_at_least(module, project, "tensorflow", version)


def _keras_pin(constraint: str) -> Ternary:
    """Whether a constraint of the package `keras` allows Keras 3 only."""
    match = re.match(r"\s*(===?|~=|>=|<)\s*(\d+)", constraint)
    if match is None:
        return "unknown"
    sign, major = match[1], int(match[2])
    if sign == "<":
        return "no" if major <= 3 else "unknown"
    return "yes" if major >= 3 else "no" if sign != ">=" else "unknown"


def has_keras_3(module: Module, project: Project) -> Ternary:
    """Whether `tf.keras` of a script is Keras 3, which TensorFlow 2.16 and later install."""
    if module.imports("keras") and not module.imports("tensorflow"):
        own = _keras_pin(pinned_versions(module.unit).get("keras", ""))
        if own != "unknown":
            return own
    installed = project.target.tensorflow
    if installed is not None and not {"tensorflow", "tensorflow-cpu"} & pinned_versions(module.unit).keys():
        # The job will not install another one.
        return "yes" if is_not_below(installed, _FIRST_WITH_KERAS_3) else "no"
    return tensorflow_is_at_least(module, project, _FIRST_WITH_KERAS_3)


def targets_old_tensorflow(module: Module) -> bool:
    """Whether a script is clearly written for TensorFlow 1, or selects the legacy Keras."""
    # What code uses takes as long to collect as all other rules take for a file that is about TensorFlow.
    source = module.unit.source
    return (
        module.imports("tensorflow.contrib", "tf_keras")
        or (("contrib" in source or "tf_keras" in source) and uses(module, _OLD_NAMES, "name", "call"))
        or (_LEGACY in source and sets_legacy_keras(module))
        or ("==1" in source and uses(module, _OLD_TEXTS, "string"))
        or any(_OLD_COMMANDS.search(line) for line in module.unit.magic_lines)
    )


def sets_legacy_keras(module: Module) -> bool:
    """Whether a module may set the variable for Keras 2, and not to 0."""
    for use in find_uses(module, "string"):
        if use.text != _LEGACY:
            continue
        statement = module.tree.statement(use.node)
        value = evaluate(module, statement.value) if isinstance(statement, ast.Assign) else None
        if value is None or not (value.is_known and str(value.value).lower() in ("0", "false", "")):
            return True
    return False


def tensorflow_alias(module: Module) -> str | None:
    """The name of TensorFlow in a file, such as `tf`; None if the file imports only parts of it."""
    return next((name for name, what in module.names.imports.items() if what == "tensorflow"), None)
