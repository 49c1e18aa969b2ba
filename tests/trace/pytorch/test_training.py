"""Traces of training scripts: operators, FLOPs and memory against what can be computed by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from gpuproof.trace.document import CATEGORIES, CUBLAS_WORKSPACE, Trace
from support.traced_scripts import trace_of

pytestmark = pytest.mark.slow

# One layer of 1024 x 512 numbers, a batch of 64 rows.
LINEAR = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
size = parser.parse_args().batch_size
model = torch.nn.Linear(1024, 512, bias=False).cuda()
optimizer = torch.optim.{optimizer}
while True:
    x = torch.randn(size, 1024, device="cuda")
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""
SGD, ADAM = "SGD(model.parameters(), lr=0.1)", "AdamW(model.parameters())"
WEIGHT = 1024 * 512 * 4


def category_bytes(trace: Trace, category: str) -> int:
    """Bytes of a category that are in use at the end of the last step."""
    alive: dict[int, int] = {}
    for event in trace.memory.events:
        if event > 0:
            size, kind = trace.memory.blocks[event - 1]
            alive[event - 1] = size if CATEGORIES[kind] == category else 0
        elif event < 0:
            alive.pop(-event - 1)
    return sum(alive.values())


def peak(trace: Trace) -> int:
    most = now = 0
    for event in trace.memory.events:
        now += (event > 0) * trace.memory.blocks[event - 1][0] if event > 0 else 0
        now -= trace.memory.blocks[-event - 1][0] if event < 0 else 0
        most = max(most, now)
    return most


def test_the_products_of_a_linear_layer(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, LINEAR.format(optimizer=SGD))
    assert (trace.mode, trace.optimizer, trace.precision, trace.steps) == ("training", "SGD", "float32", 3)
    assert trace.parameters == trace.trainable == 1024 * 512
    assert trace.model_bytes == WEIGHT
    products = {operator.phase: operator for operator in trace.operators if operator.kind == "gemm"}
    # The input needs no gradient: one product forwards, one backwards.
    assert set(products) == {"forward", "backward"}
    assert products["forward"].gemm == (1, 64, 512, 1024)
    assert {product.flops for product in products.values()} == {2.0 * 64 * 512 * 1024}
    assert products["forward"].bytes == 4 * (64 * 1024 + 1024 * 512 + 64 * 512)


@pytest.mark.parametrize(("optimizer", "states"), [(SGD, 0), (ADAM, 2)])
def test_parameters_gradients_and_the_state_of_the_optimizer(
    tmp_path: Path, optimizer: str, states: int
) -> None:
    trace = trace_of(tmp_path, LINEAR.format(optimizer=optimizer))
    assert category_bytes(trace, "parameter") == WEIGHT
    assert category_bytes(trace, "gradient") == WEIGHT
    assert category_bytes(trace, "optimizer") // WEIGHT == states
    # The threads of the script and of the backward pass call cuBLAS.
    assert category_bytes(trace, "workspace") == 2 * CUBLAS_WORKSPACE
    assert peak(trace) >= (2 + states) * WEIGHT


def test_the_script_gets_its_arguments_and_the_batch_scales(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, LINEAR.format(optimizer=SGD), arguments=("--batch-size", "128"))
    (forward,) = (
        operator for operator in trace.operators if operator.kind == "gemm" and operator.phase == "forward"
    )
    assert forward.gemm == (1, 128, 512, 1024)


def test_two_traces_of_one_script_are_the_same(tmp_path: Path) -> None:
    first, second = (trace_of(tmp_path, LINEAR.format(optimizer=ADAM)) for _ in range(2))
    assert first.operators == second.operators
    assert first.memory == second.memory


CONVOLUTION = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
model(torch.zeros(1, 3, 32, 32))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model.to(device)
data = TensorDataset(torch.randn(1000, 3, 32, 32), torch.randint(0, 10, (1000,)))
loader = DataLoader(data, batch_size=50, shuffle=True, num_workers=4, pin_memory=True)
loss_of = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cuda")
for epoch in range(5):
    for images, labels in loader:
        images, labels = images.to(device, non_blocking=True), labels.to(device)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = loss_of(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        print(f"loss {loss.item():.3f}", flush=True)
    torch.save(model.state_dict(), "model.pt")
"""


def test_a_loader_mixed_precision_and_values_that_are_unknown(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, CONVOLUTION)
    assert trace.precision == "amp-float16"
    (forward,) = (
        operator for operator in trace.operators if operator.kind == "conv" and operator.phase == "forward"
    )
    assert forward.dtype == "float16"
    assert forward.flops == 2.0 * 50 * 16 * 32 * 32 * 3 * 9
    assert trace.input.samples == 50
    assert (trace.input.workers, trace.input.steps_per_epoch) == (4, 20)
    assert trace.input.host_s is not None
    assert trace.input.host_s > 0
    # The scale of the losses is a number on the GPU, too.
    assert trace.input.bytes == 50 * 3 * 32 * 32 * 4 + 50 * 8 + 4
    (value,) = (note for note in trace.assumptions if note.code == "value")
    assert value.file is not None
    assert Path(value.file).name == "train.py"
    assert value.line == CONVOLUTION[: CONVOLUTION.index("loss.item()")].count("\n") + 1
    assert not (tmp_path / "model.pt").exists()


MIXED = """
import torch

model = torch.nn.Linear(1024, 512, bias=False).cuda()
optimizer = torch.optim.AdamW(model.parameters())
while True:
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(torch.randn(64, 1024, device="cuda", requires_grad=True)).float().sum()
    loss.backward()
    optimizer.step()
"""


def test_gradients_and_states_of_mixed_precision_are_on_the_gpu(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, MIXED)
    assert category_bytes(trace, "parameter") == WEIGHT
    assert category_bytes(trace, "gradient") == WEIGHT
    assert category_bytes(trace, "optimizer") // WEIGHT == 2


def test_the_backward_pass_of_mixed_precision_reads_gradients(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, MIXED)
    products = [
        operator for operator in trace.operators if operator.kind == "gemm" and operator.phase == "backward"
    ]
    assert sorted(product.gemm for product in products) == [(1, 64, 1024, 512), (1, 512, 1024, 64)]
    assert {product.bytes for product in products} == {2 * (64 * 1024 + 1024 * 512 + 64 * 512)}
    (cast,) = (
        operator
        for operator in trace.operators
        if operator.phase == "backward" and (512, 1024) in operator.shapes[:1]
    )
    assert (cast.name, cast.bytes) == ("aten._to_copy", WEIGHT + WEIGHT // 2)


LAYOUTS = """
import torch

images = torch.randn(8, 64, 32, 32, device="cuda").to(memory_format=torch.{layout})
model = torch.nn.Sequential(torch.nn.Conv2d(64, 64, 3), torch.nn.ReLU()).to("cuda", memory_format=torch.{layout})
mixed = torch.randn(8, 32, 32, 64, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    optimizer.zero_grad()
    x = model(images)
    (x.transpose(2, 3).sigmoid().sum() + (images * mixed.permute(0, 3, 1, 2)).sum()).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("layout", "own", "product"),
    [("contiguous_format", "contiguous", "mixed"), ("channels_last", "channels-last", "channels-last")],
)
def test_the_layout_of_tensors(tmp_path: Path, layout: str, own: str, product: str) -> None:
    trace = trace_of(tmp_path, LAYOUTS.format(layout=layout))
    forward = {operator.name: operator.layout for operator in trace.operators if operator.phase == "forward"}
    assert forward["aten.convolution"] == forward["aten.relu"] == own
    assert forward["aten.sigmoid"] == "strided"
    assert forward["aten.mul"] == product


VIEWS = """
import torch

model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    optimizer.zero_grad()
    x = torch.randn(4, 8, 64, device="cuda").transpose(0, 1)
    torch.matmul(model(x), x.transpose(1, 2)).unsqueeze_(0).sum().backward()
    optimizer.step()
"""


def test_a_view_by_another_name_launches_no_kernel(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, VIEWS)
    names = {operator.name for operator in trace.operators}
    assert not {name for name in names if "view" in name or "squeeze" in name}


def test_twice_the_batch_size_has_twice_the_operations_of_the_loader(tmp_path: Path) -> None:
    first, second = (trace_of(tmp_path, CONVOLUTION, "--batch-scale", scale) for scale in ("1", "2"))
    assert second.input.samples == 100
    assert sum(operator.flops for operator in second.operators if operator.kind == "conv") == 2 * sum(
        operator.flops for operator in first.operators if operator.kind == "conv"
    )


LARGE = """
import torch

# 40 GB of parameters, more than the test machine has.
model = torch.nn.Sequential(*[torch.nn.Linear(16384, 16384, bias=False) for _ in range(40)])
model.to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(8, 16384, dtype=torch.bfloat16, device="cuda")).sum().backward()
    optimizer.step()
"""


def test_a_model_that_is_larger_than_the_machine(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, LARGE)
    assert trace.parameters == 40 * 16384**2
    assert trace.precision == "bfloat16"
    assert peak(trace) > 4 * trace.model_bytes
    assert trace.peak_rss < 4 << 30


DISTRIBUTED = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
model = DistributedDataParallel(torch.nn.Linear(1024, 512, bias=False).cuda(rank), device_ids=[rank])
data = torch.utils.data.TensorDataset(torch.randn(640, 1024))
sampler = torch.utils.data.DistributedSampler(data)
loader = torch.utils.data.DataLoader(data, batch_size=16, sampler=sampler)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for (rows,) in loader:
        loss = model(rows.cuda(rank)).sum()
        loss.backward()
        optimizer.step()
        dist.barrier()
dist.destroy_process_group()
"""


def test_each_of_four_ranks_sends_its_share_of_the_gradients(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, DISTRIBUTED, "--gpus", "4")
    assert (trace.strategy, trace.world_size) == ("ddp", 4)
    assert trace.input.steps_per_epoch == 640 // 4 // 16
    assert trace.collective_bytes == 2 * WEIGHT * 3 / 4


RECURRENT = """
import torch

model = torch.nn.LSTM(256, 512, batch_first=True).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    output, _ = model(torch.randn(32, 100, 256, device="cuda"))
    output.sum().backward()
    optimizer.step()
"""


def test_the_products_of_a_recurrent_layer(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, RECURRENT)
    # Four gates, from the input and from the state, in each of 100 time steps.
    forward = 2.0 * 100 * 32 * (4 * 512) * (256 + 512)
    found = {
        phase: sum(
            operator.flops for operator in trace.operators if operator.phase == phase and operator.gemm
        )
        for phase in ("forward", "backward")
    }
    assert found == {"forward": forward, "backward": 2 * forward}


EMBEDDING = """
import torch

table = torch.nn.EmbeddingBag(1_000_000, 64).cuda()
optimizer = torch.optim.Adagrad(table.parameters())
for _ in range(3):
    rows = torch.randint(0, 1_000_000, (4096, 20)).cuda()
    table(rows).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_an_embedding_reads_only_some_of_its_rows(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, EMBEDDING)
    (forward,) = (
        operator for operator in trace.operators if operator.phase == "forward" and operator.kind == "index"
    )
    assert forward.bytes < 1_000_000 * 64 * 4
    assert category_bytes(trace, "optimizer") >= 1_000_000 * 64 * 4


MASKED = """
import torch

model = torch.nn.Linear(64, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(100, 64, device="cuda")
    rows = x[x.sum(1) > 0]
    model(rows).sum().backward()
    optimizer.step()
"""


def test_a_mask_is_taken_to_select_everything_and_that_is_noted(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, MASKED)
    (forward,) = (
        operator for operator in trace.operators if operator.phase == "forward" and operator.kind == "gemm"
    )
    assert forward.gemm == (1, 100, 8, 64)
    note = next(note for note in trace.assumptions if note.code == "dynamic-shape")
    assert note.line == MASKED[: MASKED.index("rows = x[")].count("\n") + 1


@pytest.mark.parametrize(
    ("options", "arguments", "epochs"),
    [
        ("'--epochs', type=int, default=90", (), 90),
        ("'--num_train_epochs', type=float, default=3.0", ("--num_train_epochs", "5"), 5),
        ("'--epochs-of-warmup', type=int, default=7", (), None),
    ],
)
def test_the_epochs_of_the_scripts_arguments(
    tmp_path: Path, options: str, arguments: tuple[str, ...], epochs: int | None
) -> None:
    script = LINEAR.format(optimizer=SGD).replace("size = ", f"parser.add_argument({options})\nsize = ")
    trace = trace_of(tmp_path, script, arguments=arguments)
    assert trace.epochs == epochs
    assert [note.code for note in trace.assumptions if note.code == "epochs"] == ["epochs"] * (
        epochs is not None
    )


ENCODER = """
import torch
from torch import nn

layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.1, batch_first=True)
model = nn.Sequential(nn.Linear(32, 64), nn.TransformerEncoder(layer, 3), nn.Linear(64, 10)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.randn(8, 128, 32, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_attention_layers_of_pytorch_with_mixed_precision_and_checkpoints(tmp_path: Path) -> None:
    plain = trace_of(tmp_path, ENCODER)
    changed = trace_of(tmp_path, ENCODER, "--change", "amp,checkpointing")
    assert (changed.precision, changed.checkpointing) == ("amp-float16", True)
    assert peak(changed) < peak(plain)
    for trace, backward in ((plain, 0), (changed, 3)):
        # The kernels of CUDA keep no weights of attention, and draw dropout inside; checkpoints run them again in the backward pass.
        found = [
            operator
            for operator in trace.operators
            if operator.kind == "attention" and "backward" not in operator.name
        ]
        calls = {
            phase: sum(operator.calls for operator in found if operator.phase == phase)
            for phase in ("forward", "backward")
        }
        assert calls == {"forward": 3, "backward": backward}
        assert not [operator for operator in trace.operators if "bernoulli" in operator.name]


FILTERS = """
import torch
layer = torch.nn.Conv2d(16, 32, {window}, {stride}, padding={window} // 2, bias=False).cuda()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
images = torch.randn(8, 16, 32, 32, device="cuda", requires_grad=True)
if {channels_last}:
    images, layer = images.to(memory_format=torch.channels_last), layer.to(memory_format=torch.channels_last)
for _ in range(4):
    optimizer.zero_grad()
    layer(images).square().sum().backward()
    optimizer.step()
"""


def temporary_blocks(trace: Trace) -> set[int]:
    """Sizes of blocks that are freed right after they were allocated."""
    pairs = itertools.pairwise(trace.memory.events)
    return {trace.memory.blocks[first - 1][0] for first, second in pairs if first > 0 and second == -first}


@pytest.mark.parametrize(
    ("window", "stride", "channels_last", "copies"),
    [(3, 1, False, True), (1, 2, False, True), (3, 1, True, False), (1, 1, False, False)],
)
def test_a_convolution_takes_memory_for_copies_that_have_channels_last(
    tmp_path: Path, window: int, stride: int, channels_last: bool, copies: bool
) -> None:
    script = FILTERS.format(window=window, stride=stride, channels_last=channels_last)
    found = temporary_blocks(trace_of(tmp_path, script))
    size = 4 * (8 * 16 * 32**2 + 8 * 32 * (32 // stride) ** 2 + 16 * 32 * window**2)
    # Forwards and for the input's gradient; the filters' gradient is computed in parts.
    assert ({size, size + (4 << 20)} <= found) is copies
    assert any(block >= size for block in found) is copies


def test_an_lstm_keeps_gates_and_cell_states_for_its_gradients(tmp_path: Path) -> None:
    script = """
import torch
layer = torch.nn.LSTM(64, 128, 2, batch_first=True).cuda()
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
words = torch.randn(8, 32, 64, device="cuda")
for _ in range(4):
    optimizer.zero_grad()
    layer(words)[0].sum().backward()
    optimizer.step()
"""
    trace = trace_of(tmp_path, script)
    activations = [size for size, kind in trace.memory.blocks if CATEGORIES[kind] == "activation"]
    assert activations.count(5 * 4 * 8 * 32 * 128) == 2 * trace.steps


SELECTIVE = """
import functools
import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import create_selective_checkpoint_contexts

flash = torch.ops.aten._scaled_dot_product_flash_attention.default
efficient = torch.ops.aten._scaled_dot_product_efficient_attention.default

class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x):
        y = self.linear(x)
        return torch.nn.functional.scaled_dot_product_attention(y, y, y).relu()

def policy(context, operator, *args, **kwargs):
    return operator is {saved}

policies = dict(function=policy, list=[{saved}])
contexts = functools.partial(create_selective_checkpoint_contexts, policies["{kind}"])
model = checkpoint_wrapper(Attention(), context_fn=contexts).to("cuda", torch.{dtype})
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model(torch.ones(2, 4, 128, 64, device="cuda", dtype=torch.{dtype})).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("saved", "dtype", "kind", "computed"),
    [
        ("flash", "bfloat16", "function", 1),
        ("efficient", "float32", "list", 1),
        ("flash", "float32", "function", 2),
    ],
)
def test_selective_checkpointing_saves_the_attention_that_the_gpu_would_compute(
    tmp_path: Path, saved: str, dtype: str, kind: str, computed: int
) -> None:
    text = SELECTIVE.replace("{saved}", saved).replace("{dtype}", dtype).replace("{kind}", kind)
    trace = trace_of(tmp_path, text)
    assert trace.checkpointing
    forward = [op for op in trace.operators if "attention" in op.name and "backward" not in op.name]
    assert sum(operator.calls for operator in forward) == computed


RMS_NORM = """
import torch

norm = torch.nn.RMSNorm(512).to("cuda", torch.{dtype})
optimizer = torch.optim.SGD(norm.parameters(), lr=0.1)
for _ in range(2):
    x = torch.ones(1024, 512, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    optimizer.zero_grad()
    norm(x).sum().backward()
    optimizer.step()
"""


def test_an_rms_norm_is_one_kernel_unless_its_weights_have_another_type(tmp_path: Path) -> None:
    kernels: list[int] = []
    for dtype in ("bfloat16", "float32"):
        trace = trace_of(tmp_path, RMS_NORM.replace("{dtype}", dtype))
        forward = [operator for operator in trace.operators if operator.phase == "forward"]
        kernels.append(
            sum(op.kernels * op.calls for op in forward if op.name not in ("aten.ones_like", "aten.sum"))
        )
    assert kernels[0] == 1 < kernels[1]
