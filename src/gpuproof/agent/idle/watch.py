"""Looks at a machine again and again until it has been idle for long enough."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable

from gpuproof.agent.idle.decision import IdleTracker, JupyterActivity, Look
from gpuproof.agent.idle.jupyter_activity import JupyterServer
from gpuproof.gpu.nvml import Nvml, NvmlUnavailable

WORKER = "ssm-session-wor"
"""The first 15 characters of `ssm-session-worker`, which the kernel keeps of a program's name. Systems Manager's agent starts one
for each session: https://github.com/aws/amazon-ssm-agent (`agent/appconfig/constants_unix.go`, `SSMSessionWorkerName`)."""


def shell_is_open(proc: Path = Path("/proc")) -> bool:
    """Whether a session of Systems Manager runs a program, such as a shell; one that only forwards a port runs none."""
    parents: set[int] = set()
    workers: set[int] = set()
    for folder in proc.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has just ended
        # The name may contain spaces and parentheses: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
        name, _, rest = text.partition("(")[2].rpartition(")")
        if name == WORKER:
            workers.add(int(folder.name))
        parents.add(int(rest.split()[1]))
    return bool(workers & parents)


_GPU_INTERVAL_S = 2.0
_LOOK_INTERVAL_S = 20.0
_LOOKS_PER_TIMEOUT = 10


class IdleWatch:
    """What `IdleTracker` decides about this machine.

    Args:
        timeout: seconds without activity after which the machine is idle.
        jupyter: the server to ask; `None` without one.
        clock: monotonic clock, in seconds.
        shell: whether a shell is open.
    """

    def __init__(
        self,
        timeout: float,
        jupyter: JupyterServer | None,
        clock: Callable[[], float] = time.monotonic,
        gpus: Callable[[], bool | None] | None = None,
        shell: Callable[[], bool] = shell_is_open,
    ) -> None:
        self._jupyter = jupyter
        self._clock = clock
        self._gpus = gpus or GpuActivity().works
        self._shell = shell
        now = clock()
        self._tracker = IdleTracker(timeout, now, has_jupyter=jupyter is not None)
        self._interval = min(_LOOK_INTERVAL_S, timeout / _LOOKS_PER_TIMEOUT)
        self._gpu_interval = min(_GPU_INTERVAL_S, timeout / _LOOKS_PER_TIMEOUT)
        self._next_look = self._next_gpus = now
        self._gpu_works: bool | None = False
        self.looks = 0
        """How often it has looked at everything."""

    @property
    def pause(self) -> float:
        """Seconds to wait between two calls of `poll`."""
        return self._gpu_interval

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last activity."""
        return self._tracker.idle_seconds(self._clock())

    def poll(self) -> str | None:
        """Look at what is due; returns why the machine is idle, or `None` while it is not."""
        now = self._clock()
        if now >= self._next_gpus:
            self._next_gpus = now + self._gpu_interval
            # Work between two looks counts, however short; GPUs that cannot be read count if none works.
            self._gpu_works = _either(self._gpu_works, self._gpus())
        if now < self._next_look:
            return None
        self._next_look = now + self._interval
        activity: JupyterActivity | None = None if self._jupyter is None else self._jupyter.activity()
        self._tracker.note(Look(activity, self._gpu_works, self._shell()), now)
        self._gpu_works = False
        self.looks += 1
        return self._tracker.reason(now)


def _either(one: bool | None, other: bool | None) -> bool | None:
    if one or other:
        return True
    return None if one is None or other is None else False


class GpuActivity:
    """The work of all GPUs of the machine, whichever process does it.

    A process that only holds memory does no work.
    """

    def __init__(self) -> None:
        self._nvml: Nvml | None = None

    def works(self) -> bool | None:
        """Whether any GPU works now; False on a machine without a driver, `None` if the GPUs cannot be read."""
        if self._nvml is None:
            try:
                self._nvml = Nvml.open()
            except NvmlUnavailable as unavailable:
                # Without pynvml, nothing is known.
                return False if unavailable.library_missing else None
        readings = [self._nvml.read(gpu.index) for gpu in self._nvml.gpus()]
        if any(reading.utilization for reading in readings):
            return True
        if any(reading.error or reading.utilization is None for reading in readings):
            self.close()  # a driver that was loaded again needs a new session
            return None
        return False

    def close(self) -> None:
        """End the session with NVML."""
        if self._nvml is not None:
            self._nvml.close()
            self._nvml = None
