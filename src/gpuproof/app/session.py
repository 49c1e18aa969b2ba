"""The AWS client of a use case."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from gpuproof.backends.aws import Aws
from gpuproof.settings import boto3_session

if TYPE_CHECKING:
    from gpuproof.backends.progress import SubmitProgress


def aws_client(region: str | None, reporter: SubmitProgress, profile: str | None = None) -> Aws:
    """The client of a region (default: that of the AWS configuration), whose notes are reported."""
    return Aws(
        session=partial(boto3_session, profile),
        region=region,
        notify=lambda text: reporter.report("note", text),
    )
