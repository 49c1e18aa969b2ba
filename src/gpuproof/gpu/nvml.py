"""A thin typed layer over pynvml: values that NVML cannot read are `None`; a failure of NVML itself is an exception."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Callable

from gpuproof.gpu.intensity import Counters
from gpuproof.gpu.intensity.dcgm import Dcgm
from gpuproof.gpu.intensity.gpm import Gpm

LIBRARY = "libnvidia-ml.so.1"
MIB = 1024 * 1024

# Return codes and bits: https://docs.nvidia.com/deploy/nvml-api/ (nvmlReturn_t, nvmlClocksEventReasons).
LIBRARY_NOT_FOUND = 12
_NOT_FOUND = 6
_PER_FUNCTION = frozenset({3, 4, 13, 25, 26})
"""Not supported, no permission, function not found, version mismatch, deprecated: calling again is useless."""
_PER_GPU = frozenset({1, 9, 15, 16, 18})
"""Uninitialised, driver not loaded, GPU lost, reset required, driver and library differ: all other calls will fail."""
_THROTTLE_REASONS = (
    (0x002, "application clocks"),
    (0x004, "power cap"),
    (0x008, "hardware slowdown"),
    (0x010, "sync boost"),
    (0x020, "thermal slowdown (software)"),
    (0x040, "thermal slowdown (hardware)"),
    (0x080, "power brake"),
    (0x100, "display clocks"),
)
_SM_CLOCK = 1
_CORE_SENSOR = 0
"""The temperature of the GPU itself (nvmlTemperatureSensors_t)."""
_ECC_KINDS = (0, 1)
"""Corrected and uncorrected errors (nvmlMemoryErrorType_t)."""
_VOLATILE = 0
"""Since the driver was loaded (nvmlEccCounterType_t)."""
_PCIE_COUNTERS = (0, 1)
"""Sent and received, in KB/s."""
_NO_INSTANCE = 0xFFFFFFFF


class NvmlUnavailable(Exception):
    """NVML cannot be used on this machine.

    Args:
        code: NVML's return code, `LIBRARY_NOT_FOUND` without a driver; `None` if pynvml is missing.
    """

    def __init__(self, reason: str, code: int | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code

    @property
    def library_missing(self) -> bool:
        """Whether no NVIDIA driver is installed, as opposed to one that fails."""
        return self.code == LIBRARY_NOT_FOUND


@dataclass(frozen=True)
class GpuInfo:
    """Constant properties of a GPU. Memory in bytes, power in watts; `None` if unknown to NVML.

    Args:
        minor: N of its device file, `/dev/nvidiaN`; containers keep the host's numbers, while indexes begin with 0.
    """

    index: int
    uuid: str | None = None
    name: str | None = None
    memory_total: int | None = None
    pci_bus_id: str | None = None
    compute_capability: tuple[int, int] | None = None
    power_limit_w: float | None = None
    max_sm_clock_mhz: int | None = None
    mig: bool | None = None
    multiprocessors: int | None = None
    minor: int | None = None


@dataclass(frozen=True)
class GpuReading:
    """One reading of a GPU; `None` for values unknown to NVML.

    Args:
        utilization: percent of the last sample period (1/6 s to 1 s) in which a kernel ran.
        memory_utilization: percent of that period in which device memory was read or written.
        memory_used: bytes in use, without the driver's reserve if `memory_reserved` is known.
        temperature_c: of the GPU's core, in degrees Celsius.
        processes: (process id, bytes or `None`) of every process with a compute context; process ids as the host
            numbers them; `None` where they cannot be listed.
        process_utilization: (process id, percent of the SMs); read only for shared GPUs.
        gpu_instances: (process id, MIG instance) of those processes, for a GPU in MIG mode.
        counters: its performance counters since the reading before.
        pcie_bytes_per_s: read and written over PCIe; measured only where there are no `counters`.
        ecc_errors: memory errors since the driver was loaded, corrected or not; read once a minute.
        error: why the GPU could not be read at all.
    """

    index: int
    utilization: int | None = None
    memory_utilization: int | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    memory_reserved: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    throttle: tuple[str, ...] | None = None
    processes: tuple[tuple[int, int | None], ...] | None = None
    process_utilization: tuple[tuple[int, int], ...] | None = None
    gpu_instances: tuple[tuple[int, int], ...] = ()
    counters: Counters | None = None
    pcie_bytes_per_s: float | None = None
    ecc_errors: int | None = None
    error: str | None = None


def library_present() -> bool:
    """Whether the driver's NVML library can be loaded; does not import pynvml, which costs some 80 ms."""
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def count_gpus() -> int:
    """Number of GPUs that NVML sees, regardless of `CUDA_VISIBLE_DEVICES`; 0 if NVML is unavailable."""
    if not library_present():
        return 0
    try:
        with Nvml.open() as nvml:
            return len(nvml.gpus())
    except NvmlUnavailable:
        return 0


class Nvml:
    """An NVML session; open it with `Nvml.open()`, close it or use it in a `with` statement."""

    def __init__(self, pynvml: Any) -> None:
        self._pynvml = pynvml
        self._handles = tuple(self._handle(index) for index in range(pynvml.nvmlDeviceGetCount()))
        self._unsupported: set[tuple[int, str]] = set()
        self._gpm = Gpm(pynvml)

    @classmethod
    def open(cls) -> Nvml:
        """Load and initialise NVML.

        Raises:
            NvmlUnavailable: no driver, an unresponsive driver, or no pynvml.
        """
        try:
            import pynvml  # slow to import, and useless without a driver
        except ImportError as error:
            raise NvmlUnavailable(f"pynvml cannot be imported ({error})", None) from error
        try:
            pynvml.nvmlInit()
        except Exception as error:
            raise NvmlUnavailable(_init_reason(error), _code(error)) from error
        try:
            return cls(pynvml)
        except Exception as error:
            pynvml.nvmlShutdown()
            raise NvmlUnavailable(f"NVML cannot count the GPUs: {_describe(error)}", _code(error)) from error

    def close(self) -> None:
        """Shut NVML down; errors of a driver that has been unloaded are ignored."""
        self._gpm.close()
        try:
            self._pynvml.nvmlShutdown()
        except self._pynvml.NVMLError:
            pass

    def __enter__(self) -> Nvml:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def driver_version(self) -> str | None:
        """The version of the NVIDIA driver, such as `550.54.15`."""
        try:
            return str(self._pynvml.nvmlSystemGetDriverVersion())
        except self._pynvml.NVMLError:
            return None

    def gpus(self) -> tuple[GpuInfo, ...]:
        """Return every GPU of this machine in NVML's order; a lost one has only its index."""
        return tuple(self._info(index) for index in range(len(self._handles)))

    def read(self, index: int) -> GpuReading:
        """Read one GPU; never raises. Unreadable values are `None`; `error` is set if nothing could be read."""
        handle = self._handles[index]
        if isinstance(handle, str):
            return GpuReading(index, error=handle)
        p = self._pynvml
        read_field = _Caller(self._unsupported, index)
        rates = read_field("utilization", lambda: p.nvmlDeviceGetUtilizationRates(handle))
        memory = read_field("memory", lambda: p.nvmlDeviceGetMemoryInfo(handle, p.nvmlMemory_v2))
        if memory is None:
            memory = read_field("memory 1", lambda: p.nvmlDeviceGetMemoryInfo(handle))
        power = read_field("power", lambda: p.nvmlDeviceGetPowerUsage(handle))
        temperature = read_field("temperature", lambda: p.nvmlDeviceGetTemperature(handle, _CORE_SENSOR))
        if temperature is None:
            temperature = read_field(
                "temperature 2", lambda: p.nvmlDeviceGetTemperatureV(handle, _CORE_SENSOR)
            )
        clock = read_field("clock", lambda: p.nvmlDeviceGetClockInfo(handle, _SM_CLOCK))
        throttle = read_field("throttle", lambda: p.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        if throttle is None:
            throttle = read_field("throttle 2", lambda: p.nvmlDeviceGetCurrentClocksEventReasons(handle))
        processes = read_field("processes", lambda: p.nvmlDeviceGetComputeRunningProcesses_v3(handle))
        if processes is None:
            processes = read_field("processes 2", lambda: p.nvmlDeviceGetComputeRunningProcesses_v2(handle))
        if read_field.fatal or (read_field.error and rates is None and memory is None):
            return GpuReading(index, error=read_field.error)
        return GpuReading(
            index,
            utilization=None if rates is None else int(rates.gpu),
            memory_utilization=None if rates is None else int(rates.memory),
            memory_used=None if memory is None else int(memory.used),
            memory_total=None if memory is None else int(memory.total),
            memory_reserved=None if memory is None else getattr(memory, "reserved", None),
            power_w=None if power is None else power / 1000,
            temperature_c=temperature,
            sm_clock_mhz=clock,
            throttle=None if throttle is None else throttle_reasons(throttle),
            processes=None if processes is None else tuple((p.pid, p.usedGpuMemory) for p in processes),
            gpu_instances=_gpu_instances(processes or ()),
        )

    def with_process_utilization(self, reading: GpuReading, since_us: int) -> GpuReading:
        """Add each process's share of the SMs, for a GPU with several processes.

        Args:
            since_us: start of the period, in microseconds since the epoch.
        """
        handle = self._handles[reading.index]
        if isinstance(handle, str) or (reading.index, "process utilization") in self._unsupported:
            return reading
        try:
            samples = self._pynvml.nvmlDeviceGetProcessUtilization(handle, since_us)
        except Exception as error:  # noqa: BLE001 - a driver's oddity must not end monitoring
            if _code(error) in (0, _NOT_FOUND):
                return replace(reading, process_utilization=())
            if _code(error) in _PER_FUNCTION:
                self._unsupported.add((reading.index, "process utilization"))
            return reading
        shares: dict[int, list[int]] = {}
        for sample in samples:
            # Some drivers leave stale rows in the buffer: outside the period, or with percentages above 100.
            if sample.timeStamp > since_us and sample.smUtil <= 100:
                shares.setdefault(int(sample.pid), []).append(int(sample.smUtil))
        means = tuple((pid, round(sum(values) / len(values))) for pid, values in sorted(shares.items()))
        return replace(reading, process_utilization=means)

    def with_ecc_errors(self, reading: GpuReading) -> GpuReading:
        """Add the memory errors that the GPU has had since its driver was loaded; unchanged if it does not count them."""
        handle = self._handles[reading.index]
        if isinstance(handle, str) or reading.error is not None:
            return reading
        p, read_field = self._pynvml, _Caller(self._unsupported, reading.index)
        counts = [
            read_field(
                f"ecc {kind}", lambda kind=kind: p.nvmlDeviceGetTotalEccErrors(handle, kind, _VOLATILE)
            )
            for kind in _ECC_KINDS
        ]
        known = [count for count in counts if count is not None]
        return replace(reading, ecc_errors=sum(known)) if known else reading

    def counts_performance(self, index: int) -> bool:
        """Whether a GPU has performance counters that NVML reads."""
        handle = self._handles[index]
        return not isinstance(handle, str) and self._gpm.supported(
            index, handle, _Caller(self._unsupported, index)
        )

    def with_counters(
        self, reading: GpuReading, pids: frozenset[int], dcgm: Dcgm | None = None
    ) -> GpuReading:
        """Add the performance counters since the previous call; never raises.

        In MIG mode, NVML has no utilization: it is then what the job's instances have.

        Args:
            pids: the job's processes, which decide whose MIG instances are read.
            dcgm: has the counters where NVML has none.
        """
        handle = self._handles[reading.index]
        if isinstance(handle, str) or reading.error is not None:
            return reading
        own = {instance for pid, instance in reading.gpu_instances if pid in pids}
        call = _Caller(self._unsupported, reading.index)
        if dcgm is None or self._gpm.supported(reading.index, handle, call):
            counters = self._gpm.read(reading.index, handle, own, call)
        else:
            uuid = call("uuid", lambda: _text(self._pynvml.nvmlDeviceGetUUID(handle)))
            targets = self._gpm.targets(reading.index, handle, own, call)
            counters = dcgm.counters(uuid or "", targets)
        if counters is None:
            return reading
        utilization = reading.utilization
        if utilization is None and counters.busy is not None:
            utilization = round(100 * counters.busy)
        return replace(reading, counters=counters, utilization=utilization)

    def with_pcie(self, reading: GpuReading) -> GpuReading:
        """Add the traffic over PCIe, which takes 20 ms for each direction; never raises.

        Source: https://docs.nvidia.com/deploy/nvml-api/, nvmlDeviceGetPcieThroughput.
        """
        handle = self._handles[reading.index]
        if isinstance(handle, str) or reading.error is not None:
            return reading
        call = _Caller(self._unsupported, reading.index)
        throughput = [
            call("pcie", lambda counter=counter: self._pynvml.nvmlDeviceGetPcieThroughput(handle, counter))
            for counter in _PCIE_COUNTERS
        ]
        if None in throughput:
            return reading
        return replace(reading, pcie_bytes_per_s=sum(throughput) * 1024.0)

    def _handle(self, index: int) -> Any:
        """Return a GPU's handle, or why it has none: the other GPUs can still be monitored."""
        try:
            return self._pynvml.nvmlDeviceGetHandleByIndex(index)
        except self._pynvml.NVMLError as error:
            return _describe(error)

    def _info(self, index: int) -> GpuInfo:
        handle = self._handles[index]
        if isinstance(handle, str):
            return GpuInfo(index)
        p = self._pynvml
        read_field = _Caller(set(), index)
        pci = read_field("pci", lambda: p.nvmlDeviceGetPciInfo(handle))
        capability = read_field("capability", lambda: p.nvmlDeviceGetCudaComputeCapability(handle))
        memory = read_field("memory", lambda: p.nvmlDeviceGetMemoryInfo(handle))
        limit = read_field("limit", lambda: p.nvmlDeviceGetEnforcedPowerLimit(handle))
        clock = read_field("max clock", lambda: p.nvmlDeviceGetMaxClockInfo(handle, _SM_CLOCK))
        mig = read_field("mig", lambda: p.nvmlDeviceGetMigMode(handle))
        return GpuInfo(
            index,
            uuid=read_field("uuid", lambda: _text(p.nvmlDeviceGetUUID(handle))),
            name=read_field("name", lambda: _text(p.nvmlDeviceGetName(handle))),
            memory_total=None if memory is None else int(memory.total),
            pci_bus_id=None if pci is None else _text(pci.busId),
            compute_capability=None if capability is None else (int(capability[0]), int(capability[1])),
            power_limit_w=None if limit is None else limit / 1000,
            max_sm_clock_mhz=clock,
            mig=None if mig is None else bool(mig[0]),
            multiprocessors=_multiprocessors(
                read_field("cores", lambda: p.nvmlDeviceGetNumGpuCores(handle)), capability
            ),
            minor=read_field("minor", lambda: int(p.nvmlDeviceGetMinorNumber(handle))),
        )


class _Caller:
    """Calls NVML's functions for one GPU and remembers those that it does not support."""

    def __init__(self, unsupported: set[tuple[int, str]], index: int) -> None:
        self._unsupported = unsupported
        self._index = index
        self.error: str | None = None
        self.fatal = False

    def __call__(self, field: str, call: Callable[[], Any]) -> Any:
        if self.fatal or (self._index, field) in self._unsupported:
            return None
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - a driver's oddity must not end monitoring
            code = _code(error)
            # Without a code, pynvml itself lacks the function.
            if code is None or code in _PER_FUNCTION:
                self._unsupported.add((self._index, field))
                return None
            self.fatal = code in _PER_GPU
            self.error = _describe(error)
            return None


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Names of the reasons for lowered clocks; idling is not one of them."""
    return tuple(name for bit, name in _THROTTLE_REASONS if mask & bit)


def _gpu_instances(processes: Any) -> tuple[tuple[int, int], ...]:
    found = ((p.pid, getattr(p, "gpuInstanceId", None)) for p in processes)
    return tuple((pid, instance) for pid, instance in found if instance not in (None, _NO_INSTANCE))


def _multiprocessors(cores: int | None, capability: tuple[int, int] | None) -> int | None:
    """How many multiprocessors a GPU has: 64 CUDA cores each in data-centre GPUs up to the A100 and in Turing, 128 in others.

    Source: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions", 32-bit floating-point additions.
    """
    if not cores or capability is None or tuple(capability) < (7, 0):
        return None
    return int(cores) // (64 if tuple(capability) <= (8, 0) else 128)


def _code(error: Exception) -> int | None:
    return getattr(error, "value", None)


def _describe(error: Exception) -> str:
    code = _code(error)
    return str(error) if code is None else f"{error} (NVML code {code})"


def _init_reason(error: Exception) -> str:
    code = _code(error)
    if code == LIBRARY_NOT_FOUND:
        return f"the NVIDIA driver is not installed ({LIBRARY} not found)"
    if code == 9:
        return "the NVIDIA driver is installed but not loaded"
    if code == 18:
        return "the NVIDIA driver was updated but not reloaded: its library and kernel module differ; reboot"
    return f"NVML failed to start: {_describe(error)}"


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
