"""The training is inside `try: … except Exception: print(…)`: when it fails, the script exits with 0 and the job is "Completed".

Nothing then tells the pipeline, the alarm or the next job that there is no model. Log the error and raise it again.

Bad:

    try:
        model.fit(x, y)
    except Exception as error:  # <-
        print("training failed:", error)

Good:

    try:
        model.fit(x, y)
    except Exception as error:
        print("training failed:", error)
        raise

Quiet: only some errors

    try:
        model.fit(x, y)
    except KeyboardInterrupt:
        print("interrupted")

Quiet: the exit code tells

    import sys

    try:
        model.fit(x, y)
    except Exception as error:
        print(error)
        sys.exit(1)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM119", "swallowed-exception", Severity.WARNING, when="strict", needs=("except",))

_TRAINS = ("fit", "train", "backward", "train_model", "run_training", "training_loop")
_ENDS = frozenset({"exit", "_exit", "abort", "kill", "fail"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    for statement in module.nodes(ast.Try):
        training = [
            call for body in statement.body for call in calls_within(calls_named(module, *_TRAINS), body)
        ]
        if not training or module.loops_around(statement):
            continue
        for handler in statement.handlers:
            if _takes_all(module, handler) and not _tells(handler):
                yield rule.hit(
                    module.span(handler),
                    f"If `{module.text(training[0].node.func)}` fails, the script goes on and ends with 0: the job is completed.",
                    remedy="Raise the exception again after logging it.",
                )


def _takes_all(module: Module, handler: ast.ExceptHandler) -> bool:
    return handler.type is None or module.text(handler.type) in ("Exception", "BaseException")


def _tells(handler: ast.ExceptHandler) -> bool:
    """Whether a handler raises, ends the program, returns a value, or keeps the error for later."""
    for node in ast.walk(handler):
        if isinstance(node, (ast.Raise, ast.Return, ast.Assign)):
            return True
        if isinstance(node, ast.Call) and callee_name(node) in _ENDS:
            return True
    return False
