"""The articles' scripts run to the end without a GPU, and only the verdict says that they did not use one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.article_blocks import BLOCKS, copy_block
from support.cli_sandbox import CliSandbox

pytestmark = [pytest.mark.slow, pytest.mark.journey]


@pytest.mark.parametrize(
    ("folder", "line"),
    [
        ("ec2_tensorflow/gpu_check", "placed on /job:localhost/replica:0/task:0/device:CPU:0"),
        ("ec2_tensorflow/memory_growth", "there is no GPU"),
        ("aws_cuda_tensorflow/gpu_configuration", "GPUs: 0"),
        ("sagemaker_gpus/visible_devices", "there is no GPU"),
    ],
)
def test_a_script_that_finds_no_gpu(sandbox: CliSandbox, folder: str, line: str) -> None:
    sandbox.project.rmdir()
    copy_block(folder, sandbox.project)
    done = sandbox.gpuproof("run", "--no-check")
    assert done.returncode == 4, done.stderr
    assert line in done.stdout
    assert "cpu-only" in done.stderr


def test_both_frameworks_report_no_gpu(sandbox: CliSandbox) -> None:
    script = BLOCKS / "t3_without_gpu" / "notebook" / "check_gpu.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["PyTorch sees no GPU", "TensorFlow sees no GPU"], done.stderr
    facts = sandbox.gpuproof("gpus", "ml.t3.2xlarge")
    assert facts.stdout.startswith("ml.t3.2xlarge: no GPU\n")
    assert "\ninstead    ml.g4dn.xlarge" in facts.stdout
