"""`tensor.to(device)` gives a moved copy and leaves the tensor where it is; only modules move in place.

Called for its effect alone, it copies the data to the GPU and throws the copy away. The model then meets an input on the
CPU: RuntimeError on a GPU instance, and silence on a laptop.

Bad:

    import torch
    from torch.utils.data import DataLoader

    device = torch.device("cuda")
    for x, y in DataLoader([]):
        x.to(device)  # <-

Fixed:

    import torch
    from torch.utils.data import DataLoader

    device = torch.device("cuda")
    for x, y in DataLoader([]):
        x = x.to(device)

Good:

    import torch
    from torch.utils.data import DataLoader

    device = torch.device("cuda")
    for x, y in DataLoader([]):
        x = x.to(device)

Quiet: a module moves in place

    import torch

    model = torch.nn.Linear(4, 2)
    model.to("cuda")

Quiet: a batch that may be of a class of its own

    import torch
    from transformers import AutoTokenizer

    tokens = AutoTokenizer.from_pretrained("gpt2")("hello", return_tensors="pt")
    tokens.to("cuda")
"""

import ast

from gpuproof.check.analysis.module import Module
from gpuproof.check.analysis.types import Tag
from gpuproof.check.fixing.edits import replace_node
from gpuproof.check.knowledge.torch import is_test, moves_by_itself
from gpuproof.check.project import Project
from gpuproof.check.rule import Fix, Hits, Rule
from gpuproof.findings import Severity

rule = Rule("PT103", "discarded-tensor-to", Severity.ERROR, needs=(".to(", ".cuda("))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if (
        not module.imports("torch")
        or is_test(module)
        or moves_by_itself(module)
        or module.mentions("collate_fn")
    ):
        return
    for statement in module.nodes(ast.Expr):
        call = module.call(statement.value) if isinstance(statement.value, ast.Call) else None
        if call is None or call.method not in ("to", "cuda") or not isinstance(call.receiver, ast.Name):
            continue
        if module.tagged(call.receiver).tag is not Tag.TENSOR:
            continue
        name, text = call.receiver.id, module.text(call.node)
        yield rule.hit(
            call.span,
            f"The result of `{text}` is thrown away: `{name}` stays where it is.",
            remedy=f"Write {name} = {text}.",
            fix=Fix("Keep the result", (replace_node(module, call.node, f"{name} = {text}"),), safe=True),
        )
