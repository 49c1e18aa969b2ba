"""What the agent needs to notice a script that hangs, and to say where."""

from __future__ import annotations

from pathlib import Path

from gpuproof.agent.job import AgentJob
from gpuproof.agent.output import Sink
from gpuproof.agent.paths import RunPaths
from gpuproof.agent.stall.progress import Progress, stall_text


class StallWatch:
    """The progress of a script, and its stack traces.

    Args:
        timeout: seconds without progress after which the script counts as hanging.
        sink: the log for the stack traces.
        tools: folders in which py-spy may be installed.
        counts: the folder in which the script's processes count their examples.
    """

    def __init__(self, timeout: float, sink: Sink, tools: list[Path], counts: Path | None = None) -> None:
        self.timeout = timeout
        self.progress = Progress(counts=counts)
        self._sink = sink
        self._tools = tools

    @classmethod
    def of(cls, job: AgentJob, paths: RunPaths, sink: Sink) -> StallWatch | None:
        """The watch for a job; `None` if it has no `stall_timeout`."""
        if job.stall_timeout is None:
            return None
        tools = [Path(job.python).parent, paths.packages / "bin"]
        return cls(job.stall_timeout, sink, tools, paths.throughput)

    @property
    def text(self) -> str:
        """Why the script was stopped."""
        return stall_text(self.timeout)

    def print_stacks(self, root: int) -> None:
        """Print the stack traces of all Python processes below a process into the log."""
        from gpuproof.agent.stall.stack_traces import print_stack_traces  # hardly ever needed

        print_stack_traces(root, self._sink, self._tools)
