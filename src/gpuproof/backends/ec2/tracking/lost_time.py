"""How much of a run a spot interruption has lost."""

from __future__ import annotations

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.s3_inputs.mapping import S3Prefix

_CLOCK_SECONDS = 60.0
"""How far the clocks of S3 and of a host may differ."""


def find_lost_seconds(
    aws: Aws, launch: LaunchRecord, launched: float | None, ended: float | None
) -> float | None:
    """Seconds since the last upload of a checkpoint, or since the launch if there was none; None if unknown.

    Args:
        launched: when its instances were launched, in seconds since the epoch.
    """
    if launched is None or ended is None:
        return None
    saved = launched
    if launch.checkpoints:
        place = S3Prefix.parse(f"{launch.checkpoints.rstrip('/')}/")
        try:
            uploads = [item.modified for item in aws.list_objects(place.bucket, place.prefix)]
        except AwsRefused:
            return None
        latest = ended + _CLOCK_SECONDS
        # Older ones are those that it has started with; newer ones belong to a run that continues it.
        saved = max((time for time in uploads if launched < time <= latest), default=launched)
    return max(0.0, ended - saved)
