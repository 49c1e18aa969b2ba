"""The learning-rate schedule counts other steps than Accelerate takes: it ends too early, or never gets to its end.

With N processes, a loader that was prepared has an N-th of the batches, and a prepared scheduler moves on N steps each time.
`num_training_steps` must therefore be counted before `prepare()` for a scheduler that is prepared, and after it for one that is
not. The other way round, the rate is zero after an N-th of the training, or only an N-th of its decay happens. With one process, none of this shows. The rule does not report scripts that multiply or divide by the number of processes.
Source: https://huggingface.co/docs/accelerate/concept_guides/performance, "Learning rate schedulers".

Bad: counted after prepare(), and prepared

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader
    from transformers import get_linear_schedule_with_warmup

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.rand(64, 8), batch_size=8, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    scheduler = get_linear_schedule_with_warmup(optimizer, 10, num_training_steps=len(loader) * 3)  # <-
    scheduler = accelerator.prepare(scheduler)
    for x in loader:
        accelerator.backward(model(x).sum())
        optimizer.step()
        scheduler.step()

Bad: counted before prepare(), and not prepared

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader
    from transformers import get_scheduler

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.rand(64, 8), batch_size=8, shuffle=True)
    steps = 3 * len(loader)
    scheduler = get_scheduler("linear", optimizer, num_warmup_steps=0, num_training_steps=steps)  # <-
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x in loader:
        accelerator.backward(model(x).sum())
        optimizer.step()
        scheduler.step()

Good:

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader
    from transformers import get_scheduler

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.rand(64, 8), batch_size=8, shuffle=True, num_workers=4)
    scheduler = get_scheduler("linear", optimizer, num_warmup_steps=0, num_training_steps=3 * len(loader))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for x in loader:
        optimizer.zero_grad()
        accelerator.backward(model(x).sum())
        optimizer.step()
        scheduler.step()

Quiet: the number of processes is in it

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader
    from transformers import get_scheduler

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.rand(64, 8), batch_size=8, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    steps = 3 * len(loader) * accelerator.num_processes
    scheduler = accelerator.prepare(get_scheduler("linear", optimizer, num_training_steps=steps))
    for x in loader:
        accelerator.backward(model(x).sum())
        scheduler.step()

Quiet: a schedule by epochs, stepped once in each

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(torch.rand(64, 8)))
    for epoch in range(3):
        for x in loader:
            accelerator.backward(model(x).sum())
        scheduler.step()
"""

import ast
import re
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.knowledge.distribution.accelerate import (
    accelerators,
    has_accelerator_only,
    is_accelerated,
    is_from_prepare,
    prepare_calls,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS136", "accelerate-scheduler-steps", Severity.WARNING, needs=("Accelerator",))

_SCHEDULERS = {
    "get_scheduler": ("num_training_steps", 3),
    "get_linear_schedule_with_warmup": ("num_training_steps", 2),
    "get_cosine_schedule_with_warmup": ("num_training_steps", 2),
    "get_cosine_with_hard_restarts_schedule_with_warmup": ("num_training_steps", 2),
    "get_polynomial_decay_schedule_with_warmup": ("num_training_steps", 2),
    "CosineAnnealingLR": ("T_max", 1),
    "OneCycleLR": ("total_steps", 2),
    "LinearLR": ("total_iters", 3),
}
"""Schedules with a number of steps, and the keyword and position of it."""
_COUNTS = re.compile(
    r"(^|\.)(num_processes|world_size|get_world_size|n_gpus?|num_gpus|split_batches|device_count)$"
)
_OPTIONS = re.compile(r"^(split_batches|step_scheduler_with_optimizer|dataloader_config)$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not accelerators(module) or not has_accelerator_only(module):
        return
    if script_uses(module, _COUNTS, "name", "attribute", "call") or script_uses(module, _OPTIONS, "keyword"):
        return
    prepares = prepare_calls(module)
    schedules = [
        (call, *_SCHEDULERS[call.method])
        for home in local_modules(module)
        for call in all_calls(home)
        if call.method in _SCHEDULERS
    ]
    for call, keyword, position in schedules if prepares else ():
        steps = call.expression(keyword, position)
        counted = {_is_prepared(each, node) for each, node in _lengths(call.module, steps, 0)}
        if len(counted) != 1 or not is_accelerated(call.module, call.node) or not _steps_in_batches(module):
            continue
        after = counted.pop()
        is_prepared = _is_given(call, prepares)
        if after is None or is_prepared is None or after is not is_prepared:
            continue
        yield rule.hit(
            call.span,
            "The steps are counted after prepare(), and a prepared scheduler takes one for each process: the schedule ends too early."
            if after
            else "The steps are counted before prepare(), and the scheduler is not prepared: it never gets to the end of its schedule.",
            remedy="Create the scheduler before prepare(), and pass it to prepare() with the rest.",
        )


def _lengths(module: Module, node: ast.expr | None, depth: int) -> Iterator[tuple[Module, ast.expr]]:
    """The loaders whose length is in a number: `loader` of `3 * len(loader)`, also through names."""
    if node is None or depth > 4:
        return
    for child in ast.walk(node):
        match child:
            case ast.Call(func=ast.Name(id="len"), args=[loader]):
                yield module, loader
            case ast.Name():
                made = module.origin(child)
                if made is not None and made is not child and not isinstance(made, ast.Name):
                    yield from _lengths(module, made, depth + 1)
            case _:
                pass


def _is_prepared(module: Module, loader: ast.expr) -> bool | None:
    """Whether a loader is prepared where its length is taken; None if that is unknown."""
    if is_from_prepare(module, loader):
        return True
    made = creations(module, loader)
    return False if made and all(call.method == "DataLoader" for call in made) else None


def _is_given(scheduler: Call, prepares: list[Call]) -> bool | None:
    """Whether a scheduler is given to `prepare()`; None if that is unknown."""
    for call in prepares:
        for argument in (*call.node.args, *call.keywords.values()):
            if isinstance(argument, ast.Starred):
                return None
            made = creations(call.module, argument)
            if argument is scheduler.node or scheduler.node in {each.node for each in made}:
                return True
            if not made:
                return None
    return False


def _steps_in_batches(script: Module) -> bool:
    """Whether the scheduler takes a step in the loop over the batches."""
    backwards = [call for home in local_modules(script) for call in calls_named(home, "backward")]
    for home in local_modules(script):
        for call in calls_named(home, "step"):
            name = home.text(call.receiver).lower() if call.receiver is not None else ""
            if "sched" not in name and "lr" not in name:
                continue
            loops = home.loops_around(call.node)
            if loops and any(
                loops[0] in home.loops_around(other.node)[:1] for other in backwards if other.module is home
            ):
                return True
    return False
