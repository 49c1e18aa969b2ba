"""Results of operators that are repeated by the shapes of their arguments: they are what PyTorch itself returns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.traced_scripts import trace_of

pytestmark = pytest.mark.slow

SCRIPT = """
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves
from gpuproof.trace.pytorch.operators.results import OperatorResults

aten = torch.ops.aten
fake = FakeTensorMode(allow_non_fake_inputs=True)
results = OperatorResults(fake)

def tensors(*args):
    return [tensor for tensor in tree_leaves(args) if isinstance(tensor, torch.Tensor)]

def described(result, inputs):
    storages = [tensor.untyped_storage() for tensor in inputs]
    found = [type(result)]
    for tensor in tree_leaves(result):
        if not isinstance(tensor, torch.Tensor):
            found.append(tensor)
            continue
        same = [index for index, source in enumerate(inputs) if source is tensor]
        shared = [index for index, storage in enumerate(storages) if storage is tensor.untyped_storage()]
        found.append((type(tensor), tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.dtype, tensor.device))
        found.append((same, shared, tensor.untyped_storage().nbytes(), tensor.requires_grad, tensor.fake_mode))
    return found

def make():
    with fake:
        square, row = torch.empty(8, 8), torch.empty(3, 8, dtype=torch.float16)
        image, filters = torch.empty(2, 4, 6, 6).to(memory_format=torch.channels_last), torch.empty(5, 4, 3, 3)
        return square, row, image, filters, torch.empty(8, dtype=torch.int64)

def cases(square, row, image, filters, index):
    yield aten.mm.default, (square, square), {}
    yield aten.t.default, (row,), {}
    yield aten.slice.Tensor, (square, 0, 2, 5), {}
    yield aten.view.dtype, (row, torch.int16), {}
    yield aten.split.Tensor, (row, 3, 1), {}
    yield aten.unbind.int, (row,), {}
    yield aten.add_.Tensor, (square, square), {"alpha": 0.5}
    yield aten.add.Tensor, (square, 1), {}
    yield aten.add.Tensor, (index, 1), {}
    yield aten.add.Tensor, (index, 1.0), {}
    yield aten.add.Tensor, (index, True), {}
    yield aten.convolution.default, (image, filters, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1), {}
    yield aten.native_layer_norm.default, (square, [8], None, None, 1e-5), {}
    yield aten.max.dim, (square, 1), {}
    yield aten._to_copy.default, (square,), {"dtype": torch.bfloat16}
    yield aten.clone.default, (image,), {"memory_format": torch.contiguous_format}
    yield aten._foreach_add_.Scalar, ([square, image], 0.25), {}
    yield aten._foreach_sqrt.default, ([square, image],), {}
    yield aten._foreach_norm.Scalar, ([square, image], 2), {}
    yield aten.upsample_nearest2d.vec, (image, None, [2.0, 2.0]), {}
    yield aten.upsample_nearest2d.vec, (image, None, [3.0, 3.0]), {}
    yield aten.expand.default, (index, [4, 8]), {}
    yield aten.cat.default, ([square, square],), {}
    yield aten.zeros_like.default, (row,), {"pin_memory": False}

known = 0
for round in range(2):
    for number in range(len(list(cases(*make())))):
        function, args, kwargs = list(cases(*make()))[number]
        inputs = tensors(args, list(kwargs.values()))
        result, is_known = results.call(function, args, kwargs, inputs)
        known += is_known is not None
        _, args, kwargs = list(cases(*make()))[number]
        wanted = described(function(*args, **kwargs), tensors(args, list(kwargs.values())))
        assert described(result, inputs) == wanted, (function, described(result, inputs), wanted)
assert known == 2 * number + 2, known

# What changes shapes, has values, or shares memory in another way is asked each time.
with fake:
    constant = torch.tensor(2.0)
for number in range(5):
    for _ in range(2):
        square, row, image, filters, index = make()
        function, args = (
            (aten.t_.default, (row,)),
            (aten.resize_.default, (row, [100])),
            (aten.mul.Tensor, (square, torch.ones(8))),
            (aten.mul.Tensor, (square, constant)),
            (aten.is_same_size.default, (square, square)),
        )[number]
        assert results.call(function, args, {}, tensors(args))[1] is None, function
    assert row.shape == ((8, 3), (100,), (3, 8), (3, 8), (3, 8))[number]
"""


def test_a_result_that_is_repeated_is_the_one_that_pytorch_returns(tmp_path: Path) -> None:
    script = tmp_path / "results.py"
    script.write_text(SCRIPT)
    process = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


LAYERS = """
import sys
import torch
import torch._subclasses.fake_tensor as fakes

model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(40))).cuda()
optimizer = torch.optim.AdamW(model.parameters())
asked = 0
dispatch = fakes.FakeTensorMode.dispatch
def counted(*args, **kwargs):
    global asked
    asked += 1
    return dispatch(*args, **kwargs)
fakes.FakeTensorMode.dispatch = counted
for step in range(30):
    before = asked
    loss = model(torch.ones(4, 64).cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    assert asked - before < (500 if step == 0 else 100), (step, asked - before)
"""


def test_layers_and_steps_that_are_alike_ask_pytorch_once(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, LAYERS, "--steps", "20")
    found: dict[tuple[str, str], Any] = {}
    for operator in trace.operators:
        key = operator.kind, operator.phase
        found[key] = found.get(key, 0) + operator.calls
    assert trace.steps == 20
    assert (found["gemm", "forward"], found["gemm", "backward"]) == (40, 79)
