"""Runs scripts that use a SageMaker SDK, in its virtual environment, against an emulator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.aws_emulator import RunningEmulator
from support.sdk_environments import interpreter_of

_SCRIPTS = Path(__file__).parents[2] / "emulator" / "tests" / "journeys" / "scripts"
_LIMIT = 900  # seconds; importing an SDK takes up to a minute on a busy machine
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR")
# In place of the user's own; the emulator's variables name the one of the administrator.
_CONFIG = """
SchemaVersion: '1.0'
SageMaker:
  PythonSDK:
    Modules:
      Session:
        DefaultS3Bucket: {bucket}
"""


def environment(emulator: RunningEmulator, home: Path) -> dict[str, str]:
    """The environment of a program that must only reach the emulator."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name in _KEPT}
    return {**kept, "HOME": str(home), **emulator.credentials}


def run_script(
    name: str, environment_name: str | None, emulator: RunningEmulator, bucket: str, home: Path, *words: str
) -> dict[str, Any]:
    """Run a script to its end; returns the JSON document in its last line, with all earlier output as `printed`.

    Args:
        name: of the script, without `.py`.
        environment_name: which environment's Python runs it; None: the one of the tests.
        bucket: the SDK's default bucket.
        home: a folder for it alone.
        words: its arguments.
    """
    variables = environment(emulator, home)
    config = home / "sagemaker.yaml"
    config.write_text(_CONFIG.format(bucket=bucket))
    variables["SAGEMAKER_USER_CONFIG_OVERRIDE"] = str(config)
    python = sys.executable if environment_name is None else interpreter_of(environment_name)
    done = subprocess.run(
        [python, _SCRIPTS / f"{name}.py", *words],
        cwd=home,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{job_logs(emulator)}"
    *before, last = done.stdout.strip().splitlines()
    return {**json.loads(last), "printed": "\n".join([*before, done.stderr])}


def job_logs(emulator: RunningEmulator) -> str:
    """The logs of all training jobs so far: an SDK's own output does not always have them."""
    logs = emulator.client("logs")
    group = "/aws/sagemaker/TrainingJobs"
    try:
        streams = logs.describe_log_streams(logGroupName=group)["logStreams"]
    except logs.exceptions.ResourceNotFoundException:
        return ""
    lines: list[str] = []
    for stream in streams:
        name = stream["logStreamName"]
        events = logs.get_log_events(logGroupName=group, logStreamName=name, startFromHead=True)["events"]
        lines += [f"--- {name}", *(event["message"] for event in events)]
    return "\n".join(lines)
