"""torch's launcher in a process of the agent."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCH = (
    "import sys; from gpuproof.agent.ranks.torchrun import run_torchrun; sys.exit(run_torchrun(sys.argv[1:]))"
)
STOPPED_WHILE_STARTING = """
import os, signal, sys
from torch.distributed.elastic.multiprocessing import api
from gpuproof.agent.ranks.torchrun import run_torchrun

start_rank = api.get_subprocess_handler

def start_and_be_stopped(**arguments):
    start_rank(**arguments)
    os.kill(os.getpid(), signal.SIGTERM)

api.get_subprocess_handler = start_and_be_stopped
sys.exit(run_torchrun(sys.argv[1:]))
"""
SCRIPT = """
import time
print("running", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_launcher_that_is_stopped_prints_no_traceback(tmp_path: Path) -> None:
    process = launch(LAUNCH, tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in errors


@pytest.mark.slow
def test_ranks_of_a_launcher_that_is_stopped_while_it_starts_them_are_ended(tmp_path: Path) -> None:
    process = launch(STOPPED_WHILE_STARTING, tmp_path)
    process.communicate(timeout=120)  # the end of the output: no rank has the pipe any more
    assert process.returncode == 128 + signal.SIGTERM


def launch(program: str, folder: Path) -> subprocess.Popen[str]:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    words = ["--nnodes", "1", "--nproc_per_node", "1", "--master_port", "0", str(script)]
    return subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
