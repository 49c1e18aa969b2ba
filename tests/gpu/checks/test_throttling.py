"""Throttling and lowered power limits."""

import pytest

from gpuproof.gpu.checks import throttling
from support.gpu_states import codes, gpu, gpus


@pytest.mark.parametrize("reason", ["hardware slowdown", "thermal slowdown (software)", "power brake"])
def test_a_slowdown_by_heat_or_board_is_a_warning(reason: str):
    assert codes(throttling.evaluate(gpus(gpu(throttle=(reason,))))) == ["D615 warning"]


@pytest.mark.parametrize("reason", ["power cap", "application clocks", "sync boost"])
def test_healthy_gpus_have_no_finding(reason: str):
    assert codes(throttling.evaluate(gpus(gpu(throttle=(reason,))))) == []


def test_a_lowered_power_limit_names_the_command_that_raises_it():
    (finding,) = throttling.evaluate(gpus(gpu(2, power_limit_w=100, power_default_w=300.0)))
    assert (finding.code, finding.remedy) == ("D616", "sudo nvidia-smi -i 2 -pl 300")


def test_a_raised_or_rounded_power_limit_has_no_finding():
    assert codes(throttling.evaluate(gpus(gpu(power_limit_w=299.7, power_default_w=300.0)))) == []
    assert codes(throttling.evaluate(gpus(gpu(power_limit_w=350, power_default_w=300.0)))) == []
