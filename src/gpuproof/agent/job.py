"""What the ground half asks of the agent: `job.json`, read into plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERSION = 1

_NESTED = ("arguments", "channels", "hosts", "mounts", "outputs", "if_gpu_unused")


@dataclass(frozen=True)
class Mount:
    """A file or folder of the host that the script shall see below `/opt/ml`.

    Args:
        source: absolute path on the host.
        target: path below `/opt/ml`, without a leading slash.
        read_only: whether the script may only read it.
    """

    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class ProcessingOutput:
    """A folder that a processing job fills.

    Args:
        target: path below `/opt/ml`, without a leading slash.
        destination: the host's folder that gets its content at the end; `None` keeps it in the run alone.
    """

    target: str
    destination: str | None = None


@dataclass(frozen=True)
class UnusedGpuRule:
    """What to do when a GPU that was asked for does no work.

    Args:
        action: `stop`, `fail` or `warn`.
        grace: seconds after the script's start before the rule holds.
    """

    action: str
    grace: float


@dataclass(frozen=True)
class AgentJob:
    """One run's work, complete: nothing in it needs the catalogue, AWS or the user's files to be understood.

    Args:
        run_id: the run's id, unique on this machine; `TRAINING_JOB_NAME` for the script.
        job_name: the job's name.
        kind: `training` or `processing`.
        entry_point: path of the script below the code folder.
        arguments: what follows the hyperparameters on the script's command line.
        hyperparameters: values as a person wrote them: text, numbers, booleans, lists, mappings or null.
        channels: names of the input channels (training).
        mounts: inputs, and anything else that is to be seen below `/opt/ml`.
        outputs: folders that a processing job fills.
        environment: variables for the script.
        python: absolute path of the interpreter for the script; in a container a name such as `python3` will do.
        framework: `tensorflow`, `pytorch` … or `None`.
        instance_type: as the job gives it; `None` is this machine.
        hosts: all hosts, in order; `current_host` is one of them.
        expected_gpus: how many GPUs the job asks for; `None` when it says nothing.
        expected_gpu_name: their model, such as `A10G`.
        expected_because: what the expectation follows from, in words.
        require_gpu: whether a GPU must work; `None` leaves it to the expectation.
        if_gpu_unused: what to do when none does; `None` does nothing.
        max_duration: seconds after which the script is stopped; `None` is no limit.
        stop_grace: seconds between SIGTERM and SIGKILL.
        isolation: `auto`, `namespace`, `proot`, `environment`, or `container` where `/opt/ml` is there already.
        checkpoints: the host's folder behind `/opt/ml/checkpoints`.
        output: the host's folder that gets the artifacts; `None` keeps them in the run alone.
    """

    run_id: str
    job_name: str
    kind: str
    entry_point: str
    python: str
    checkpoints: str
    arguments: tuple[str, ...] = ()
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    channels: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    outputs: tuple[ProcessingOutput, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    framework: str | None = None
    instance_type: str | None = None
    hosts: tuple[str, ...] = ("algo-1",)
    current_host: str = "algo-1"
    expected_gpus: int | None = None
    expected_gpu_name: str | None = None
    expected_because: str = ""
    require_gpu: bool | None = None
    if_gpu_unused: UnusedGpuRule | None = None
    max_duration: float | None = None
    stop_grace: float = 120.0
    isolation: str = "auto"
    output: str | None = None

    @classmethod
    def read(cls, path: Path) -> AgentJob:
        """The job in a `job.json`.

        Raises:
            ValueError: it is of a version that this agent does not know.
        """
        document = json.loads(path.read_text(encoding="utf-8"))
        version = document.pop("version", None)
        if version != VERSION:
            raise ValueError(f"{path.name} is of version {version}; this agent knows version {VERSION}")
        plain = {name: value for name, value in document.items() if name not in _NESTED}
        rule = document.get("if_gpu_unused")
        return cls(
            **plain,
            arguments=tuple(document.get("arguments", ())),
            channels=tuple(document.get("channels", ())),
            hosts=tuple(document.get("hosts", ("algo-1",))),
            mounts=tuple(Mount(**mount) for mount in document.get("mounts", ())),
            outputs=tuple(ProcessingOutput(**output) for output in document.get("outputs", ())),
            if_gpu_unused=UnusedGpuRule(**rule) if rule else None,
        )
