"""`KERAS_BACKEND` or `TF_USE_LEGACY_KERAS` is set after the import that reads it: it has no effect.

Keras chooses its backend when it is imported, and TensorFlow its version of Keras when it is imported. The script runs with the other one: on
another framework, often without its GPU build, or with Keras 3 instead of Keras 2.

Bad:

    import os
    import keras

    os.environ["KERAS_BACKEND"] = "torch"  # <-
    model = keras.Sequential([keras.layers.Dense(1)])

Good:

    import os

    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    model = keras.Sequential([keras.layers.Dense(1)])

Quiet: a notebook that one may start again at a later cell

    # file: train.ipynb
    import os
    os.environ["KERAS_BACKEND"] = "jax"
    import keras
    # %%
    import os
    os.environ["KERAS_BACKEND"] = "jax"

Quiet: for programs that are started later

    import os
    import subprocess
    import keras

    os.environ["KERAS_BACKEND"] = "torch"
    subprocess.run(["python", "train.py"])
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.programs import starts_program
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "TF132", "backend-chosen-too-late", Severity.WARNING, needs=("KERAS_BACKEND", "TF_USE_LEGACY_KERAS")
)

_READ_BY = {"KERAS_BACKEND": ("keras",), "TF_USE_LEGACY_KERAS": ("tensorflow",)}


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    earlier = set[str]()
    for statement in module.tree.root.body:
        variable = _variable(statement)
        if variable is None or variable in earlier:
            continue  # set again, such as where the reader of a notebook starts again
        earlier.add(variable)
        imported = [
            node
            for node in module.tree.root.body
            if isinstance(node, (ast.Import, ast.ImportFrom)) and _imports(node, _READ_BY[variable])
        ]
        if (
            not imported
            or imported[0].lineno > statement.lineno
            or any(map(starts_program, all_calls(module)))
        ):
            continue
        root = _READ_BY[variable][0]
        yield rule.hit(
            module.span(statement),
            f"`{variable}` is set after `{root}` is imported in line {module.unit.file_position(imported[0].lineno, 1)[1]}: it has no "
            "effect.",
            remedy=f"Set it before the first import of {root}.",
        )


def _variable(statement: ast.stmt) -> str | None:
    """The variable that a statement sets for this process."""
    match statement:
        case ast.Assign(
            targets=[ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(value=name))]
        ):
            return name if isinstance(name, str) and name in _READ_BY else None
        case ast.Expr(value=ast.Call(args=[ast.Constant(value=name), *_]) as call):
            is_set = callee_name(call) in ("setdefault", "putenv")
            return name if is_set and isinstance(name, str) and name in _READ_BY else None
        case _:
            return None


def _imports(node: ast.Import | ast.ImportFrom, roots: tuple[str, ...]) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return any(name.partition(".")[0] in roots for name in names)
