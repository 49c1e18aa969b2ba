"""What the GPUs of a run or of this machine do now, as a stream of snapshots without any user interface.

    for snapshot in RunView(run).snapshots():   # blocks between snapshots; the last one has `outcome`
        show(snapshot)

`gpuproof top` and the dashboard show the same snapshots. They are read in a thread of their own, since the iterators block.
"""

from gpuproof.app.live_view.machine_view import MachineView
from gpuproof.app.live_view.run_view import RunView
from gpuproof.app.live_view.snapshot import GpuView, HostView, Outcome, ProgramView, Readings, Snapshot

__all__ = [
    "GpuView",
    "HostView",
    "MachineView",
    "Outcome",
    "ProgramView",
    "Readings",
    "RunView",
    "Snapshot",
]
