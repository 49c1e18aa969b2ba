"""A job with a container image on a simulated instance, whose Docker really runs containers, in namespaces."""

from __future__ import annotations

import platform
import secrets
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuproof_emulator.execution.instances.docker.settings import DockerSettings, SimulatedImage
from support.ec2_host_jobs import HostJob, HostJobs
from support.simulated_instance import SimulatedInstance, simulated_network

pytestmark = pytest.mark.slow

IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.9-gpu-py312-cu130-ubuntu22.04-ec2"
DOCKER = DockerSettings({IMAGE: SimulatedImage(sys.executable, size=3 << 20)})

TRAIN = """
import os, pathlib, subprocess
print("network", os.path.exists("/run/gpuproof"), "who", os.environ["WHO"])
print("gpus", subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.count("GPU "))
print("own variables", "DOCKER_CONFIG" in os.environ)
text = pathlib.Path("/opt/ml/input/data/training/x.txt").read_text()
pathlib.Path(os.environ["SM_MODEL_DIR"], "weight.txt").write_text(text * 2)
"""


def new_job(jobs: HostJobs, script: str, **parameters: Any) -> HostJob:
    return jobs.new(script, **{"image": IMAGE, "retry_for": 5.0, **parameters})


def test_the_job_runs_in_its_image_and_ends_with_a_verdict(jobs: HostJobs, tmp_path: Path) -> None:
    data = jobs.put("data/x.txt", b"4")
    job = new_job(jobs, TRAIN, environment={"WHO": "a\nb"}, inputs={"input/data/training": data})
    with SimulatedInstance(tmp_path, job, docker=DOCKER, local_disk=True) as instance:
        instance.wait_until_off()
    output = jobs.output(job)
    assert (job.end["status"], job.end["exit_code"], job.end["failure_reason"]) == (
        "Completed",
        0,
        "",
    ), output
    assert f"gpuproof: pulling {IMAGE}: 0 of 1 layers downloaded" in output
    assert f"gpuproof: pulled {IMAGE}" in output
    assert "network False who a\nb\n" in output
    assert "gpus 1\n" in output
    assert "own variables False" in output
    archive = job.archive(f"{job.layout.output}{job.layout.run_id}/output/model.tar.gz")
    assert archive == {"weight.txt": b"44"}
    verdict, run = job.report("verdict.json"), job.report("run.json")
    assert verdict is not None
    assert run is not None
    assert run["status"] == "Completed"


def test_the_exit_code_and_the_reason_of_a_failing_script_come_out_of_the_container(
    jobs: HostJobs, tmp_path: Path
) -> None:
    job = new_job(jobs, "raise ValueError('no such column')")
    with SimulatedInstance(tmp_path, job, docker=DOCKER) as instance:
        instance.wait_until_off()
    assert (job.end["status"], job.end["exit_code"]) == ("Failed", 1)
    assert "ValueError: no such column" in job.end["failure_reason"]


DENIED = (
    "pull access denied for 763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training, repository does not exist or may "
    "require 'docker login': denied: User: arn:aws:sts::123456789012:assumed-role/gpuproof-ec2/i-0123456789abcdef0 is not "
    "authorized to perform: ecr:BatchGetImage"
)
FORBIDDEN = (
    f'failed to resolve reference "{IMAGE}": unexpected status from HEAD request to https://763104351884.dkr.ecr.us-east-1.'
    "amazonaws.com/v2/pytorch-training/manifests/2.6: 403 Forbidden"
)
"""What Docker 29 prints with containerd's image store: https://github.com/aws/aws-lambda-base-images/issues/220."""
OTHER_PROCESSOR = {"amd64": "arm64", "arm64": "amd64"}["amd64" if platform.machine() == "x86_64" else "arm64"]


@pytest.mark.parametrize(
    ("docker", "reasons"),
    [
        (None, ["ClientError: the job has a container image, but the AMI has no Docker."]),
        (
            DockerSettings(DOCKER.images, has_nvidia_runtime=False),
            ["ClientError: the job's container needs GPUs, but the AMI has no NVIDIA Container Toolkit"],
        ),
        (DockerSettings(), [f"ClientError: the image {IMAGE} cannot be pulled", "manifest unknown"]),
        (
            DockerSettings({IMAGE: SimulatedImage(sys.executable, error=DENIED)}),
            [f"the image {IMAGE} cannot be pulled", DENIED, "gpuproof iam policy --on ec2 --role"],
        ),
        (
            DockerSettings({IMAGE: SimulatedImage(sys.executable, error=FORBIDDEN)}),
            [f"the image {IMAGE} cannot be pulled", "403 Forbidden", "gpuproof iam policy --on ec2 --role"],
        ),
        (
            DockerSettings({IMAGE: SimulatedImage(sys.executable, architecture=OTHER_PROCESSOR)}),
            [f"the image {IMAGE} is for {OTHER_PROCESSOR} processors"],
        ),
        (
            DockerSettings({IMAGE: SimulatedImage(python="")}),
            ["the container could not be started: docker: Error", "python3", "exit code: 127"],
        ),
    ],
    ids=["no docker", "no toolkit", "no image", "denied", "forbidden", "other processor", "no python"],
)
def test_an_image_that_cannot_run_fails_the_run_with_the_reason(
    jobs: HostJobs, tmp_path: Path, docker: DockerSettings | None, reasons: list[str]
) -> None:
    job = new_job(jobs, "print('hello')")
    with SimulatedInstance(tmp_path, job, docker=docker) as instance:
        instance.wait_until_off()
    assert job.end["status"] == "Failed"
    for reason in reasons:
        assert reason in job.end["failure_reason"]
    assert "hello\n" not in jobs.output(job)


def test_a_full_disk_ends_the_pull(jobs: HostJobs, tmp_path: Path) -> None:
    job = new_job(jobs, "print('hello')", retry_for=300.0)
    docker = DockerSettings({IMAGE: SimulatedImage(sys.executable, size=60 << 20)})
    with SimulatedInstance(tmp_path, job, docker=docker, small_disk_bytes=16 << 20) as instance:
        instance.wait_until_off()
    assert job.end["status"] == "Failed"
    assert "no space left on device. The root volume is too small for it" in job.end["failure_reason"]


WAIT = """
import pathlib, signal, sys, time
def end(*_):
    pathlib.Path("/opt/ml/checkpoints/step.txt").write_text("3")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("waiting", flush=True)
time.sleep(600)
"""


def wait_for_output(jobs: HostJobs, job: HostJob, text: str) -> None:
    end = time.monotonic() + 120
    while text not in jobs.output(job):
        assert time.monotonic() < end, jobs.output(job)
        time.sleep(0.2)


def test_the_stop_tag_reaches_the_script_in_the_container(jobs: HostJobs, tmp_path: Path) -> None:
    job = new_job(jobs, WAIT, checkpoints=f"s3://{jobs.bucket}/stopped/")
    with SimulatedInstance(tmp_path, job, docker=DOCKER) as instance:
        wait_for_output(jobs, job, "waiting")
        instance.metadata(**{"meta-data/tags/instance/gpuproof:stop": "1764547200"})
        instance.wait_until_off()
    assert (job.end["status"], job.end["stopped"]) == ("Stopped", True)
    assert jobs.get("stopped/step.txt") == b"3"


@pytest.mark.nightly
def test_a_spot_notice_reaches_the_script_in_the_container(jobs: HostJobs, tmp_path: Path) -> None:
    job = new_job(jobs, WAIT, checkpoints=f"s3://{jobs.bucket}/reclaimed/")
    with SimulatedInstance(tmp_path, job, docker=DOCKER) as instance:
        wait_for_output(jobs, job, "waiting")
        notice = '{"action": "terminate", "time": "2026-05-01T12:00:00Z"}'
        instance.metadata(**{"meta-data/spot/instance-action": notice})
        instance.wait_until_off()
    assert (job.end["status"], job.end["interrupted"]) == ("Stopped", True)
    assert jobs.get("reclaimed/step.txt") == b"3"


MEET = """
import os, pathlib, socket
me = os.environ["SM_CURRENT_HOST"]
with socket.socket() as server:
    server.bind(("", 9000 + int(me[-1])))
    server.listen()
    print(me, "sees", socket.gethostbyname("algo-1"), socket.gethostbyname("algo-2"), flush=True)
"""


def test_containers_on_two_instances_know_each_other_by_name(jobs: HostJobs, tmp_path: Path) -> None:
    job = new_job(
        jobs, MEET, job={"cluster_key": secrets.token_hex(32)}, hosts=("algo-1", "algo-2"), retry_for=60.0
    )
    with ExitStack() as stack:
        network = stack.enter_context(simulated_network(["ip-10-77-0-1", "ip-10-77-0-2"], jobs.emulator))
        instances = [
            stack.enter_context(
                SimulatedInstance(tmp_path / name, job, host=(network, name), index=index, docker=DOCKER)
            )
            for index, name in enumerate(network.addresses)
        ]
        for instance in instances:
            instance.wait_until_off()
    addresses = " ".join(network.addresses.values())
    for host in ("algo-1", "algo-2"):
        own = replace(job, host=host)
        assert own.end["status"] == "Completed", own.end
        assert f"{host} sees {addresses}" in jobs.output(own)
