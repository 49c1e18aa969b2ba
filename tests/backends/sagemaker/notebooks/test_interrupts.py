"""SIGTERM during a creation, on the emulator over HTTP; `test_transaction.py` has every moment."""

from __future__ import annotations

import signal

import pytest

from gpuproof.backends.aws import Aws
from gpuproof.backends.interrupts import sigterm_interrupts
from gpuproof.backends.sagemaker.notebooks.create import create_notebook
from support.aws_emulator import REGION
from support.interrupting_session import interrupted_after
from support.notebook_sandbox import NOTHING, NotebookSandbox

pytestmark = pytest.mark.slow


def test_sigterm_when_the_instance_was_created_leaves_nothing(sandbox: NotebookSandbox) -> None:
    plan = sandbox.plan()
    assert plan.bucket.calls
    session = interrupted_after(sandbox.emulator.session, "CreateNotebookInstance", signal.SIGTERM)
    aws = Aws(session=session, sleep=lambda _seconds: None, region=REGION)
    with sigterm_interrupts(), pytest.raises(KeyboardInterrupt):
        create_notebook(aws, plan, sandbox.progress, sandbox.waiter(aws=aws))
    assert sandbox.exists() == NOTHING
    assert not [note for note in sandbox.progress.notes if note.startswith("not deleted")]
    assert sandbox.emulator.client("s3").list_buckets()["Buckets"] == []
