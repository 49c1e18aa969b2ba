"""A metric is computed for each epoch and never reset: it covers all epochs so far.

Metrics of torchmetrics and Keras accumulate until `reset()` (`reset_state()`). Without it, the accuracy of epoch 10 is the mean over ten
epochs, which follows the model slowly and hides overfitting; lists inside such metrics also fill the memory. Lightning and `fit` reset
them by themselves.

Bad:

    import torchmetrics

    def evaluate(model, loader, epochs, device):
        accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=10).to(device)
        for epoch in range(epochs):
            for x, y in loader:
                accuracy.update(model(x.to(device)), y.to(device))
            print(epoch, accuracy.compute())  # <-

Bad: Keras

    import tensorflow as tf

    def train(step, dataset, epochs):
        mean_loss = tf.keras.metrics.Mean()
        for epoch in range(epochs):
            for x, y in dataset:
                mean_loss.update_state(step(x, y))
            print(epoch, mean_loss.result().numpy())  # <-

Good:

    import torchmetrics

    def evaluate(model, loader, epochs, device):
        accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=10).to(device)
        for epoch in range(epochs):
            for x, y in loader:
                accuracy.update(model(x.to(device)), y.to(device))
            print(epoch, accuracy.compute())
            accuracy.reset()

Quiet: a new metric for each epoch, or all are reset together

    import torchmetrics

    def evaluate(model, loader, epochs, others):
        shared = torchmetrics.MeanMetric()
        for epoch in range(epochs):
            accuracy = torchmetrics.Accuracy(task="multiclass", num_classes=10)
            for x, y in loader:
                accuracy.update(model(x), y)
                shared.update(1.0)
            print(epoch, accuracy.compute(), shared.compute())
            for metric in others:
                metric.reset()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.flow.called import calls_within_program
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF156", "metric-not-reset", Severity.WARNING, needs=("metrics",))

_METRIC = re.compile(r"^torchmetrics\.(\w+\.)*[A-Z]\w+$|^(tensorflow\.)?keras\.metrics\.[A-Z]\w+$")
_RESETS = re.compile(r"(^|\.)reset(_states?|_metrics)?$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torchmetrics", "tensorflow", "keras") or is_test(module):
        return
    results = [call for call in calls_named(module, "compute", "result") if call.receiver is not None]
    if not results or uses(module, _RESETS, "call", "attribute"):
        return
    for call in results:
        loops = module.loops_around(call.node)
        metric = call.receiver
        if not loops or not isinstance(metric, (ast.Name, ast.Attribute)):
            continue
        made = creations(module, metric)
        if not made or not all(_METRIC.match(each.name or "") for each in made):
            continue
        if any(each.module is module and module.tree.is_within(each.node, loops[-1]) for each in made):
            continue
        if _updates(module, metric, loops[0]):
            yield rule.hit(
                call.span,
                f"`{module.text(metric)}` is never reset: from the second round on, `{module.text(call.node)}` covers all rounds so far.",
                remedy=f"Call {module.text(metric)}.{'reset_state' if call.method == 'result' else 'reset'}() after it.",
            )


def _updates(module: Module, metric: ast.expr, loop: ast.AST) -> bool:
    """Whether code that runs in a loop updates a metric, in a loop inside of it or in a function that it calls."""
    text = module.text(metric)
    for other, call in calls_within_program(module, loop):
        function = call.func
        is_update = other.text(function) == text or (
            isinstance(function, ast.Attribute)
            and function.attr in ("update", "update_state")
            and other.text(function.value) == text
        )
        if is_update and (other is not module or other.loops_around(call)[:1] != [loop]):
            return True
    return False
