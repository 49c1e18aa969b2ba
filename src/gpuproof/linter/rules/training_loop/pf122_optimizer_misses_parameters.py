"""The optimizer was created before an adapter or a new layer was added to the model: it never trains these parameters.

`model.parameters()` lists the parameters that exist at that moment. LoRA adapters of `get_peft_model` or `add_adapter`,
a new head (`model.fc = nn.Linear(...)`) or new embeddings come later and are in no optimizer. `get_peft_model` also
freezes all the others: the loss then does not change at all. The same happens if the optimizer gets only one part of a
model with adapters, such as `model.classifier.parameters()`.

Bad: the adapter comes after the optimizer

    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("gpt2")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)  # <-
    model = get_peft_model(model, LoraConfig())

Bad: a new head

    import torch
    import torchvision

    def main():
        model = torchvision.models.resnet18(weights="DEFAULT")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # <-
        model.fc = torch.nn.Linear(512, 10)

Good:

    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained("gpt2")
    model = get_peft_model(model, LoraConfig())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

Bad: the optimizer gets the head only

    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForSequenceClassification

    model = get_peft_model(AutoModelForSequenceClassification.from_pretrained("bert-base-uncased"), LoraConfig())
    optimizer = torch.optim.AdamW(model.classifier.parameters(), lr=1e-4)  # <-

Quiet: added to the optimizer

    import torch
    import torchvision

    model = torchvision.models.resnet18(weights="DEFAULT")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.fc = torch.nn.Linear(512, 10)
    optimizer.add_param_group({"params": model.fc.parameters()})

Quiet: another optimizer follows

    import torch
    import torchvision

    model = torchvision.models.resnet18(weights="DEFAULT")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.fc = torch.nn.Linear(512, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

Quiet: the adapters are a group of their own

    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForSequenceClassification

    base = AutoModelForSequenceClassification.from_pretrained("roberta-base")
    model = get_peft_model(base, LoraConfig(task_type="SEQ_CLS"))
    head = set(map(id, model.classifier.parameters()))
    others = [p for p in model.parameters() if id(p) not in head]
    optimizer = torch.optim.AdamW([{"params": model.classifier.parameters(), "lr": 1e-3}, {"params": others}])
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_within, origin_call
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF122", "optimizer-misses-parameters", Severity.ERROR, needs=("parameters()",))

_OPTIMIZER = re.compile(
    r"^(torch\.optim|transformers\.optimization|transformers|bitsandbytes\.optim)\.(?!lr_scheduler)[A-Z]\w*$"
)
_ADAPTS = frozenset({"peft.get_peft_model", "peft.inject_adapter_in_model"})
_ADDS = frozenset({"add_adapter", "load_adapter", "add_module", "register_parameter"})
_LAYER = re.compile(r"^torch\.nn\.(?!functional|init|utils|Identity|ReLU|Dropout|Softmax|Sigmoid)\w+$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    optimizers = [call for call in all_calls(module) if call.name is not None and _OPTIMIZER.match(call.name)]
    for optimizer in optimizers:
        name = _model_of(module, optimizer)
        if name is None:
            continue
        for addition, what in _additions(module, name):
            if (
                _is_after(module, addition, optimizer.node)
                and not _is_created_again(module, optimizers, optimizer, addition)
                and not _gets_more(module, optimizer, addition)
            ):
                yield rule.hit(
                    optimizer.span,
                    f"`{module.text(optimizer.node.func)}` gets the parameters of `{name}` before line "
                    f"{module.unit.file_position(getattr(addition, 'lineno', 1), 1)[1]} adds {what}: these are never trained.",
                    remedy=f"Create the optimizer after {what.replace('a ', 'the ')} {'is' if what.startswith('a ') else 'are'} added.",
                )
                break
    yield from _parts(module, optimizers)


def _model_of(module: Module, optimizer: Call) -> str | None:
    """The variable whose parameters an optimizer gets, as `model.parameters()`; None for parts and for several models."""
    calls = calls_within(calls_named(module, "parameters"), optimizer.node)
    receiver = calls[0].receiver if len(calls) == 1 else None
    if isinstance(receiver, ast.Name):
        return receiver.id
    if (
        isinstance(receiver, ast.Attribute)
        and isinstance(receiver.value, ast.Name)
        and receiver.value.id == "self"
    ):
        return module.text(receiver)
    return None


def _additions(module: Module, name: str) -> Iterator[tuple[ast.AST, str]]:
    """The places that add parameters to a model, and what they add."""
    for call in all_calls(module):
        if call.name in _ADAPTS and call.node.args and module.text(call.node.args[0]) == name:
            yield call.node, "the adapters"
        elif call.method in _ADDS and call.receiver is not None and module.text(call.receiver) == name:
            yield call.node, "the adapters" if "adapter" in call.method else "a layer"
    for node in module.nodes(ast.Assign):
        for target in node.targets:
            holder = target.value if isinstance(target, ast.Attribute) else None
            while isinstance(holder, (ast.Attribute, ast.Subscript)) and module.text(holder) != name:
                holder = holder.value
            if holder is None or module.text(holder) != name:
                continue
            # Through `.to(device)`.
            made = creations(module, node.value)
            if made and all(map(_is_layer, made)):
                yield node, "a layer"


def _is_layer(made: Call) -> bool:
    """Whether a call creates a layer with parameters: of PyTorch, or of a class of the file."""
    if _LAYER.match(made.name or ""):
        return True
    module, function = made.module, made.node.func
    owner = module.classes.get(function.id) if isinstance(function, ast.Name) else None
    return owner is not None and any(base.endswith("nn.Module") for base in module.bases(owner))


def _is_after(module: Module, addition: ast.AST, optimizer: ast.AST) -> bool:
    """Whether an addition certainly runs after the optimizer is created: later, in the same function and no other branch."""
    if module.function_of(addition) is not module.function_of(optimizer) or module.loops_around(
        addition
    ) != module.loops_around(optimizer):
        return False
    later = getattr(addition, "lineno", 0) > getattr(optimizer, "end_lineno", 0)
    return later and _branches(module, addition) == _branches(module, optimizer)


def _branches(module: Module, node: ast.AST) -> list[ast.AST]:
    return [
        ancestor
        for ancestor in module.tree.ancestors(node)
        if isinstance(ancestor, (ast.If, ast.Try, ast.IfExp, ast.Match))
    ]


def _is_created_again(module: Module, optimizers: list[Call], optimizer: Call, addition: ast.AST) -> bool:
    """Whether another optimizer is created after an addition, here or in a function that may be called later."""
    line: int = getattr(addition, "lineno", 0)
    name = _model_of(module, optimizer)
    return any(
        other is not optimizer
        and (
            other.node.lineno > line
            or module.function_of(other.node) is not module.function_of(optimizer.node)
        )
        and not _is_of_another(module, other, name)
        for other in optimizers
    )


def _is_of_another(module: Module, other: Call, name: str | None) -> bool:
    """Whether an optimizer gets only the parameters of an object that was not made from the named model."""
    found = calls_within(calls_named(module, "parameters"), other.node)
    receiver = found[0].receiver if len(found) == 1 else None
    if not isinstance(receiver, ast.Name):
        return False
    values: list[ast.expr] = [receiver]
    for value in values:
        for child in ast.walk(value):
            if isinstance(child, (ast.Name, ast.Attribute)) and module.text(child) == name:
                return False
            bindings = module.reaching(child) if isinstance(child, ast.Name) else []
            if any(binding.kind not in ("assign", "definition", "import") for binding in bindings):
                return False
            values += [item.value for item in bindings if item.value is not None and item.value not in values]
    return True


def _gets_more(module: Module, optimizer: Call, addition: ast.AST) -> bool:
    """Whether `add_param_group` may give the optimizer what was added: not if another optimizer gets it, or before."""
    for call in calls_named(module, "add_param_group"):
        made = origin_call(module, call.receiver)
        if made is not None and _OPTIMIZER.match(made.name or "") and made.node is not optimizer.node:
            continue
        is_before = call.node.lineno < getattr(addition, "lineno", 0) and not module.loops_around(call.node)
        if is_before and module.function_of(call.node) is module.function_of(addition):
            continue
        return True
    return False


def _parts(module: Module, optimizers: list[Call]) -> Hits:
    """Optimizers of a part of a model with adapters, if nothing else optimizes the adapters."""
    if len(optimizers) != 1 or _gets_more(module, optimizers[0], optimizers[0].node):
        return
    optimizer = optimizers[0]
    calls = calls_within(calls_named(module, "parameters"), optimizer.node)
    receiver = calls[0].receiver if len(calls) == 1 else None
    if not isinstance(receiver, ast.Attribute) or not isinstance(receiver.value, ast.Name):
        return
    if receiver.attr not in ("classifier", "score", "lm_head", "head", "fc"):
        return
    if not _is_all(optimizer.expression("params", 0), calls[0].node):
        return
    made = origin_call(module, receiver.value)
    if made is not None and made.name in _ADAPTS:
        yield rule.hit(
            optimizer.span,
            f"The optimizer gets only `{module.text(receiver)}`: the adapters of `{receiver.value.id}` are never trained.",
            remedy=f"Pass {receiver.value.id}.parameters(): get_peft_model has frozen what is not trained.",
        )


def _is_all(given: ast.expr | None, parameters: ast.Call) -> bool:
    """Whether an optimizer gets these parameters and no others, in a group or not."""
    if isinstance(given, (ast.List, ast.Tuple)) and len(given.elts) == 1:
        given = given.elts[0]
    if isinstance(given, ast.Dict):
        given = next(
            (
                value
                for key, value in zip(given.keys, given.values, strict=True)
                if isinstance(key, ast.Constant) and key.value == "params"
            ),
            None,
        )
    return given is parameters
