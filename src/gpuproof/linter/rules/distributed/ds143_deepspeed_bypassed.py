"""The model runs in DeepSpeed's engine, but the loop calls PyTorch's `backward()` or `step()` in its place.

`engine.backward(loss)` scales the loss, counts the micro-batches and reduces the gradients; `engine.step()` updates the partitioned
parameters, clips, and moves the schedule on. `loss.backward()` reduces nothing: each process has its own gradients, and with ZeRO
the step fails or sees none of them. `optimizer.step()` of the optimizer that was given to `initialize()` steps parameters that
DeepSpeed has replaced.
Source: https://www.deepspeed.ai/getting-started/#training.

Bad:

    import deepspeed
    import torch

    model = torch.nn.Linear(8, 1)
    engine, _, loader, _ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), training_data=torch.rand(64, 8), config="ds_config.json"
    )
    for x in loader:
        loss = engine(x).sum()
        loss.backward()  # <-
        engine.step()

Bad: the optimizer

    import deepspeed
    import torch

    def main(loader):
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config="ds_config.json")
        for x in loader:
            loss = engine(x).sum()
            engine.backward(loss)
            optimizer.step()  # <-

    main([])

Good:

    import deepspeed
    import torch

    model = torch.nn.Linear(8, 1)
    engine, _, loader, _ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), training_data=torch.rand(64, 8), config="ds_config.json"
    )
    for x in loader:
        loss = engine(x).sum()
        engine.backward(loss)
        engine.step()

Quiet: also without DeepSpeed

    import deepspeed
    import torch

    def step(engine, optimizer, loss, use_deepspeed):
        if use_deepspeed:
            engine.backward(loss)
            engine.step()
        else:
            loss.backward()
            optimizer.step()

    model = torch.nn.Linear(8, 1)
    engine, optimizer, _, _ = deepspeed.initialize(model=model, config="ds_config.json")
    for x in torch.rand(64, 8):
        step(engine, optimizer, engine(x).sum(), True)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.knowledge.distribution.deepspeed import initializations
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS143", "deepspeed-bypassed", Severity.ERROR, needs=("deepspeed",))

_OTHERS = re.compile(
    r"^(accelerate|lightning|pytorch_lightning|lightning_fabric)\.|(^|\.)(Trainer|Accelerator)$"
)
_ENGINE = re.compile(r"engine|model|deepspeed|(^|\.)ds(_|$)", re.IGNORECASE)


@rule.module
def check(module: Module, _: Project) -> Hits:
    starts = initializations(module)
    if not starts or script_uses(module, _OTHERS, "call", "name"):
        return
    homes = local_modules(module)
    backwards = [call for home in homes for call in calls_named(home, "backward")]
    if any(call.node.args or call.node.keywords for call in backwards):
        yield from _steps(homes, starts)
        return
    for call in backwards:
        if call.receiver is None or call.name is not None or _ENGINE.search(call.module.text(call.receiver)):
            continue
        if not _is_of_engine(call, starts):
            continue
        yield rule.hit(
            call.span,
            f"`{call.module.text(call.node)}` bypasses DeepSpeed's engine: no gradient is reduced between the processes.",
            remedy=f"Use engine.backward({call.module.text(call.receiver)}), and engine.step() after it.",
        )
        return


def _is_of_engine(backward: Call, starts: list[Call]) -> bool:
    """Whether the loop around a backward pass may call the engine; another model may train in a loop of its own."""
    module = backward.module
    function, loop = module.function_of(backward.node), next(iter(module.loops_around(backward.node)), None)
    engines: set[str] = set()
    for start in starts:
        parent = module.parent(start.node) if start.module is module else None
        if module.function_of(start.node) is function and isinstance(parent, ast.Assign):
            match parent.targets[0]:
                case ast.Tuple(elts=[first, *_]):
                    engines.add(module.text(first))
                case _:
                    return True
    return (
        not engines
        or loop is None
        or any(isinstance(node, ast.Call) and module.text(node.func) in engines for node in ast.walk(loop))
    )


def _steps(homes: list[Module], starts: list[Call]) -> Hits:
    """The steps of an optimizer that was given to DeepSpeed, if the engine takes none."""
    steps = [call for home in homes for call in calls_named(home, "step") if call.receiver is not None]
    if any(_ENGINE.search(call.module.text(call.receiver)) for call in steps if call.receiver is not None):
        return
    given = {
        made.node for start in starts for made in creations(start.module, start.expression("optimizer", 2))
    }
    for call in steps:
        made = creations(call.module, call.receiver)
        if made and all(each.node in given for each in made):
            yield rule.hit(
                call.span,
                f"`{call.module.text(call.node)}` steps the optimizer that DeepSpeed has replaced, and engine.step() is never called.",
                remedy="Use engine.step().",
            )
            return
