"""Types that a type checker sees in a user's program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """from typing import assert_type

import gpuproof
from gpuproof.app.endpoints.deploy import DeployedEndpoint
from gpuproof.backends.base import Plan, Run
from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.run import EC2Run
from gpuproof.backends.local.run import LocalRun
from gpuproof.backends.sagemaker.endpoints.plan import EndpointPlan
from gpuproof.backends.sagemaker.plan import SageMakerPlan

job = gpuproof.TrainingJob(entry_point="train.py")
assert_type(gpuproof.run(job), LocalRun)
assert_type(gpuproof.run(job, on="sagemaker", dry_run=True), SageMakerPlan)
assert_type(gpuproof.run(job, on="ec2", dry_run=True), EC2Plan)
assert_type(gpuproof.run(job, on="ec2", wait=False), EC2Run)
assert_type(gpuproof.run(job, on="ec2", dry_run=False, check=False, logs=None), EC2Run)
assert_type(gpuproof.run(job, on="cheapest"), Run)


def run_on(backend: str) -> None:
    assert_type(gpuproof.run(job, on=backend, dry_run=True), Plan)
    gpuproof.run(job, on=backend, python="python3")


endpoint = gpuproof.EndpointJob(model="digits", instance_type="ml.g5.xlarge")
assert_type(gpuproof.deploy(endpoint), DeployedEndpoint)
assert_type(gpuproof.deploy(endpoint, dry_run=True), EndpointPlan)
"""


@pytest.mark.slow
def test_run_has_the_types_of_each_backend(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
