"""The client's job description for the agent: `job.json`, read into plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VERSION = 1

_NESTED = (
    "arguments",
    "channels",
    "hosts",
    "mounts",
    "outputs",
    "if_gpu_unused",
    "mpi_options",
    "machine",
    "planned_flops",
    "sinks",
    "notify",
)


@dataclass(frozen=True)
class Mount:
    """A file or folder of the host that the script sees below `/opt/ml`.

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
    """An output folder of a processing job.

    Args:
        target: path below `/opt/ml`, without a leading slash.
        destination: the host's folder to which its content is copied at the end; `None` keeps it in the run only.
    """

    target: str
    destination: str | None = None


@dataclass(frozen=True)
class UnusedGpuRule:
    """What to do when a required GPU does no work.

    Args:
        action: `stop`, `fail` or `warn`.
        grace: seconds after the script's start before the rule applies.
    """

    action: str
    grace: float


@dataclass(frozen=True)
class MachineSettings:
    """A machine for interactive work instead of a script.

    Args:
        jupyter: whether a Jupyter server runs on it.
        idle_timeout: seconds without activity after which it ends.
        seeds_work_folder: whether the source is copied into the work folder, `/opt/ml/checkpoints`; otherwise it is that folder.
    """

    jupyter: bool
    idle_timeout: float
    seeds_work_folder: bool


@dataclass(frozen=True)
class PlannedFlops:
    """What `gpuproof plan` found of a step of the script, with the same arguments.

    Args:
        flops: of one step on one GPU, forward and backward, without what is recomputed.
        examples: of this step, on one GPU.
        gpus: of the job, as planned.
        precision: such as `float32` or `amp-bfloat16`.
    """

    flops: float
    examples: int | None
    gpus: int
    precision: str | None


@dataclass(frozen=True)
class NotifySettings:
    """Who is notified when a run stalls, leaves its GPU unused, fails or costs much.

    Args:
        topic: ARN of an SNS topic.
        webhook_variable: the environment variable that contains the address of a webhook; the script does not see it.
        cost_usd: costs above which a message is sent.
        usd_per_hour: of all hosts together; `None` if it is unknown.
    """

    topic: str | None = None
    webhook_variable: str | None = None
    cost_usd: float | None = None
    usd_per_hour: float | None = None

    @property
    def seconds_until_cost(self) -> float | None:
        """How long the run lasts until it has cost that much; `None` if there is no limit, or no price."""
        if self.cost_usd is None or not self.usd_per_hour:
            return None
        return self.cost_usd / self.usd_per_hour * 3600


@dataclass(frozen=True)
class AgentJob:
    """A complete description of one run, independent of the catalogue, AWS and the user's files.

    Args:
        run_id: the run's id, unique on this machine; `TRAINING_JOB_NAME` for the script.
        kind: `training` or `processing`.
        hyperparameters: values as in the job description: text, numbers, booleans, lists, mappings or null.
        mounts: inputs, and anything else to show below `/opt/ml`.
        python: absolute path of the interpreter for the script; in a container, a name such as `python3` suffices.
        framework: `tensorflow`, `pytorch` … or `None`.
        instance_type: as in the job; `None` is this machine.
        hosts: all hosts, in order; `current_host` is one of them.
        expected_gpus: how many GPUs the job requests; `None` if unspecified.
        expected_gpu_name: their model, such as `A10G`.
        require_gpu: whether a GPU must work; `None` derives it from the expectation.
        step_times: whether hooks in the script's frameworks measure its training steps.
        if_gpu_unused: what to do if no GPU works; `None` does nothing.
        max_duration: seconds after which the script is stopped; `None` is no limit.
        stop_grace: seconds between SIGTERM and SIGKILL.
        isolation: `auto`, `namespace`, `proot`, `environment`, or `container` where `/opt/ml` exists already.
        checkpoints: the host's folder behind `/opt/ml/checkpoints`.
        output: the host's folder for the artifacts; `None` keeps them in the run only.
        launcher: how the script is started; a key of `gpuproof.agent.launch.registry.LAUNCHERS`.
        processes_per_host: processes that the launcher starts on each host; `None` is one per GPU, or one without GPUs.
        max_restarts: how often torchrun restarts all ranks after a failure.
        stall_timeout: seconds without progress on any GPU or in any log after which the job is stopped; `None` is never.
        cluster_key: shared secret of the hosts' agents, in hexadecimal; empty on one host.
        addresses: at which address other hosts reach a host, where that is not its name.
        shared_network: whether all hosts are processes in one network, so that each needs its own ports.
        cluster_port: port of the first host at which the other hosts' agents reach its agent.
        rendezvous_timeout: seconds within which the agents of all hosts have to reach the first one.
        machine: what runs instead of a script; `None` for a script. A machine has the contract of a training job.
        visible_devices: the script's `CUDA_VISIBLE_DEVICES`, if other hosts use the machine's other GPUs; `None` leaves it.
        planned_flops: of a step, if the script was planned; the verdict has the model FLOPs utilization then.
        provenance: digests of code and inputs, and the commit, for the run's record; see `backends.agent_job.provenance`.
        region: the AWS region that the job names, for the script's AWS libraries; `None` leaves them that of the host.
        sinks: where series and summary go: names of `gpuproof.agent.sinks.main.NAMES`, some with `=` and a target.
        notify: who is notified of problems; `None` without notifications.
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
    step_times: bool = True
    if_gpu_unused: UnusedGpuRule | None = None
    max_duration: float | None = None
    stop_grace: float = 120.0
    isolation: str = "auto"
    output: str | None = None
    launcher: str = "none"
    processes_per_host: int | None = None
    max_restarts: int = 0
    mpi_options: tuple[str, ...] = ()
    stall_timeout: float | None = None
    cluster_key: str = ""
    addresses: Mapping[str, str] = field(default_factory=dict)
    shared_network: bool = False
    cluster_port: int = 7790
    rendezvous_timeout: float = 600.0
    visible_devices: str | None = None
    region: str | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    machine: MachineSettings | None = None
    planned_flops: PlannedFlops | None = None
    sinks: tuple[str, ...] = ()
    notify: NotifySettings | None = None

    @classmethod
    def read(cls, path: Path) -> AgentJob:
        """Read a `job.json`.

        Raises:
            ValueError: its version is unknown to this agent.
        """
        document = json.loads(path.read_text(encoding="utf-8"))
        version = document.pop("version", None)
        if version != VERSION:
            raise ValueError(f"{path.name} has version {version}; this agent supports version {VERSION}")
        plain = {name: value for name, value in document.items() if name not in _NESTED}
        rule = document.get("if_gpu_unused")
        machine = document.get("machine")
        planned = document.get("planned_flops")
        return cls(
            **plain,
            arguments=tuple(document.get("arguments", ())),
            channels=tuple(document.get("channels", ())),
            hosts=tuple(document.get("hosts", ("algo-1",))),
            mpi_options=tuple(document.get("mpi_options", ())),
            sinks=tuple(document.get("sinks", ())),
            notify=NotifySettings(**document["notify"]) if document.get("notify") else None,
            mounts=tuple(Mount(**mount) for mount in document.get("mounts", ())),
            outputs=tuple(ProcessingOutput(**output) for output in document.get("outputs", ())),
            if_gpu_unused=UnusedGpuRule(**rule) if rule else None,
            machine=MachineSettings(**machine) if machine else None,
            planned_flops=PlannedFlops(**planned) if planned else None,
        )
