"""What a watched command leaves where SageMaker looks: the report, the failure file, and a processing job's message."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuproof.util.sagemaker_container import find_container
from gpuproof.watch.report import STALLED, WatchReport
from gpuproof.watch.sagemaker import failure_reason, publish
from support.nvml_stub import SCENARIO_VARIABLE, Scenario

CONFIG = {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"], "current_instance_type": "ml.g5.xlarge"}


@dataclass
class Container:
    """A folder in place of `/opt/ml`, with the configuration of a job's second host."""

    base: Path
    kind: str

    def __post_init__(self) -> None:
        config = self.base / ("input/config" if self.kind == "training" else "config")
        config.mkdir(parents=True)
        (config / "resourceconfig.json").write_text(json.dumps(CONFIG))

    @property
    def failure(self) -> Path:
        return self.base / "output" / ("failure" if self.kind == "training" else "message")

    @property
    def environment(self) -> dict[str, str]:
        return {
            f"{self.kind.upper()}_JOB_NAME": "job-1",
            "SAGEMAKER_BASE_DIR": str(self.base),
            "AWS_REGION": "eu-west-1",
        }

    def watch(self, nvml_home: Path, *command: str, code: int) -> str:
        """Watch a command on a machine with an idle GPU; returns the output on standard error."""
        scenario = Scenario(self.base / "gpus.txt").gpu(0).write()
        ended = subprocess.run(
            [sys.executable, "-m", "gpuproof.watch", "watch", "--", *command],
            env={
                **os.environ,
                **self.environment,
                SCENARIO_VARIABLE: str(scenario.path),
                "LD_LIBRARY_PATH": str(nvml_home),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == code, ended.stderr
        return ended.stderr

    def report(self) -> dict[str, Any]:
        (file,) = self.base.glob("**/report.json")
        return {"folder": str(file.parent.relative_to(self.base)), **json.loads(file.read_text())}


@pytest.fixture(params=["training", "processing"])
def container(tmp_path: Path, request: pytest.FixtureRequest) -> Container:
    return Container(tmp_path / "ml", request.param)


def unused(**facts: Any) -> WatchReport:
    verdict = {
        "gpu_requirement_met": False,
        "reason": "No process opened a GPU.",
        "remedy": "Check the framework.",
    }
    return WatchReport(verdict, exit_code=0, **facts)


def test_a_job_without_work_on_its_gpu_fails_with_the_reason(nvml_home: Path, tmp_path: Path) -> None:
    container = Container(tmp_path / "ml", "training")
    container.watch(nvml_home, "true", code=4)
    failure = (container.base / "output/failure").read_text()
    assert failure.startswith("[gpu-unused] No process of the job opened a GPU.")
    report = container.report()
    assert report["folder"] == "output/data/gpuproof/algo-2"
    assert report["host"] == "algo-2"
    assert report["instance"] == {"type": "ml.g5.xlarge", "region": "eu-west-1", "life_cycle": None}
    assert report["verdict"]["outcome"] == "cpu-only"


def test_a_processing_job_has_a_message_instead(nvml_home: Path, tmp_path: Path) -> None:
    container = Container(tmp_path / "ml", "processing")
    container.watch(nvml_home, "true", code=4)
    assert (container.base / "output/message").read_text().startswith("[gpu-unused] ")
    assert not (container.base / "output/failure").exists()
    assert container.report()["folder"] == "processing/gpuproof-out/algo-2"


def test_a_command_that_fails_keeps_its_own_reason(
    nvml_home: Path, container: Container, tmp_path: Path
) -> None:
    file = container.failure
    container.watch(nvml_home, "sh", "-c", f"mkdir -p {file.parent}; echo no data > {file}; exit 3", code=3)
    assert "gpu-unused" not in file.read_text()
    assert "no data" in file.read_text()


def test_what_the_program_wrote_there_follows_the_reason(container: Container) -> None:
    container.failure.parent.mkdir()
    container.failure.write_text("the loss is NaN\n")
    for _ in range(2):
        publish(unused(), container.environment)
    assert container.failure.read_text() == (
        "[gpu-unused] No process opened a GPU. Check the framework. The program left the message: the loss is NaN"
    )


def test_the_reason_fits_into_sagemakers_limit(container: Container) -> None:
    container.failure.parent.mkdir()
    container.failure.write_text("x" * 5000)
    publish(unused(), container.environment)
    assert len(container.failure.read_text()) == 1024


def test_a_stalled_program_fails_with_what_it_waited_for() -> None:
    report = WatchReport({}, signal=15, stopped_because=STALLED, notes=("No output for 10 min.",))
    assert failure_reason(report) == "No output for 10 min."


def test_a_folder_that_cannot_be_written_is_a_note_and_no_error(container: Container) -> None:
    for name in ("output", "processing"):
        (container.base / name).write_text("a file in place of the folder")
    notes = publish(unused(), container.environment).notes
    assert len(notes) == 2
    assert all("could not be written" in note for note in notes)


def test_the_job_has_its_hosts_and_its_instance(container: Container) -> None:
    found = find_container(container.environment)
    assert found is not None
    assert (found.kind, found.job) == (container.kind, "job-1")
    assert (found.host, found.hosts) == ("algo-2", ("algo-1", "algo-2"))
    assert found.instance_type == "ml.g5.xlarge"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"current_host": 3}'])
def test_a_machine_without_sagemakers_configuration_is_left_alone(tmp_path: Path, content: str) -> None:
    config = tmp_path / "input" / "config"
    config.mkdir(parents=True)
    (config / "resourceconfig.json").write_text(content)
    environment = {"SAGEMAKER_BASE_DIR": str(tmp_path), "TRAINING_JOB_NAME": "job-1"}
    assert find_container(environment) is None
    report = unused()
    assert publish(report, environment) is report
    assert not (tmp_path / "output").exists()
