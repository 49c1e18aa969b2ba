"""`F.dropout(x, p)` without `training=self.training` drops values in evaluation, too.

The function does not know the mode of the module: its default is `training=True`. `model.eval()` has no effect on it, so the validation and
the deployed model are random and worse than the model is. `nn.Dropout` follows the mode by itself.

Bad:

    import torch
    import torch.nn.functional as F

    class Net(torch.nn.Module):
        def forward(self, x):
            return self.fc(F.dropout(x, p=0.5))  # <-

Fixed:

    import torch
    import torch.nn.functional as F

    class Net(torch.nn.Module):
        def forward(self, x):
            return self.fc(F.dropout(x, p=0.5, training=self.training))

Good:

    import torch
    import torch.nn.functional as F

    class Net(torch.nn.Module):
        def forward(self, x):
            return self.fc(F.dropout(x, p=0.5, training=self.training))

Quiet: outside of a module, under a condition, or on purpose

    import torch
    import torch.nn.functional as F

    class Net(torch.nn.Module):
        def forward(self, x):
            if self.training:
                x = F.dropout(x, 0.5)
            return self.fc(F.dropout(x, 0.5, True))

    noisy = F.dropout(torch.ones(4))
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import add_keyword
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("PF145", "dropout-in-evaluation", Severity.WARNING, needs=("dropout",))

_DROPOUT = re.compile(r"^torch\.nn\.functional\.(dropout[123]?d?|alpha_dropout|feature_alpha_dropout)$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    for call in all_calls(module):
        if call.name is None or not _DROPOUT.match(call.name):
            continue
        function, owner = module.function_of(call.node), module.enclosing(call.node, ast.ClassDef)
        if (
            function is None
            or owner is None
            or function.args.args[:1] == []
            or function.args.args[0].arg != "self"
        ):
            continue
        if not any(base.endswith("nn.Module") for base in module.bases(owner)):
            continue
        rate = call.argument("p", 1)
        # alpha_dropout and feature_alpha_dropout are off by default.
        if (
            "alpha" in call.method
            or not call.argument("training", 2).is_absent
            or (rate.is_known and rate.number == 0)
        ):
            continue
        if _depends_on_mode(module, call.node):
            continue
        yield rule.hit(
            call.span,
            f"`{module.text(call.node.func)}` drops values in evaluation, too: it does not know the mode of the module.",
            remedy="Pass training=self.training.",
            fix=Fix("Pass training=self.training", (add_keyword(call, "training=self.training"),)),
        )


def _depends_on_mode(module: Module, node: ast.AST) -> bool:
    """Whether a condition around a call may be about the mode."""
    around = module.enclosing(node, ast.If, ast.IfExp)
    while around is not None:
        if any(
            "train" in name.lower()
            or "mc" in name.lower()
            or "sampl" in name.lower()
            or "dropout" in name.lower()
            for child in ast.walk(around.test)
            for name in (getattr(child, "attr", ""), getattr(child, "id", ""))
        ):
            return True
        around = module.enclosing(around, ast.If, ast.IfExp)
    return False
