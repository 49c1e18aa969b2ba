"""Ctrl-C and SIGTERM at every request of a creation: each test asserts what exists afterwards."""

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

REQUESTS = (
    "CreateBucket",
    "PutPublicAccessBlock",
    "PutObject",
    "CreateNotebookInstanceLifecycleConfig",
    "CreateNotebookInstance",
    "DescribeNotebookInstance",
)


@pytest.mark.parametrize("operation", REQUESTS)
def test_an_interrupt_when_aws_has_done_what_was_requested_leaves_nothing(
    sandbox: NotebookSandbox, operation: str
) -> None:
    plan = sandbox.plan()
    assert plan.bucket.calls
    number = (signal.SIGINT, signal.SIGTERM)[REQUESTS.index(operation) % 2]
    session = interrupted_after(sandbox.emulator.session, operation, number)
    aws = Aws(session=session, sleep=lambda _seconds: None, region=REGION)
    with sigterm_interrupts(), pytest.raises(KeyboardInterrupt):
        create_notebook(aws, plan, sandbox.progress, sandbox.waiter(aws=aws))
    assert sandbox.exists() == NOTHING
    assert not [note for note in sandbox.progress.notes if note.startswith("not deleted")]
    assert sandbox.emulator.client("s3").list_buckets()["Buckets"] == []
