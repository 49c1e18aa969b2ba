"""The files of docs/watch-sagemaker.md in a project of a test, whose jobs run on an emulator with a stub GPU."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.emulator_jobs import Account
from support.nvml_stub import STAYS, Scenario
from support.sdk_environments import interpreter_of
from support.sdk_scripts import environment, job_logs

PAGE = Path(__file__).parents[2] / "docs" / "watch-sagemaker.md"
_ROLE, _BUCKET = "arn:aws:iam::123456789012:role/sagemaker", "my-bucket"
_LIMIT = 900
_CONFIG = """
SchemaVersion: '1.0'
SageMaker:
  PythonSDK:
    Modules:
      Session:
        DefaultS3Bucket: {bucket}
"""


@dataclass
class Recipes:
    """A project whose jobs are started by the files of the page.

    Args:
        aws: the account.
        project: the folder with `src`.
        scenario: the GPUs of all instances.
    """

    aws: Account
    project: Path
    scenario: Scenario
    looks: Path

    @property
    def source(self) -> Path:
        return self.project / "src"

    def write_script(self, *, uses_gpu: bool, before: str = "") -> None:
        """Write `src/train.py`, which ends once its GPU has been looked at, and decide whether the GPU works meanwhile."""
        pid_file = self.project / "pid"
        script = STAYS.format(files=[str(pid_file)], looks=str(self.looks), count=8)
        (self.source / "train.py").write_text(f"{before}\n{script}\nprint('trained')\n")
        scenario = Scenario(self.scenario.path).seen(self.looks).gpu(0).at(0)
        if uses_gpu:
            # NVML lists no processes in a container.
            scenario.when_registered(pid_file, visible=False)
        scenario.now(1)

    def block(self, heading: str, language: str, number: int = 0) -> str:
        """A block of a section of the page, with the test's role and bucket."""
        section = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
        text = next(part for part in section if part.startswith(heading))
        found = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        return found[number].replace(_ROLE, self.aws.emulator.role).replace(_BUCKET, self.aws.bucket)

    def upload_source(self) -> None:
        """`aws s3 sync src s3://my-bucket/src`."""
        for file in self.source.iterdir():
            self.aws.put(f"src/{file.name}", file.read_bytes())

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the user's programs."""
        config = self.project / "sagemaker.yaml"
        config.write_text(_CONFIG.format(bucket=self.aws.bucket))
        return {
            **environment(self.aws.emulator, self.project / "home"),
            "SAGEMAKER_USER_CONFIG_OVERRIDE": str(config),
        }

    def run(self, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the user in the project's folder."""
        return subprocess.run(
            command,
            cwd=self.project,
            env={**self.variables, **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT,
        )

    def run_python(self, code: str, environment_name: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a file of the page with the Python of an environment, or that of the tests."""
        file = self.project / "start.py"
        file.write_text(code)
        return self.run(
            sys.executable if environment_name is None else interpreter_of(environment_name), file
        )

    def job(self) -> dict[str, Any]:
        """The newest training job, ended."""
        client = self.aws.client("sagemaker")
        newest = client.list_training_jobs(SortBy="CreationTime", SortOrder="Descending")[
            "TrainingJobSummaries"
        ]
        assert newest, job_logs(self.aws.emulator)
        return self.aws.ended(newest[0]["TrainingJobName"])

    def report(self, host: str = "algo-1") -> str:
        """The report of a host in the output of the newest job."""
        ending = f"{self.job()['TrainingJobName']}/output/output.tar.gz"
        keys = self.aws.keys()
        (key,) = [key for key in keys if key.endswith(ending)]
        return self.aws.archive(key)[f"gpuproof/{host}/report.json"]

    def check(self, *, uses_gpu: bool, exit_code: int = 4) -> None:
        """Check that the newest job has the verdict in its log, its output and its status."""
        job, report = self.job(), self.report()
        log = "\n".join(self.aws.log(job["TrainingJobName"]))
        assert "trained" in log, log
        if uses_gpu:
            assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
            assert "verdict    used: " in log, log
            assert '"outcome": "used"' in report
        else:
            assert job["TrainingJobStatus"] == "Failed", log
            assert "[gpu-unused] " in job["FailureReason"], job["FailureReason"]
            assert f"exit code: {exit_code}" in job["FailureReason"]
            assert '"gpu_requirement_met": false' in report
