"""Compute mode and persistence mode."""

from gpuproof.gpu.checks import compute_mode
from support.gpu_states import codes, gpu, gpus


def test_a_prohibited_gpu_is_an_error_and_an_exclusive_one_a_warning():
    assert codes(compute_mode.evaluate(gpus(gpu(compute_mode="prohibited")))) == ["D618 error"]
    assert codes(compute_mode.evaluate(gpus(gpu(compute_mode="exclusive process")))) == ["D618 warning"]
    assert codes(compute_mode.evaluate(gpus(gpu(compute_mode="default")))) == []


def test_persistence_mode_is_one_note_for_all_gpus():
    found = list(compute_mode.evaluate(gpus(gpu(0, persistence=False), gpu(1, persistence=False))))
    assert codes(found) == ["D619 note"]
    assert len(found[0].evidence) == 2
    assert codes(compute_mode.evaluate(gpus(gpu(persistence=True)))) == []
