"""NumPy 2 with a framework that was built against NumPy 1, and a NumPy that PyTorch cannot use for another reason."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.frameworks.builds import InstalledBuild
from gpuproof.doctor.checks.frameworks.reading import FrameworkStack, read_stack
from gpuproof.doctor.checks.frameworks.wheel_choice import pip_command
from gpuproof.doctor.tables import table
from gpuproof.findings import Finding, Severity
from gpuproof.util.versions import version_key

NUMPY_1 = ("numpy<2",)
"""Arguments for `pip install`."""
_ABI_ERRORS = ("compiled using NumPy 1.x", "_ARRAY_API")
"""Texts of NumPy 2 for extensions that were built against NumPy 1."""


def evaluate(stack: FrameworkStack) -> Iterator[Finding]:
    """D423: NumPy 2 with a framework built against NumPy 1, D424: any other error of NumPy."""
    numpy = stack.packages.versions.get("numpy")
    for build in stack.builds:
        error = build.reported.numpy_error if build.reported else None
        if numpy is None:
            continue
        if not needs_numpy_1(build, numpy):
            if error is not None:
                yield _unusable(build, numpy, error)
            continue
        yield Finding(
            "D423",
            Severity.ERROR,
            f"NumPy {numpy} is installed, but {build} was built against NumPy 1: "
            + (
                "tensor.numpy(), torch.from_numpy() and DataLoader fail with `Numpy is not available`."
                if build.framework == "torch"
                else "it cannot be imported."
            ),
            (f"installed: numpy=={numpy}", *((error,) if error else ())),
            f"{pip_command(NUMPY_1)} (also in requirements.txt), or a newer version of the framework.",
        )


def needs_numpy_1(build: InstalledBuild, numpy: str) -> bool:
    """Whether a build cannot work with the installed NumPy, as it reports itself or by its version."""
    if version_key(numpy)[0] < 2:
        return False
    reported = build.reported
    if reported is not None and reported.version is not None and build.framework == "torch":
        if reported.numpy_error is None:
            return False
        if any(text in reported.numpy_error for text in _ABI_ERRORS):
            return True
    first = next(row["first_version"] for row in table("stack/numpy2") if row["framework"] == build.framework)
    return version_key(build.base_version)[:2] < version_key(first)


def _unusable(build: InstalledBuild, numpy: str, error: str) -> Finding:
    return Finding(
        "D424",
        Severity.ERROR,
        f"{build} cannot use the installed NumPy {numpy}: {error}",
        (f"installed: numpy=={numpy}", "torch.zeros(1).numpy() failed"),
        f"{pip_command(('--force-reinstall', f'numpy=={numpy}'))}; if that does not help, python -c 'import numpy' shows the cause.",
    )


CHECK = Check("NumPy", Layer.FRAMEWORK, read_stack, evaluate, blocking=False)
