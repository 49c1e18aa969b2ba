"""The launcher and its options arrive in the agent's job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.job import AgentJob
from gpuproof.agent.launch.registry import LAUNCHERS
from gpuproof.backends.agent_job.document import job_document, shown_job_document
from gpuproof.backends.agent_job.launch_settings import (
    LaunchSettings,
    launch_settings,
    new_cluster_key,
    script_uses,
)
from gpuproof.catalogue.model import Price
from gpuproof.jobs import ProcessingJob, TrainingJob
from gpuproof.jobs.distribution import launchers
from gpuproof.jobs.distribution.choose import ScriptUse

AGENT_JOB = AgentJob("run", "job", "training", "train.py", "python3", "/opt/ml/checkpoints")


def training(**keys: Any) -> TrainingJob:
    return TrainingJob(**{"entry_point": "train.py", "source_dir": "/src", **keys})


def test_a_job_without_distribution_is_started_plainly() -> None:
    assert launch_settings(training(), (), 4) == LaunchSettings()
    assert launch_settings(training(distribution="none", stall_timeout="2m"), (), 0).stall_timeout == 120.0


def test_options_of_mpirun_are_split_like_a_command_line() -> None:
    job = training(
        distribution={"launcher": "mpi", "processes_per_host": 2, "mpi_options": "-x 'A=b c' --verbose"}
    )
    agent_job = launch_settings(job, (), 2).apply(AGENT_JOB, "")
    assert (agent_job.launcher, agent_job.processes_per_host) == ("mpi", 2)
    assert agent_job.mpi_options == ("-x", "A=b c", "--verbose")


def test_the_agent_has_every_launcher() -> None:
    assert set(LAUNCHERS) == set(launchers.LAUNCHERS) - {launchers.AUTO}


def test_the_key_of_several_hosts_is_random_and_not_shown() -> None:
    assert new_cluster_key(training()) == ""
    key, other = (new_cluster_key(training(instance_count=2)) for _ in range(2))
    assert key != other
    assert len(bytes.fromhex(key)) == 32
    agent_job = LaunchSettings().apply(AGENT_JOB, key)
    assert job_document(agent_job)["cluster_key"] == key
    assert shown_job_document(agent_job)["cluster_key"] == "hidden"


USES = (ScriptUse("torchrun", "uses torch.distributed", "train.py"),)


def test_auto_is_resolved_with_its_reason() -> None:
    settings = launch_settings(training(distribution="auto", instance_count=2), USES, 4)
    assert settings.launcher == "torchrun"
    assert settings.notes == ()
    shown = settings.describe(4, 2)
    assert shown == "torchrun (train.py uses torch.distributed; 4 GPUs on each of 2 hosts)"


def test_an_unknown_script_says_what_is_paid_and_adds_nothing() -> None:
    price = Price(
        "sagemaker",
        "training",
        "ml.g5.12xlarge",
        "us-east-1",
        "on-demand",
        10.0,
        None,
        "observed",
        "high",
        "x",
        "2026-01-01",
    )
    settings = launch_settings(training(distribution="auto", instance_count=2), (), 4, price)
    assert settings.launcher == "none"
    (note,) = settings.notes
    assert note.startswith("7 of 8 GPUs may add nothing, $17.50 of $20.00 an hour: ")


def test_auto_is_suggested_where_it_would_choose_something() -> None:
    (note,) = launch_settings(training(), USES, 4).notes
    assert "distribution: auto would choose torchrun (train.py uses torch.distributed; 4 GPUs" in note
    assert launch_settings(training(), USES, 1).notes == ()
    assert launch_settings(training(distribution="none"), USES, 4).notes == ()
    mirrored = [ScriptUse("mirrored", "uses MirroredStrategy", "train.py")]
    assert launch_settings(training(), mirrored, 4).notes == ()


@pytest.mark.parametrize(
    ("distribution", "gpus", "hosts", "text"),
    [
        (None, 4, 1, None),
        ("none", 4, 1, None),
        (None, 4, 2, "none (1 process on each of 2 hosts)"),
        ("torchrun", 4, 2, "torchrun (4 processes on each of 2 hosts)"),
        ("torchrun", 0, 1, "torchrun (1 process on one host)"),
        ("mirrored", 4, 1, "mirrored (1 process on one host)"),
        ({"launcher": "mpi", "processes_per_host": 8}, 4, 1, "mpi (8 processes on one host)"),
    ],
)
def test_the_plan_shows_launcher_and_processes(
    distribution: Any, gpus: int, hosts: int, text: str | None
) -> None:
    job = training(distribution=distribution, instance_count=hosts)
    assert launch_settings(job, (), gpus).describe(gpus, hosts) == text


@pytest.mark.parametrize(("processes", "word"), [(2, "may stay idle"), (8, "NCCL"), (4, None)])
def test_another_number_of_processes_than_gpus_is_noted(processes: int, word: str | None) -> None:
    job = training(distribution={"launcher": "torchrun", "processes_per_host": processes})
    notes = launch_settings(job, (), 4).notes
    assert (word in notes[0]) if word else notes == ()
    assert launch_settings(job, (), 0).notes == ()


def test_the_script_is_read_only_where_there_is_something_to_choose(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("from mpi4py import MPI")

    def found(gpus: int, **keys: Any) -> int:
        return len(script_uses(training(source_dir=str(tmp_path), **keys), gpus))

    assert found(2) == found(0, instance_count=2) == found(2, distribution="auto") == 1
    assert found(1) == found(4, distribution="torchrun") == 0
    assert script_uses(ProcessingJob(entry_point="train.py", source_dir=str(tmp_path)), 4) == ()
