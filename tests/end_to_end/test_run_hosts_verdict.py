"""The verdict of a job on two hosts, whose GPUs are simulated by the stub NVML: on this machine, and on the emulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.aws_emulator import running_emulator
from support.cli_sandbox import CliSandbox
from support.nvml_stub import Scenario, build_library

pytestmark = [pytest.mark.slow, pytest.mark.journey]

TRAIN = """
import os, time
import gpuproof.runtime as rt

first = os.environ["SM_CURRENT_HOST"] == "algo-1"
# The second host uses one of its two GPUs.
for gpu in (0, 1) if first else (2,):
    with open(f"{folder}/pid-{{gpu}}", "w") as file:
        file.write(str(os.getpid()))
looks = "{folder}/looks"
enough = os.path.getsize(looks) + 24
while os.path.getsize(looks) < enough:
    time.sleep(0.05)
    rt.log_throughput(8)
"""


def test_each_gpu_of_each_host_is_judged_and_none_counts_twice(
    sandbox: CliSandbox, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    machine = Scenario(tmp_path / "gpus.txt").seen(tmp_path / "looks").gpus(4)
    for gpu in (0, 1, 2):
        machine.when_registered(tmp_path / f"pid-{gpu}", gpu, util=80 + gpu, memory_mib=9000)
    machine.write()
    sandbox.environment.update(machine.environment(build_library(tmp_path_factory.getbasetemp() / "stub")))
    sandbox.write("train.py", TRAIN.format(folder=tmp_path))
    job = "entry_point: train.py\ninstance_count: 2\nresources: {gpu: 2}\nrequire_gpu: true\n"
    sandbox.write("gpuproof.yaml", job)

    done = sandbox.gpuproof("run")
    assert done.returncode == 4, done.stderr
    shown = " ".join(done.stderr.split())
    assert (
        "3 of 4 GPUs worked, 81% busy on average while in use; algo-2: GPU 3 did nothing for the job."
        in shown
    )
    assert "throughput" in shown

    result = json.loads(sandbox.gpuproof("show", "--format", "json").stdout)
    verdict = result["verdict"]
    assert [(gpu["host"], gpu["index"], gpu["worked"]) for gpu in verdict["gpus"]] == [
        ("algo-1", 0, True),
        ("algo-1", 1, True),
        ("algo-2", 2, True),
        ("algo-2", 3, False),
    ]
    assert (verdict["gpus_expected"], verdict["gpus_present"], verdict["gpu_requirement_met"]) == (
        4,
        4,
        False,
    )
    assert [host["throughput"]["examples"] > 8 for host in verdict["hosts"]] == [True, True]
    assert all(host["started"] < host["ended"] for host in verdict["hosts"])
    assert not verdict["notes"]
    assert "partly used" in sandbox.gpuproof("ps").stdout


EMULATED = """
import os, time

if os.environ["SM_CURRENT_HOST"] == "algo-1":
    with open("{folder}/pid-0", "w") as file:
        file.write(str(os.getpid()))
enough = os.path.getsize("{folder}/looks") + 16
while os.path.getsize("{folder}/looks") < enough:
    time.sleep(0.05)
"""


def test_the_verdicts_of_sagemakers_hosts_are_merged_and_tagged(
    sandbox: CliSandbox, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    machine = Scenario(tmp_path / "gpus.txt").seen(tmp_path / "looks").gpu(0)
    machine.when_registered(tmp_path / "pid-0", 0, util=80, memory_mib=9000).write()
    stub = machine.environment(build_library(tmp_path_factory.getbasetemp() / "stub"))
    sandbox.write("train.py", EMULATED.format(folder=tmp_path))
    with running_emulator(tmp_path / "aws", environment=stub) as emulator:
        emulator.bucket("mine")
        assert emulator.role
        sandbox.environment |= {**emulator.credentials, "GPUPROOF_BUCKET": "mine"}
        job = ("train.py", "--on", "sagemaker", "--framework", "pytorch", "--instance-count", "2")
        done = sandbox.gpuproof("run", *job, "--instance-type", "ml.g5.xlarge")
        assert done.returncode == 4, done.stderr
        shown = " ".join(done.stderr.split())
        assert "1 of 2 GPUs worked, 80% busy on average while in use; algo-2: GPU 0 did nothing" in shown
        assert "partly used" in sandbox.gpuproof("ps", "--on", "sagemaker").stdout
        found = emulator.client("resourcegroupstaggingapi").get_resources(
            TagFilters=[{"Key": "gpuproof:verdict"}]
        )
    tags = {tag["Key"]: tag["Value"] for tag in found["ResourceTagMappingList"][0]["Tags"]}
    assert (tags["gpuproof:verdict"], tags["gpuproof:gpu-requirement-met"]) == ("partly used", "false")
