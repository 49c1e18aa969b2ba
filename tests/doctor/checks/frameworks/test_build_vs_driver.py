"""CUDA versions of builds against drivers."""

import pytest

from gpuproof.doctor.checks.frameworks import build_vs_driver
from gpuproof.findings import Severity
from gpuproof.gpu.framework_probe import FrameworkDevice, FrameworkReading
from support.framework_builds import build, stack


@pytest.mark.parametrize(
    ("version", "cuda", "old"),
    [
        ("2.11", (12, 4), True),
        ("2.11", (13, 0), False),
        ("2.10", (12, 0), False),
        ("2.10", (11, 8), True),
        ("2.3+cu118", (11, 4), False),
        ("2.3+cu118", (12, 8), False),
    ],
)
def test_a_driver_serves_every_cuda_of_its_major_version_and_older_ones(
    version: str, cuda: tuple[int, int], old: bool
) -> None:
    one = build(version)
    assert build_vs_driver.is_driver_too_old(one, stack(one, cuda=cuda)) is old


@pytest.mark.parametrize(("driver", "old"), [("550.163.01", True), ("580.95.05", False)])
def test_without_libcudas_word_the_drivers_version_decides(driver: str, old: bool) -> None:
    one = build("2.11")
    assert build_vs_driver.is_driver_too_old(one, stack(one, cuda=None, driver=driver)) is old


def test_what_works_is_right_whatever_the_tables_say() -> None:
    reported = FrameworkReading(
        "torch", "2.11.0", "13.0", devices=(FrameworkDevice(0, "NVIDIA A10G", (8, 6)),)
    )
    one = build("2.11", reported=reported)
    assert not build_vs_driver.is_driver_too_old(one, stack(one, cuda=(12, 4)))


def test_beside_another_framework_a_build_that_does_not_fit_is_a_warning() -> None:
    one = build("2.11", only_framework=False)
    (finding,) = build_vs_driver.evaluate(stack(one, cuda=(12, 4)))
    assert finding.severity is Severity.WARNING
