"""Scripts whose libraries have kernels of their own: the same shapes, FLOPs and memory without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.trace.document import CATEGORIES
from support.traced_scripts import failure_of, trace_of

pytestmark = pytest.mark.slow

ATTENTION = """
import torch
import xformers.ops
from flash_attn import flash_attn_func, flash_attn_qkvpacked_func
from flash_attn.bert_padding import pad_input, unpad_input
from flash_attn.flash_attn_interface import flash_attn_varlen_func

model = torch.nn.Linear(512, 3 * 512, dtype=torch.float16).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
mask = torch.ones(4, 128, dtype=torch.bool, device="cuda")
for _ in range(3):
    rows = torch.randn(4, 128, 512, dtype=torch.float16, device="cuda")
    qkv = model(rows).view(4, 128, 3, 8, 64)
    query, key, value = qkv.unbind(2)
    packed = flash_attn_qkvpacked_func(qkv, dropout_p=0.1, causal=True)
    grouped = flash_attn_func(query, key[:, :, :2], value[:, :, :2], causal=True)
    lower = xformers.ops.memory_efficient_attention(query, key, value, attn_bias=xformers.ops.LowerTriangularMask())
    tokens, indices, limits, longest, used = unpad_input(query, mask)
    found = flash_attn_varlen_func(tokens, tokens, tokens, limits, limits, longest, longest)
    padded = pad_input(found, indices, 4, 128)
    assert packed.shape == grouped.shape == lower.shape == padded.shape == query.shape
    (packed + grouped + lower + padded).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_attention_of_flash_attn_and_xformers(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, ATTENTION)
    found = [operator for operator in trace.operators if operator.kind == "attention"]
    forward = [operator for operator in found if operator.phase == "forward"]
    # Two products of (128, 64) and (64, 128) for each of eight heads and four rows; kernels skip what a causal mask hides.
    both = 2 * 2.0 * 4 * 8 * 128 * 128 * 64
    assert sorted(operator.flops for operator in forward for _ in range(operator.calls)) == [both / 2] * 3 + [
        both
    ]
    assert sum(operator.calls for operator in forward) == 4
    assert sum(operator.calls for operator in found if operator.phase == "backward") == 4
    kernels = {note.message.partition(" ")[0] for note in trace.assumptions if note.code == "kernels"}
    assert kernels == {
        "flash_attn.flash_attn_qkvpacked_func",
        "flash_attn.flash_attn_func",
        "flash_attn.flash_attn_varlen_func",
        "xformers.ops.memory_efficient_attention",
    }


EIGHT_BIT = """
import bitsandbytes as bnb
import torch

model = torch.nn.Linear(1024, 512).cuda()
optimizer = bnb.optim.{optimizer}(model.parameters(), lr=1e-3)
for _ in range(3):
    model(torch.randn(64, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
WEIGHT, BIAS = 1024 * 512, 512


@pytest.mark.parametrize(
    ("optimizer", "state"),
    [
        # A byte for each number and a factor for 256 of them; small parameters stay in float32.
        ("AdamW8bit", 2 * (WEIGHT + 4 * WEIGHT // 256 + 4 * BIAS)),
        ("PagedAdam32bit", 2 * 4 * (WEIGHT + BIAS)),
    ],
)
def test_the_states_of_optimizers_of_bitsandbytes(tmp_path: Path, optimizer: str, state: int) -> None:
    trace = trace_of(tmp_path, EIGHT_BIT.format(optimizer=optimizer))
    alive: dict[int, int] = {}
    for event in trace.memory.events:
        if event > 0:
            size, kind = trace.memory.blocks[event - 1]
            alive[event] = size if CATEGORIES[kind] == "optimizer" else 0
        else:
            alive.pop(-event, None)
    assert sum(alive.values()) == state
    assert trace.optimizer == optimizer
    assert any("bitsandbytes" in note.message for note in trace.assumptions if note.code == "kernels")


@pytest.mark.parametrize(
    ("script", "code", "text"),
    [
        ("import bitsandbytes as bnb\nbnb.nn.Embedding8bit(4, 4)\n", "quantization", "Embedding8bit"),
        ("import torch\nimport flash_attn.no_such_module\n", "missing-package", "no_such_module"),
    ],
)
def test_what_is_not_replaced_is_an_error_with_its_line(
    tmp_path: Path, script: str, code: str, text: str
) -> None:
    failure = failure_of(tmp_path, script)
    assert (failure.code, failure.line) == (code, 2)
    assert text in failure.message


def test_a_library_that_looks_for_another_one_finds_nothing_new(tmp_path: Path) -> None:
    script = "import peft.import_utils as found\nassert not found.is_bnb_available()\n"
    pytest.importorskip("peft")
    assert failure_of(tmp_path, script).code == "no-step"
