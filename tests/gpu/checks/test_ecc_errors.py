"""Uncorrectable memory errors and row remapping."""

from gpuproof.gpu.checks import ecc_errors
from support.gpu_states import codes, gpu, gpus, text


def test_uncorrected_errors_since_the_driver_was_loaded_are_an_error():
    (finding,) = ecc_errors.evaluate(gpus(gpu(ecc_volatile=1, ecc_aggregate=4)))
    assert (finding.code, str(finding.location)) == ("D601", "GPU 0 (NVIDIA A10G)")
    assert "an uncorrectable memory error" in finding.message


def test_errors_of_the_past_are_a_note():
    assert codes(ecc_errors.evaluate(gpus(gpu(ecc_volatile=0, ecc_aggregate=4)))) == ["D602 note"]


def test_no_errors_are_no_finding():
    well = gpu(ecc_volatile=0, ecc_aggregate=0, sram_worn=False, remap_pending=False, remap_failed=False)
    assert codes(ecc_errors.evaluate(gpus(well))) == []


def test_worn_on_chip_memory_is_reported_once_and_needs_another_gpu():
    (finding,) = ecc_errors.evaluate(gpus(gpu(ecc_volatile=7, sram_worn=True)))
    assert finding.code == "D603"
    assert "moves it to other hardware" in text(finding)


def test_a_failed_remap_is_reported_rather_than_a_pending_one():
    found = ecc_errors.evaluate(gpus(gpu(remap_pending=True, remap_failed=True)))
    assert codes(found) == ["D605 error"]


def test_each_gpu_is_judged_for_itself():
    found = list(ecc_errors.evaluate(gpus(gpu(0), gpu(1, remap_pending=True))))
    assert [str(finding.location) for finding in found] == ["GPU 1 (NVIDIA A10G)"]
