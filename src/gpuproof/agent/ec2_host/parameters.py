"""The parameters that user data passes to the program on an EC2 instance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

VERSION = 1


@dataclass(frozen=True)
class HostParameters:
    """What the host has to know before it can read the job; it contains no secrets.

    Args:
        prefix: the run's prefix in the bucket, `gpuproof/runs/RUN_ID/`.
        kind: `training` or `processing`.
        machine: whether the job is a machine for interactive work.
        max_duration: seconds after the start of user data at which the instance shuts down, whatever the job does.
        silence: seconds without a sign of life of the host's program after which the instance shuts down.
        instance_type: such as `g5.xlarge`.
        host: name of this host; of several, the first one's, until the host knows its own.
        hosts: names of all hosts of the job.
        inputs: `s3://` addresses by the path below `/opt/ml` at which they are expected (`input/data/training`).
        outputs: `s3://` addresses by the path below `/opt/ml` that is uploaded at the end of a processing job.
        output: the prefix below which `model.tar.gz` and `output.tar.gz` of a training job are uploaded.
        checkpoints: the prefix that `/opt/ml/checkpoints` is synchronized with; empty for none.
        restore_checkpoints: whether to download them first; no if no other run can have written any.
        log_group: the group of CloudWatch Logs; the stream is `RUN_ID/HOST`.
        pythons: folders with a `python3` for the script, in the order in which they are tried; `PATH` if none exists.
        env_python: version of Python of an environment that uv makes for the script, such as `3.11`; empty for none.
        image: container image in which the job runs; empty for the AMI's own environment.
        driver_wait: seconds to wait for the NVIDIA driver.
        gpus: GPUs that the instance type has; 0 if the job needs none.
        gpu_name: their model in the catalogue, such as `A10G`; empty if unknown.
        gpu_memory: memory of each in bytes; 0 if unknown.
        min_driver: the oldest NVIDIA driver on which the framework can use a GPU; empty if unknown.
        retry_for: seconds for which calls to AWS that failed are repeated.
        watch_interval: seconds between two looks at the instance's tags and at notices of its interruption.
        checkpoint_interval: seconds between two uploads of checkpoints.
        local_disk: whether the instance type has local disks.
        rebalance: what a rebalance recommendation leads to: `checkpoint`, or `stop`.
    """

    run_id: str
    region: str
    bucket: str
    prefix: str
    kind: str
    agent_sha256: str
    max_duration: float
    instance_type: str
    host: str = "algo-1"
    hosts: tuple[str, ...] = ("algo-1",)
    silence: float = 600.0
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    output: str = ""
    checkpoints: str = ""
    restore_checkpoints: bool = True
    log_group: str = "/gpuproof/ec2"
    pythons: tuple[str, ...] = ()
    env_python: str = ""
    env_packages: tuple[str, ...] = ()
    image: str = ""
    driver_wait: float = 120.0
    gpus: int = 0
    gpu_name: str = ""
    gpu_memory: int = 0
    min_driver: str = ""
    min_driver_for: str = ""
    retry_for: float = 300.0
    watch_interval: float = 5.0
    checkpoint_interval: float = 60.0
    machine: bool = False
    local_disk: bool = False
    rebalance: str = "checkpoint"

    def to_json(self) -> dict[str, Any]:
        """The parameters as JSON values."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def read(cls, path: Path) -> HostParameters:
        """Read the file that user data has written.

        Raises:
            OSError: the file cannot be read.
            ValueError: it has another version, or is not what `to_json` returns.
        """
        values: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(values, dict) or values.pop("version", None) != VERSION:
            raise ValueError(f"{path} has another version than this agent ({VERSION})")
        try:
            known: dict[str, Any] = {**values}
            known.update({name: tuple(known[name]) for name in ("hosts", "pythons", "env_packages")})
            return cls(**known)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} is not complete: {error}") from error
