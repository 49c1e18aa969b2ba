"""Diagnoses why a framework cannot use a GPU: the lowest broken layer, as a pure function of readings."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.gpu.compute_capability import NONE, PTX, Capability, match_architectures
from gpuproof.gpu.nvml import GpuInfo
from gpuproof.util.versions import version_key

_NAMES = {"torch": "PyTorch", "tensorflow": "TensorFlow"}
# A framework built with one major version of CUDA runs on any driver of that major version or of a later one.
# https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html (read 2026-11-21)
_MINIMUM_DRIVER = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}


@dataclass(frozen=True)
class StackReading:
    """Readings of all layers from the GPU to the framework; `None` for values that could not be read.

    Args:
        framework: `torch` or `tensorflow`; `None` if only the machine was read.
        cuda_build: whether the framework was built for NVIDIA GPUs.
        cuda: the CUDA version that it was built with, such as `12.5`.
        architectures: the GPUs that it was compiled for, such as `sm_80`, `compute_90`.
        missing_libraries: required CUDA libraries that cannot be loaded.
        libcuda: whether the driver's `libcuda.so.1` can be loaded.
        nvml_problem: why NVML cannot be used.
        no_driver: whether NVML is not installed.
        driver: the driver's version, such as `550.54.15`.
        driver_cuda: the newest CUDA that the driver (or the cuda-compat library in front of it) supports, such as (12, 4).
        visible_devices: `CUDA_VISIBLE_DEVICES`, if set.
        expected_gpus: how many GPUs the job requests.
    """

    framework: str | None = None
    version: str | None = None
    cuda_build: bool | None = None
    cuda: str | None = None
    architectures: tuple[str, ...] = ()
    missing_libraries: tuple[str, ...] = ()
    libcuda: bool = True
    nvml_problem: str | None = None
    no_driver: bool = False
    driver: str | None = None
    driver_cuda: tuple[int, int] | None = None
    gpus: tuple[GpuInfo, ...] = ()
    visible_devices: str | None = None
    expected_gpus: int | None = None
    instance_type: str | None = None
    said: str | None = None

    @property
    def called(self) -> str:
        """The framework's name and version, for messages."""
        name = _NAMES.get(self.framework or "", self.framework or "the framework")
        return f"{name} {self.version}" if self.version else name


@dataclass(frozen=True)
class Diagnosis:
    """Why no GPU can be used."""

    code: str
    reason: str
    remedy: str


def diagnose(reading: StackReading) -> Diagnosis:
    """Find the lowest layer that prevents the framework from using a GPU; `unknown` if every layer looks fine."""
    for check in (_driver, _devices, _build, _driver_against_build, _libraries, _kernels):
        found = check(reading)
        if found is not None:
            return found
    said = f"; its message: {reading.said}" if reading.said else ""
    return Diagnosis(
        "unknown",
        f"{reading.called} cannot use the GPU, although driver, libraries and kernels look fine{said}",
        "Run 'gpuproof doctor': it runs kernels on every GPU and shows where they fail.",
    )


def visible_gpus(setting: str | None, gpus: tuple[GpuInfo, ...]) -> tuple[GpuInfo, ...]:
    """Return the GPUs that CUDA shows for a value of `CUDA_VISIBLE_DEVICES`; indexes are in NVML's order.

    The list ends before its first entry that matches no GPU (CUDA C++ Programming Guide, "CUDA Environment Variables").
    """
    if setting is None:
        return gpus
    shown = []
    for entry in setting.split(","):
        gpu = _named(entry.strip(), gpus)
        if gpu is None:
            break
        shown.append(gpu)
    return tuple(shown)


def _named(entry: str, gpus: tuple[GpuInfo, ...]) -> GpuInfo | None:
    if entry.isdigit():
        return next((gpu for gpu in gpus if gpu.index == int(entry)), None)
    if entry.startswith("MIG-"):
        return next((gpu for gpu in gpus if gpu.mig), None)
    if entry.startswith("GPU-"):
        return next((gpu for gpu in gpus if (gpu.uuid or "").startswith(entry)), None)
    return None


def _driver(reading: StackReading) -> Diagnosis | None:
    if reading.no_driver and not reading.libcuda:
        if reading.expected_gpus == 0 and reading.instance_type:
            return Diagnosis(
                "no-gpu",
                f"the job's instance_type {reading.instance_type} has no GPU",
                "Choose a type with a GPU: 'gpuproof gpus' lists them.",
            )
        return Diagnosis(
            "no-driver",
            "this machine has no NVIDIA driver (libnvidia-ml.so.1 and libcuda.so.1 not found)",
            "Run it on a GPU instance ('gpuproof gpus' lists them); start a container with '--gpus all'.",
        )
    if reading.nvml_problem and not reading.no_driver and not reading.gpus:
        return Diagnosis(
            "driver-broken",
            f"the NVIDIA driver does not work: {reading.nvml_problem}",
            "Reboot, or reload the driver (sudo modprobe nvidia); 'gpuproof doctor' shows which part fails.",
        )
    if not reading.libcuda:
        return Diagnosis(
            "no-libcuda",
            "the driver's libcuda.so.1 cannot be loaded although NVML works: the container lacks the driver's 'compute' capability",
            "Start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility and '--gpus all'.",
        )
    return None


def _devices(reading: StackReading) -> Diagnosis | None:
    if not reading.gpus:
        # Without NVML, the number is unknown.
        if reading.nvml_problem:
            return None
        return Diagnosis(
            "no-gpu",
            "the NVIDIA driver is installed but finds no GPU",
            "Check with 'nvidia-smi -L'; start a container with '--gpus all'.",
        )
    if visible_gpus(reading.visible_devices, reading.gpus):
        return None
    return Diagnosis(
        "hidden",
        f"CUDA_VISIBLE_DEVICES={reading.visible_devices!r} hides every GPU of this machine ({_count(reading.gpus)})",
        "Unset CUDA_VISIBLE_DEVICES, or name existing GPUs, such as CUDA_VISIBLE_DEVICES=0.",
    )


def _build(reading: StackReading) -> Diagnosis | None:
    if reading.cuda_build is not False:
        return None
    if reading.framework == "tensorflow":
        remedy = "Install the GPU build: pip uninstall -y tensorflow-cpu; pip install 'tensorflow[and-cuda]' (x86-64 only)."
    else:
        remedy = "Install a CUDA build: pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu126 (or a later cuXXX that your driver supports)."
    return Diagnosis("cpu-build", f"{reading.called} is a CPU-only build without GPU code", remedy)


def _driver_against_build(reading: StackReading) -> Diagnosis | None:
    built = version_key(reading.cuda or "")
    if not built or reading.driver_cuda is None or reading.driver_cuda[0] >= built[0]:
        return None
    runs = ".".join(map(str, reading.driver_cuda))
    driver = f"driver {reading.driver}" if reading.driver else "the driver"
    least = _MINIMUM_DRIVER.get(built[0])
    newer = f"driver {least} or later" if least else "a newer driver"
    return Diagnosis(
        "driver-too-old",
        f"{reading.called} is built with CUDA {reading.cuda}, and {driver} supports CUDA {runs} at most",
        f"Use an image or AMI with {newer}, or install a build for CUDA {reading.driver_cuda[0]}.",
    )


def _libraries(reading: StackReading) -> Diagnosis | None:
    if not reading.missing_libraries:
        return None
    remedy = "Run 'gpuproof doctor' to see where each library is searched."
    if reading.framework == "tensorflow":
        version = f"=={reading.version}" if reading.version else ""
        remedy = f"Install them: pip install 'tensorflow[and-cuda]{version}'; and unset LD_LIBRARY_PATH if it names another CUDA."
    return Diagnosis(
        "libraries-missing",
        f"{reading.called} cannot load required CUDA libraries: {', '.join(reading.missing_libraries)}",
        remedy,
    )


def _kernels(reading: StackReading) -> Diagnosis | None:
    for gpu in visible_gpus(reading.visible_devices, reading.gpus):
        capability = gpu.compute_capability
        if capability is None:
            continue
        kind = match_architectures(reading.architectures, capability)[0]
        if kind == NONE or (kind == PTX and _ptx_too_new(reading)):
            return _without_kernels(reading, gpu, capability, kind)
    return None


def _without_kernels(reading: StackReading, gpu: GpuInfo, capability: Capability, kind: str) -> Diagnosis:
    name = f"{gpu.name or 'this GPU'} (compute capability {capability[0]}.{capability[1]})"
    carried = " ".join(reading.architectures)
    why = (
        f"{reading.called} has no kernels for {name}: it was compiled for {carried}"
        if kind == NONE
        else f"{reading.called} has only PTX of CUDA {reading.cuda} for {name}, which this driver is too old to compile"
    )
    return Diagnosis(
        "no-kernels",
        why,
        "Install a build that includes this GPU's architecture (PyTorch: the cu126 wheels include sm_50 to sm_90), or choose another GPU: 'gpuproof gpus' shows which build runs on which.",
    )


def _ptx_too_new(reading: StackReading) -> bool:
    built = version_key(reading.cuda or "")
    return bool(reading.driver_cuda and len(built) >= 2 and reading.driver_cuda < built[:2])


def _count(gpus: tuple[GpuInfo, ...]) -> str:
    names = sorted({gpu.name or "a GPU" for gpu in gpus})
    return f"{len(gpus)} x {', '.join(names)}"
