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
    needs=("ross_entropy", "CrossEntropy", "nll_loss", "NLLLoss", "BCE"),
)

_LOSS = re.compile(
    r"^torch\.nn\.(CrossEntropyLoss|NLLLoss|BCELoss|BCEWithLogitsLoss)$"
    r"|^torch\.nn\.functional\.(cross_entropy|nll_loss|binary_cross_entropy(_with_logits)?)$"
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
    if not module.imports("torch") or is_test(module):
        return
    for call in all_calls(module):
        if len(call.node.args) < 2 or not _is_loss(module, call):
            continue
        first, second = call.node.args[:2]
        if _is_label(module, first) and _is_output(module, second):
            yield rule.hit(
                call.span,
                f"`{module.text(first)}` and `{module.text(second)}` are swapped: the model's output comes first.",
                remedy=f"Write {module.text(call.node.func)}({module.text(second)}, {module.text(first)}).",
            )


def _is_loss(module: Module, call: Call) -> bool:
    if call.name is not None:
        return _LOSS.match(call.name) is not None
    made = creations(module, call.node.func) if isinstance(call.node.func, (ast.Name, ast.Attribute)) else []
    return bool(made) and all(_LOSS.match(each.name or "") for each in made)


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
        type_of(module, made.func).kind is TypeKind.MODULE
        or _MODEL.search(module.text(made.func)) is not None
    )
