"""CUDA events as a clock, with events whose time the test decides; no GPU was at hand for more than that, but for the last test."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, SimpleNamespace

import pytest

from gpuproof.runtime.steps.cuda_clock import CudaClock
from gpuproof.runtime.steps.ledger import Ledger
from gpuproof.runtime.steps.recorder import Recorder
from support.optional_packages import skip_without
from support.timed_scripts import run_timed


class Gpu:
    """A GPU that reaches an event when the test says so."""

    def __init__(self) -> None:
        self.queued: list[Event] = []
        self.events = 0
        self.capturing = False

    def Event(self, enable_timing: bool) -> Event:  # noqa: N802 - as in torch.cuda
        assert enable_timing
        self.events += 1
        return Event(self)

    def current_stream(self) -> str:
        return "stream"

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def reach(self, *milliseconds: float) -> None:
        """Reach the next events of the stream at these times."""
        for time in milliseconds:
            self.queued.pop(0).time = time


class Event:
    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.time: float | None = None

    def record(self, stream: str) -> None:
        assert not self._gpu.capturing
        self.time = None
        self._gpu.queued.append(self)

    def query(self) -> bool:
        return self.time is not None

    def elapsed_time(self, later: Event) -> float:
        assert self.time is not None
        assert later.time is not None
        return later.time - self.time


@pytest.fixture
def gpu() -> Gpu:
    return Gpu()


@pytest.fixture
def recorder(tmp_path: Path, gpu: Gpu) -> Recorder:
    recorder = Recorder(str(tmp_path))
    recorder.use_clock(lambda ledger: CudaClock(SimpleNamespace(cuda=gpu), ledger))
    return recorder


def step(recorder: Recorder, *phases: str) -> None:
    for phase in phases:
        recorder.begin(phase)
        recorder.end(phase)
    recorder.step()


def test_time_is_that_of_the_gpu_and_counts_once_it_has_come(recorder: Recorder, gpu: Gpu) -> None:
    step(recorder, "forward")
    step(recorder, "input", "forward")
    assert recorder.document()["seconds"] == 0
    gpu.reach(0, 10, 20, 30)  # the clock's first event, and the first step
    gpu.reach(30, 130, 130, 330)  # begin and end of input and forward
    gpu.reach(380)
    step(recorder)
    document = recorder.document()
    assert document["clock"] == "cuda"
    assert {name: value for name, value in document["phases"].items() if value} == {
        "input": 0.1,
        "forward": 0.2,
        "rest": 0.05,
    }
    assert (document["steps"], document["median_step_s"]) == (1, 0.35)


def test_nothing_waits_for_an_event_that_is_not_reached(recorder: Recorder, gpu: Gpu) -> None:
    for _ in range(50):
        step(recorder, "forward")
    assert recorder.document()["steps"] == 0
    assert recorder.steps == 50
    assert recorder.active


def test_events_are_used_again(recorder: Recorder, gpu: Gpu) -> None:
    for number in range(100):
        step(recorder, "forward", "backward")
        gpu.reach(*(number * 10.0 + place for place in range(len(gpu.queued))))
    assert gpu.events < 20


def test_events_of_another_order_never_count_backwards(recorder: Recorder, gpu: Gpu) -> None:
    step(recorder)
    step(recorder, "forward")
    gpu.reach(0, 10, 20, 5, 30)
    step(recorder)
    assert all(seconds >= 0 for seconds in recorder.document()["phases"].values())


def test_nothing_is_recorded_into_a_graph_that_is_captured(recorder: Recorder, gpu: Gpu) -> None:
    step(recorder)
    gpu.capturing = True
    step(recorder, "forward")
    gpu.capturing = False
    assert recorder.active


def test_events_that_never_come_end_the_recording(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuproof.runtime.steps.cuda_clock._MOST_PENDING", 10)
    for _ in range(20):
        step(recorder, "forward")
    assert not recorder.active
    assert "pending" in recorder.document()["notes"][0]


def test_a_long_evaluation_keeps_few_events(recorder: Recorder, gpu: Gpu) -> None:
    step(recorder, "forward")
    recorder.begin("evaluation")
    for _ in range(5000):
        recorder.begin("forward")
        recorder.end("forward")
        gpu.reach(*([1.0] * len(gpu.queued)))
    recorder.end("evaluation")
    assert recorder.active
    assert gpu.events < 1000


def test_changes_of_the_ledger_keep_their_place(gpu: Gpu) -> None:
    ledger = Ledger()
    clock = CudaClock(SimpleNamespace(cuda=gpu), ledger)
    order: list[str] = []
    calls: list[Callable[[], None]] = [lambda: order.append("first"), lambda: order.append("second")]
    clock.call(calls[0])
    clock.mark("forward")
    clock.call(calls[1])
    clock.poll()
    assert order == ["first"]
    gpu.reach(0, 1)
    clock.poll()
    assert order == ["first", "second"]


@pytest.mark.parametrize(("file", "counts"), [("train.py", True), ("torch/amp/grad_scaler.py", False)])
def test_values_that_grad_scaler_reads_are_no_synchronization_of_the_script(
    tmp_path: Path, file: str, counts: bool
) -> None:
    skip_without("torch")
    import torch

    from gpuproof.runtime.steps.torch_loop import TorchLoop

    loop = TorchLoop(torch, Recorder(str(tmp_path)))
    loop.uses_cuda = True
    frames: list[FrameType] = []
    code = compile("frames.append(sys._getframe())", file, "exec")
    exec(code, {"frames": frames, "sys": sys})
    assert loop.may_wait(SimpleNamespace(is_cuda=True), frames[0]) is counts


@pytest.mark.gpu
def test_a_copy_bound_script_on_a_real_gpu(tmp_path: Path) -> None:
    timed = run_timed(
        tmp_path,
        "import torch\n"
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "data = TensorDataset(torch.randn(64, 1 << 22))\n"
        "model = torch.nn.Linear(16, 1).cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
        "for epoch in range(4):\n"
        "    for (x,) in DataLoader(data, 8, collate_fn=lambda rows: (rows[0][0].expand(8, -1).contiguous(),)):\n"
        "        x = x.cuda()\n"
        "        model(x[:, :16]).sum().backward()\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()\n",
        CUDA_VISIBLE_DEVICES="0",
    )
    assert timed.code == 0, timed.errors
    assert timed.record["clock"] == "cuda"
    assert timed.record["locations"]["copy"]["line"] == timed.line("x.cuda()")
    assert timed.record["locations"]["copy"]["settings"]["pinned"] is False
    assert timed.record["phases"]["copy"] > timed.record["phases"]["backward"]
