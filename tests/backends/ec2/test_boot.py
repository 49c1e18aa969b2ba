"""User data boots on a simulated instance: the job runs, its results are on S3, and the instance is powered off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuproof.backends.aws import Aws
from gpuproof.backends.remote.logs import LogReader
from support.aws_emulator import RunningEmulator, running_emulator
from support.ec2_host_jobs import HostJob, HostJobs
from support.simulated_instance import SimulatedInstance, require_simulated_instance

pytestmark = pytest.mark.slow

TRAIN = """
import json, os, pathlib, sys, torch
data = pathlib.Path(os.environ["SM_CHANNEL_TRAINING"])
x = torch.tensor([float(word) for word in (data / "part" / "x.txt").read_text().split()])
weight = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([weight], 0.1)
for step in range(50):
    optimizer.zero_grad()
    loss = ((weight * x - 3 * x) ** 2).mean()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 3), "for", os.environ["WHO"], flush=True)
torch.save(weight.detach(), os.path.join(os.environ["SM_MODEL_DIR"], "weight.pt"))
pathlib.Path(os.environ["SM_OUTPUT_DATA_DIR"], "loss.txt").write_text(str(loss.item()))
before = pathlib.Path("/opt/ml/checkpoints/1.txt").read_text()
pathlib.Path("/opt/ml/checkpoints/2.txt").write_text(before + "and more")
print(sorted(os.listdir("/opt/ml/input/data/near")))
"""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEmulator]:
    require_simulated_instance()
    with running_emulator(tmp_path_factory.mktemp("ec2")) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def jobs(emulator: RunningEmulator, tmp_path_factory: pytest.TempPathFactory) -> HostJobs:
    return HostJobs(emulator, tmp_path_factory.mktemp("agent"))


def boot(jobs: HostJobs, folder: Path, job: HostJob, **options: object) -> SimulatedInstance:
    return SimulatedInstance(folder, jobs.emulator, job.user_data, **options)  # type: ignore[arg-type]


def test_a_training_job_runs_on_an_instance_and_its_results_are_on_s3(
    jobs: HostJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in jobs.emulator.credentials.items():
        monkeypatch.setenv(name, value)
    jobs.put("data/part/x.txt", b"1 2 3")
    for name in ("near-1", "near-2", "far"):
        jobs.put(f"mixed/{name}", b"x")
    jobs.put("checkpoints/1.txt", b"before ")
    job = jobs.new(
        TRAIN,
        environment={"WHO": "an instance's job"},
        inputs={
            "input/data/training": f"s3://{jobs.bucket}/data",
            "input/data/near": f"s3://{jobs.bucket}/mixed/near",
        },
        checkpoints=f"s3://{jobs.bucket}/checkpoints/",
    )
    with boot(jobs, tmp_path, job) as instance:
        instance.wait_until_off()
    end = job.end
    assert (end["status"], end["exit_code"], end["failure_reason"]) == ("Completed", 0, "")
    assert end["started"] <= end["script_started"] <= end["ended"]
    output = f"{job.layout.output}{job.layout.run_id}/output"
    assert list(job.archive(f"{output}/model.tar.gz")) == ["weight.pt"]
    assert "loss.txt" in job.archive(f"{output}/output.tar.gz")
    assert jobs.get("checkpoints/2.txt") == b"before and more"
    boot_report, run, verdict = (job.report(name) for name in ("boot.json", "run.json", "verdict.json"))
    assert boot_report is not None
    assert boot_report["instance"] == "i-0123456789abcdef0"
    assert run is not None
    assert (run["place"], run["status"]) == ("ec2", "Completed")
    assert verdict is not None
    reader = LogReader(Aws(), job.parameters.log_group, job.layout.run_id)
    log = b"".join(reader.read())
    assert b"loss 0.0 for an instance's job\n['near-1', 'near-2']\n" in log
    assert list(reader.verdicts) == ["algo-1"]
    assert not Path("/run/gpuproof").exists()
