"""On a real NVIDIA GPU, with a CUDA build of torch: every door judges work, idleness and a program on the CPU alike.

`make test-gpu` runs it. What the stub shows in `test_verdicts.py` is what a GPU shows here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.agent.verdict import CPU_ONLY, IDLE, USED
from gpuproof.gpu.nvml import count_gpus
from support.cli_sandbox import CliSandbox
from support.doors import CELL, DOORS, Watched, audit

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

WORK = """
import time, torch
x = torch.randn(4096, 4096, device="cuda")
end = time.monotonic() + 4
while time.monotonic() < end:
    x = torch.tanh(x @ x)
    torch.cuda.synchronize()
"""
HOLD = """
import time, torch
x = torch.ones(4096, 4096, device="cuda")
torch.cuda.synchronize()
time.sleep(8)
"""
NOTHING = """
import time, torch
torch.ones(8) @ torch.ones(8)
time.sleep(2)
"""
PROGRAMS = {USED: WORK, IDLE: HOLD, CPU_ONLY: NOTHING}
"""By their verdict."""
INSTANCE_TYPE = "ml.g5.xlarge"
"""A type with one GPU; which one does not matter."""


@pytest.fixture(scope="module", autouse=True)
def cuda_torch() -> None:
    """One GPU, and a torch that can use it. Probed in a process of its own: this one must not hold a context."""
    if count_gpus() != 1:
        pytest.skip("this needs exactly one NVIDIA GPU")
    probe = "import torch; assert torch.cuda.is_available()"
    asked = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    if asked.returncode:
        pytest.skip(f"torch cannot use the GPU here: {asked.stderr.strip().splitlines()[-1]}")


@pytest.mark.parametrize(
    ("door", "outcome"),
    [*((door, outcome) for door in DOORS for outcome in (USED, CPU_ONLY)), ("watch", IDLE)],
)
def test_every_door_judges_what_a_real_gpu_did(
    door: str, outcome: str, cli: CliSandbox, tmp_path: Path
) -> None:
    if door == CELL:
        pytest.importorskip("ipykernel")
    assert DOORS[door](Watched(cli, tmp_path, PROGRAMS[outcome], INSTANCE_TYPE, {})) == outcome


@pytest.mark.parametrize("outcome", [USED, CPU_ONLY])
def test_an_audit_judges_what_the_emulator_measured_of_a_real_gpu(
    outcome: str, cli: CliSandbox, tmp_path: Path
) -> None:
    pytest.importorskip("moto")
    found, reason = audit(Watched(cli, tmp_path, PROGRAMS[outcome], INSTANCE_TYPE, {}))
    assert found == outcome, reason
