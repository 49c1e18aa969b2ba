"""Whether a GPU of this machine works, read through NVML."""

from __future__ import annotations

from gpuproof.gpu.nvml import Nvml, NvmlUnavailable


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
        if any(one.utilization for one in readings):
            return True
        if any(one.error or one.utilization is None for one in readings):
            self.close()  # a driver that was loaded again needs a new session
            return None
        return False

    def close(self) -> None:
        """End the session with NVML."""
        if self._nvml is not None:
            self._nvml.close()
            self._nvml = None
