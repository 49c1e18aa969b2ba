"""Where simulated instances are refused."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpuproof_emulator.execution.instances.requirements import missing_requirement

UNPRIVILEGED = """
import os
from gpuproof_emulator.execution.instances.requirements import missing_requirement
if os.geteuid() == 0:
    os.setuid(65534)
print(missing_requirement())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems are refused before")
def test_a_plain_user_is_told_that_root_is_required() -> None:
    printed = subprocess.run([sys.executable, "-c", UNPRIVILEGED], capture_output=True, text=True, check=True)
    assert printed.stdout == "simulated instances require root, for disks and a network of their own\n"


def test_without_the_aws_cli_the_reason_names_it() -> None:
    if missing_requirement("/bin/aws"):
        pytest.skip("this machine lacks something else")
    assert missing_requirement("") == "simulated instances require the AWS CLI, which is not installed"
