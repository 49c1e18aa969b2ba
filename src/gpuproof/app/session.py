"""The AWS client of a use case."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gpuproof.settings import boto3_session

if TYPE_CHECKING:
    from gpuproof.backends.aws import Aws


def print_note(text: str) -> None:
    """Prints a note to standard error."""
    print(f"gpuproof: {text}", file=sys.stderr)


def aws_client(
    region: str | None,
    profile: str | None = None,
    *,
    notify: Callable[[str], None] | None = None,
    dry_run: bool = False,
) -> Aws:
    """The client of a region (default: that of the AWS configuration).

    Args:
        notify: called with what is being waited for, when requests take long; by default that is printed.
        dry_run: plan with placeholders if there are no credentials.
    """
    # `check` prints notes without a client of AWS, and starts faster without these.
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.aws.unknown_account import UnknownAccount

    aws = Aws(session=partial(boto3_session, profile), region=region, notify=notify)
    return UnknownAccount.unless_known(aws) if dry_run else aws
