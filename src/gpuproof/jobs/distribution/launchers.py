"""The launchers that `distribution` names, and which options, frameworks and numbers of hosts each one supports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NONE = "none"
TORCHRUN = "torchrun"
MIRRORED = "mirrored"
MULTI_WORKER_MIRRORED = "multi_worker_mirrored"
PARAMETER_SERVER = "parameter_server"
MPI = "mpi"
AUTO = "auto"

_TENSORFLOW = frozenset({"tensorflow", "keras", "huggingface"})


@dataclass(frozen=True)
class LauncherKind:
    """What a launcher supports.

    Args:
        description: what it does, for the JSON schema and help texts.
        options: keys of `distribution` that apply to it, besides `launcher`.
        frameworks: values of `framework` that it can launch; `None` for all.
        several_hosts: whether its processes work together across hosts.
        only_python: whether it starts Python scripts only.
    """

    description: str
    options: frozenset[str] = frozenset()
    frameworks: frozenset[str] | None = None
    several_hosts: bool = True
    only_python: bool = False


LAUNCHERS: Mapping[str, LauncherKind] = {
    NONE: LauncherKind("one process on each host"),
    TORCHRUN: LauncherKind(
        "PyTorch's launcher: one process per GPU",
        options=frozenset({"processes_per_host", "max_restarts"}),
        frameworks=frozenset({"pytorch", "huggingface", "keras"}),
        only_python=True,
    ),
    MIRRORED: LauncherKind(
        "TensorFlow's MirroredStrategy: one process with all GPUs of one host",
        frameworks=_TENSORFLOW,
        several_hosts=False,
    ),
    MULTI_WORKER_MIRRORED: LauncherKind(
        "TensorFlow's MultiWorkerMirroredStrategy: TF_CONFIG with one worker per host", frameworks=_TENSORFLOW
    ),
    PARAMETER_SERVER: LauncherKind(
        "TensorFlow's parameter servers: TF_CONFIG as SageMaker builds it", frameworks=_TENSORFLOW
    ),
    MPI: LauncherKind(
        "mpirun: one process per GPU", options=frozenset({"processes_per_host", "mpi_options"})
    ),
    AUTO: LauncherKind("chosen from what the script uses and the number of GPUs and hosts"),
}

OTHER_NAMES: Mapping[str, str] = {
    "torch_distributed": TORCHRUN,
    "torch": TORCHRUN,
    "ddp": TORCHRUN,
    "fsdp": TORCHRUN,
    "pytorchddp": TORCHRUN,
    "accelerate": TORCHRUN,
    "deepspeed": TORCHRUN,
    "smdistributed": TORCHRUN,
    "smddp": TORCHRUN,
    "mirrored_strategy": MIRRORED,
    "multi_worker_mirrored_strategy": MULTI_WORKER_MIRRORED,
    "mwms": MULTI_WORKER_MIRRORED,
    "parameter_servers": PARAMETER_SERVER,
    "parameter_server_strategy": PARAMETER_SERVER,
    "ps": PARAMETER_SERVER,
    "mpirun": MPI,
    "openmpi": MPI,
    "horovod": MPI,
    "off": NONE,
    "no": NONE,
}
"""What users call a launcher, and its name here; only for suggestions."""


def launchers_with(option: str) -> str:
    """The launchers that an option applies to, as in `torchrun and mpi`."""
    return " and ".join(name for name, kind in LAUNCHERS.items() if option in kind.options)
