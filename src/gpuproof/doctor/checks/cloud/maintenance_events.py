"""Scheduled EC2 events (interruption, maintenance) and the clock skew, from the instance metadata service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.host import inside_container
from gpuproof.doctor.readings.imds import InstanceMetadata
from gpuproof.doctor.readings.instance_identity import read_instance_metadata
from gpuproof.findings import Finding, Severity

_REJECTED_S = 300.0
"""AWS rejects signatures that are off by five minutes (S3: fifteen).
Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html"""
_NOTEWORTHY_S = 60.0
_ROLE_ELSEWHERE = frozenset(
    (
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
    )
)
"""ECS, and pods with their own role: there the service is blocked for containers on purpose."""


@dataclass(frozen=True)
class Reading:
    """The instance metadata, and whether the doctor runs in a container."""

    metadata: InstanceMetadata
    container: bool = False


def read(machine: Machine) -> Reading | None:
    """Read the metadata; `None` outside EC2, and if it is blocked for a container that gets its role elsewhere."""
    metadata = read_instance_metadata(machine)
    if metadata is None or (metadata.problem is not None and _ROLE_ELSEWHERE & machine.environment.keys()):
        return None
    return Reading(metadata, inside_container(machine))


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D720 clock, D721 a spot interruption, D722 a rebalance recommendation, D723 maintenance, D724 no metadata."""
    metadata = reading.metadata
    if metadata.problem is not None:
        yield _metadata_unavailable(reading)
        return
    if metadata.spot_action is not None:
        yield Finding(
            "D721",
            Severity.ERROR,
            f"EC2 interrupts this spot instance ({metadata.spot_action}) at {metadata.spot_time}.",
            (f"spot/instance-action: {metadata.spot_action} at {metadata.spot_time}",),
            "Save a checkpoint now, and resume from it on another instance.",
        )
    elif metadata.rebalance is not None:
        yield Finding(
            "D722",
            Severity.WARNING,
            "EC2 expects to interrupt this spot instance soon (rebalance recommendation).",
            (f"rebalance recommendation of {metadata.rebalance}",),
            "Save checkpoints often, and do not start a long job here.",
        )
    for event in metadata.events:
        yield Finding(
            "D723",
            Severity.WARNING,
            f"EC2 has scheduled maintenance of this instance: {event}.",
            (f"events/maintenance/scheduled: {event}",),
            "Stop the instance and start it again before then, which moves it to other hardware.",
        )
    yield from _clock(metadata)


def _clock(metadata: InstanceMetadata) -> Iterator[Finding]:
    skew = metadata.clock_skew_s
    if skew is None or abs(skew) < _NOTEWORTHY_S:
        return
    minutes = f"{abs(skew) / 60:.0f} min" if abs(skew) >= 120 else f"{abs(skew):.0f} s"
    rejected = abs(skew) >= _REJECTED_S
    yield Finding(
        "D720",
        Severity.ERROR if rejected else Severity.WARNING,
        f"This machine's clock is {minutes} {'ahead of' if skew > 0 else 'behind'} the host's: AWS "
        f"{'rejects' if rejected else 'will soon reject'} its requests (RequestTimeTooSkewed, SignatureDoesNotMatch).",
        (f"clock skew: {skew:+.0f} s",),
        "sudo systemctl restart chronyd (server 169.254.169.123 is Amazon's time service)",
    )


def _metadata_unavailable(reading: Reading) -> Finding:
    remedy = (
        "Allow containers to reach it: aws ec2 modify-instance-metadata-options --instance-id ID "
        "--http-put-response-hop-limit 2"
        if reading.container
        else "aws ec2 modify-instance-metadata-options --instance-id ID --http-endpoint enabled; or set "
        "AWS_EC2_METADATA_DISABLED=true if this is intended."
    )
    return Finding(
        "D724",
        Severity.NOTE,
        f"EC2's metadata service is unavailable: {reading.metadata.problem}. AWS SDKs find neither the instance's role "
        "nor its region, and spot interruptions go unnoticed.",
        (f"metadata service: {reading.metadata.problem}",),
        remedy,
    )


CHECK = Check("EC2 events", Layer.CLOUD, read, evaluate, quick=False)
