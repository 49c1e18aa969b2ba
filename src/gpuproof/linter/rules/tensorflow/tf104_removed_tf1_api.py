"""The script uses a TensorFlow 1 name that TensorFlow 2 does not have: AttributeError, after the instance has
started.

`tf.Session`, `tf.ConfigProto` and `tf.placeholder` only exist under `tf.compat.v1`. The list of removed names was
read from the installed package. It is an error if the job or the project pins TensorFlow 2, and a warning if nothing
is pinned. TensorFlow 1 projects and scripts that check the version are not reported.

Bad:

    # file: requirements.txt
    tensorflow==2.15.0
    # file: train.py
    import tensorflow as tf

    config = tf.ConfigProto()  # <-
    session = tf.Session(config=config)

Bad: an option of the script decides

    import argparse
    import tensorflow as tf

    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()
    if args.seed:
        tf.set_random_seed(args.seed)  # <-

Good:

    import tensorflow as tf

    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)

Quiet: the compatibility names

    import tensorflow.compat.v1 as tf

    session = tf.Session(config=tf.ConfigProto())

Quiet: the job runs TensorFlow 1

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="r", framework_version="1.15.2", py_version="py3",
        instance_count=1, instance_type="ml.g4dn.xlarge",
    )
    # file: train.py
    import tensorflow as tf

    session = tf.Session()

Quiet: a TensorFlow 1 script

    import tensorflow as tf
    from tensorflow.contrib import slim

    session = tf.Session()
"""

import ast
import re
from functools import cache
from pathlib import Path

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, is_message
from gpuproof.linter.knowledge.frameworks.tensorflow import targets_old_tensorflow, tensorflow_is_at_least
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.util.csv_table import read_rows

_OLD = re.compile(
    r"^tensorflow\.(compat\.v1|contrib)(\.|$)|^tensorflow\.(__version__|VERSION|version\.VERSION)"
)
"""The file uses the old API by its new name, or distinguishes versions."""

rule = Rule("TF104", "removed-tf1-api", Severity.ERROR, needs=("tensorflow",))

_VERSIONS = re.compile(r"version|hasattr|tf_?[12]|\bv[12]\b|compat|\btf\b|tensorflow|eager", re.IGNORECASE)
"""Tests of the installed version, or of what it has."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not module.imports("tensorflow") or is_test(module) or targets_old_tensorflow(module):
        return
    if any(
        _OLD.search(use.text) and not is_message(module, use.node)
        for use in find_uses(module, "name", "call")
    ):
        return
    pinned: str | None = None
    for node in module.nodes(ast.Attribute):
        if node.attr not in _last_parts():
            continue
        name = (module.qualified(node) or "").removeprefix("tensorflow.")
        if name not in _removed() or not (module.qualified(node) or "").startswith("tensorflow."):
            continue
        if _may_be_guarded(module, node):
            continue
        pinned = pinned or tensorflow_is_at_least(module, project, "2.0")
        if pinned == "no":
            return
        yield rule.hit(
            module.span(node),
            f"`{module.text(node)}` was removed in TensorFlow 2: AttributeError.",
            remedy=f"Use {_removed()[name]}; for unchanged old code, tf.compat.v1.{name}.",
            severity=rule.severity if pinned == "yes" else lowered(rule.severity),
        )
        # One finding is sufficient: the whole file has to be ported, for example with tf_upgrade_v2.
        return


def _may_be_guarded(module: Module, node: ast.AST) -> bool:
    """Whether an error is handled, or the line only runs with some versions."""
    return any(
        isinstance(ancestor, ast.Try)
        or (isinstance(ancestor, (ast.If, ast.IfExp)) and _VERSIONS.search(module.text(ancestor.test)))
        for ancestor in module.tree.ancestors(node)
    )


@cache
def _removed() -> dict[str, str]:
    path = Path(__file__).parents[2] / "data" / "tensorflow1_removed.csv"
    return {row["name"]: row["instead"] for row in read_rows(path)}


@cache
def _last_parts() -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in _removed())
