"""Checkpoints of local runs: kept for the next attempt, and removed after success."""

from __future__ import annotations

import pytest

from support.cli_sandbox import CliSandbox, is_ready, until

pytestmark = pytest.mark.journey


def test_checkpoints_of_a_failed_attempt_are_there_on_the_next_and_gone_after_success(
    sandbox: CliSandbox,
) -> None:
    sandbox.write(
        "train.py",
        "import os, pathlib\np = pathlib.Path('/opt/ml/checkpoints/step')\n"
        "step = int(p.read_text()) if p.exists() else 0\nprint('from', step)\np.write_text(str(step + 1))\nraise SystemExit(step < 2)",
    )
    first, second, third, fourth = (sandbox.gpuproof("run", "train.py") for _ in range(4))
    assert [done.stdout for done in (first, second, third)] == ["from 0\n", "from 1\n", "from 2\n"]
    assert "1 checkpoint file" in second.stderr
    assert third.returncode == 0
    assert fourth.stdout == "from 0\n"


def test_fresh_begins_without_checkpoints_and_loses_none(sandbox: CliSandbox) -> None:
    sandbox.write(
        "train.py",
        "import os; print(os.listdir('/opt/ml/checkpoints')); open('/opt/ml/checkpoints/a', 'w'); raise SystemExit(1)",
    )
    sandbox.gpuproof("run", "train.py")
    first = sandbox.newest()
    assert sandbox.gpuproof("run", "train.py", "--fresh").stdout == "[]\n"
    assert (first / "checkpoints" / "a").exists()


def test_a_checkpoint_folder_of_the_users_is_used_every_time(sandbox: CliSandbox) -> None:
    sandbox.write(
        "train.py",
        "import os; print(sorted(os.listdir('/opt/ml/checkpoints'))); open('/opt/ml/checkpoints/a', 'w')",
    )
    sandbox.write("gpuproof.yaml", "entry_point: train.py\ncheckpoint: ./ckpt\n")
    assert sandbox.gpuproof("run").stdout == "[]\n"
    assert sandbox.gpuproof("run").stdout == "['a']\n"
    assert (sandbox.project / "ckpt" / "a").exists()


def test_checkpoints_are_found_behind_an_attempt_that_left_none(sandbox: CliSandbox) -> None:
    sandbox.write(
        "train.py",
        "import os, sys\nprint(sorted(os.listdir('/opt/ml/checkpoints')))\n"
        "if '--save' in sys.argv: open('/opt/ml/checkpoints/a', 'w').close()\n"
        "if '--wait' in sys.argv:\n    print('ready', flush=True)\n    import time; time.sleep(600)\nraise SystemExit(1)",
    )
    first = sandbox.detached("train.py", "--", "--save", "--wait")
    until(lambda: is_ready(first), "the first attempt")
    assert sandbox.gpuproof("run", "train.py").stdout == "[]\n"
    sandbox.gpuproof("stop", "--now", first.name)
    assert sandbox.gpuproof("run", "train.py").stdout == "['a']\n"
