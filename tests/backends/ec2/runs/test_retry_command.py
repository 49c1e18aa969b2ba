"""`gpuproof run --retry-spot`: the command follows one attempt after the other, and shows what they cost together."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from gpuproof.agent.log_markers import VERDICT_MARKER
from gpuproof.backends.aws import Aws
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.cli.main import main
from gpuproof.errors import ExitCode
from support.ec2_planning import SCRIPT, create_instance_profile

pytestmark = pytest.mark.slow

VERDICT = VERDICT_MARKER + json.dumps({"outcome": "used", "gpu_requirement_met": True, "gpus": []})


@contextlib.contextmanager
def hosts(ec2: Any) -> Generator[list[str]]:
    """Hosts of all runs, of which the first is interrupted, and the others complete; yields the ids of their runs."""
    ended: list[str] = []
    stop = threading.Event()

    def end_all() -> None:
        for key in ec2.keys("gpuproof/ec2/"):
            launch = LaunchRecord.parse(ec2.aws.get_bytes(ec2.bucket, key))
            if not launch.instances or launch.run_id in ended:
                continue
            ec2.log(launch, "hello", VERDICT)
            if ended:
                ec2.end(launch)
            else:
                ec2.end(launch, "Stopped", secondary_status="Interrupted", interrupted=True)
            ended.append(launch.run_id)

    def work() -> None:
        while not stop.wait(0.2):
            with contextlib.suppress(Exception):  # the command would wait for ever
                end_all()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield ended
    finally:
        stop.set()
        thread.join()


def boots_instances(_aws: Aws) -> bool:
    return True


def test_a_job_is_followed_over_an_interruption(
    ec2: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # The emulator only records instances: the test's own hosts report for them.
    monkeypatch.setattr(Aws, "boots_instances", boots_instances)
    create_instance_profile(ec2.emulator)
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUPROOF_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("GPUPROOF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GPUPROOF_INSTANCE_PROFILE", raising=False)
    words = (
        "--instance-type",
        "g5.xlarge",
        "--max-duration",
        "1h",
        "--no-check",
        "--spot",
        "--retry-spot",
        "1",
    )
    with hosts(ec2) as ended:
        code = main(["run", "train.py", "--on", "ec2", *words])
    shown = "".join(capfd.readouterr())
    assert code == ExitCode.OK, shown
    assert len(ended) == 2
    assert "EC2 has reclaimed g5.xlarge in us-east-1" in shown
    assert "starting again from its checkpoints (retry 1 of 1)" in shown
    assert f"run        {ended[1]}" in shown
    assert main(["show", ended[1], "--on", "ec2"]) == ExitCode.OK
    again = capfd.readouterr().out
    for text in (shown, again):
        assert "spot       1 interruption, " in text
        assert "; 2 attempts cost $" in text
    assert main(["show", ended[0], "--on", "ec2"]) == ExitCode.OK
    assert f"its spot instance was reclaimed; {ended[1]} continues it" in capfd.readouterr().out


def test_other_backends_reject_the_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    assert main(["run", "train.py", "--on", "local", "--retry-spot", "1"]) == ExitCode.USAGE
    assert "--retry-spot requires --on ec2" in capfd.readouterr().err
