"""Jobs with two hosts from `gpuproof run --on ec2` to the merged verdict, with each kind of launcher."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.aws_emulator import RunningEmulator
from support.booting_account import Project, booting_account

pytestmark = pytest.mark.slow

JOB = """
name: two-hosts
entry_point: train.py
instance_type: g5.xlarge
instance_count: 2
require_gpu: false
max_duration: 1h
distribution: {distribution}
"""
TORCH = """
import os, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group("gloo", timeout=timedelta(seconds=300))
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
print("rank", dist.get_rank(), "sum", total.item(), flush=True)
dist.barrier()
dist.destroy_process_group()
"""
WAITING = """
import time
print("waiting", flush=True)
time.sleep(3600)
"""
MPI = """
import socket
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
print("rank", world.rank, "of", world.size, "on", socket.gethostname(), "sum", total, flush=True)
"""
TENSORFLOW = """
import json, os
import tensorflow as tf
import gpuproof.runtime as rt
strategy = rt.strategy()
with strategy.scope():
    weight = tf.Variable(1.0)
optimizer = tf.keras.optimizers.SGD(0.1)
@tf.function
def step(rows):
    def one(rows):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(weight * rows - 3.0 * rows))
        gradient = tape.gradient(loss, weight)
        summed = tf.distribute.get_replica_context().all_reduce("sum", gradient)
        weight.assign_sub(0.01 * summed)
        return loss
    return strategy.reduce("sum", strategy.run(one, (rows,)), axis=None)
index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
for _ in range(3):
    loss = step(tf.constant([1.0, 2.0]) * (index + 1))
print("weight", round(float(weight.numpy()), 4), "replicas", strategy.num_replicas_in_sync, flush=True)
"""


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    with booting_account(tmp_path_factory.mktemp("account")) as emulator:
        yield emulator


@pytest.fixture
def project(account: RunningEmulator, tmp_path: Path) -> Iterator[Project]:
    made = Project(account, tmp_path / "project")
    yield made
    made.assert_only_runs_are_left()


def newest(project: Project) -> str:
    """The id of the newest run."""
    return json.loads(project.run("ps", "--on", "ec2", "--format", "json"))["runs"][0]["id"]


def test_torchrun_trains_on_two_instances(project: Project) -> None:
    pytest.importorskip("torch")
    project.write(TORCH, JOB.format(distribution="torchrun"))
    printed = project.run("run", "--on", "ec2", "--no-check")
    assert "rank 0 sum 3.0" in printed
    assert "rank 1 sum 3.0" in printed
    shown = json.loads(project.run("show", newest(project), "--format", "json"))
    assert shown["run"]["status"] == "Completed"
    assert [host["host"] for host in shown["verdict"]["hosts"]] == ["algo-1", "algo-2"]


def test_mpi_runs_on_two_instances(project: Project) -> None:
    pytest.importorskip("mpi4py")
    if not Path(sys.executable).with_name("mpirun").exists():
        pytest.skip("Open MPI is not installed")
    job = JOB.format(distribution="{launcher: mpi, processes_per_host: 1}")
    project.write(MPI, f"{job}framework: pytorch\n")
    printed = project.run("run", "--on", "ec2", "--no-check")
    found = re.findall(r"rank (\d) of 2 on (i-\w+) sum 3", printed)
    assert sorted(rank for rank, _ in found) == ["0", "1"], printed
    assert len({host for _, host in found}) == 2, printed


def test_tensorflow_trains_one_model_on_two_instances(project: Project) -> None:
    pytest.importorskip("tensorflow")
    project.write(TENSORFLOW, JOB.format(distribution="multi_worker_mirrored"))
    printed = project.run("run", "--on", "ec2", "--no-check")
    weights = [line for line in printed.splitlines() if "replicas 2" in line]
    assert len(weights) == 2
    assert len({line.partition("weight ")[2] for line in weights}) == 1, weights


def test_an_instance_that_is_terminated_ends_the_job_on_the_other(project: Project) -> None:
    project.write(WAITING, f"{JOB.format(distribution='torchrun')}framework: pytorch\n")
    project.run("run", "--on", "ec2", "--no-check", "--detach")
    run = newest(project)
    project.wait_for(lambda: project.run("logs", run).count("waiting") == 2)
    _, second = sorted(project.running_instances(), key=lambda one: one["AmiLaunchIndex"])
    project.account.client("ec2").terminate_instances(InstanceIds=[second["InstanceId"]])
    project.run("wait", run, code=1)
    shown = json.loads(project.run("show", run, "--format", "json"))
    assert shown["run"]["status"] == "Failed"
    assert "algo-2" in shown["run"]["failure_reason"]
    project.wait_until_terminated()
