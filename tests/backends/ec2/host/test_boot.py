"""User data boots on a simulated instance: the job runs, its results are on S3, and the instance is powered off."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuproof.backends.aws import Aws
from gpuproof.backends.remote.logs import LogReader
from support.cli_sandbox import until
from support.ec2_host_jobs import HostJobs
from support.local_wheels import local_wheels
from support.simulated_instance import SimulatedInstance

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


def test_a_training_job_runs_on_an_instance_and_its_results_are_on_s3(
    jobs: HostJobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
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
    with SimulatedInstance(tmp_path, job, local_disk=True) as instance:
        instance.wait_until_off()
    end = job.end
    assert (end["status"], end["exit_code"], end["failure_reason"]) == ("Completed", 0, "")
    assert "/opt/ml is on the local disk (/opt/dlami/nvme)" in end["notes"]
    assert end["started"] <= end["script_started"] <= end["ended"]
    output = f"{job.layout.output}{job.layout.run_id}/output"
    assert list(job.archive(f"{output}/model.tar.gz")) == ["weight.pt"]
    assert "loss.txt" in job.archive(f"{output}/output.tar.gz")
    assert jobs.get("checkpoints/2.txt") == b"before and more"
    boot_report, run, verdict = (job.report(name) for name in ("boot.json", "run.json", "verdict.json"))
    assert boot_report is not None
    assert boot_report["instance"] == "i-0123456789abcdef0"
    assert run is not None
    assert (run["backend"], run["status"]) == ("ec2", "Completed")
    assert verdict is not None
    reader = LogReader(Aws(), job.parameters.log_group, job.layout.run_id)
    log = b"".join(reader.read())
    assert b"loss 0.0 for an instance's job\n['near-1', 'near-2']\n" in log
    assert list(reader.verdicts) == ["algo-1"]
    assert not Path("/run/gpuproof").exists()


PROCESS = """
import pathlib, signal, sys, time
rows = pathlib.Path("/opt/ml/processing/in/rows.txt").read_text()
pathlib.Path("/opt/ml/processing/out/rows.txt").write_text(rows.upper())
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
pathlib.Path("/run/simulation/waiting").touch()
time.sleep(600)
"""

# Answers like a driver that is still being loaded, at first.
SLOW_DRIVER = """#!/bin/sh
test -e /run/simulation/driver || { touch /run/simulation/driver; echo "Failed to initialize NVML" >&2; exit 9; }
echo "GPU 0: NVIDIA A10G (UUID: GPU-1)"
"""


def test_the_stop_tag_ends_a_processing_job_and_its_outputs_are_uploaded(
    jobs: HostJobs, tmp_path: Path
) -> None:
    rows = jobs.put("rows/rows.txt", b"rows")
    job = jobs.new(
        PROCESS,
        kind="processing",
        inputs={"processing/in": rows},
        outputs={"processing/out": f"s3://{jobs.bucket}/out/"},
    )
    with SimulatedInstance(tmp_path, job, nvidia_smi=SLOW_DRIVER) as instance:
        instance.wait_for_file("waiting")
        instance.metadata(**{"meta-data/tags/instance/gpuproof:stop": "1764547200"})
        instance.wait_until_off()
    end = job.end
    assert (end["status"], end["stopped"], end["interrupted"]) == ("Stopped", True, False)
    assert end["failure_reason"] == "the job was stopped"
    assert jobs.get("out/rows.txt") == b"ROWS"
    assert [name.partition(" ")[0] for name in instance.calls] == ["systemd-run", "systemctl", "shutdown"]


STEPS = """
import pathlib, time
checkpoint = pathlib.Path("/opt/ml/checkpoints/step.txt")
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
print("from step", step, flush=True)
while step < 5:
    step += 1
    checkpoint.write_text(str(step))
    if step == 3 and not pathlib.Path("/opt/ml/checkpoints/second").exists():
        pathlib.Path("/opt/ml/checkpoints/second").touch()
        pathlib.Path("/run/simulation/waiting").touch()
        time.sleep(600)
pathlib.Path("/opt/ml/model/steps.txt").write_text(str(step))
"""


def test_a_spot_notice_saves_the_checkpoints_and_a_second_instance_goes_on(
    jobs: HostJobs, tmp_path: Path
) -> None:
    place = f"s3://{jobs.bucket}/spot/"
    job = jobs.new(STEPS, checkpoints=place)
    with SimulatedInstance(tmp_path / "1", job) as instance:
        instance.wait_for_file("waiting")
        instance.metadata(
            **{"meta-data/spot/instance-action": '{"action": "terminate", "time": "2026-05-01T12:00:00Z"}'}
        )
        instance.wait_until_off()
    end = job.end
    assert (end["status"], end["secondary_status"], end["interrupted"]) == ("Stopped", "Interrupted", True)
    assert jobs.get("spot/step.txt") == b"3"
    job = jobs.new(STEPS, checkpoints=place)
    with SimulatedInstance(tmp_path / "2", job) as instance:
        instance.wait_until_off()
    assert job.end["status"] == "Completed"
    assert "from step 3" in jobs.output(job)
    assert job.archive(f"{job.layout.output}{job.layout.run_id}/output/model.tar.gz") == {"steps.txt": b"5"}


AT_RISK = """
import json, pathlib, time
import gpuproof.runtime as rt
state = {"steps": 0}
kept = rt.checkpoint(state=state, every_steps=10**9)
pathlib.Path("/run/simulation/waiting").touch()
for _ in kept.steps(iter(int, 1)):
    state["steps"] += 1
    time.sleep(0.01)
    if pathlib.Path("/run/simulation/go-on").exists():
        break
pathlib.Path("/opt/ml/model/steps.txt").write_text("all")
"""
REBALANCE = {"meta-data/events/recommendations/rebalance": '{"noticeTime": "2026-05-01T12:00:00Z"}'}


def test_a_rebalance_recommendation_saves_and_uploads_a_checkpoint_and_the_job_goes_on(
    jobs: HostJobs, tmp_path: Path
) -> None:
    job = jobs.new(AT_RISK, checkpoints=f"s3://{jobs.bucket}/risk/", checkpoint_interval=3600.0)
    with SimulatedInstance(tmp_path, job) as instance:
        instance.wait_for_file("waiting")
        assert jobs.keys("risk/") == []
        instance.metadata(**REBALANCE)
        until(lambda: any(key.endswith("checkpoint.json") for key in jobs.keys("risk/")), "an upload")
        assert instance.is_on
        until(lambda: (job.report("boot.json") or {}).get("notes"), "a report of the risk")
        instance.write("go-on", "")
        instance.wait_until_off()
    end = job.end
    assert (end["status"], end["interrupted"]) == ("Completed", False)
    assert job.archive(f"{job.layout.output}{job.layout.run_id}/output/model.tar.gz") == {"steps.txt": b"all"}
    said = "EC2 may take the spot instance back (rebalance recommendation of 2026-05-01T12:00:00Z)"
    assert any(note.startswith(said) for note in end["notes"])
    assert said in jobs.output(job)


def test_with_rebalance_stop_a_recommendation_ends_the_job(jobs: HostJobs, tmp_path: Path) -> None:
    job = jobs.new(STEPS, checkpoints=f"s3://{jobs.bucket}/stop/", rebalance="stop")
    with SimulatedInstance(tmp_path, job) as instance:
        instance.wait_for_file("waiting")
        instance.metadata(**REBALANCE)
        instance.wait_until_off()
    assert (job.end["status"], job.end["interrupted"]) == ("Stopped", True)
    assert jobs.get("stop/step.txt") == b"3"


def test_the_script_runs_in_an_environment_that_uv_has_made(jobs: HostJobs, tmp_path: Path) -> None:
    wheels = local_wheels(tmp_path / "wheels")
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    script = "import sys, tiny; print('number', tiny.NUMBER, 'in', sys.prefix)"
    job = jobs.new(script, env_python=python, env_packages=("tiny==1.2.*",))
    uv = f'#!/bin/sh\nexec {wheels.uv} "$@"\n'
    with SimulatedInstance(
        tmp_path / "instance", job, programs={"uv": uv}, environment=wheels.environment
    ) as instance:
        instance.wait_until_off()
    assert (job.end["status"], job.end["failure_reason"]) == ("Completed", "")
    assert "number 42 in /opt/gpuproof/python/environment" in jobs.output(job)


WAITS = """
import pathlib, time
pathlib.Path("/run/simulation/waiting").touch()
while not pathlib.Path("/run/simulation/go-on").exists():
    time.sleep(0.02)
"""


def test_the_newest_sample_of_a_job_is_uploaded_while_it_runs(jobs: HostJobs, tmp_path: Path) -> None:
    job = jobs.new(WAITS)
    with SimulatedInstance(tmp_path, job) as instance:
        instance.wait_for_file("waiting")
        until(lambda: job.report("live.json"), "a sample")
        instance.write("go-on", "")
        instance.wait_until_off()
    sample = job.report("live.json")
    assert sample is not None
    assert sample["time"] > job.end["script_started"]
    assert sample["gpus"] == []
    assert sample["rss"] > 0
