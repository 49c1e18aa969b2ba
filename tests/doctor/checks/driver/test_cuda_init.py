"""Errors of `cuInit`."""

import pytest

from gpuproof.doctor.checks.driver import cuda_init
from gpuproof.doctor.tables import table
from gpuproof.gpu.cuda import CudaReading, NvmlReading
from gpuproof.gpu.driver import DriverFiles


@pytest.mark.parametrize("code", [int(row["code"]) for row in table("stack/cuda_errors")])
def test_every_error_of_cuinit_has_its_cause_and_remedy(code: int) -> None:
    reading = cuda_init.Reading(
        CudaReading(version=(13, 0), init=code), NvmlReading(), DriverFiles(loaded=True)
    )
    (finding,) = cuda_init.evaluate(reading)
    row = next(row for row in table("stack/cuda_errors") if int(row["code"]) == code)
    assert row["name"] in finding.message
    assert finding.remedy == row["remedy"]


def test_an_unknown_error_is_reported_by_its_number() -> None:
    reading = cuda_init.Reading(CudaReading(init=12345), NvmlReading(), DriverFiles(loaded=True))
    (finding,) = cuda_init.evaluate(reading)
    assert "12345" in finding.message
