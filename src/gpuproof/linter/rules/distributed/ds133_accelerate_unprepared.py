"""An object of the training loop never passes through `accelerator.prepare()`, so Accelerate does not distribute it.

`prepare()` returns the objects to use: the model wrapped for all processes, the loader with each process's share on its device,
the optimizer with loss scaling and accumulation. What is not prepared stays as it was: each process trains its own model, a
loader makes each process read everything, an optimizer steps in every micro-batch and knows nothing of fp16. With one process, none of this shows. Results of `prepare()` that are dropped are the same mistake.
Source: https://huggingface.co/docs/accelerate/basic_tutorials/migration.

Bad: the loader

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.rand(64, 8), batch_size=8, shuffle=True)
    model, optimizer = accelerator.prepare(model, optimizer)
    for x in loader:  # <-
        optimizer.zero_grad()
        accelerator.backward(model(x.to(accelerator.device)).sum())
        optimizer.step()

Bad: the optimizer

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    def main():
        accelerator = Accelerator(mixed_precision="fp16")
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        loader = DataLoader(torch.rand(64, 8), batch_size=8, shuffle=True)
        model, loader = accelerator.prepare(model, loader)
        for x in loader:
            optimizer.zero_grad()
            accelerator.backward(model(x).sum())
            optimizer.step()  # <-

    main()

Bad: what it returns is dropped

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.rand(64, 8), batch_size=8, shuffle=True)
    accelerator.prepare(model, optimizer, loader)  # <-
    for x in loader:
        optimizer.zero_grad()
        accelerator.backward(model(x).sum())
        optimizer.step()

Bad: the model

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1).to(accelerator.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # <-
    loader = DataLoader(torch.rand(64, 8), batch_size=8, shuffle=True)
    optimizer, loader = accelerator.prepare(optimizer, loader)
    for x in loader:
        optimizer.zero_grad()
        accelerator.backward(model(x).sum())
        optimizer.step()

Bad: another optimizer takes the place of the prepared one

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    def main():
        accelerator = Accelerator()
        model = torch.nn.Linear(8, 1)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        loader = DataLoader(torch.rand(64, 8), batch_size=8)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for epoch in range(20):
            if epoch == 10:
                optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)  # <-
            for x in loader:
                optimizer.zero_grad()
                accelerator.backward(model(x).sum())
                optimizer.step()

    main()

Good:

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.rand(64, 8), batch_size=8, shuffle=True, num_workers=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x in loader:
        optimizer.zero_grad()
        accelerator.backward(model(x).sum())
        optimizer.step()

Quiet: one after the other, in another function

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    def train(accelerator, model, optimizer, loader):
        for x in loader:
            accelerator.backward(model(x).sum())
            optimizer.step()

    accelerator = Accelerator()
    model = accelerator.prepare_model(torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = accelerator.prepare(DataLoader(torch.rand(64, 8), batch_size=8))
    train(accelerator, model, accelerator.prepare_optimizer(optimizer), loader)

Quiet: prepared as a list

    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    parts = [model, optimizer]
    model, optimizer = accelerator.prepare(*parts)
    for x in torch.rand(64, 8):
        accelerator.backward(model(x).sum())
        optimizer.step()
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_within, origin_call
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.knowledge.distribution.accelerate import (
    accelerators,
    has_accelerator_only,
    is_accelerated,
    method_calls,
    prepare_calls,
    prepared_objects,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule

rule = Rule("DS133", "accelerate-unprepared", Severity.ERROR, needs=("Accelerator",))

_OPTIMIZERS = re.compile(
    r"^(torch\.optim\.|bitsandbytes\.optim\.|transformers\.(optimization\.)?)(\w+\.)*(Ada|SGD|RMSprop|NAdam|RAdam|Lion)\w*$"
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not accelerators(module) or not has_accelerator_only(module):
        return
    steps = [*method_calls(module, "backward"), *_backwards(module)]
    if not steps:
        return
    dropped = [call for call in prepare_calls(module) if isinstance(call.module.parent(call.node), ast.Expr)]
    for call in dropped:
        yield rule.hit(
            call.span,
            f"What {call.method}() returns is dropped: the loop uses the objects that were given to it.",
            remedy=f"Assign it: {', '.join(map(call.module.text, call.node.args))} = {call.module.text(call.node)}.",
        )
    prepared = prepared_objects(module)
    if dropped or prepared is None:
        return
    yield from _loaders(steps, prepared)
    yield from _optimizers(module, steps, prepared)


def _loaders(steps: list[Call], prepared: frozenset[ast.Call]) -> Hits:
    seen: set[ast.AST] = set()
    for step in steps:
        home = step.module
        for loop in home.loops_around(step.node)[:1]:
            if loop in seen or not isinstance(loop, ast.For):
                continue
            seen.add(loop)
            data = _iterated(home, loop.iter)
            made = creations(home, data)
            if not made or not all(call.method == "DataLoader" for call in made):
                continue
            if any(call.node in prepared or _splits(call) for call in made):
                continue
            name = home.text(data) if isinstance(data, ast.Name | ast.Attribute) else "loader"
            yield rule.hit(
                home.span(loop.iter),
                f"`{home.excerpt(data)}` is never prepared: every process reads the whole dataset.",
                remedy=f"Use {name} = accelerator.prepare({home.text(data)}).",
            )


def _optimizers(script: Module, steps: list[Call], prepared: frozenset[ast.Call]) -> Hits:
    made_by: dict[ast.Call, Call] = {}
    for call in _optimizer_steps(script, steps):
        replaced = _replaced_by(call, prepared)
        if replaced is not None and replaced.node not in made_by:
            made_by[replaced.node] = replaced
            yield _unprepared_optimizer(call, replaced)
            continue
        for made in creations(call.module, call.receiver):
            if made.node in made_by or not _OPTIMIZERS.match(made.name or ""):
                continue
            made_by[made.node] = made
            if made.node not in prepared:
                yield _unprepared_optimizer(call)
    for module in local_modules(script):
        for made in all_calls(module):
            if made.node not in prepared and made.node not in made_by:
                continue
            model = _model_of(made) if _OPTIMIZERS.match(made.name or "") else None
            models = creations(module, model) if model is not None else []
            if models and model is not None and not any(_is_prepared(each, prepared) for each in models):
                yield rule.hit(
                    made.span,
                    f"The model `{module.text(model)}` is never prepared: each process trains its own copy.",
                    remedy=f"Use {module.text(model)} = accelerator.prepare({module.text(model)}).",
                )


def _is_prepared(made: Call, prepared: frozenset[ast.Call]) -> bool:
    return made.node in prepared or made.method.startswith("prepare")


def _replaced_by(step: Call, prepared: frozenset[ast.Call]) -> Call | None:
    """The optimizer that takes the place of a prepared one, and is not prepared itself."""
    bindings = step.module.reaching(step.receiver) if isinstance(step.receiver, ast.Name) else []
    made = [origin_call(step.module, binding.value) for binding in bindings if binding.kind == "assign"]
    return next(
        (
            each
            for each in made
            if len(bindings) > 1
            and each is not None
            and each.node not in prepared
            and _OPTIMIZERS.match(each.name or "")
        ),
        None,
    )


def _unprepared_optimizer(call: Call, made: Call | None = None) -> Hit:
    name = call.module.text(call.receiver) if call.receiver is not None else "optimizer"
    return rule.hit(
        (made or call).span,
        f"`{name}` is never prepared: it steps in every micro-batch, and ignores the loss scaling of fp16.",
        remedy=f"Use {name} = accelerator.prepare({name}).",
        severity=Severity.WARNING,
    )


def _backwards(script: Module) -> Iterator[Call]:
    return (
        call
        for module in local_modules(script)
        for call in calls_named(module, "backward")
        if call.receiver is not None and not call.node.args and is_accelerated(module, call.node)
    )


def _optimizer_steps(script: Module, steps: list[Call]) -> list[Call]:
    """The calls of `step()` in the loops that train."""
    loops = [(step.module, loop) for step in steps for loop in step.module.loops_around(step.node)[:1]]
    return [
        call
        for module in local_modules(script)
        for call in calls_named(module, "step")
        if any(home is module and calls_within([call], loop) for home, loop in loops)
    ]


def _model_of(made: Call) -> ast.expr | None:
    """The model whose parameters an optimizer gets: `model` of `AdamW(model.parameters())`."""
    match made.expression("params", 0):
        case ast.Call(func=ast.Attribute(value=value, attr="parameters")):
            return value
        case _:
            return None


def _iterated(module: Module, node: ast.expr) -> ast.expr:
    """What a loop reads, without `enumerate` and progress bars."""
    node = module.origin(node) or node if isinstance(node, ast.Name) else node
    while isinstance(node, ast.Call) and callee_name(node) in ("enumerate", "tqdm", "track") and node.args:
        node = node.args[0]
        if isinstance(node, ast.Name):
            made = module.origin(node)
            if isinstance(made, ast.Call) and callee_name(made) in ("enumerate", "tqdm", "track"):
                node = made
    return node


def _splits(loader: Call) -> bool:
    """Whether a loader has a sampler of its own, which may know the rank."""
    return not loader.argument("sampler", 3).is_unset or not loader.argument("batch_sampler", 4).is_unset
