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
from gpuproof.linter.analysis.call import Call, calls_named, calls_within
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.torch import is_test
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
        inner = _updates(module, metric, loops[0])
        if inner:
            yield rule.hit(
                call.span,
                f"`{module.text(metric)}` is never reset: from the second round on, `{module.text(call.node)}` covers all rounds so far.",
                remedy=f"Call {module.text(metric)}.{'reset_state' if call.method == 'result' else 'reset'}() after it.",
            )


def _updates(module: Module, metric: ast.expr, loop: ast.AST) -> list[Call]:
    """The calls that update a metric in a loop inside of a loop."""
    text = module.text(metric)
    found = [
        call
        for call in calls_within(calls_named(module, "update", "update_state"), loop)
        if call.receiver is not None and module.text(call.receiver) == text
    ]
    name = text.rpartition(".")[2]
    found += [
        call for call in calls_within(calls_named(module, name), loop) if module.text(call.node.func) == text
    ]
    return [call for call in found if module.loops_around(call.node)[:1] != [loop]]
