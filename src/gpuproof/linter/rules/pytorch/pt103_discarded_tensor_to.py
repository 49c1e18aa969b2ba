"""`tensor.to(device)` returns a moved copy and does not change the tensor; only modules are moved in place.

Without an assignment, the data is copied to the GPU and the copy is discarded. The model then receives an input on
the CPU: a RuntimeError on a GPU instance, and no error on a laptop.

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

Quiet: the batch of a processor moves in place

    import torch
    from transformers import AutoProcessor

    processor = AutoProcessor.from_pretrained("HuggingFaceTB/SmolVLM2-2.2B-Instruct")
    inputs = processor.apply_chat_template([], return_dict=True, tokenize=True, return_tensors="pt")
    inputs.to(torch.device("cuda"))

Quiet: a module is moved in place

    import torch

    model = torch.nn.Linear(4, 2)
    model.to("cuda")

Quiet: a batch that may be a custom class

    import torch
    from transformers import AutoTokenizer

    tokens = AutoTokenizer.from_pretrained("gpt2")("hello", return_tensors="pt")
    tokens.to("cuda")
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager, is_collated, is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("PT103", "discarded-tensor-to", Severity.ERROR, needs=(".to(", ".cuda("))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module) or imports_device_manager(module):
        return
    for statement in module.nodes(ast.Expr):
        call = origin_call(module, statement.value) if isinstance(statement.value, ast.Call) else None
        if call is None or call.method not in ("to", "cuda") or not isinstance(call.receiver, ast.Name):
            continue
        if type_of(module, call.receiver).kind is not TypeKind.TENSOR or is_collated(module, call.node):
            continue
        name, text = call.receiver.id, module.text(call.node)
        yield rule.hit(
            call.span,
            f"The result of `{text}` is discarded: `{name}` is not moved.",
            remedy=f"Write {name} = {text}.",
            fix=Fix("Keep the result", (replace_node(module, call.node, f"{name} = {text}"),), safe=True),
        )
