"""The first `gpuproof run --on sagemaker` against a new emulator only needs the lines that it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.aws_emulator import running_emulator
from support.cli_sandbox import CliSandbox

pytestmark = pytest.mark.slow

SCRIPT = """
import os
print("trained", flush=True)
open(os.path.join(os.environ["SM_MODEL_DIR"], "model.txt"), "w").write("x")
"""


def test_role_and_bucket_are_found_and_made(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    sandbox = CliSandbox(tmp_path / "home", tmp_path / "project")
    sandbox.home.mkdir()
    sandbox.write("train.py", SCRIPT)
    with running_emulator(tmp_path, role=True) as emulator:
        sandbox.environment |= emulator.credentials
        words = (
            "run",
            "train.py",
            "--on",
            "sagemaker",
            "--framework",
            "pytorch",
            "--instance-type",
            "ml.m5.xlarge",
        )
        # The second uses what the first made.
        for done in (sandbox.gpuproof(*words), sandbox.gpuproof(*words)):
            assert done.returncode == 0, done.stderr
            assert done.stdout == "trained\n"
            assert "arn:aws:iam::123456789012:role/emulator" in done.stderr
        s3 = emulator.client("s3")
        (bucket,) = s3.list_buckets()["Buckets"]
        assert bucket["Name"] == "gpuproof-123456789012-us-east-1"
        assert "aws:SecureTransport" in s3.get_bucket_policy(Bucket=bucket["Name"])["Policy"]
