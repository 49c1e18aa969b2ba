"""Where a training step ends, and what becomes of scripts that end before all steps were recorded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gpuproof.trace.document import Trace
from support.traced_scripts import failure_of, trace_of

pytestmark = pytest.mark.slow

OWN_UPDATES = """
import torch

model = torch.nn.Linear(64, 64).cuda()
data = torch.ones(8, 64)
for _ in range(50):
    model.zero_grad()
    model(data.cuda()).sum().backward()
    for parameter in model.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.1)
"""

CLOSURE = """
import torch

model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.ones(8, 64).cuda()

def closure():
    optimizer.zero_grad()
    loss = model(data).pow(2).mean()
    loss.backward()
    return loss

for _ in range(50):
    optimizer.step({argument})
"""

FAILS = """
import torch

model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range({steps}):
    optimizer.zero_grad()
    model(torch.ones(8, 64).cuda()).sum().backward()
    optimizer.step()
{end}
"""


def calls(trace: Trace) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for operator in trace.operators:
        found[operator.kind, operator.phase] += operator.calls
    return found


def test_a_script_without_an_optimizer_is_traced_by_its_backward_passes(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, OWN_UPDATES)
    assert (trace.mode, trace.steps, trace.trainable) == ("training", 3, 64 * 64 + 64)
    found = calls(trace)
    assert found["gemm", "forward"] == 1
    assert found["optimizer", "optimizer"] == 2  # one update for each parameter


@pytest.mark.parametrize("argument", ["closure=closure", "closure"])
def test_the_forward_pass_within_a_closure_is_no_part_of_the_optimizer(tmp_path: Path, argument: str) -> None:
    found = calls(trace_of(tmp_path, CLOSURE.format(argument=argument)))
    assert found["gemm", "forward"] == 1
    assert found["gemm", "optimizer"] == 0
    assert found["optimizer", "optimizer"] >= 1


def test_an_exception_after_a_step_leaves_the_trace_with_a_note(tmp_path: Path) -> None:
    script = FAILS.format(steps=2, end="raise ValueError('no validation data')")
    trace = trace_of(tmp_path, script)
    assert trace.steps == 2
    (note,) = [note for note in trace.assumptions if note.code == "ended-early"]
    assert "ended after 2 of 3 steps" in note.message
    assert "no validation data" in note.message
    assert note.line == script[: script.index("raise")].count("\n") + 1


def test_a_time_limit_after_a_step_leaves_the_trace_with_a_note(tmp_path: Path) -> None:
    script = FAILS.format(steps=1, end="import threading; threading.Event().wait()")
    trace = trace_of(tmp_path, script, "--timeout", "5")
    assert trace.steps == 1
    assert {"ended-early", "one-step"} <= {note.code for note in trace.assumptions}


def test_an_exception_before_the_first_step_is_the_answer(tmp_path: Path) -> None:
    found = failure_of(tmp_path, FAILS.format(steps=0, end="raise ValueError('no data')"))
    assert (found.code, "no data" in found.message) == ("script-error", True)


def test_without_a_data_loader_the_trace_at_twice_the_batch_size_ends_at_once(tmp_path: Path) -> None:
    assert trace_of(tmp_path, FAILS.format(steps=5, end=""), "--batch-scale", "2").steps == 1
