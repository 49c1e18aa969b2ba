"""The group of CloudWatch Logs with the output of all runs on EC2: created before the first launch, to keep lines for a month.

A group that an instance has created would keep them for ever, at $0.03 per GB-month: https://aws.amazon.com/cloudwatch/pricing/
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.execute import execute

LOG_GROUP = "/gpuproof/ec2"
"""Hosts write to its streams `RUN_ID/HOST`."""

RETENTION_DAYS = 30
"""One of the numbers that PutRetentionPolicy accepts."""


def plan_log_group(aws: Aws) -> tuple[ApiCall, ...]:
    """The calls that create the group; none if it exists, whose retention is left as it is.

    Args:
        aws: the client of the job's own region.
    """
    try:
        if aws.has_log_group(LOG_GROUP):
            return ()
    except AwsRefused as refused:
        if not refused.is_permission:
            raise
        return ()
    group = {"logGroupName": LOG_GROUP}
    retention = {**group, "retentionInDays": RETENTION_DAYS}
    return (
        ApiCall("logs", "create_log_group", group, f"create the log group {LOG_GROUP}"),
        ApiCall("logs", "put_retention_policy", retention, f"set its retention to {RETENTION_DAYS} days"),
    )


def create_log_group(aws: Aws, calls: Sequence[ApiCall], progress: SubmitProgress) -> None:
    """Create the group; what is refused is a note, since the instances create the group as well.

    Args:
        calls: of `plan_log_group`.
    """
    for call in calls:
        progress.step(call.what)
        try:
            execute(aws, call)
        except (AwsRefused, AwsUnreachable) as error:
            if isinstance(error, AwsRefused) and error.code == "ResourceAlreadyExistsException":
                continue  # another run has created it
            progress.report(
                "note", f"the log group {LOG_GROUP} keeps its lines until you delete them: {error.message}"
            )
            return
