"""`run_eagerly=True` runs every step operation by operation in Python: several times slower, and the GPU mostly waits.

It is meant for debugging. Without a graph there is no fusion and no XLA, and each small operation pays for its launch.

Bad:

    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse", run_eagerly=True)  # <-

Bad: for all functions

    import tensorflow as tf

    tf.config.run_functions_eagerly(True)  # <-

Bad: in the function that the script runs

    import tensorflow as tf

    def main():
        tf.config.run_functions_eagerly(True)  # <-

    if __name__ == "__main__":
        main()

Good:

    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")

Quiet: only on request

    import argparse
    import keras
    import tensorflow as tf

    parser = argparse.ArgumentParser()
    parser.add_argument("--debug", action="store_true")
    args = parser.parse_args()
    if args.debug:
        tf.config.run_functions_eagerly(True)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse", run_eagerly=args.debug)

Quiet: switched off again

    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    print(tf.add(1, 2))
    tf.config.run_functions_eagerly(False)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_to
from gpuproof.linter.analysis.flow.call_sites import known_call_sites
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import remove_keyword
from gpuproof.linter.knowledge.distribution.strategies import is_conditional
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("TF118", "eager-execution-left-on", Severity.WARNING, needs=("eagerly",))

_SWITCHES = (
    "tensorflow.config.run_functions_eagerly",
    "tensorflow.config.experimental_run_functions_eagerly",
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("tensorflow", "keras") or is_test(module):
        return
    for call in calls_named(module, "compile"):
        value = call.argument("run_eagerly") if call.receiver is not None else None
        if value is not None and value.is_known and value.flag is True:
            edit = remove_keyword(call, "run_eagerly")
            yield rule.hit(
                module.span(call.keywords.get("run_eagerly", call.node)),
                "run_eagerly=True runs each step operation by operation, for debugging: training is several times slower.",
                remedy="Remove it.",
                fix=Fix("Remove run_eagerly", (edit,), safe=True) if edit is not None else None,
            )
    switches = calls_to(module, *_SWITCHES)
    if any(call.argument("run_eagerly", 0).flag is not True for call in switches):
        return
    for call in switches:
        if call.argument("run_eagerly", 0).is_known and _certainly_runs(module, call.node):
            yield rule.hit(
                call.span,
                f"`{module.text(call.node)}` runs every tf.function operation by operation, for debugging: training is several "
                "times slower.",
                remedy="Remove it.",
            )


def _certainly_runs(module: Module, node: ast.AST) -> bool:
    """Whether a node runs without a condition, in the module or in a function that the module calls."""
    function = module.function_of(node)
    if is_conditional(module, node) or function is None:
        return function is None and not is_conditional(module, node)
    return any(
        site.module.function_of(site.call) is None and not is_conditional(site.module, site.call)
        for site in known_call_sites(module, function)
    )
