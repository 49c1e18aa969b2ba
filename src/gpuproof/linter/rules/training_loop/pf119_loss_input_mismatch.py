"""The loss expects something else than the model returns: softmax before CrossEntropyLoss, sigmoid before BCEWithLogitsLoss.

`CrossEntropyLoss` applies log-softmax to its input, and `BCEWithLogitsLoss` a sigmoid. With probabilities as their input,
the gradients are squeezed: the loss decreases a little and stays far above what the model could reach, so whole runs are
wasted without an error. `NLLLoss` expects logarithms of probabilities and `BCELoss` probabilities: with raw scores, the
first becomes negative without a limit, and the second fails on a GPU with a device-side assertion. Log-softmax before
CrossEntropyLoss gives the right result, but computes it twice.

Bad:

    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 3), nn.Softmax(dim=1))
    criterion = nn.CrossEntropyLoss()
    loss = criterion(model(torch.ones(2, 8)), torch.tensor([0, 1]))  # <-

Bad: in the model's forward

    import torch
    import torch.nn.functional as F

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(8, 1)

        def forward(self, x):
            return torch.sigmoid(self.fc(x))

    net = Net()
    for x, y in []:
        out = net(x).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(out, y)  # <-

Bad: raw scores

    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    loss = nn.BCELoss()(model(torch.ones(2, 8)), torch.ones(2, 1))  # <-

Good:

    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(8, 3))
    criterion = nn.CrossEntropyLoss()
    logits = model(torch.ones(2, 8))
    loss = criterion(logits, torch.tensor([0, 1]))
    probabilities = logits.softmax(dim=1)

Quiet: log-softmax and NLLLoss belong together

    import torch
    import torch.nn.functional as F

    model = torch.nn.Linear(8, 3)
    loss = F.nll_loss(F.log_softmax(model(torch.ones(2, 8)), dim=1), torch.tensor([0, 1]))

Quiet: probabilities only outside of training

    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(8, 3)

        def forward(self, x):
            out = self.fc(x)
            if not self.training:
                return out.softmax(dim=1)
            return out

    loss = torch.nn.functional.cross_entropy(Net()(torch.ones(2, 8)), torch.tensor([0, 1]))
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.training.output_activations import Activation, activation_of
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule(
    "PF119",
    "loss-input-mismatch",
    Severity.ERROR,
    needs=("CrossEntropy", "cross_entropy", "NLLLoss", "nll_loss", "BCE"),
)

_LOSSES = {
    "torch.nn.CrossEntropyLoss": "CrossEntropyLoss",
    "torch.nn.NLLLoss": "NLLLoss",
    "torch.nn.BCELoss": "BCELoss",
    "torch.nn.BCEWithLogitsLoss": "BCEWithLogitsLoss",
}
_FUNCTIONS = {
    "torch.nn.functional.cross_entropy": "cross_entropy",
    "torch.nn.functional.nll_loss": "nll_loss",
    "torch.nn.functional.binary_cross_entropy": "binary_cross_entropy",
    "torch.nn.functional.binary_cross_entropy_with_logits": "binary_cross_entropy_with_logits",
}
_CROSS_ENTROPY, _NLL = ("CrossEntropyLoss", "cross_entropy"), ("NLLLoss", "nll_loss")
_BCE = ("BCELoss", "binary_cross_entropy")
_SHOWN: dict[Activation, str] = {
    "softmax": "softmax",
    "log_softmax": "log-softmax",
    "sigmoid": "a sigmoid",
    "logits": "nothing",
}


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    for call in all_calls(module):
        loss = _loss_of(call)
        if loss is None or not call.node.args:
            continue
        given = activation_of(module, call.node.args[0])
        problem = _problem(loss, given) if given is not None else None
        if problem is None:
            continue
        message, remedy = problem
        is_harmless = given == "log_softmax"
        yield rule.hit(
            module.span(call.node.args[0]),
            message,
            remedy=remedy,
            severity=lowered(rule.severity) if is_harmless else rule.severity,
        )


def _loss_of(call: Call) -> str | None:
    """The loss that a call computes, such as `CrossEntropyLoss`, by function or through an object; None otherwise."""
    if call.name is not None and call.name in _FUNCTIONS:
        return _FUNCTIONS[call.name]
    if call.name is not None or call.method in ("to", "cuda", "backward", "item"):
        return None
    made = creations(call.module, call.node.func)
    names = {created.name for created in made}
    return _LOSSES.get(next(iter(names)) or "") if len(names) == 1 else None


def _problem(loss: str, given: Activation) -> tuple[str, str] | None:
    """What is wrong with the input of a loss, and what to change; None if they fit."""
    shown = _SHOWN[given]
    if loss in _CROSS_ENTROPY:
        if given == "logits":
            return None
        if given == "log_softmax":
            return (
                f"`{loss}` gets the result of {shown}, and computes it again: right, but done twice.",
                f"Pass the raw scores to {loss}, or use {_NLL[loss == 'cross_entropy']}.",
            )
        return (
            f"`{loss}` gets the result of {shown}: it applies log-softmax itself, so the gradients almost vanish.",
            "Pass the raw scores; apply softmax only to predictions.",
        )
    if loss in _NLL:
        if given == "log_softmax":
            return None
        what = "raw scores" if given == "logits" else f"the result of {shown}"
        return (
            f"`{loss}` gets {what}, but expects logarithms of probabilities: the loss has no lower limit that means anything.",
            f"Use {_CROSS_ENTROPY[loss == 'nll_loss']} with the raw scores, or apply log_softmax.",
        )
    if loss in _BCE:
        if given in ("sigmoid", "softmax"):
            return None
        what = "raw scores" if given == "logits" else f"the result of {shown}"
        return (
            f"`{loss}` gets {what}, but expects probabilities: it fails for values outside of 0 to 1.",
            "Use BCEWithLogitsLoss, or apply a sigmoid.",
        )
    if given == "logits":
        return None
    return (
        f"`{loss}` gets the result of {shown}: it applies a sigmoid itself, so the gradients almost vanish.",
        "Pass the raw scores; apply the sigmoid only to predictions.",
    )
