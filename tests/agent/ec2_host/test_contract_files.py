from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuproof.agent.ec2_host import job_process
from gpuproof.agent.ec2_host.contract_files import AGENT, code_folder, take_code, write_contract
from gpuproof.agent.ec2_host.job_process import job_environment
from gpuproof.agent.ec2_host.parameters import HostParameters


def test_a_training_job_has_its_channels_and_hosts(
    parameters: Callable[..., HostParameters], tmp_path: Path
) -> None:
    given = parameters(hosts=("algo-1", "algo-2"), host="algo-2", inputs={"input/data/training": "s3://b/t/"})
    write_contract(tmp_path, given)
    resources = json.loads((tmp_path / "input/config/resourceconfig.json").read_text())
    assert (resources["current_host"], resources["hosts"]) == ("algo-2", ["algo-1", "algo-2"])
    assert set(json.loads((tmp_path / "input/config/inputdataconfig.json").read_text())) == {
        "training",
        "code",
    }
    assert (tmp_path / "model").is_dir()


def test_the_code_channel_has_another_name_if_the_job_has_a_channel_of_that_name(
    parameters: Callable[..., HostParameters],
) -> None:
    assert code_folder(parameters()) == "input/data/code"
    assert code_folder(parameters(inputs={"input/data/code": "s3://b/c/"})) == "input/data/gpuproof"
    assert code_folder(parameters(kind="processing")) == "processing/gpuproof"


def test_the_downloaded_code_is_moved_and_the_running_agent_stays(tmp_path: Path) -> None:
    downloaded, folder = tmp_path / "run/code", tmp_path / "ml/input/data/code"
    downloaded.mkdir(parents=True)
    for name in (AGENT, "job.json"):
        (downloaded / name).write_text(name)
    take_code(downloaded, folder)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        AGENT: AGENT,
        "job.json": "job.json",
    }
    assert [path.name for path in downloaded.iterdir()] == [AGENT]


def test_a_processing_job_has_its_inputs_and_outputs(
    parameters: Callable[..., HostParameters], tmp_path: Path
) -> None:
    given = parameters(
        kind="processing", inputs={"processing/in": "s3://b/i/"}, outputs={"processing/out": "s3://b/o/"}
    )
    write_contract(tmp_path, given)
    config = json.loads((tmp_path / "config/processingjobconfig.json").read_text())
    assert config["ProcessingInputs"][0]["S3Input"]["LocalPath"] == "/opt/ml/processing/in"
    assert (tmp_path / "processing/out").is_dir()


def test_the_frameworks_interpreter_and_the_jobs_variables_come_first(
    parameters: Callable[..., HostParameters], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").touch()
    given = parameters(pythons=("/nowhere", str(tmp_path / "bin")))
    monkeypatch.setattr(job_process, "_MPI", ("/nowhere/openmpi/bin", str(tmp_path)))
    outer = {"PATH": "/usr/bin", "MODE": "outer"}
    found = job_environment(tmp_path, given, outer)
    assert found == {
        "PATH": f"{tmp_path}/bin:/usr/bin:{tmp_path}",
        "MODE": "outer",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    (tmp_path / "environment.json").write_text('{"MODE": "job"}')
    assert job_environment(tmp_path, given, outer)["MODE"] == "job"
    (tmp_path / "environment.json").write_text("[]")
    with pytest.raises(ValueError, match=r"environment\.json"):
        job_environment(tmp_path, given, outer)


def test_the_hosts_of_a_job_reach_each_other_without_a_proxy(
    parameters: Callable[..., HostParameters], tmp_path: Path
) -> None:
    given = parameters(hosts=("algo-1", "algo-2"))
    outer = {"https_proxy": "http://proxy:3128", "NO_PROXY": "169.254.169.254"}
    found = job_environment(tmp_path, given, outer)
    assert found["no_proxy"] == found["NO_PROXY"] == found["no_grpc_proxy"] == "169.254.169.254,algo-1,algo-2"
    assert "no_proxy" not in job_environment(tmp_path, given, {})
    assert "no_proxy" not in job_environment(tmp_path, parameters(), {"https_proxy": "http://proxy:3128"})
