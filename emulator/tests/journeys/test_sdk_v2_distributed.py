"""The SageMaker SDK v2 itself, unchanged, trains with `distribution=` on the emulator."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.digits import check_training
from support.emulator_jobs import Account
from support.sdk_scripts import run_script

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.xdist_group("sagemaker-v2")]


def test_fit_starts_the_launcher_on_every_host(aws: Account, tmp_path: Path) -> None:
    jobs = run_script("v2_distributed", "sagemaker-v2", aws.emulator, aws.bucket, tmp_path, aws.emulator.role)

    check_training(_lines(aws, jobs["torch_distributed"]), 2)

    line = next(line for line in _lines(aws, jobs["mpi"]) if "MPI" in line)
    # mpirun repeats its tag where a rank's output arrives in parts.
    ranks = json.loads(re.sub(r"\[1,0\]<stdout>:", "", line).partition("MPI")[2])
    assert [(rank["rank"], rank["local_rank"], rank["host"]) for rank in ranks] == [
        *((0, 0, "algo-1"), (1, 1, "algo-1"), (2, 0, "algo-2"), (3, 1, "algo-2"))
    ]
    assert sorted(number for rank in ranks for number in rank["part"]) == [*range(20)]
    assert {(rank["total"], rank["current_host"], rank["nccl_debug"]) for rank in ranks} == {
        (sum(range(20)), "algo-1", "WARN")
    }

    first, second = _reports(aws, jobs["multi_worker_mirrored_strategy"])
    assert [report["host"] for report in (first, second)] == ["algo-1", "algo-2"]
    assert first["config"] == {
        "cluster": {"worker": ["algo-1:8890", "algo-2:8890"]},
        "environment": "cloud",
        "task": {"index": 0, "type": "worker"},
    }
    assert (first["mine"], second["mine"]) == (0 + 2 + 4 + 6, 1 + 3 + 5 + 7)
    assert first["total"] == second["total"] == sum(range(8))

    # As in AWS's image, where a single host runs the script without TF_CONFIG.
    assert _reports(aws, jobs["parameter_server"]) == [{"host": "algo-1", "config": None}]


def test_parameter_servers_of_two_hosts_train_a_script_for_tensorflow_2(aws: Account, tmp_path: Path) -> None:
    script = "v2_parameter_server"
    jobs = run_script(script, "sagemaker-v2", aws.emulator, aws.bucket, tmp_path, aws.emulator.role)
    cluster = {
        "master": ["algo-1:2222"],
        "ps": ["algo-1:2223", "algo-2:2223"],
        "worker": ["algo-2:2222"],
    }
    for strategy in ("runtime", "own"):
        first, trained, second = _reports(aws, jobs[strategy])
        assert [(report["host"], report["given"]["task"]) for report in (first, second)] == [
            ("algo-1", {"index": 0, "type": "master"}),
            ("algo-2", {"index": 0, "type": "worker"}),
        ]
        assert first["given"]["cluster"] == second["given"]["cluster"] == cluster
        # y = 2x + 1, learnt by the worker, with a variable on the server of each host.
        assert (trained["slope"], trained["intercept"]) == (2.0, 1.0)
        assert trained["losses"][-1] < 0.001 < trained["losses"][0]
        assert trained["servers"] == ["/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"]
        # algo-2 has served to the end, and has left nothing.
        model = aws.archive(f"{jobs[strategy]}/output/model.tar.gz")
        assert json.loads(model["weights.json"]) == [2.0, 1.0]


def _reports(aws: Account, job: str) -> list[dict[str, Any]]:
    """What the script has printed on each host."""
    return [json.loads(line) for line in _lines(aws, job) if line.startswith("{")]


def _lines(aws: Account, job: str) -> list[str]:
    ended = aws.ended(job)
    hosts = [f"algo-{number + 1}" for number in range(ended["ResourceConfig"]["InstanceCount"])]
    lines = [line for host in hosts for line in aws.log(job, host)]
    assert ended["TrainingJobStatus"] == "Completed", "\n".join([ended["FailureReason"], *lines])
    return lines
