"""The model or the optimizer is created outside of `strategy.scope()`: its variables are not mirrored to the GPUs.

Under MirroredStrategy all variables have to be created in the scope. Outside, `fit` trains on one GPU while the others wait, or fails with
"Variable was not created in the distribution strategy scope".

Bad:

    import tensorflow as tf

    def main(dataset):
        strategy = tf.distribute.MirroredStrategy()
        print(strategy.num_replicas_in_sync)
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])  # <-
        model.compile(optimizer="adam", loss="mse")
        model.fit(dataset.prefetch(tf.data.AUTOTUNE), epochs=3)

Bad: the optimizer of a loop

    import tensorflow as tf

    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam(1e-3)  # <-

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(model(x, training=True)[:, 0])
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    @tf.function
    def train_step(x):
        strategy.run(step, args=(x,))

Good:

    import tensorflow as tf

    def main(dataset):
        strategy = tf.distribute.MirroredStrategy()
        with strategy.scope():
            model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
            model.compile(optimizer="adam", loss="mse")
        model.fit(dataset.prefetch(tf.data.AUTOTUNE), epochs=3)

Quiet: a function that is called in the scope, and a script that chooses

    import tensorflow as tf

    def build():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(optimizer="adam", loss="mse")
        return model

    def main(dataset):
        strategy = tf.distribute.MirroredStrategy()
        with strategy.scope():
            model = build()
        model.fit(dataset.prefetch(tf.data.AUTOTUNE), epochs=3)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.flow.call_sites import call_sites
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.distribution.strategies import is_conditional, scope_around
from gpuproof.linter.knowledge.frameworks.keras_fits import fits
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF108", "variables-outside-scope", Severity.ERROR, needs=("MirroredStrategy", "TPUStrategy"))

_STRATEGY = re.compile(
    r"^tensorflow\.distribute\.(experimental\.)?(Mirrored|MultiWorkerMirrored|TPU)Strategy$"
)
_OPTIMIZER = re.compile(r"^(tensorflow\.)?keras\.optimizers\.[A-Z]\w+$")
_MODEL = re.compile(
    r"^(tensorflow\.)?keras\.(models\.)?(Sequential|Model)$|keras\.applications\.\w+\.?[A-Z]\w+$"
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("tensorflow") or is_test(module):
        return
    strategies = [call for call in all_calls(module) if call.name is not None and _STRATEGY.match(call.name)]
    if len(strategies) != 1 or is_conditional(module, strategies[0].node):
        return
    for fit in fits(module):
        made = creations(module, fit.receiver)
        shown = module.origin(fit.receiver)
        is_seen = bool(made) and all(_MODEL.search(call.name or "") for call in made)
        if shown is None or not is_seen or scope_around(module, fit.node) is not None:
            continue
        if module.function_of(shown) is not module.function_of(fit.node) or is_conditional(module, shown):
            continue
        if all(_is_outside(call.module, call.node, 0) for call in made) and not _is_in_scope(module, shown):
            yield rule.hit(
                module.span(shown),
                f"`{module.text(fit.receiver or fit.node)}` is created outside of the scope of `{strategies[0].method}`: it is not "
                "mirrored, and is trained on one GPU.",
                remedy="Create and compile it inside `with strategy.scope():`.",
            )
            return
    yield from _optimizers(module, strategies[0])


def _optimizers(module: Module, strategy: Call) -> Hits:
    """Optimizers that a step of `strategy.run` applies, and that are created outside of the scope."""
    if not calls_named(module, "run") or not calls_named(module, "scope"):
        return
    for call in calls_named(module, "apply_gradients"):
        made = creations(module, call.receiver)
        if not made or any(
            each.module is not module or not _OPTIMIZER.match(each.name or "") for each in made
        ):
            continue
        if all(_is_outside(module, each.node, 0) and not is_conditional(module, each.node) for each in made):
            yield rule.hit(
                made[0].span,
                f"`{made[0].method}` is created outside of the scope of `{strategy.method}`, and its variables are not mirrored.",
                remedy="Create it inside `with strategy.scope():`.",
            )
            return


def _is_in_scope(module: Module, node: ast.AST) -> bool:
    return scope_around(module, node) is not None


def _is_outside(module: Module, node: ast.AST, depth: int) -> bool:
    """Whether a node certainly runs outside of any scope: no call of its function is in one."""
    if scope_around(module, node) is not None or depth > 6:
        return False
    function = module.function_of(node)
    if function is None:
        return True
    sites = call_sites(module, function)
    if sites is None or function.decorator_list:
        return False
    return all(_is_outside(site.module, site.call, depth + 1) for site in sites)
