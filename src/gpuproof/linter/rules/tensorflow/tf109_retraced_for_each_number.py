"""A `tf.function` gets a new Python number in each call: it is traced again each time.

Python numbers are part of the graph: `train_step(x, epoch)` traces a new graph for every value, which takes seconds and keeps all graphs in
memory. Tensors are not: pass `tf.constant(epoch)`. The rule is off unless selected, because a few values may be meant.

Bad:

    import tensorflow as tf

    @tf.function
    def train_step(x, rate):
        return x * rate

    for index in range(1000):
        train_step(tf.ones(4), index * 0.1)  # <-

Good:

    import tensorflow as tf

    @tf.function
    def train_step(x, rate):
        return x * rate

    for index in range(1000):
        train_step(tf.ones(4), tf.constant(index * 0.1))

Quiet: a signature is given, or the number is the same

    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec(None), tf.TensorSpec(None)])
    def train_step(x, rate):
        return x * rate

    @tf.function
    def fixed(x, rate):
        return x * rate

    for index in range(1000):
        train_step(tf.ones(4), index * 0.1)
        fixed(tf.ones(4), 0.1)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls, local_function
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "TF109",
    "retraced-for-each-number",
    Severity.NOTE,
    when="strict",
    needs=("tf.function", "import function"),
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("tensorflow") or is_test(module):
        return
    for call in all_calls(module):
        function = local_function(call)
        if function is None or not any(
            not isinstance(each, ast.Call) and module.qualified(each) == "tensorflow.function"
            for each in function.decorator_list
        ):
            continue
        loops = module.loops_around(call.node)
        given = [*call.node.args, *call.keywords.values()]
        number = next((node for node in given if any(_counts(module, node, loop) for loop in loops)), None)
        if number is not None:
            yield rule.hit(
                call.span,
                f"`{module.text(number)}` is a new Python number in each call: `{function.name}` is traced again each time.",
                remedy=f"Pass tf.constant({module.text(number)}).",
            )


def _counts(module: Module, node: ast.expr, loop: ast.AST) -> bool:
    """Whether an expression is the counter of a loop over a range, or arithmetic with it."""
    match loop:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"))):
            pass
        case ast.For(
            target=ast.Tuple(elts=[ast.Name(id=name), *_]), iter=ast.Call(func=ast.Name(id="enumerate"))
        ):
            pass
        case _:
            return False
    if isinstance(node, ast.BinOp):
        return _counts(module, node.left, loop) or _counts(module, node.right, loop)
    return isinstance(node, ast.Name) and node.id == name and len(module.reaching(node)) == 1
