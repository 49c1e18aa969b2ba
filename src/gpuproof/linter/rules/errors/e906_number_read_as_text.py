"""PyYAML reads `3e-4` as text: a number in scientific notation needs a dot, `3.0e-4`.

YAML 1.1 takes `1e-3` for a string. An optimizer that receives it raises TypeError: "'<=' not supported between instances of
'float' and 'str'". JSON, TOML and OmegaConf read the same text as a number. Source: https://yaml.org/type/float.html.

Bad:

    # file: config.yaml
    lr: 3e-4
    # file: train.py
    import torch
    import yaml

    with open("config.yaml") as file:
        config = yaml.safe_load(file)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])  # <-

Good:

    # file: config.yaml
    lr: 3.0e-4
    # file: train.py
    import torch
    import yaml

    with open("config.yaml") as file:
        config = yaml.safe_load(file)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])

Bad: in a function

    # file: config.yaml
    optimizer:
      lr: 1e-3
    # file: train.py
    import torch
    import yaml

    def make_optimizer(model, settings):
        return torch.optim.SGD(model.parameters(), settings["lr"])  # <-

    config = yaml.safe_load(open("config.yaml"))
    optimizer = make_optimizer(torch.nn.Linear(2, 1), config["optimizer"])

Quiet: it is converted

    # file: config.yaml
    lr: 3e-4
    # file: train.py
    import torch
    import yaml

    with open("config.yaml") as file:
        config = yaml.safe_load(file)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=float(config["lr"]))
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.flow.values import program_value
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("E906", "number-read-as-text", Severity.ERROR, needs=("optim", "TrainingArguments"))

_NUMBER = re.compile(r"[-+]?\d[\d_]*[eE][-+]?\d+|[-+]?\d+\.\d*[eE]\d+")
_CALLS = re.compile(r"^(torch\.optim|transformers|tensorflow\.keras\.optimizers|keras\.optimizers)\.")
_NAMES = ("lr", "learning_rate", "weight_decay", "eps", "epsilon", "momentum", "max_lr", "eta_min")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not any(other.mentions("yaml") for other in program_modules(module)):
        return
    for call in all_calls(module):
        if not _CALLS.match(call.name or ""):
            continue
        for name, written in _arguments(call):
            value = program_value(module, written)
            text = value.text
            if text is None or _NUMBER.fullmatch(text) is None:
                continue
            yield rule.hit(
                module.span(written),
                f"PyYAML reads `{text}` as text, and `{call.method}` needs a number for {name}: TypeError.",
                remedy=f"Write {_with_dot(text)} in the settings, or convert it: float(...).",
                severity=rule.severity if value.is_known else lowered(rule.severity),
            )


def _arguments(call: Call) -> list[tuple[str, ast.expr]]:
    """The arguments of a call that must be numbers, and are not written out."""
    found = [(name, node) for name, node in call.keywords.items() if name in _NAMES]
    if (call.name or "").startswith("torch.optim.") and "lr_scheduler" not in (call.name or ""):
        second = call.expression(None, 1)
        if second is not None and "lr" not in call.keywords:
            found.append(("lr", second))
    return [(name, node) for name, node in found if not isinstance(node, ast.Constant)]


def _with_dot(text: str) -> str:
    """A number as YAML 1.1 reads it: with a dot and a sign."""
    digits, _, exponent = text.lower().partition("e")
    sign = "" if exponent.startswith(("-", "+")) else "+"
    return f"{digits if '.' in digits else digits + '.0'}e{sign}{exponent}"
