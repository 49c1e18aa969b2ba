"""TensorFlow and PyTorch as the user's interpreter has them; both are imported in processes of their own alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuproof.gpu.probe_process import Answer, ask
from gpuproof.util.installed_frameworks import first_version

TORCH, TENSORFLOW = "torch", "tensorflow"

PACKAGES_SECONDS = 30.0
IMPORT_SECONDS = 180.0
"""A first import from a cold network disk takes minutes; a sound one takes seconds."""


@dataclass(frozen=True)
class Packages:
    """What an interpreter has installed, as far as it matters here; nothing was imported.

    Args:
        python: its version.
        arch: `x86_64` or `aarch64`, as the interpreter says.
        prefix: its environment's folder.
        virtual: whether that is a virtual or Conda environment.
        writable: whether this user may write there.
        folders: its `sys.path`.
        versions: by normalised distribution name: `torch`, `tensorflow-cpu`, `nvidia-cudnn-cu12`.
        requires: what a framework's wheel asks for of NVIDIA's packages, as its metadata has it.
        installers: who installed a framework: `pip`, `uv`, `conda`.
        problem: why the interpreter could not be asked.
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
    problem: str | None = None

    @property
    def torch(self) -> str | None:
        """PyTorch's version, with its local part: `2.11.0+cu126`."""
        return self.versions.get(TORCH)

    def from_conda(self, name: str) -> bool:
        """Whether Conda brought a framework: its builds are not those of PyPI, whatever their version says."""
        return self.installers.get(name) == "conda"

    @property
    def tensorflow(self) -> str | None:
        """TensorFlow's version, whichever of its distributions is installed."""
        return first_version(TENSORFLOW, self.versions)


@dataclass(frozen=True)
class FrameworkDevice:
    """A GPU as a framework gives it."""

    index: int
    name: str
    capability: tuple[int, int] | None = None


@dataclass(frozen=True)
class FrameworkReading:
    """What a framework says of itself and of the machine.

    Args:
        name: `torch` or `tensorflow`.
        version: as imported; `None` where the import failed.
        cuda: the CUDA that it was built with, such as `12.6`; `None` for a build without.
        cudnn: the cuDNN that it was built with, or for PyTorch the one that it loaded: `9`, `9.1.0`.
        cudnn_error: what loading cuDNN raised.
        architectures: what it carries: `sm_80`, `compute_90`.
        rocm: whether it is built for AMD's GPUs.
        devices: the GPUs that it gives.
        said: what it said of having none: an exception's text, a warning's.
        log: the lines of its log that speak of GPUs.
        broken: why it cannot be imported.
        problem: how the asking process ended if not well, with what it was at.
    """

    name: str
    version: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    cudnn_error: str | None = None
    architectures: tuple[str, ...] = ()
    rocm: bool = False
    devices: tuple[FrameworkDevice, ...] = ()
    said: str | None = None
    log: tuple[str, ...] = ()
    broken: str | None = None
    problem: str | None = None


def read_packages(python: str, environment: Mapping[str, str], seconds: float = PACKAGES_SECONDS) -> Packages:
    """What an interpreter has installed; takes as long as that interpreter takes to start."""
    answer = ask(python, "packages", environment=environment, seconds=seconds)
    record = answer.one("packages")
    if record is None:
        return Packages(problem=answer.problem or "said nothing")
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
    )


def read_framework(
    name: str, python: str, environment: Mapping[str, str], seconds: float = IMPORT_SECONDS
) -> FrameworkReading:
    """Imports a framework in a process of its own and asks it; takes seconds.

    Args:
        name: `torch` or `tensorflow`.
    """
    # TensorFlow's log is where it says which library it misses.
    answer = ask(python, name, environment={**environment, "TF_CPP_MIN_LOG_LEVEL": "0"}, seconds=seconds)
    build, devices, cudnn = (answer.one(kind) or {} for kind in ("build", "devices", "cudnn"))
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
        devices=tuple(
            FrameworkDevice(one["index"], one["name"], _pair(one.get("capability")))
            for one in devices.get("devices") or ()
        ),
        said=devices.get("said"),
        log=gpu_lines(answer.error),
        broken=None if broken is None else str(broken["error"]),
        problem=_at(answer) if answer.problem and broken is None else None,
    )


def gpu_lines(log: str) -> tuple[str, ...]:
    """The lines of a framework's log that speak of GPUs or their libraries, without time and place of the source."""
    words = re.compile(r"cuda|cudnn|dlopen|dynamic library|\bGPU|cuInit|nvidia|libdevice", re.IGNORECASE)
    place = re.compile(r"^(\d{4}-\d\d-\d\d )?[\d:.]+: [IWEF] \S+:\d+\] |^[IWEF]\d{4} \S+ +\d+ \S+:\d+\] ")
    lines = (place.sub("", line).strip() for line in log.split("\n"))
    # What TensorFlow says to everybody, about its CPU kernels and plugins that register twice, tells nothing.
    dull = ("rebuild TensorFlow", "Attempting to register factory", "computation_placer", "All log messages")
    found = [line for line in lines if words.search(line) and not any(word in line for word in dull)]
    return tuple(dict.fromkeys(found))


def cudnn_version(number: int | None) -> str | None:
    """91002 is 9.10.2, 8902 is 8.9.2: cuDNN counts its major version in ten thousands since 9."""
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
