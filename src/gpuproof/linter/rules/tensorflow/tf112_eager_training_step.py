"""A training step with GradientTape runs eagerly: Python starts each operation, and the GPU waits for Python.

`@tf.function` turns the step into a graph, which runs several times as fast where operations are small. Remove the decorator only
while debugging. Source: TensorFlow's guide "Better performance with tf.function".

Bad:

    import tensorflow as tf

    def train_step(x, y):  # <-
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    for epoch in range(10):
        for x, y in dataset:
            train_step(x, y)

Bad: in the loop itself

    import tensorflow as tf

    for epoch in range(10):
        for x, y in dataset:
            with tf.GradientTape() as tape:  # <-
                loss = loss_fn(y, model(x, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))

Good:

    import tensorflow as tf

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    for epoch in range(10):
        for x, y in dataset:
            train_step(x, y)

Quiet: compiled where it is called

    import tensorflow as tf

    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    step = tf.function(train_step)
    for x, y in dataset:
        step(x, y)

Quiet: Keras compiles train_step

    import tensorflow as tf

    class Gan(tf.keras.Model):
        def train_step(self, batch):
            with tf.GradientTape() as tape:
                loss = self.compute_loss(batch)
            self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))

Quiet: a single gradient, outside of a training loop

    import tensorflow as tf

    with tf.GradientTape() as tape:
        y = f(x)
    print(tape.gradient(y, x))
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls, calls_named, calls_within, local_function
from gpuproof.linter.analysis.flow.repeats import is_repeated
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF112", "eager-training-step", Severity.WARNING, needs=("GradientTape",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module) or not module.imports("tensorflow"):
        return
    for statement in module.nodes(ast.With):
        tapes = [item for item in statement.items if _is_tape(module, item.context_expr)]
        function = module.function_of(statement)
        around = function or module.tree.root
        if not tapes or not calls_within(calls_named(module, "apply_gradients"), around):
            continue
        if isinstance(module.parent(function) if function else None, ast.ClassDef):
            continue  # Keras compiles train_step, and other methods may be wrapped anywhere
        if not is_repeated(module, statement) or _is_compiled(module, function):
            continue
        yield rule.hit(
            module.span(function or tapes[0].context_expr),
            f"The training step{f' `{function.name}`' if function else ''} runs eagerly: Python starts each of its operations.",
            remedy="Decorate the function of the step with @tf.function.",
        )


def _is_tape(module: Module, node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and module.qualified(node.func) == "tensorflow.GradientTape"


def _is_compiled(module: Module, function: FunctionNode | None) -> bool:
    """Whether a function, one that calls it, or one that gets it may be compiled."""
    if function is None:
        return False
    seen: set[FunctionNode] = set()
    pending = [function]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        if current.decorator_list:
            return True
        callers = [call for call in all_calls(module) if local_function(call) is current]
        passed = [
            node
            for node in module.nodes(ast.Name)
            if node.id == current.name
            and isinstance(node.ctx, ast.Load)
            and not (isinstance(parent := module.parent(node), ast.Call) and parent.func is node)
        ]
        if passed or not callers:
            return True
        pending += [caller for call in callers if (caller := module.function_of(call.node)) is not None]
    return False
