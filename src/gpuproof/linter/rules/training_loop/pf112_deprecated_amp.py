"""`torch.cuda.amp.autocast` and `torch.cuda.amp.GradScaler` are deprecated since PyTorch 2.4: `torch.amp` has both.

They still work, and print a FutureWarning for each call. The rule needs the version: of the job, of its image, or in a
requirements file.

Bad:

    # file: requirements.txt
    torch==2.6.0
    # file: train.py
    import torch

    scaler = torch.cuda.amp.GradScaler()  # <-
    with torch.cuda.amp.autocast():  # <-
        loss = model(x)

Fixed:

    # file: requirements.txt
    torch==2.6.0
    # file: train.py
    import torch

    scaler = torch.amp.GradScaler("cuda")
    with torch.amp.autocast("cuda"):
        loss = model(x)

Good:

    # file: requirements.txt
    torch==2.6.0
    # file: train.py
    import torch

    scaler = torch.amp.GradScaler("cuda")
    with torch.amp.autocast("cuda"):
        loss = model(x)

Quiet: an older PyTorch, which lacks torch.amp.GradScaler

    # file: requirements.txt
    torch==2.1.0
    # file: train.py
    import torch

    scaler = torch.cuda.amp.GradScaler()
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.knowledge.frameworks.framework_version import framework_is_at_least
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("PF112", "deprecated-amp", Severity.NOTE, needs=("cuda.amp",))

_NAMES = ("torch.cuda.amp.autocast", "torch.cuda.amp.GradScaler")


@rule.module
def check(module: Module, project: Project) -> Hits:
    calls = calls_to(module, *_NAMES)
    if not calls or framework_is_at_least(module, project, "pytorch", "2.4") != "yes":
        return
    for call in calls:
        new = f"torch.amp.{call.method}"
        is_plain = not call.node.args and not call.node.keywords
        # `from torch.cuda.amp import autocast` may leave the file without the name `torch`.
        fixable = is_plain and module.text(call.node.func).startswith("torch.")
        yield rule.hit(
            call.span,
            f"`torch.cuda.amp.{call.method}` is deprecated since PyTorch 2.4 and warns at every call.",
            remedy=f'Use {new}("cuda").',
            fix=Fix(f'Use {new}("cuda")', (replace_node(module, call.node, f'{new}("cuda")'),), safe=True)
            if fixable
            else None,
        )
