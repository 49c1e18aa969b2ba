"""The loss is computed outside of the `GradientTape`: all gradients are None, and the first step fails.

A tape records what runs inside of its `with` block. A loss that is computed after the block is not connected to the weights:
`apply_gradients` raises "No gradients provided for any variable".

Bad:

    import tensorflow as tf

    @tf.function
    def step(model, optimizer, x, y):
        with tf.GradientTape() as tape:
            predictions = model(x, training=True)
        loss = tf.reduce_mean(tf.keras.losses.mse(y, predictions))
        gradients = tape.gradient(loss, model.trainable_variables)  # <-
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

Bad: the variables are missing

    import tensorflow as tf

    @tf.function
    def step(model, optimizer, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.mse(y, model(x, training=True)))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(gradients)  # <-

Good:

    import tensorflow as tf

    @tf.function
    def step(model, optimizer, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.mse(y, model(x, training=True)))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

Quiet: the tape goes on, or the value was recorded

    import tensorflow as tf

    def step(model, x, ys):
        tape = tf.GradientTape()
        with tape:
            losses = [model(x), model(x + 1)]
        loss = losses[0]
        return tape.gradient(loss, model.trainable_variables)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF127", "loss-outside-tape", Severity.ERROR, needs=("GradientTape",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("tensorflow"):
        return
    for call in calls_named(module, "gradient"):
        block = _tape_block(module, call)
        target = call.expression("target", 0)
        if block is not None and isinstance(target, ast.Name) and _is_computed_outside(module, target, block):
            yield rule.hit(
                call.span,
                f"`{target.id}` is computed outside of the tape's `with` block: all gradients are None.",
                remedy=f"Move the line that computes {target.id} into the block.",
            )
    for call in calls_named(module, "apply_gradients"):
        made = origin_call(module, call.expression("grads_and_vars", 0))
        if made is not None and made.method == "gradient" and _tape_block(module, made) is not None:
            variables = made.expression("sources", 1)
            text = module.text(variables) if variables is not None else "variables"
            given = call.expression("grads_and_vars", 0)
            gradients = module.text(given) if isinstance(given, ast.Name) else "gradients"
            yield rule.hit(
                call.span,
                "`apply_gradients` expects pairs of a gradient and a variable, and gets gradients alone: it fails.",
                remedy=f"Pass zip({gradients}, {text}).",
            )


def _tape_block(module: Module, call: Call) -> ast.With | None:
    """The `with tf.GradientTape() as tape` block of the tape on which a call is made."""
    if not isinstance(call.receiver, ast.Name):
        return None
    bindings = module.reaching(call.receiver)
    if len(bindings) != 1 or bindings[0].kind != "with":
        return None
    made = bindings[0].value
    if not isinstance(made, ast.Call) or module.qualified(made.func) != "tensorflow.GradientTape":
        return None
    return module.enclosing(bindings[0].node, ast.With)


def _is_computed_outside(module: Module, target: ast.Name, block: ast.With) -> bool:
    """Whether all values of a name are computed outside of a block, by an operation that the tape would have to record."""
    bindings = module.reaching(target)
    return bool(bindings) and all(
        binding.kind == "assign"
        and isinstance(binding.value, (ast.Call, ast.BinOp))
        and not module.tree.is_within(binding.node, block)
        and module.function_of(binding.node) is module.function_of(block)
        and not _is_in_another_tape(module, binding.node, block)
        for binding in bindings
    )


def _is_in_another_tape(module: Module, node: ast.AST, block: ast.With) -> bool:
    """Whether a `with` block around a node, other than those around the tape's own, may enter the tape again."""
    around = module.enclosing(node, ast.With)
    while around is not None:
        if not module.tree.is_within(block, around):
            return True
        around = module.enclosing(around, ast.With)
    return False
