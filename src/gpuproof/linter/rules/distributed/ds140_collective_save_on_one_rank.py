"""Rank 0 alone saves a model whose parts are on all ranks: it waits for the others, which never come.

The `state_dict()` of FullyShardedDataParallel gathers the shards of all ranks, `save_checkpoint()` of DeepSpeed writes the part of
each rank, `accelerator.get_state_dict()` does either. Every rank must call them; only the file is for rank 0 alone. Under
`if rank == 0:` the job stands still until NCCL's time limit, after the training, with all GPUs billed, and the model is lost.
Sources: https://docs.pytorch.org/docs/stable/fsdp.html, https://deepspeed.readthedocs.io/en/latest/model-checkpointing.html.

Bad: FSDP

    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = FSDP(torch.nn.Linear(8, 1).cuda())
    model(torch.ones(8).cuda()).sum().backward()
    if rank == 0:
        torch.save(model.state_dict(), "model.pt")  # <-

Bad: DeepSpeed

    import deepspeed
    import torch

    engine, optimizer, _, _ = deepspeed.initialize(model=torch.nn.Linear(8, 1), config="ds_config.json")
    loss = engine(torch.ones(8)).sum()
    engine.backward(loss)
    engine.step()
    if torch.distributed.get_rank() == 0:
        engine.save_checkpoint("/opt/ml/checkpoints")  # <-

Good:

    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel as FSDP, StateDictType

    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    model = FSDP(torch.nn.Linear(8, 1).cuda())
    model(torch.ones(8).cuda()).sum().backward()
    with FSDP.state_dict_type(model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=True)):
        state = model.state_dict()
    if rank == 0:
        torch.save(state, "model.pt")

Quiet: DistributedDataParallel has all of it on each rank

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), "model.pt")

Quiet: Lightning's checkpoint has the same name

    import lightning

    trainer = lightning.Trainer()
    if trainer.is_global_zero:
        trainer.save_checkpoint("model.ckpt")
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call, passed_arguments
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.distribution.rank_conditions import side_of
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "DS140",
    "collective-save-on-one-rank",
    Severity.ERROR,
    needs=("rank", "is_main", "is_local_main", "is_master"),
)

_FSDP = re.compile(r"(^|\.)(FullyShardedDataParallel|FSDP)$")
_ENGINE = re.compile(r"(^|_)(engine|model_engine|ds_model|ds_engine)$")
_OF_ENGINE = ("save_checkpoint", "save_16bit_model", "save_fp16_model", "load_checkpoint")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    if module.mentions("FSDP", "FullyShardedDataParallel"):
        for call in calls_named(module, "state_dict", "optim_state_dict", "full_optim_state_dict"):
            if side_of(module, call.node) != "first" or call.receiver is None:
                continue
            sharded = call.receiver if call.method == "state_dict" else call.expression("model", 0)
            if _is_sharded(module, sharded, 0) or (
                call.name is not None and _FSDP.search(call.name.rpartition(".")[0])
            ):
                yield rule.hit(
                    call.span,
                    f"Only rank 0 calls {call.method}(), which gathers the shards of all ranks: the job hangs, and saves nothing.",
                    remedy="Call it on every rank, and save the result on rank 0 only.",
                )
    if not any(home.imports("deepspeed") for home in local_modules(module)):
        return
    for call in calls_named(module, *_OF_ENGINE):
        if side_of(module, call.node) is not None and _is_engine(module, call):
            yield rule.hit(
                call.span,
                f"Only some ranks call {call.method}(), for which DeepSpeed waits on all of them: the job hangs.",
                remedy=f"Call {call.method}() on every rank, outside of the condition.",
            )


def _is_sharded(module: Module, node: ast.expr | None, depth: int) -> bool:
    """Whether an object certainly is wrapped in FSDP."""
    if node is None or depth > 5:
        return False
    made = origin_call(module, node)
    if made is not None:
        return _FSDP.search(made.name or made.method) is not None
    if not isinstance(node, ast.Name):
        return False
    found = False
    for binding in module.reaching(node):
        if binding.kind == "parameter":
            given = passed_arguments(module, binding)
            found = bool(given) and all(_is_sharded(module, value, depth + 1) for value in given)
            if not found:
                return False
        elif binding.kind == "assign" and isinstance(binding.value, ast.Call):
            name = module.qualified(binding.value.func) or module.text(binding.value.func)
            if not _FSDP.search(name):
                return False
            found = True
        else:
            return False
    return found


def _is_engine(module: Module, call: Call) -> bool:
    """Whether the receiver of a call is an engine of DeepSpeed."""
    if not isinstance(call.receiver, (ast.Name, ast.Attribute)):
        return False
    name = call.receiver.id if isinstance(call.receiver, ast.Name) else call.receiver.attr
    if _ENGINE.search(name):
        return True
    if not isinstance(call.receiver, ast.Name):
        return False
    return any(
        binding.kind == "unpack"
        and isinstance(binding.value, ast.Call)
        and module.qualified(binding.value.func) == "deepspeed.initialize"
        for binding in module.reaching(call.receiver)
    )
