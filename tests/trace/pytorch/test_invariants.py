"""What holds for every training step, however the script moves its model, computes in lower precision, and wraps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.trace.document import CATEGORIES, Memory, Trace
from support.traced_scripts import trace_of

pytestmark = pytest.mark.slow

ROWS, WIDTH, LAYERS = 256, 512, 3
PARAMETERS = LAYERS * (WIDTH * WIDTH + WIDTH)
PRODUCT = 2 * ROWS * WIDTH * WIDTH
"""Operations of a linear layer."""

SCRIPT = """
import contextlib
import torch

layers = [torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU()) for _ in range(3)]
model = torch.nn.Sequential(*layers)
{move}
optimizer = torch.optim.{optimizer}
{wrap}
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(1024, 512)), batch_size=256)
for (rows,) in data:
    optimizer.zero_grad()
    with {context}:
        loss = model(rows.to("cuda", {dtype})).float().pow(2).mean()
    {backward}
    {step}
"""
PLAIN = {
    "move": 'model.to("cuda")',
    "optimizer": "SGD(model.parameters(), 0.1)",
    "wrap": "",
    "context": "contextlib.nullcontext()",
    "dtype": "torch.float32",
    "backward": "loss.backward()",
    "step": "optimizer.step()",
}
SCALED = {
    "wrap": 'scaler = torch.amp.GradScaler("cuda")',
    "context": 'torch.autocast("cuda", torch.float16)',
    "backward": "scaler.scale(loss).backward()",
    "step": "scaler.step(optimizer); scaler.update()",
}
BFLOAT16 = {"context": 'torch.autocast("cuda", torch.bfloat16)'}
HALF = {"dtype": "torch.bfloat16"}
CHECKPOINTS = """
from torch.utils.checkpoint import checkpoint
layers = list(model)
model.forward = lambda rows: [rows := checkpoint(layer, rows, use_reentrant=False) for layer in layers][-1]
"""
ADAM = "AdamW(model.parameters(), {})"


@pytest.mark.parametrize(
    ("changes", "size", "states"),
    [
        ({}, 4, 0),
        ({"move": 'model.to(device="cuda")'}, 4, 0),
        ({"move": "model.cuda()"}, 4, 0),
        ({"move": 'model = torch.nn.Sequential(*[layer.to("cuda") for layer in layers])'}, 4, 0),
        ({"optimizer": "SGD(model.parameters(), 0.1, momentum=0.9)"}, 4, 1),
        ({"optimizer": ADAM.format("foreach=True")}, 4, 2),
        ({"optimizer": ADAM.format("fused=True")}, 4, 2),
        ({"optimizer": ADAM.format("amsgrad=True, foreach=False")}, 4, 3),
        (SCALED, 4, 0),
        ({**BFLOAT16, "optimizer": ADAM.format("lr=1e-3")}, 4, 2),
        ({**HALF, "move": "model.cuda().bfloat16()", "optimizer": ADAM.format("lr=1e-3")}, 2, 2),
        ({**HALF, "move": "model.bfloat16().cuda()"}, 2, 0),
        ({**HALF, "move": 'model.to(device="cuda", dtype=torch.bfloat16)'}, 2, 0),
        ({**HALF, "move": 'model.to(torch.zeros(1, device="cuda", dtype=torch.bfloat16))'}, 2, 0),
        ({"wrap": "model = torch.compile(model)"}, 4, 0),
        ({"wrap": "model = torch.nn.DataParallel(model)"}, 4, 0),
        ({"wrap": CHECKPOINTS}, 4, 0),
    ],
)
def test_memory_and_operations_of_a_step(
    tmp_path: Path, changes: dict[str, str], size: int, states: int
) -> None:
    trace = trace_of(tmp_path, SCRIPT.format(**{**PLAIN, **changes}))
    assert (trace.steps, trace.parameters) == (3, PARAMETERS)
    assert [note.message for note in trace.assumptions if note.code == "device-mismatch"] == []
    alive = alive_at_the_end(trace.memory)
    assert alive["parameter"] == size * PARAMETERS
    # Those of the last step stay until the next one.
    assert alive["gradient"] == size * PARAMETERS
    # Adam counts its steps, too, in a number for each parameter.
    assert states * size * PARAMETERS <= alive["optimizer"] <= states * size * PARAMETERS + 64 * LAYERS
    forward, backward = (products(trace, phase) for phase in ("forward", "backward"))
    assert forward == LAYERS * PRODUCT
    # The first layer's input has no gradient; checkpoints compute the forward pass again.
    again = LAYERS * PRODUCT if changes.get("wrap") == CHECKPOINTS else 0
    assert backward == (2 * LAYERS - 1) * PRODUCT + again


def alive_at_the_end(memory: Memory) -> dict[str, int]:
    """Bytes in use at the end of the last step, by category."""
    found = dict.fromkeys(CATEGORIES, 0)
    for event in memory.events:
        if event:
            block = memory.blocks[abs(event) - 1]
            found[CATEGORIES[block[1]]] += block[0] if event > 0 else -block[0]
    return found


def products(trace: Trace, phase: str) -> float:
    """Operations of the matrix products of a phase in a step."""
    return sum(
        operator.flops * operator.calls
        for operator in trace.operators
        if operator.phase == phase and operator.kind == "gemm"
    )
