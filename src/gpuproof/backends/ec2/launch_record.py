"""The client's record of a run on EC2, kept in the bucket: what `ps`, `show` and `stop` know of it on any machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gpuproof.backends.aws.services.ec2 import RUN_TAG

VERSION = 1
_CONSOLES = {"cn-": "console.amazonaws.cn", "us-gov-": "console.amazonaws-us-gov.com"}


@dataclass(frozen=True)
class InterruptedRun:
    """A run that a spot interruption has ended, and that another run continues.

    Args:
        seconds: billed seconds of each of its instances.
        usd: its cost; None if unknown.
        on_demand_usd_per_hour: the on-demand price of all its instances together; None if unknown.
        lost_seconds: how much of its time was lost; None if unknown.
    """

    run_id: str
    seconds: float
    usd: float | None
    on_demand_usd_per_hour: float | None
    lost_seconds: float | None


@dataclass(frozen=True)
class LaunchRecord:
    """What was launched. It is written before the instances are, without their ids, and again with them.

    Args:
        kind: `training` or `processing`.
        bucket: the bucket of the run's files.
        instance_type: such as `g5.xlarge`.
        spot: whether they are spot instances.
        created: when it was submitted, in seconds since the epoch.
        launching: when its launch began, after the upload; 0 if it has not, or in a record of an older version.
        stopped: when a user requested its stop before it had instances, or before they reported anything; 0 if none did.
        silent: when a client terminated its instances because they had reported nothing; 0 if none did.
        max_duration: seconds after which the instances shut down.
        usd_per_hour: price of one instance at the launch; None if unknown.
        price_is_derived: whether that price is derived from others.
        on_demand_usd_per_hour: the on-demand price of one instance; None if unknown.
        zone: the availability zone; empty before the launch.
        instances: ids of the instances, of `algo-1` first; empty before the launch.
        expects: the expected GPUs, as text; empty for none.
        require_gpu: whether the run fails if no GPU was used.
        outputs: `s3://` prefixes of a processing job's outputs by name.
        output: the `s3://` prefix of a training job's archives.
        checkpoints: the `s3://` prefix of a training job's checkpoints; empty for none.
        attempt: 1, or more after spot interruptions.
        fresh: whether it was started without earlier checkpoints.
        interrupted: the runs of the attempts before, oldest first.
        continued_by: the run that continues it after a spot interruption; empty for none.
        schedule_role: the role of the schedule that terminates its instances if nothing else does; empty for none.
        schedule: the name of that schedule; empty if it was not created.
        lost_seconds: how much of its time an interruption has lost; None if there was none, or if it is unknown.
    """

    run_id: str
    job_name: str
    kind: str
    region: str
    bucket: str
    instance_type: str
    instance_count: int
    spot: bool
    image: str
    created: float
    max_duration: float
    launching: float = 0.0
    stopped: float = 0.0
    silent: float = 0.0
    usd_per_hour: float | None = None
    price_is_derived: bool = False
    on_demand_usd_per_hour: float | None = None
    zone: str = ""
    instances: tuple[str, ...] = ()
    expects: str = ""
    require_gpu: bool = False
    outputs: Mapping[str, str] = field(default_factory=dict[str, str])
    output: str = ""
    checkpoints: str = ""
    attempt: int = 1
    fresh: bool = False
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    interrupted: tuple[InterruptedRun, ...] = ()
    continued_by: str = ""
    schedule_role: str = ""
    schedule: str = ""
    lost_seconds: float | None = None

    @property
    def address(self) -> str:
        """The address of its first instance in the AWS console; before the launch, of a list of the run's instances."""
        host = next(
            (host for start, host in _CONSOLES.items() if self.region.startswith(start)),
            f"{self.region}.console.aws.amazon.com",
        )
        page = f"Instances:tag:{RUN_TAG}={self.run_id}"
        if self.instances:
            page = f"InstanceDetails:instanceId={self.instances[0]}"
        return f"https://{host}/ec2/home?region={self.region}#{page}"

    def to_bytes(self) -> bytes:
        """The record as JSON."""
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1).encode()

    @classmethod
    def parse(cls, content: bytes) -> LaunchRecord:
        """Read what `to_bytes` has written.

        Raises:
            ValueError: it is something else, or of a newer version of GPUproof.
        """
        values: Any = json.loads(content)
        if not isinstance(values, dict) or values.pop("version", None) != VERSION:
            raise ValueError("a launch record of another version of GPUproof")
        try:
            known: dict[str, Any] = {**values}
            known.update(instances=tuple(known["instances"]))
            known.update(interrupted=tuple(InterruptedRun(**item) for item in known.get("interrupted", ())))
            return cls(**known)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a launch record: {error}") from error
