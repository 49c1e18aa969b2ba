"""The article's training script on an EC2 instance: the emulator's, which boots its user data."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.article_blocks import BLOCKS
from support.booting_account import Project, booting_account

pytestmark = [pytest.mark.slow, pytest.mark.journey]
JOB = "entry_point: train.py\nframework: tensorflow\ninstance_type: g4dn.xlarge\nrequire_gpu: false\nmax_duration: 1h\n"


def test_the_training_script_runs_on_an_ec2_host(tmp_path: Path) -> None:
    script = (BLOCKS / "ec2_tensorflow" / "training" / "train.py").read_text()
    with booting_account(tmp_path / "account") as account:
        project = Project(account, tmp_path / "project")
        project.write(script, JOB)
        printed = project.run("run", "--on", "ec2", "--no-check")
        assert "epoch 19: loss " in printed
        assert "device:CPU:0" in printed
        project.wait_until_terminated()
        project.assert_only_runs_are_left()
