"""torch's launcher in a process of the agent."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCH = (
    "import sys; from gpuproof.agent.ranks.torchrun import run_torchrun; sys.exit(run_torchrun(sys.argv[1:]))"
)
SCRIPT = """
import time
print("running", flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_launcher_that_is_stopped_prints_no_traceback(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    words = ["--nnodes", "1", "--nproc_per_node", "1", "--master_port", "0", str(script)]
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in errors
