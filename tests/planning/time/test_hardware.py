"""Figures of GPUs that the catalogue lacks."""

from __future__ import annotations

from gpuproof.planning.time.hardware import (
    attention_peak,
    half_peak,
    multiprocessors,
    pcie_bandwidth,
    peak_rate,
    tensor_cores,
)
from support.plan_examples import gpu, gpus


def test_every_gpu_has_peaks_processors_and_a_link() -> None:
    for name in gpus():
        device = gpu(name)
        assert peak_rate(device, "float32") > 1e12
        assert peak_rate(device, "half") >= peak_rate(device, "float32") >= 1e12
        assert 1 <= multiprocessors(device) < 300
        assert 1e9 < pcie_bandwidth(device) < 1e11


def test_a_precision_without_units_is_computed_in_fp32() -> None:
    assert peak_rate(gpu("V100-16GB"), "tf32") == peak_rate(gpu("V100-16GB"), "float32")
    assert half_peak(gpu("T4"), "bfloat16") is None


def test_tensor_cores_begin_with_volta() -> None:
    assert [tensor_cores(gpu(name)) for name in ("K80", "M60", "V100-16GB", "T4")] == [
        False,
        False,
        True,
        True,
    ]


def test_attention_reaches_less_of_hopper() -> None:
    assert attention_peak(gpu("H100"), "half") < 0.7 * peak_rate(gpu("H100"), "half")
    assert attention_peak(gpu("H100"), "float32") == peak_rate(gpu("H100"), "float32")
    assert attention_peak(gpu("A100-40GB"), "half") == peak_rate(gpu("A100-40GB"), "half")


def test_an_unknown_gpu_is_typical() -> None:
    other = gpu("A10G")._replace(name="unknown")
    assert (multiprocessors(other), pcie_bandwidth(other)) == (80, 12e9)
