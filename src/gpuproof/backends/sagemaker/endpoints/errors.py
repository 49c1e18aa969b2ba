"""Why a deployment failed."""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.errors import ExitCode, GPUproofError
from gpuproof.explain import Explanation


class DeploymentFailed(GPUproofError):
    """An endpoint did not come into service, or its model does not work.

    Args:
        log: the last lines of the container's log.
        explanations: known errors in them, the root cause first.
        lacks_capacity: whether AWS had no instance.
    """

    def __init__(
        self,
        message: str,
        remedy: str | None = None,
        *,
        log: Sequence[str] = (),
        explanations: Sequence[Explanation] = (),
        lacks_capacity: bool = False,
    ) -> None:
        super().__init__(message, remedy)
        self.log = tuple(log)
        self.explanations = tuple(explanations)
        if lacks_capacity:
            self.exit_code = ExitCode.AWS_REFUSED


class GpuNotUsed(DeploymentFailed):
    """The endpoint was in service, but its model was not on the GPU."""

    exit_code = ExitCode.GPU_UNUSED


class EndpointGone(DeploymentFailed):
    """The endpoint was deleted by another user or command while GPUproof waited for it."""
