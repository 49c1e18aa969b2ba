"""Looks at a machine again and again until it has been idle for long enough."""

from __future__ import annotations

import time
from typing import Callable

from gpuproof.agent.idle.decision import IdleTracker, JupyterActivity, Look
from gpuproof.agent.idle.gpu_activity import GpuActivity
from gpuproof.agent.idle.jupyter_activity import JupyterServer
from gpuproof.agent.idle.shell_sessions import shell_is_open

_GPU_INTERVAL_S = 2.0
_LOOK_INTERVAL_S = 20.0
_LOOKS_PER_TIMEOUT = 10


class IdleWatch:
    """What `IdleTracker` decides about this machine.

    Args:
        timeout: seconds without activity after which the machine is idle.
        jupyter: the server to ask; `None` without one.
        clock: monotonic clock, in seconds.
        gpus: reads the GPUs.
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
