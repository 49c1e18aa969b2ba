"""Measures the GPU of this machine, and fits its coefficients with traces of the same models."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import as_file, files
from pathlib import Path

from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import Gpu
from gpuproof.errors import ExitCode, GPUproofError, UsageError
from gpuproof.planning.calibration.fitting import Calibration, NotMeasured, calibrate
from gpuproof.planning.calibration.measurements import PACKAGE, SCRIPT, Key, MeasuredStep, Measurements
from gpuproof.planning.coefficients import Coefficients
from gpuproof.planning.tracing import TraceRequest, trace_script
from gpuproof.trace.document import Trace

CPU = "CPU"
"""Name of the coefficients of `--device cpu`, which no plan uses."""
_NO_GPU = 3
_TRACES_AT_ONCE = 2
_LIKE_CPU = "T4"
"""The models are traced for this GPU where a CPU was measured."""


class NotCalibrated(GPUproofError):
    """The GPU could not be measured, or says nothing about GPUs of AWS."""


class NoGpuHere(NotCalibrated):
    """There is no GPU to measure."""

    exit_code = ExitCode.UNDECIDED


@contextmanager
def measuring_script() -> Generator[Path]:
    """The file of the script that measures a GPU."""
    with as_file(files(PACKAGE).joinpath(SCRIPT)) as path:
        yield path


def measure(script: Path, python: str, output: Path, *options: str) -> None:
    """Measure this machine's GPU in a process of its own; progress is on standard error.

    Args:
        script: `measure_gpu.py`, or another with its options.
        python: the interpreter that has PyTorch.
        output: the file to write.
        options: of the script.

    Raises:
        NoGpuHere: there is no GPU.
        NotCalibrated: the measurement failed.
    """
    done = subprocess.run([python, str(script), "--output", str(output), *options], check=False)
    if done.returncode == _NO_GPU:
        raise NoGpuHere(
            "There is no GPU to calibrate here.",
            "gpuproof doctor says why; gpuproof calibrate --script writes a script to run on an instance with the GPU.",
        )
    if done.returncode != 0 or not output.exists():
        raise NotCalibrated(
            f"The measurement ended with exit code {done.returncode}; its error is above.",
            "--python names the interpreter that has PyTorch.",
        )


def gpu_of(measured: Measurements, catalogue: Catalogue) -> Gpu:
    """The GPU of the catalogue that was measured.

    Raises:
        NotCalibrated: the catalogue has no such GPU, or it is a part of one.
    """
    if measured.gpu is None:
        typical = catalogue.tables.gpus[_LIKE_CPU]
        # Rough figures of a core: only ratios to them are fitted.
        return typical._replace(
            name=CPU, fp32_tflops=0.1, fp16_tflops=0.1, bf16_tflops=0.1, tf32_tflops=None, bandwidth=20.0
        )
    if " MIG " in f" {measured.gpu} ":
        raise NotCalibrated(
            f"{measured.gpu} is a part of a GPU (MIG).", "Calibrate a whole GPU; plans divide its figures."
        )
    found = catalogue.gpu(measured.gpu)
    if found is None or found.compute_capability is None:
        raise NotCalibrated(
            f"AWS has no {measured.gpu}, and `gpuproof plan` estimates only GPUs that AWS has.",
            "`gpuproof gpus` lists them; gpuproof calibrate --script writes a script to run on one.",
        )
    return found


def fit_measurements(
    measured: Measurements,
    catalogue: Catalogue,
    known: Coefficients,
    python: str,
    progress: Callable[[str], None] = lambda _: None,
) -> Calibration:
    """Trace the models without a GPU, and fit the coefficients.

    Args:
        measured: on a GPU.
        catalogue: of GPUs.
        known: coefficients without this calibration.
        python: the interpreter that has PyTorch.
        progress: is told what is done.

    Raises:
        NotCalibrated: it is no GPU of AWS, or too little was measured.
        NotTraceable: a model cannot be traced with this PyTorch.
    """
    gpu = gpu_of(measured, catalogue)
    if measured.small and gpu.name != CPU:
        raise NotCalibrated("The models had toy sizes (--small), which says nothing about a GPU.")
    progress(f"Tracing {len(measured.steps)} steps without a GPU …")
    with measuring_script() as script:
        traces = trace_steps(measured, script, python, catalogue)
    try:
        return calibrate(measured, gpu, traces, known)
    except NotMeasured as error:
        raise NotCalibrated(
            str(error), "Run it again, with more time (--budget) and nothing else on the GPU."
        ) from error


def trace_steps(measured: Measurements, script: Path, python: str, catalogue: Catalogue) -> dict[Key, Trace]:
    """Trace every measured step without a GPU.

    Args:
        measured: on a GPU.
        script: that was measured.
        python: the interpreter that has PyTorch.
        catalogue: of GPUs.

    Raises:
        NotTraceable: a model cannot be traced with this PyTorch.
    """
    gpu = gpu_of(measured, catalogue)
    told = catalogue.tables.gpus[_LIKE_CPU] if gpu.name == CPU else gpu

    def trace(step: MeasuredStep) -> Trace:
        words = ["--train", step.model, "--precision", step.precision, "--batch", str(step.batch)]
        own = (*words, *(["--small"] if measured.small else []))
        return trace_script(TraceRequest(script, own, python, gpu=told))

    with ThreadPoolExecutor(_TRACES_AT_ONCE) as pool:
        return dict(zip((step.key for step in measured.steps), pool.map(trace, measured.steps), strict=True))


def write_script(path: Path, text: str) -> None:
    """Write the measuring script; an existing file is not replaced.

    Raises:
        UsageError: the file exists, or cannot be written.
    """
    try:
        with path.open("x") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"{path} exists.", remedy="Name a new file.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}.") from error
