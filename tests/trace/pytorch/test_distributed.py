"""Scripts for several GPUs: one process is traced as the first rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.trace.document import Sharding
from support.traced_scripts import failure_of, trace_of

pytestmark = pytest.mark.slow

MODEL = """
import functools
import os
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel, MixedPrecision, MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy, size_based_auto_wrap_policy, transformer_auto_wrap_policy

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(100, 64)
        self.blocks = torch.nn.ModuleList([Block() for _ in range(3)])
        self.head = torch.nn.Linear(64, 100, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

def train(model):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.zeros(4, 16, dtype=torch.int64).cuda()).float().mean().backward()
        optimizer.step()

dist.init_process_group("nccl")
"""
BLOCK, OUTERMOST = 2 * 64 * 256 + 256 + 64, 2 * 100 * 64
"""Numbers in a block, and in the rest of the model."""


def sizes(bytes_per_number: int) -> list[int]:
    return [bytes_per_number * count for count in (BLOCK, BLOCK, BLOCK, OUTERMOST)]


TRANSFORMER = """FullyShardedDataParallel(
    Net(),
    auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block}),
    mixed_precision=MixedPrecision(param_dtype=torch.bfloat16),
    device_id=0,
)"""
CLASSES = """FullyShardedDataParallel(
    Net(),
    auto_wrap_policy=ModuleWrapPolicy({Block}),
    device_id=torch.device("cuda", 0),
    sharding_strategy=ShardingStrategy.SHARD_GRAD_OP,
)"""
SIZE = """FullyShardedDataParallel(
    Net().cuda(), auto_wrap_policy=functools.partial(size_based_auto_wrap_policy, min_num_params=30_000)
)"""


@pytest.mark.parametrize(
    ("wrap", "sharding"),
    [
        (TRANSFORMER, Sharding(sizes(2), False, 2.0)),
        (
            TRANSFORMER.replace("bfloat16)", "bfloat16, reduce_dtype=torch.float32)"),
            Sharding(sizes(2), False, 2.0, 2.0),
        ),
        (CLASSES, Sharding(sizes(4), True)),
        (SIZE, Sharding(sizes(4))),
        ("FullyShardedDataParallel(Net(), device_id=0)", Sharding([sum(sizes(4))])),
    ],
    ids=["transformer", "reduced in float32", "classes", "size", "whole"],
)
def test_the_units_and_the_precision_of_fsdp_are_known(tmp_path: Path, wrap: str, sharding: Sharding) -> None:
    trace = trace_of(tmp_path, f"{MODEL}\ntrain({wrap})\n", "--gpus", "4")
    assert (trace.strategy, trace.world_size, trace.sharding) == ("fsdp", 4, sharding)
    assert trace.precision == ("bfloat16" if sharding.share_factor == 2 else "float32")


FULLY_SHARD = """
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
with torch.device("meta"):
    model = Net()
for block in model.blocks:
    fully_shard(block, mp_policy=policy, reshard_after_forward=block is not model.blocks[-1])
fully_shard(model, mp_policy=policy, reshard_after_forward=False)
assert isinstance(model, FSDPModule) and isinstance(model, Net)
assert all(parameter.placements[0].dim == 0 for parameter in model.parameters())
model.set_requires_gradient_sync(True)
model.unshard()
model.to_empty(device="cuda")
train(model)
"""


def test_a_model_of_fully_shard_has_its_class_and_methods(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, MODEL + FULLY_SHARD, "--gpus", "2")
    # Only the last block stays gathered, and the outermost unit, which does in any case.
    assert trace.sharding == Sharding(sizes(2), False, 2.0, copies_gathered=True)


def test_blocks_of_fully_shard_stay_gathered_if_all_are_to(tmp_path: Path) -> None:
    kept = FULLY_SHARD.replace("block is not model.blocks[-1]", "False")
    trace = trace_of(tmp_path, MODEL + kept, "--gpus", "2")
    assert trace.sharding == Sharding(sizes(2), True, 2.0, copies_gathered=True)


def test_no_shard_is_ddp(tmp_path: Path) -> None:
    model = "FullyShardedDataParallel(Net(), device_id=0, sharding_strategy=ShardingStrategy.NO_SHARD)"
    trace = trace_of(tmp_path, f"{MODEL}\ntrain({model})\n", "--gpus", "2")
    assert (trace.strategy, trace.sharding) == ("ddp", None)


SPAWNED = """
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoints
import torch.multiprocessing as mp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

def main(rank, world, name):
    assert (rank, world, name) == (0, 4, "x")
    dist.init_process_group("nccl", rank=rank, world_size=world)
    found = [None] * world
    dist.all_gather_object(found, {"rank": rank})
    assert found == [{"rank": 0}] * world
    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("replicate", "shard"))
    assert (mesh.size(), mesh["shard"].size(), mesh.get_local_rank("shard")) == (4, 2, 0)
    assert dist.new_group([0, 1]).size() == world
    model = DistributedDataParallel(torch.nn.Linear(64, 64).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.ones(2, 64).to(rank)).sum().backward()
        optimizer.step()
        weights, _ = get_state_dict(model, optimizer)
        checkpoints.save(weights, checkpoint_id="kept")
        checkpoints.load(weights, checkpoint_id="kept")
        set_model_state_dict(model, weights)

if __name__ == "__main__":
    mp.spawn(main, args=(torch.cuda.device_count(), "x"), nprocs=torch.cuda.device_count())
"""


def test_a_script_that_spawns_its_processes(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, SPAWNED, "--gpus", "4")
    assert (trace.steps, trace.strategy, trace.world_size) == (3, "ddp", 4)
    assert any("distributed.checkpoint.save" in note.message for note in trace.side_effects)
    assert "ended-early" not in {note.code for note in trace.assumptions}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


TENSOR_PARALLEL = """
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

model = torch.nn.Linear(64, 64).cuda()
parallelize_module(model, init_device_mesh("cuda", (2,)), ColwiseParallel())
"""


def test_tensor_parallelism_is_an_error_with_the_line(tmp_path: Path) -> None:
    found = failure_of(tmp_path, TENSOR_PARALLEL)
    assert (found.code, found.line) == ("tensor-parallel", 7)
    assert "FSDP" in found.remedy
