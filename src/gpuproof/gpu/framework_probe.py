"""Reads TensorFlow and PyTorch of the user's interpreter; each is imported only in a separate process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuproof.gpu.probe_process import Answer, ask
from gpuproof.util.installed_frameworks import first_version

TORCH, TENSORFLOW = "torch", "tensorflow"

PACKAGES_SECONDS = 30.0
IMPORT_SECONDS = 180.0
"""A first import from a cold network disk takes minutes; a normal one takes seconds."""


@dataclass(frozen=True)
class Packages:
    """Relevant packages of an interpreter, read without importing any.

    Args:
        arch: the interpreter's architecture, `x86_64` or `aarch64`.
        virtual: whether that is a virtual or Conda environment.
        writable: whether this user may write there.
        folders: its `sys.path`.
        versions: by normalised distribution name: `torch`, `tensorflow-cpu`, `nvidia-cudnn-cu12`.
        requires: requirements in the metadata of a framework, torchvision or torchaudio, as far as they matter here.
        built: version in the code of torchvision and torchaudio, with the CUDA that it was built for: `0.26.0+cu130`.
        cuda: the CUDA that PyTorch and TensorFlow were built with, such as `13.0`; without CPU builds.
        installers: who installed a framework: `pip`, `uv`, `conda`.
        problem: why the interpreter could not be read.
    """

    python: str = ""
    arch: str = ""
    prefix: str = ""
    virtual: bool = False
    writable: bool = False
    folders: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    requires: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])
    installers: Mapping[str, str] = field(default_factory=dict[str, str])
    built: Mapping[str, str] = field(default_factory=dict[str, str])
    cuda: Mapping[str, str] = field(default_factory=dict[str, str])
    problem: str | None = None

    @property
    def torch(self) -> str | None:
        """PyTorch's version, with its local part: `2.11.0+cu126`."""
        return self.versions.get(TORCH)

    def from_conda(self, name: str) -> bool:
        """Whether Conda installed a framework: its builds differ from PyPI's, even with the same version."""
        return self.installers.get(name) == "conda"

    @property
    def tensorflow(self) -> str | None:
        """TensorFlow's version, whichever of its distributions is installed."""
        return first_version(TENSORFLOW, self.versions)


@dataclass(frozen=True)
class FrameworkDevice:
    """A GPU as reported by a framework."""

    index: int
    name: str
    capability: tuple[int, int] | None = None


@dataclass(frozen=True)
class FrameworkReading:
    """A framework's report on itself and the machine.

    Args:
        name: `torch` or `tensorflow`.
        version: as imported; `None` if the import failed.
        cuda: the CUDA version that it was built with, such as `12.6`; `None` for a CPU build.
        cudnn: the cuDNN that it was built with, or for PyTorch the one that it loaded: `9`, `9.1.0`.
        architectures: that it was compiled for: `sm_80`, `compute_90`.
        rocm: whether it is built for AMD's GPUs.
        numpy_error: why it cannot exchange data with the installed NumPy.
        said: its exception or warning about finding no GPU.
        broken: why it cannot be imported.
        problem: how the probe failed, with its last step.
    """

    name: str
    version: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    cudnn_error: str | None = None
    architectures: tuple[str, ...] = ()
    rocm: bool = False
    numpy_error: str | None = None
    devices: tuple[FrameworkDevice, ...] = ()
    said: str | None = None
    log: tuple[str, ...] = ()
    broken: str | None = None
    problem: str | None = None


def read_packages(python: str, environment: Mapping[str, str], seconds: float = PACKAGES_SECONDS) -> Packages:
    """Read the packages of an interpreter; takes as long as its start."""
    answer = ask(python, "packages", environment=environment, seconds=seconds)
    record = answer.one("packages")
    if record is None:
        return Packages(problem=answer.problem or "produced no output")
    return Packages(
        python=record["python"],
        arch=record["arch"],
        prefix=record["prefix"],
        virtual=record["virtual"],
        writable=record["writable"],
        folders=tuple(record["folders"]),
        versions=record["versions"],
        requires={name: tuple(lines) for name, lines in record["requires"].items()},
        installers=record.get("installers") or {},
        built=record.get("built") or {},
        cuda=record.get("cuda") or {},
    )


def read_framework(
    name: str, python: str, environment: Mapping[str, str], seconds: float = IMPORT_SECONDS
) -> FrameworkReading:
    """Import a framework in a separate process and read its report; takes seconds.

    Args:
        name: `torch` or `tensorflow`.
    """
    # TensorFlow names missing libraries in its log.
    answer = ask(python, name, environment={**environment, "TF_CPP_MIN_LOG_LEVEL": "0"}, seconds=seconds)
    build, devices, cudnn, numpy = (answer.one(kind) or {} for kind in ("build", "devices", "cudnn", "numpy"))
    broken = answer.one("broken")
    capabilities = build.get("architectures") or ()
    return FrameworkReading(
        name=name,
        version=build.get("version"),
        cuda=_dotted(build.get("cuda")) if build.get("cuda_build", True) else None,
        cudnn=cudnn_version(cudnn.get("version")) or build.get("cudnn"),
        cudnn_error=cudnn.get("error"),
        architectures=tuple(capabilities),
        rocm=bool(build.get("hip") or build.get("rocm_build")),
        numpy_error=numpy.get("error"),
        devices=tuple(
            FrameworkDevice(device["index"], device["name"], _pair(device.get("capability")))
            for device in devices.get("devices") or ()
        ),
        said=devices.get("said"),
        log=gpu_lines(answer.error),
        broken=None if broken is None else str(broken["error"]),
        problem=_at(answer) if answer.problem and broken is None else None,
    )


def gpu_lines(log: str) -> tuple[str, ...]:
    """Lines of a framework's log about GPUs or their libraries, without timestamps and source locations."""
    words = re.compile(r"cuda|cudnn|dlopen|dynamic library|\bGPU|cuInit|nvidia|libdevice", re.IGNORECASE)
    place = re.compile(r"^(\d{4}-\d\d-\d\d )?[\d:.]+: [IWEF] \S+:\d+\] |^[IWEF]\d{4} \S+ +\d+ \S+:\d+\] ")
    lines = (place.sub("", line).strip() for line in log.split("\n"))
    # TensorFlow always logs these lines, about its CPU kernels and plugins that register twice.
    dull = ("rebuild TensorFlow", "Attempting to register factory", "computation_placer", "All log messages")
    found = [line for line in lines if words.search(line) and not any(word in line for word in dull)]
    return tuple(dict.fromkeys(found))


def cudnn_version(number: int | None) -> str | None:
    """Convert cuDNN's number: 91002 is 9.10.2 and 8902 is 8.9.2 (since 9, the major version is in ten thousands)."""
    if not number:
        return None
    step = 10_000 if number >= 90_000 else 1_000
    return f"{number // step}.{number % step // 100}.{number % 100}"


def _at(answer: Answer) -> str:
    at = f" at {answer.step}" if answer.step else ""
    return f"{answer.problem}{at}"


def _dotted(version: str | None) -> str | None:
    return version if version and re.match(r"\d+\.\d+", version) else None


def _pair(value: list[int] | None) -> tuple[int, int] | None:
    return None if not value else (value[0], value[1])
