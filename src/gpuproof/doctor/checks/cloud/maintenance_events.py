"""What EC2 has said that it will do to this instance, and how its clock differs from the host's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.host import inside_container
from gpuproof.doctor.readings.imds import Metadata
from gpuproof.doctor.readings.instance_identity import read_instance_metadata
from gpuproof.findings import Finding, Severity

_REFUSED_S = 300.0
"""AWS refuses signatures that are five minutes off (S3: fifteen).
Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html"""
_NOTEWORTHY_S = 60.0
_ROLE_ELSEWHERE = frozenset(
    (
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
    )
)
"""ECS, and pods with a role of their own: there the service is kept from containers on purpose."""


@dataclass(frozen=True)
class Reading:
    """What the metadata service says, and whether a container stands between."""

    metadata: Metadata
    container: bool = False


def read(machine: Machine) -> Reading | None:
    """What the service says; `None` away from EC2, and where it is silent to a container that has its role elsewhere."""
    metadata = read_instance_metadata(machine)
    if metadata is None or (metadata.problem is not None and _ROLE_ELSEWHERE & machine.environment.keys()):
        return None
    return Reading(metadata, inside_container(machine))


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D720 clock, D721 a spot interruption, D722 a rebalance recommendation, D723 maintenance, D724 no metadata."""
    metadata = reading.metadata
    if metadata.problem is not None:
        yield _silent(reading)
        return
    if metadata.spot_action is not None:
        yield Finding(
            "D721",
            Severity.ERROR,
            f"EC2 takes this spot instance back ({metadata.spot_action}) at {metadata.spot_time}.",
            (f"spot/instance-action: {metadata.spot_action} at {metadata.spot_time}",),
            "Save a checkpoint now, and go on from it on another instance.",
        )
    elif metadata.rebalance is not None:
        yield Finding(
            "D722",
            Severity.WARNING,
            "EC2 says that this spot instance is likely to be taken back soon.",
            (f"rebalance recommendation of {metadata.rebalance}",),
            "Save checkpoints often, and do not start a long job here.",
        )
    for event in metadata.events:
        yield Finding(
            "D723",
            Severity.WARNING,
            f"EC2 has planned maintenance of this instance: {event}.",
            (f"events/maintenance/scheduled: {event}",),
            "Stop the instance and start it again before then: it moves to other hardware.",
        )
    yield from _clock(metadata)


def _clock(metadata: Metadata) -> Iterator[Finding]:
    skew = metadata.clock_skew_s
    if skew is None or abs(skew) < _NOTEWORTHY_S:
        return
    minutes = f"{abs(skew) / 60:.0f} min" if abs(skew) >= 120 else f"{abs(skew):.0f} s"
    refused = abs(skew) >= _REFUSED_S
    yield Finding(
        "D720",
        Severity.ERROR if refused else Severity.WARNING,
        f"This machine's clock is {minutes} {'ahead of' if skew > 0 else 'behind'} the host's: AWS "
        f"{'refuses' if refused else 'will soon refuse'} its requests (RequestTimeTooSkewed, SignatureDoesNotMatch).",
        (f"clock skew: {skew:+.0f} s",),
        "sudo systemctl restart chronyd (server 169.254.169.123 is Amazon's time service)",
    )


def _silent(reading: Reading) -> Finding:
    remedy = (
        "Let it through to containers: aws ec2 modify-instance-metadata-options --instance-id ID "
        "--http-put-response-hop-limit 2"
        if reading.container
        else "aws ec2 modify-instance-metadata-options --instance-id ID --http-endpoint enabled; or set "
        "AWS_EC2_METADATA_DISABLED=true if this is meant."
    )
    return Finding(
        "D724",
        Severity.NOTE,
        f"EC2's metadata service gives nothing here: {reading.metadata.problem}. AWS's SDKs then find neither the "
        "instance's role nor its region, and nobody hears of a spot interruption.",
        (f"metadata service: {reading.metadata.problem}",),
        remedy,
    )


CHECK = Check("EC2's notices", Layer.CLOUD, read, evaluate, quick=False)
