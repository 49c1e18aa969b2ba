"""The table of all launchers."""

from __future__ import annotations

from collections.abc import Mapping

from gpuproof.agent.launch import mpi, plain, tensorflow, torchrun
from gpuproof.agent.launch.context import Launcher

NONE = "none"

LAUNCHERS: Mapping[str, Launcher] = {
    NONE: plain.launch,
    "mpi": mpi.launch,
    "mirrored": tensorflow.mirrored,
    "multi_worker_mirrored": tensorflow.multi_worker_mirrored,
    "parameter_server": tensorflow.parameter_server,
    "torchrun": torchrun.launch,
}
