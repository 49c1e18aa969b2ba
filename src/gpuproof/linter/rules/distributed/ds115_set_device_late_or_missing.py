"""Every process of the host moves its model to plain `cuda`, which is GPU 0: one GPU does all the work.

`"cuda"` is the current device, which is 0 until `torch.cuda.set_device(local_rank)` changes it. If the model is moved
before that call, or without it, all processes share the first GPU: its memory runs out, or NCCL reports "Duplicate
GPU detected". The rule does not report jobs with one process per host, and scripts that refer to a device by its
index.

Bad: too late

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda")
    model = DDP(torch.nn.Linear(8, 1).to(device))  # <-
    torch.cuda.set_device(local_rank)
    model.cuda(local_rank)

Bad: never

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    dist.init_process_group("nccl")
    print("rank", os.environ["LOCAL_RANK"])
    model = DDP(torch.nn.Linear(8, 1).cuda())  # <-

Bad: the same GPU is selected in every process

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    dist.init_process_group("nccl")
    print("rank", os.environ["LOCAL_RANK"])
    torch.cuda.set_device(0)  # <-
    model = DDP(torch.nn.Linear(8, 1).to("cuda:0"), device_ids=[0])

Bad: the group is joined in another file

    # file: setup.py
    import os
    import torch.distributed as dist

    def join():
        dist.init_process_group("nccl")
        return int(os.environ["LOCAL_RANK"])
    # file: train.py
    import torch
    from setup import join
    from torch.nn.parallel import DistributedDataParallel as DDP

    print(join())
    model = DDP(torch.nn.Linear(8, 1).to("cuda"))  # <-

Good:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DDP(torch.nn.Linear(8, 1).cuda())

Quiet: the device has an index

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device(f"cuda:{local_rank}")
    model = DDP(torch.nn.Linear(8, 1).to(device), device_ids=[local_rank])

Quiet: one process on each host

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel as DDP

    dist.init_process_group("nccl", rank=0, world_size=int(os.environ["WORLD_SIZE"]))
    model = DDP(torch.nn.Linear(8, 1).cuda())
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import TypeKind, type_of
from gpuproof.linter.analysis.usage import find_uses, script_uses
from gpuproof.linter.knowledge.distribution.entries import (
    group_inits,
    joins_group,
    program_mentions,
    scripts_with,
)
from gpuproof.linter.knowledge.distribution.ranks import (
    has_one_gpu_per_host,
    runs_several_processes_per_host,
    uses_distribution_library,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("DS115", "set-device-late-or-missing", Severity.ERROR, needs=(".cuda", ".to(", "set_device"))

_SELECTS = re.compile(r"(^|\.)(set_device|set_device_index|set_default_device)$|^torch\.cuda\.device$")
_KEYWORDS = re.compile(r"^(output_device|device_ids|index)$")
_TEXTS = re.compile(r"^cuda:(?!0$)|CUDA_VISIBLE_DEVICES")
_RANK = re.compile(r"rank|gpu|device_?id", re.IGNORECASE)


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not program_mentions(module, "init_process_group"):
        return
    if not calls_named(module, "cuda", "to", "set_device"):
        return
    for script in scripts_with(module):
        if (
            joins_group(script)
            and _is_for_gpus(script)
            and not uses_distribution_library(script)
            and not has_one_gpu_per_host(script, project)
        ):
            yield from _moved_to_first(module, script)
            return


def _same_for_all(module: Module, script: Module) -> Call | None:
    """A call that selects the GPU with the same number in every process, if no other call selects one."""
    calls = [call for home in local_modules(script) for call in calls_named(home, "set_device")]
    calls = [call for call in calls if (call.name or "").startswith("torch.")]
    fixed = [
        call
        for call in calls
        if isinstance(call.module.origin(call.expression("device", 0)), ast.Constant)
        and call.argument("device", 0).number is not None
    ]
    if len(calls) != 1 or not fixed or fixed[0].module is not module:
        return None
    is_conditional = module.enclosing(fixed[0].node, ast.If, ast.IfExp) is not None
    return None if is_conditional or script_uses(script, _TEXTS, "string") else fixed[0]


def _is_for_gpus(script: Module) -> bool:
    """Whether a script is written for several processes on a host, with a GPU each."""
    if runs_several_processes_per_host(script):
        return any(calls_named(home, "DistributedDataParallel", "DDP") for home in local_modules(script))
    # A launcher that numbers the processes starts one for each GPU.
    return all(
        call.argument("backend", 0).text == "nccl"
        and call.argument("rank", 4).is_absent
        and call.argument("init_method", 1).is_absent
        for call in group_inits(script)
    )


def _moved_to_first(module: Module, script: Module) -> Hits:
    """The first move of a model to the first GPU, if no GPU is selected before it."""
    fixed = _same_for_all(module, script)
    if fixed is not None:
        yield rule.hit(
            fixed.span,
            f"Every process selects GPU {fixed.argument('device', 0).number}: the other GPUs are idle.",
            remedy='Call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])).',
            severity=None if runs_several_processes_per_host(script) else lowered(rule.severity),
        )
        return
    moves = [call for call in calls_named(module, "cuda", "to") if _to_plain_cuda(module, call)]
    settings = [
        call
        for call in calls_named(module, "set_device")
        if (call.name or "").startswith("torch.") and not call.argument("device", 0).is_known
    ]
    for move in sorted(moves, key=lambda call: call.node.lineno):
        late = next((setting for setting in settings if _comes_after(module, setting, move)), None)
        if late is not None:
            first = not any(setting.node.lineno < move.node.lineno for setting in settings)
            if first:
                line = module.unit.file_position(late.node.lineno, 1)[1]
                yield rule.hit(
                    move.span,
                    f"The model is on GPU 0 in every process: torch.cuda.set_device() is only called in line {line}.",
                    remedy='Call torch.cuda.set_device(local_rank) before anything is moved to "cuda".',
                )
                return
        elif not settings and not _selects_gpu(script):
            yield rule.hit(
                move.span,
                "The model is on GPU 0 in every process: torch.cuda.set_device() is never called.",
                remedy='Call torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before anything is moved to "cuda".',
            )
            return


def _selects_gpu(script: Module) -> bool:
    """Whether the script, or a module of it, selects the GPU of each process in another way."""
    if script_uses(script, _TEXTS, "string"):
        return True
    for module in local_modules(script):
        # A number that is the same in every process selects nothing: `set_device(0)`, `device_ids=[0]`.
        if any(
            not Call(use.node, module).argument("device", 0).is_known
            for use in find_uses(module, "call")
            if _SELECTS.search(use.text) and isinstance(use.node, ast.Call)
        ):
            return True
        if any(
            not evaluate(module, use.node.value).is_known
            or any(not item.is_known for item in evaluate(module, use.node.value).items or ())
            for use in find_uses(module, "keyword")
            if _KEYWORDS.search(use.text) and isinstance(use.node, ast.keyword)
        ):
            return True
        for call in calls_named(module, "cuda", "to", "device"):
            given = [
                node for argument in (*call.node.args, *call.keywords.values()) for node in ast.walk(argument)
            ]
            names = [
                argument.id if isinstance(argument, ast.Name) else argument.attr
                for argument in given
                if isinstance(argument, (ast.Name, ast.Attribute))
            ]
            if any(_RANK.search(name) for name in names) or (
                call.method == "device" and len(call.node.args) > 1
            ):
                return True
    return False


def _to_plain_cuda(module: Module, call: Call) -> bool:
    if call.receiver is None or type_of(module, call.receiver).kind is not TypeKind.MODULE:
        return False
    if call.method == "cuda":
        return call.expression("device", 0) is None or call.argument("device", 0).number == 0
    return _is_plain_cuda(module, call.expression("device", 0))


def _is_plain_cuda(module: Module, node: ast.expr | None) -> bool:
    origin = module.origin(node)
    if isinstance(origin, ast.IfExp):
        return _is_plain_cuda(module, origin.body)
    if isinstance(origin, ast.Constant):
        return origin.value in ("cuda", "cuda:0") or (origin.value == 0 and origin.value is not False)
    if isinstance(origin, ast.Call) and module.qualified(origin.func) == "torch.device":
        return len(origin.args) == 1 and not origin.keywords and _is_plain_cuda(module, origin.args[0])
    return False


def _comes_after(module: Module, late: Call, early: Call) -> bool:
    """Whether `late` certainly runs after `early`: in the same block, or after the block of `early`."""
    statement = module.tree.statement(late.node)
    block = _block(module, statement)
    before = block[: block.index(statement)] if statement in block else []
    return any(module.tree.is_within(early.node, item) for item in before)


def _block(module: Module, statement: ast.stmt | None) -> list[ast.stmt]:
    parent = module.parent(statement) if statement is not None else None
    blocks = (getattr(parent, field, None) for field in ("body", "orelse", "finalbody"))
    return next((block for block in blocks if block and statement in block), [])
