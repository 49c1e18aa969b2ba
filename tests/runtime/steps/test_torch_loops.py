"""Loops of PyTorch: which phase takes the time, in which line, and what is a step, an epoch and an evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.optional_packages import skip_without
from support.timed_scripts import TimedScripts, run_timed

skip_without("torch")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def time_steps() -> Iterator[TimedScripts]:
    scripts = TimedScripts("torch", "torch._dynamo")
    yield scripts
    scripts.close()


HEAD = """
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset

def work(times):
    x = torch.ones(64, 64)
    for _ in range(times):
        x = torch.tanh(x @ x)
    return x

class Images(Dataset):
    def __init__(self, count, times): self.count, self.times = count, times
    def __len__(self): return self.count
    def __getitem__(self, i):
        work(self.times)
        return torch.randn(8), i % 2

model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
data = TensorDataset(torch.randn(32, 8), torch.randint(0, 2, (32,)))
"""
STEP = """
        optimizer.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
"""


def test_a_loop_that_waits_for_its_loader(tmp_path: Path, time_steps: TimedScripts) -> None:
    timed = time_steps(
        tmp_path,
        f"{HEAD}loader = DataLoader(Images(64, 400), batch_size=8)\nfor epoch in range(2):\n    for x, y in loader:{STEP}",
    )
    record = timed.record
    assert (record["loop"], record["clock"], record["steps"], timed.phases[0]) == (
        "pytorch",
        "cpu",
        15,
        "input",
    )
    assert [(epoch["epoch"], epoch["steps"]) for epoch in record["epochs"]] == [(0, 7), (1, 8)]
    assert record["seconds"] == pytest.approx(sum(record["phases"].values()), abs=1e-4)
    location = record["locations"]["input"]
    assert (location["path"], location["line"], location["what"]) == (
        "train.py",
        timed.line("loader = "),
        "DataLoader",
    )
    assert location["settings"] == {
        "num_workers": 0,
        "batch_size": 8,
        "pin_memory": False,
        "prefetch_factor": None,
        "persistent_workers": False,
    }


def test_workers_of_a_loader_are_no_processes_that_train(tmp_path: Path, time_steps: TimedScripts) -> None:
    timed = time_steps(
        tmp_path,
        f"{HEAD}for epoch in range(2):\n    for x, y in DataLoader(Images(16, 1), 4, num_workers=2, persistent_workers=True):{STEP}",
    )
    assert timed.record["steps"] == 7
    assert timed.record["locations"]["input"]["settings"]["num_workers"] == 2
    assert [epoch["steps"] for epoch in timed.record["epochs"]] == [3, 4]


def test_a_loop_of_tiny_operations_is_all_forward(tmp_path: Path, time_steps: TimedScripts) -> None:
    many = HEAD.replace(
        "model = torch.nn.Linear(8, 2)",
        "class Model(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        with torch.no_grad():\n"
        "            for _ in range(20_000): x = x + 1e-6\n"
        "        return super().forward(x)\n"
        "model = Model(8, 2)",
    )
    timed = time_steps(tmp_path, f"{many}for epoch in range(2):\n    for x, y in DataLoader(data, 8):{STEP}")
    assert timed.phases[0] == "forward"


def test_reading_the_loss_in_each_step_is_named_with_its_line(
    tmp_path: Path, time_steps: TimedScripts
) -> None:
    timed = time_steps(
        tmp_path,
        f"{HEAD}total = 0\nfor epoch in range(2):\n    for x, y in DataLoader(data, 8):{STEP}        total += loss.item()\n",
    )
    found = timed.record["locations"]["synchronization"]
    assert (found["what"], found["line"], found["count"]) == (".item()", timed.line("loss.item()"), 7)


EVALUATION = """
        model.eval()
        with torch.no_grad():
            for x, y in DataLoader(Images(32, 500), 8): {body}
        model.train()
"""


@pytest.mark.parametrize(
    "body", ["model(x)", "model(x); break_after -= 1\n            pass", "cross_entropy(model(x), y).item()"]
)
def test_an_evaluation_that_dominates(tmp_path: Path, body: str, time_steps: TimedScripts) -> None:
    evaluation = EVALUATION.format(body=body)
    timed = time_steps(
        tmp_path,
        f"{HEAD}break_after = 2\nfor epoch in range(3):\n    for x, y in DataLoader(data, 8):{STEP}    if True:{evaluation}",
    )
    record = timed.record
    assert timed.phases[0] == "evaluation"
    assert record["steps"] == 11
    assert record["locations"]["evaluation"]["line"] == timed.line("in DataLoader(Images")
    assert all(epoch["phases"]["evaluation"] for epoch in record["epochs"])
    assert [kind for _, kind, _ in sorted(record["events"])] == ["epoch", "evaluation"] * 3
    assert record["locations"]["input"]["line"] == timed.line("for x, y in DataLoader(data")
    assert record["phases"]["input"] < record["phases"]["evaluation"] / 2


def test_an_evaluation_in_the_middle_of_an_epoch_that_is_left_early(
    tmp_path: Path, time_steps: TimedScripts
) -> None:
    code = f"""{HEAD}
def evaluate():
    with torch.inference_mode():
        for n, (a, b) in enumerate(held_out):
            model(a)
            if n == 2: break
held_out = DataLoader(Images(80, 500), 8)
for epoch in range(2):
    for step, (x, y) in enumerate(DataLoader(data, 8)):{STEP}
        if step % 2: evaluate()
"""
    timed = time_steps(tmp_path, code)
    assert timed.phases[0] == "evaluation"
    assert timed.record["steps"] == 7
    assert timed.record["locations"]["input"]["line"] == timed.line("for step, (x, y)")


def test_an_evaluation_without_a_loader(tmp_path: Path, time_steps: TimedScripts) -> None:
    code = f"""{HEAD}
class Slow(torch.nn.Linear):
    def forward(self, x):
        if not self.training: work(2000)
        return super().forward(x)
model = Slow(8, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(6):
    if True:
        x, y = data[:]{STEP}
    model.eval()
    with torch.no_grad(): model(data[:][0])
    model.train()
"""
    timed = time_steps(tmp_path, code)
    assert timed.phases[0] == "evaluation"
    assert timed.record["steps"] == 5


def test_a_teacher_without_gradients_is_a_part_of_the_forward_pass(
    tmp_path: Path, time_steps: TimedScripts
) -> None:
    code = f"""{HEAD}
teacher = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(200)])
for epoch in range(3):
    for x, y in DataLoader(data, 8):
        with torch.no_grad(): teacher(x)
        if True:{STEP.replace("        ", "            ")}
"""
    timed = time_steps(tmp_path, code)
    assert "evaluation" not in timed.phases
    assert [epoch["steps"] for epoch in timed.record["epochs"]] == [3, 4, 4]


def test_gradient_accumulation_makes_steps_of_several_batches(
    tmp_path: Path, time_steps: TimedScripts
) -> None:
    code = f"""{HEAD}
for epoch in range(2):
    for step, (x, y) in enumerate(DataLoader(data, 4)):
        cross_entropy(model(x), y).backward()
        if step % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
"""
    record = time_steps(tmp_path, code).record
    assert record["steps"] == 3
    assert record["locations"]["input"]["count"] >= 16


def test_two_optimizers_make_one_step_of_a_batch(tmp_path: Path, time_steps: TimedScripts) -> None:
    code = f"""{HEAD}
other = torch.nn.Linear(8, 8)
second = torch.optim.Adam(other.parameters())
for epoch in range(2):
    for x, y in DataLoader(data, 8):{STEP}
        second.zero_grad()
        cross_entropy(model(other(x)), y).backward()
        second.step()
"""
    assert time_steps(tmp_path, code).record["steps"] == 7


def test_two_optimizers_without_a_loader(tmp_path: Path, time_steps: TimedScripts) -> None:
    code = f"""{HEAD}
second = torch.optim.Adam(model.parameters())
for _ in range(8):
    if True:
        x, y = data[:]{STEP}
        second.step()
"""
    assert time_steps(tmp_path, code).record["steps"] == 7


def test_a_step_that_the_gradient_scaler_skips_is_a_part_of_the_next(
    tmp_path: Path, time_steps: TimedScripts
) -> None:
    code = f"""{HEAD}
scaler = torch.amp.GradScaler("cpu")
for epoch in range(2):
    for step, (x, y) in enumerate(DataLoader(data, 4)):
        with torch.autocast("cpu", torch.bfloat16):
            loss = cross_entropy(model(x), y) * (float("inf") if step == 3 else 1)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
"""
    assert time_steps(tmp_path, code).record["steps"] == 13


def test_checkpoints_are_a_phase(tmp_path: Path, time_steps: TimedScripts) -> None:
    code = f"""{HEAD}
large = {{str(n): torch.randn(1000, 1000) for n in range(8)}}
for epoch in range(3):
    for x, y in DataLoader(data, 8):{STEP}
    torch.save(large, "model.pt")
"""
    timed = time_steps(tmp_path, code)
    assert timed.phases[0] == "checkpoint"
    found = timed.record["locations"]["checkpoint"]
    assert (found["line"], found["count"]) == (timed.line("torch.save"), 3)


def test_two_loaders_of_one_loop_are_both_input(tmp_path: Path, time_steps: TimedScripts) -> None:
    code = f"""{HEAD}
for epoch in range(2):
    for (x, y), (z, _) in zip(DataLoader(Images(32, 100), 8), DataLoader(Images(32, 100), 8)):{STEP}
"""
    timed = time_steps(tmp_path, code)
    assert "evaluation" not in timed.phases
    assert timed.record["steps"] == 7


def test_compiled_models_stay_whole(tmp_path: Path, time_steps: TimedScripts) -> None:
    code = f"""{HEAD}
compiled = torch.compile(model, backend="eager", fullgraph=True)
@torch.compile(backend="aot_eager", fullgraph=True)
def loss_of(x, y):
    return cross_entropy(model(x.to(torch.float32)), y)
for epoch in range(3):
    for x, y in DataLoader(data, 8):
        (compiled(x).sum() + loss_of(x, y)).backward()
        optimizer.step()
        optimizer.zero_grad()
from torch._dynamo.utils import counters
print(sum(counters["graph_break"].values()), counters["stats"]["unique_graphs"])
"""
    timed = time_steps(tmp_path, code)
    assert timed.output == "0 2\n"
    assert timed.record["steps"] == 11
    assert "evaluation" not in timed.phases


def test_models_can_be_copied_pickled_scripted_and_traced(tmp_path: Path, time_steps: TimedScripts) -> None:
    code = f"""{HEAD}
import copy, io, pickle
for epoch in range(2):
    for x, y in DataLoader(data, 8):{STEP}
copy.deepcopy(model)
pickle.loads(pickle.dumps(model))
assert b"gpuproof" not in pickle.dumps(model)
for function in (
    *(torch.save, torch.autograd.backward, torch.cuda.synchronize, torch.Tensor.to, torch.Tensor.item),
    *(torch.distributed.all_reduce, torch.nn.Module.__call__),
):
    assert pickle.loads(pickle.dumps(function)) is function
copy.deepcopy(DataLoader(data, 8)), pickle.loads(pickle.dumps(DataLoader(data, 8)))
torch.jit.script(model)
torch.jit.trace(model, x)
torch.fx.symbolic_trace(model)
torch.export.export(model, (x,))
print("done")
"""
    assert time_steps(tmp_path, code).output == "done\n"


def test_without_the_variable_nothing_changes_but_with_it_tracebacks_are_the_same(tmp_path: Path) -> None:
    code = f"""{HEAD}
import sys
failures = (
    lambda: cross_entropy(model(x[:, :3]), y).backward(),
    lambda: torch.ones(2).backward(),
    lambda: DataLoader(data, batch_size=0),
    lambda: next(iter(DataLoader([object()]))),
    lambda: torch.save(lambda: 1, "model.pt"),
)
for epoch in range(2):
    for x, y in DataLoader(data, 8):{STEP}
for fail in failures:
    try: fail()
    except Exception as error: sys.excepthook(type(error), error, error.__traceback__)
print(torch.nn.Module.__call__.__module__)
failures[0]()
"""
    with_hooks = run_timed(tmp_path, code)
    assert len(with_hooks.records) == 1
    (tmp_path / "steps" / f"{with_hooks.record['pid']}.json").unlink()
    without = run_timed(tmp_path, code, hooks=False)
    assert (without.output, without.records) == ("torch.nn.modules.module\n", [])
    assert with_hooks.code == without.code == 1
    assert with_hooks.errors.count("Traceback") >= 6
    assert with_hooks.errors == without.errors


def test_a_script_that_trains_nothing_writes_nothing(tmp_path: Path, time_steps: TimedScripts) -> None:
    assert time_steps(tmp_path, f"{HEAD}model(torch.ones(1, 8)).sum().item()").records == []


def test_optimizers_of_older_versions_of_pytorch(tmp_path: Path) -> None:
    code = f"""
import os, sys, torch
# Until 2.0, there are no hooks of all optimizers.
optimizers = sys.modules["torch.optim.optimizer"]
del optimizers.register_optimizer_step_pre_hook, optimizers.register_optimizer_step_post_hook
del torch.cuda.is_current_stream_capturing
os.environ["GPUPROOF_STEPS"] = os.path.abspath("steps")
from gpuproof.runtime.steps.install import install
install("torch_hooks", torch)
{HEAD}
for epoch in range(2):
    for x, y in DataLoader(data, 8):{STEP}
"""
    timed = run_timed(tmp_path, code, hooks=False)
    assert timed.code == 0, timed.errors
    assert timed.record["steps"] == 7
    assert timed.record["phases"]["optimizer"] > 0


@pytest.mark.parametrize(
    ("before", "head", "precision"),
    [
        ("", "", "float32"),
        ("model.bfloat16(); data.tensors = (data.tensors[0].bfloat16(), data.tensors[1])", "", "bfloat16"),
        ("", "with torch.autocast('cpu', torch.bfloat16):", "bfloat16"),
    ],
    ids=["parameters", "bfloat16", "autocast"],
)
def test_the_precision_is_that_of_autocast_or_else_of_the_parameters(
    tmp_path: Path, time_steps: TimedScripts, before: str, head: str, precision: str
) -> None:
    loop = f"""
for x, y in DataLoader(data, batch_size=8):
    optimizer.zero_grad()
    {head or "if True:"}
        loss = cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
    timed = time_steps(tmp_path, f"{HEAD}{before}{loop}")
    assert timed.record["precision"] == precision
