"""The arguments of the loss are swapped: `cross_entropy(labels, outputs)` instead of `cross_entropy(outputs, labels)`.

PyTorch's losses take the model's output first and the labels second (scikit-learn and Keras the reverse). Cross-entropy then fails, because the
labels have the wrong type or shape; binary losses compute something else, with gradients that lead nowhere.

Bad:

    import torch
    from torch import nn

    def train(loader, device):
        model = nn.Linear(8, 3).to(device)
        criterion = nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            logits = model(x.to(device))
            loss = criterion(y.to(device), logits)  # <-
            loss.backward()
            optimizer.step()

Bad: the function

    import torch.nn.functional as F

    def step(model, x, labels):
        return F.binary_cross_entropy_with_logits(labels, model(x))  # <-

Bad: Keras's losses take the labels first

    import keras
    import tensorflow as tf

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3)])
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_fn(logits, y)  # <-
        return tape.gradient(loss, model.trainable_variables)

Good:

    import torch
    from torch import nn

    def train(loader, device):
        model = nn.Linear(8, 3).to(device)
        criterion = nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            logits = model(x.to(device))
            loss = criterion(logits, y.to(device))
            loss.backward()
            optimizer.step()

Quiet: in Keras

    import keras

    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
    loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)

    def step(x, y):
        return loss_fn(y, model(x)) + keras.losses.mean_squared_error(model(x), y)

Quiet: both are outputs, or a teacher's are the labels

    import torch.nn.functional as F

    def step(model, teacher, x, reconstruction):
        targets = model(x)
        return F.cross_entropy(targets, teacher(x)) + F.binary_cross_entropy(reconstruction, model(x))
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "PF154",
    "swapped-loss-arguments",
    Severity.ERROR,
    needs=("ross_entropy", "CrossEntropy", "nll_loss", "NLLLoss", "BCE", "rossentropy"),
)

_LOSS = re.compile(
    r"^torch\.nn\.(CrossEntropyLoss|NLLLoss|BCELoss|BCEWithLogitsLoss)$"
    r"|^torch\.nn\.functional\.(cross_entropy|nll_loss|binary_cross_entropy(_with_logits)?)$"
)
_KERAS_LOSS = re.compile(
    r"(^|\.)keras\.losses\.((Sparse)?CategoricalCrossentropy|BinaryCrossentropy"
    r"|(sparse_)?categorical_crossentropy|binary_crossentropy)$"
)
_LABELS = re.compile(
    r"^(y|ys|labels?|targets?|y_true|y_batch|batch_y|gt|ground_truth|truth|label_batch)$", re.IGNORECASE
)
_MODEL = re.compile(r"(^|[._])(model|net|network|classifier|backbone)$", re.IGNORECASE)
_SAME = frozenset(
    {"to", "cuda", "long", "float", "squeeze", "view", "reshape", "unsqueeze", "flatten", "type", "view_as"}
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch", "tensorflow", "keras") or is_test(module):
        return
    for call in all_calls(module):
        if len(call.node.args) < 2 or (losses := _losses(module, call)) is None:
            continue
        first, second = call.node.args[:2]
        label, output = (first, second) if losses is _LOSS else (second, first)
        if _is_label(module, label) and _is_output(module, output):
            order = "the model's output comes" if losses is _LOSS else "Keras's losses take the labels"
            yield rule.hit(
                call.span,
                f"`{module.text(first)}` and `{module.text(second)}` are swapped: {order} first.",
                remedy=f"Write {module.text(call.node.func)}({module.text(second)}, {module.text(first)}).",
            )


def _losses(module: Module, call: Call) -> re.Pattern[str] | None:
    """The losses, PyTorch's or Keras's, of which a call computes one."""
    if call.name is not None:
        names = [call.name]
    elif isinstance(call.node.func, (ast.Name, ast.Attribute)):
        names = [each.name or "" for each in creations(module, call.node.func)]
    else:
        return None
    return next((losses for losses in (_LOSS, _KERAS_LOSS) if names and all(map(losses.search, names))), None)


def _bare(node: ast.expr) -> ast.expr:
    """An expression without methods that change the shape, type or place of a tensor."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _SAME:
        node = node.func.value
    return node


def _is_label(module: Module, node: ast.expr) -> bool:
    """Whether an expression certainly is the label of a batch: by its name, and it is no output of a model."""
    bare = _bare(node)
    if not isinstance(bare, ast.Name) or not _LABELS.match(bare.id):
        return False
    return all(
        binding.kind in ("loop", "parameter", "unpack")
        or (binding.value is not None and isinstance(_bare(binding.value), (ast.Name, ast.Subscript)))
        for binding in module.reaching(bare)
    )


def _is_output(module: Module, node: ast.expr) -> bool:
    """Whether an expression certainly is what a model returns."""
    made = _bare(module.origin(_bare(node)) or node)
    if not isinstance(made, ast.Call) or not isinstance(made.func, (ast.Name, ast.Attribute)):
        return False
    return (
        type_of(module, made.func).kind in (TypeKind.MODULE, TypeKind.KERAS_MODEL)
        or _MODEL.search(module.text(made.func)) is not None
    )
