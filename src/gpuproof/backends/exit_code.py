"""The exit code of `gpuproof run` and `gpuproof wait`, from how a run ended."""

from __future__ import annotations

from gpuproof.agent.state import COMPLETED
from gpuproof.errors import ExitCode


def run_exit_code(status: str, *, gpu_requirement_met: bool | None, stopped_for_unused_gpu: bool) -> ExitCode:
    """The exit code for a run that ended like this.

    Args:
        status: `Completed`, `Failed` or `Stopped`.
        gpu_requirement_met: whether every GPU that the job asked for did work, by the verdict; `None` if that could
            not be determined.
        stopped_for_unused_gpu: whether it was stopped because it did not use its GPU in time (`if_gpu_unused`).
    """
    if stopped_for_unused_gpu:
        return ExitCode.GPU_UNUSED
    if status != COMPLETED:
        return ExitCode.FAILED
    if gpu_requirement_met is None:
        return ExitCode.UNDECIDED
    return ExitCode.OK if gpu_requirement_met else ExitCode.GPU_UNUSED
