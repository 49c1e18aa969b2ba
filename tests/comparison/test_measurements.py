"""What is taken from a run's verdict and record, and what is left out of a file that is committed."""

from __future__ import annotations

import json

import pytest

from gpuproof.agent.verdict import Energy, GpuVerdict, Throughput, Verdict
from gpuproof.agent.verdict.evidence import Intensity, Mfu, RankSteps, Steps, StepTimes, StepWindow
from gpuproof.comparison.measurements import RunMeasurements, measurements, script_arguments

GIB = 1 << 30
TOTAL = StepTimes(100, 50.0, {"input": 10.0, "forward": 15.0, "backward": 25.0})
WINDOWS = (
    *(StepWindow(10.0 * number, 20, 10.0, 9.0) for number in range(1, 6)),
    StepWindow(51.0, 1, 1.0, 1.0),
)
VERDICT = Verdict(
    "used",
    "",
    gpus=(
        GpuVerdict(
            0,
            "NVIDIA A10G",
            worked=True,
            peak_memory=3 * GIB,
            mean_utilization=90.0,
            mean_power_w=200.0,
            intensity=Intensity("gpm", sm_active=0.5),
        ),
        GpuVerdict(1, "NVIDIA A10G", worked=True, peak_memory=5 * GIB, mean_utilization=70.0),
        GpuVerdict(2, "NVIDIA A10G", worked=False, peak_memory=9 * GIB),
    ),
    gpus_working=2,
    throughput=Throughput(640.0, 64000, 100.0, windows=(600.0, 680.0)),
    steps=Steps(TOTAL, ranks=(RankSteps(0, None, "pytorch", "cuda", TOTAL, windows=WINDOWS),)),
    mfu=Mfu(0.4, 1e12, 0.5, 70e12, "bfloat16", "plan"),
    energy=Energy(7200.0, 2),
    driver_version="580.1",
)
RECORD = {
    "id": "train-1",
    "job_name": "train",
    "status": "Completed",
    "backend": "ec2",
    "script_started": 1000.0,
    "script_ended": 1110.0,
    "ended": 1200.0,
    "cost_usd": 0.32,
    "instance_type": "g5.12xlarge",
    "frameworks": {"torch": "2.13.0"},
    "command": ["python3", "train.py", "--lr", "0.1", "data"],
    "variables": {"NCCL_DEBUG": "INFO"},
    "provenance": {
        "gpuproof": "0.1.0",
        "code": {"sha256": "ab" * 32},
        "git": {"commit": "c" * 40, "dirty": True},
    },
}


def test_a_run_has_throughput_steps_memory_and_cost():
    found = measurements("train-1", VERDICT, RECORD).values
    assert (found["examples_per_s"], found["step_s"]) == (640, 0.5)
    assert (found["input_s"], found["backward_s"]) == (0.1, 0.25)
    assert (found["script_s"], found["usd"]) == (110, 0.32)
    assert found["usd_per_million_examples"] == pytest.approx(5.0)
    assert (found["mfu"], found["energy_j"]) == (0.4, 7200)


def test_gpu_figures_are_those_of_gpus_that_worked():
    found = measurements("train-1", VERDICT, RECORD).values
    assert found["gpu_memory_bytes"] == 5 * GIB
    assert found["utilization"] == pytest.approx(0.8)


def test_a_mean_needs_the_value_of_every_gpu():
    found = measurements("train-1", VERDICT, RECORD).values
    assert "power_w" not in found
    assert "sm_active" not in found


def test_windows_of_steps_are_times_without_a_short_last_one_and_those_of_throughput_rates():
    found = measurements("train-1", VERDICT, RECORD).windows
    assert found["step_s"] == (0.5,) * 5
    assert found["examples_per_s"] == (600, 680)


def test_settings_are_versions_arguments_variables_and_the_code():
    found = measurements("train-1", VERDICT, RECORD).settings
    assert (found["torch"], found["driver_version"], found["gpu"]) == ("2.13.0", "580.1", "NVIDIA A10G")
    assert (found["argument --lr"], found["argument 1"]) == ("0.1", "data")
    assert found["environment NCCL_DEBUG"] == "INFO"
    assert (found["code"], found["commit"]) == ("abababababab", "cccccccccccc with changes")


def test_measured_against_planned_is_a_ratio():
    planned = {
        "time": {"measured": 0.5, "shown": [0.3, 0.4, 0.6]},
        "memory": {"measured": 3, "shown": [1, 2, 3]},
    }
    found = measurements("train-1", None, RECORD, planned).values
    assert (found["planned_step_ratio"], found["planned_memory_ratio"]) == (pytest.approx(1.25), 1.5)


def test_a_verdict_alone_has_the_time_of_monitoring():
    found = measurements("verdict.json", Verdict("used", "", seconds=60.0), {})
    assert (found.values, found.status, found.is_whole) == ({"script_s": 60.0}, None, True)


def test_measurements_are_the_same_after_json():
    found = measurements("train-1", VERDICT, RECORD)
    assert RunMeasurements.from_json(json.loads(json.dumps({**found.to_json(), "later": 1}))) == found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "python train.py --lr 0.1 --amp --size -1 in out",
            {"--lr": "0.1", "--amp": "yes", "--size": "-1", "1": "in", "2": "out"},
        ),
        ("torchrun --nproc-per-node 4 train.py --lr=0.1", {"--lr": "0.1"}),
        (
            "python train.py --wandb-api-key abc --hf_token=def",
            {"--wandb-api-key": "***", "--hf_token": "***"},
        ),
        ("python train.py s3://bucket hf_abcdefgh1234", {"1": "s3://bucket", "2": "***"}),
        ("python train.py --max_tokens 512 --pad-token 0", {"--max_tokens": "512", "--pad-token": "0"}),
        ("python train.py", {}),
    ],
)
def test_arguments_by_name_without_secrets(words: str, expected: dict[str, str]):
    assert dict(script_arguments(words.split())) == expected
