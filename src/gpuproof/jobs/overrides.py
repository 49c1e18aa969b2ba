"""Values of the command-line flags that describe a job."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Overrides:
    """Values of the flags; None and empty mean that a flag was not given.

    Args:
        name: the job's name.
        include: patterns of files to send although they are ignored; they are added to the file's.
        respect_gitignore: whether files that `.gitignore` lists are left out.
        inputs: each `CHANNEL=SOURCE`; for a processing job `PATH=SOURCE`.
        hyperparameters: each `NAME=VALUE`; a value is parsed as JSON if it is valid JSON, else kept as text.
        environment: each `NAME=VALUE`.
        instance_type: replaces the GPU that the file requests.
        instance_count: number of hosts.
        distribution: the launcher; options of the file for another launcher are dropped.
        processes_per_host: of the launcher.
        gpu: replaces the instance type of the file.
        max_duration: as in `8h`.
        stall_timeout: as in `20m`.
        require_gpu: whether running without a GPU is an error.
        jupyter: whether JupyterLab runs on a machine.
        idle_timeout: of a machine; as in `30m`.
        arguments: replace the file's arguments.
        framework: the framework that the script uses.
        framework_version: its version.
        image: the container image.
        region: the AWS region.
        spot: whether to use spot capacity.
        fallbacks: instance types to try in order; they replace the file's.
        tags: each `KEY=VALUE`.
        role: the execution role on SageMaker, or the instance profile on EC2.
        bucket: for code and results.
        max_wait: with spot, the maximum time for waiting and running together; as in `12h`.
        keep_alive: how long the warm pool is kept; as in `15min`.
    """

    name: str | None = None
    include: Sequence[str] = ()
    respect_gitignore: bool | None = None
    inputs: Sequence[str] = ()
    hyperparameters: Sequence[str] = ()
    environment: Sequence[str] = ()
    instance_type: str | None = None
    instance_count: int | None = None
    distribution: str | None = None
    processes_per_host: int | None = None
    gpu: str | None = None
    max_duration: str | None = None
    stall_timeout: str | None = None
    require_gpu: bool | None = None
    jupyter: bool | None = None
    idle_timeout: str | None = None
    arguments: Sequence[str] | None = None
    framework: str | None = None
    framework_version: str | None = None
    image: str | None = None
    region: str | None = None
    spot: bool | None = None
    fallbacks: Sequence[str] = ()
    tags: Sequence[str] = ()
    role: str | None = None
    bucket: str | None = None
    max_wait: str | None = None
    keep_alive: str | None = None

    def only(self, names: Collection[str]) -> bool:
        """Whether no flag was given, except perhaps for these."""
        return all(
            value is None or value == [] or value == ()
            for name, value in vars(self).items()
            if name not in names
        )
