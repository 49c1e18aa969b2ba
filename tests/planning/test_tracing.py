"""Tracing in a child process: it may crash, hang or end early; the error says what happened, and nothing is left running."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from gpuproof.planning import tracing
from gpuproof.planning.tracing import NotTraceable, TraceRequest, trace_script, trace_two_batch_sizes
from gpuproof.trace.document import Trace, TraceFailure, read_trace
from support.cli_sandbox import until
from support.traced_scripts import run_tracer

pytestmark = pytest.mark.slow

LOADER = """
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (rows,) in DataLoader(TensorDataset(torch.randn(400, 8)), batch_size=20):
    model(rows.cuda()).sum().backward()
    optimizer.step()
"""


def request(folder: Path, script: str, **keys: object) -> TraceRequest:
    path = folder / "train.py"
    path.write_text(script)
    return TraceRequest(path, **{"timeout": 200.0, **keys})  # type: ignore[arg-type]


def failure(folder: Path, script: str, **keys: object) -> NotTraceable:
    with pytest.raises(NotTraceable) as caught:
        trace_script(request(folder, script, **keys))
    return caught.value


def test_a_script_at_two_batch_sizes(tmp_path: Path) -> None:
    traced = trace_two_batch_sizes(request(tmp_path, LOADER))
    assert traced.larger is not None
    assert (traced.trace.input.samples, traced.larger.input.samples) == (20, 40)
    assert (traced.trace.input.steps_per_epoch, traced.larger.input.steps_per_epoch) == (20, 10)


def test_a_script_without_a_loader_has_one_size_and_the_reason(tmp_path: Path) -> None:
    script = LOADER.replace(
        "for (rows,) in DataLoader(TensorDataset(torch.randn(400, 8)), batch_size=20):",
        "for rows in [torch.randn(20, 8)] * 9:",
    )
    traced = trace_two_batch_sizes(request(tmp_path, script))
    assert traced.larger is None
    assert "no DataLoader" in traced.reason


def test_another_interpreter_gets_what_it_needs_of_gpuproof(tmp_path: Path) -> None:
    folder = Path(sys.executable).parent
    other = folder / ".." / folder.name / "python"
    script = LOADER.replace("import torch\n", "import torch\nimport gpuproof.runtime as rt\n", 1)
    assert trace_script(request(tmp_path, script, python=str(other))).steps == 3


def test_a_crash_names_the_signal_and_shows_the_last_output(tmp_path: Path) -> None:
    script = "import os, signal\nprint('about to crash', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)\n"
    error = failure(tmp_path, script)
    assert error.failure.code == "crash"
    assert "SIGSEGV" in error.message
    assert "about to crash" in error.message
    assert "line 3" in error.message  # by faulthandler


def test_an_exit_without_cleanup(tmp_path: Path) -> None:
    error = failure(tmp_path, "import os\nos._exit(3)\n")
    assert (error.failure.code, "exit code 3" in error.message) == ("crash", True)


def test_a_hang_in_native_code_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "_GRACE_S", 15.0)
    # PyDLL keeps the interpreter's lock, so that the tracer's own watch cannot run.
    error = failure(tmp_path, "import ctypes\nctypes.PyDLL(None).sleep(3600)\n", timeout=1.0)
    assert error.failure.code == "timeout"
    assert "--timeout" in (error.remedy or "")


def test_processes_that_a_script_started_end_with_it(tmp_path: Path) -> None:
    script = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
raise ValueError(f"bad sample {child.pid}.")
"""
    error = failure(tmp_path, script)
    found = re.search(r"bad sample (\d+)\.", error.message)
    assert found is not None
    pid = int(found[1])
    until(lambda: not _runs(pid), "the end of the script's child")


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_the_second_trace_ends_with_the_first_where_it_would_say_nothing(tmp_path: Path) -> None:
    script = LOADER.replace(
        "for (rows,) in DataLoader(TensorDataset(torch.randn(400, 8)), batch_size=20):",
        "import sys, time\nif '--batch-scale=2' in ' '.join(open('/proc/self/cmdline').read().split(chr(0))).replace("
        "'--batch-scale 2', '--batch-scale=2'):\n    time.sleep(600)\nfor rows in [torch.randn(20, 8)] * 9:",
    )
    traced = trace_two_batch_sizes(request(tmp_path, script, timeout=1200.0))
    assert traced.larger is None
    assert "no DataLoader" in traced.reason


EVALUATES = LOADER.replace(
    "optimizer = ", "for _ in range(30):\n    model(torch.zeros(20, 8).cuda())\noptimizer = "
)


def test_a_script_that_uses_its_model_long_before_it_has_a_loader_has_two_sizes(tmp_path: Path) -> None:
    traced = trace_two_batch_sizes(request(tmp_path, EVALUATES))
    assert traced.larger is not None
    assert (traced.trace.input.samples, traced.larger.input.samples) == (20, 40)


def test_a_second_trace_that_probably_says_nothing_waits_for_the_first(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(EVALUATES)
    options = ["--batch-scale", "2", "--timeout", "5", "--output"]
    for first in (tmp_path / "missing", tmp_path / "train.py"):
        run_tracer([*options, f"{first}.json", "--after", str(first), "--", "train.py"], tmp_path, {"torch"})
    assert isinstance(waited := read_trace((tmp_path / "missing.json").read_text()), TraceFailure)
    assert waited.code == "timeout"
    assert isinstance(read_trace((tmp_path / "train.py.json").read_text()), Trace)
