"""A softmax over a single unit is always 1: the layer has no gradient, and the model learns nothing.

Softmax divides by the sum over all units; with one unit the result is 1 for every input. A binary classifier needs a sigmoid, or two
units. The loss is a constant from the first step to the last, and the accuracy is the share of one class.

Bad:

    import keras

    model = keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(1, activation="softmax"),  # <-
        ]
    )

Good:

    import keras

    model = keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )

Bad: PyTorch

    from torch import nn

    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1), nn.Softmax(dim=1))  # <-

Quiet: over another axis, or a number of units that is not known

    from keras import layers
    from torch import nn

    def head(units):
        return layers.Dense(units, activation="softmax")

    weights = nn.Sequential(nn.Linear(8, 1), nn.Softmax(dim=0))
"""

import ast
from itertools import pairwise

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.keras_fits import is_of_keras
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("TF126", "softmax-of-one-unit", Severity.ERROR, needs=("oftmax",))

_REMEDY = "Use a sigmoid with a binary cross-entropy, or two units."


@rule.module
def check(module: Module, _: Project) -> Hits:
    for call in calls_named(module, "Dense"):
        if not is_of_keras(call, "layers.Dense"):
            continue
        units = call.argument("units", 0)
        if units.is_known and units.number == 1 and _is_softmax(call):
            yield rule.hit(
                call.span,
                f"`{module.text(call.node)}` is always 1: a softmax needs two units or more.",
                remedy=_REMEDY,
            )
    for call in calls_to(module, "torch.nn.Sequential"):
        made = [origin_call(module, layer) for layer in call.node.args]
        for layer, activation in pairwise(made):
            if layer is not None and activation is not None and _is_constant(layer, activation):
                yield rule.hit(
                    activation.span,
                    f"`{module.text(activation.node)}` of one unit is always 1: a softmax needs two units or more.",
                    remedy=_REMEDY,
                )


def _is_softmax(call: Call) -> bool:
    node = call.expression("activation", 1)
    if node is None:
        return False
    value = evaluate(call.module, node)
    name = call.module.qualified(node) if isinstance(node, (ast.Name, ast.Attribute)) else None
    return (value.is_known and value.text == "softmax") or (name or "").endswith(
        ("activations.softmax", "nn.softmax")
    )


def _is_constant(layer: Call, activation: Call) -> bool:
    if layer.name != "torch.nn.Linear" or activation.name != "torch.nn.Softmax":
        return False
    units, dim = layer.argument("out_features", 1), activation.argument("dim", 0)
    return units.is_known and units.number == 1 and dim.is_known and dim.number in (1, -1)
