"""`load_state_dict` returns the keys that did not match, not the model: using the result as a model fails.

`model = model.load_state_dict(...)` makes `model` a pair of lists; the next call is a TypeError ("'_IncompatibleKeys' object is not
callable"), or an AttributeError at `.eval()`. The method changes the model in place.

Bad:

    import torch

    def load(model, path):
        model = model.load_state_dict(torch.load(path, map_location="cpu"))  # <-
        model.eval()
        return model

Bad: under another name

    import torch

    def final(student, loader):
        best = student.load_state_dict(torch.load("student.pt", map_location="cpu"))  # <-
        with torch.no_grad():
            return [best(x) for x in loader]

    def report(student, loader):
        best_student = student.load_state_dict(torch.load("student.pt", map_location="cpu"))  # <-
        return final(best_student, loader)

Good:

    import torch

    def load(model, path):
        model.load_state_dict(torch.load(path, map_location="cpu"))
        model.eval()
        return model

Quiet: the keys are looked at

    def load(model, state):
        result = model.load_state_dict(state, strict=False)
        print(result.missing_keys)
        message = model.load_state_dict(state, strict=False)
        print(message)
        missing, unexpected = model.load_state_dict(state, strict=False)
        return missing
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PT127", "load-state-dict-result", Severity.ERROR, needs=("load_state_dict",))

_OF_KEYS = frozenset({"missing_keys", "unexpected_keys", "index", "count", "_asdict"})
_OF_MODELS = frozenset(
    {
        "eval",
        "train",
        "to",
        "cuda",
        "parameters",
        "state_dict",
        "half",
        "forward",
        "generate",
        "requires_grad_",
    }
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    for call in calls_named(module, "load_state_dict"):
        statement = module.parent(call.node)
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or call.receiver is None:
            continue
        target = statement.targets[0]
        if (
            not isinstance(target, (ast.Name, ast.Attribute))
            or find_definition(module, call.node.func) is not None
        ):
            continue
        if module.text(target) == module.text(call.receiver) or _is_used_as_model(module, target):
            yield rule.hit(
                module.span(statement),
                f"`{module.text(target)}` is not the model: load_state_dict returns the keys that did not match.",
                remedy=f"Call {module.text(call.node.func)}(...) without assigning its result.",
            )


def _is_used_as_model(module: Module, target: ast.expr) -> bool:
    """Whether code calls what a name holds, or a method of models on it."""
    if not isinstance(target, ast.Name):
        return False
    for use in module.tree.uses_of(target.id):
        if not any(binding.node is target for binding in module.reaching(use)):
            continue
        match module.parent(use):
            case ast.Call(func=function) if function is use:
                return True
            case ast.Attribute(attr=name) if name in _OF_MODELS and name not in _OF_KEYS:
                return True
            case ast.Call(func=function):
                # An own function that gets it as a model calls it.
                if _MODEL.search(target.id.lower()) and find_definition(module, function) is not None:
                    return True
            case _:
                pass
    return False


_MODEL = re.compile(r"model|net|student|teacher|encoder|decoder|classifier|generator")
