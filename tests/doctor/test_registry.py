"""Every check of a GPU accepts readings without values."""

import pytest

from gpuproof.doctor.checks.gpu_state import compute_mode, ecc_errors, mig, pcie_link, throttling
from support.gpu_states import codes, gpu, gpus

UNKNOWN = gpus(gpu())


@pytest.mark.parametrize("check", [ecc_errors, throttling, compute_mode, mig, pcie_link])
def test_missing_nvml_readings_have_no_finding(check):
    assert codes(check.evaluate(UNKNOWN)) == []
