"""`--full`: the judgement over readings, and the probe itself with a framework that stands in for PyTorch."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.doctor.checks.benchmark import measured_rates
from gpuproof.doctor.checks.benchmark.data_sheet import data_sheet, link_gb_s
from gpuproof.doctor.checks.benchmark.rates import MeasuredGpu, Reading, evaluate, read
from gpuproof.doctor.machine import Machine
from gpuproof.gpu.framework_probe import Packages
from support.gpu_states import codes, text
from support.nvml_stub import Scenario, build_library

H100 = data_sheet(Catalogue.load().tables.gpus["H100"])
SOUND = {
    "memory_gb_s": 2900.0,
    "h2d_gb_s": 52.0,
    "fp32_tflops": 50.0,
    "tf32_tflops": 400.0,
    "fp16_tflops": 730.0,
    "bf16_tflops": 740.0,
}


def judge(gpu: MeasuredGpu | None = None, **rates: float):
    known = gpu or MeasuredGpu(
        "GPU 0 (H100)", pinned=True, sheet=H100, generation=5, generation_max=5, width=16
    )
    check = replace(known, rates=tuple({**SOUND, **rates}.items()))
    return list(evaluate(Reading((check,), "torch 2.11.0")))


def test_a_sound_gpu_is_a_note_with_its_rates_and_their_shares():
    (finding,) = judge()
    assert (finding.code, finding.severity) == ("D800", "note")
    assert "memory 2.9e+03 GB/s" not in finding.message
    assert "memory 2900 GB/s (87% of 3350)" in finding.message
    assert "bf16 740 TFLOP/s (75% of 989.4)" in finding.message
    assert "host to device 52.0 GB/s (pinned)" in finding.message


def test_slow_memory_is_a_warning():
    assert codes(judge(memory_gb_s=1500)) == ["D800 note", "D801 warning"]


def test_slow_arithmetic_is_one_warning_for_all_its_kinds():
    found = judge(fp16_tflops=300, bf16_tflops=310)
    assert codes(found) == ["D800 note", "D802 warning"]
    assert "fp16" in found[1].message
    assert "bf16" in found[1].message
    assert "tf32" not in found[1].message


def test_a_power_cap_explains_slow_arithmetic_and_makes_it_a_note():
    gpu = MeasuredGpu("GPU 0 (H100)", sheet=H100, throttle=("power cap",))
    found = judge(gpu, fp16_tflops=300)
    assert codes(found) == ["D800 note", "D802 note"]
    assert "power limit" in found[1].message


def test_a_sound_h100_at_its_power_limit_is_not_slow():
    gpu = MeasuredGpu("GPU 0 (H100)", sheet=H100, throttle=("power cap",))
    assert codes(judge(gpu, fp16_tflops=690)) == ["D800 note"]
    assert codes(judge(replace(gpu, throttle=()), fp16_tflops=690)) == ["D800 note", "D802 warning"]


def test_a_card_on_the_slot_s_power_alone_is_not_expected_to_hold_its_peak():
    found = judge(MeasuredGpu("GPU 0 (H100)", sheet=H100, power_limit_w=70.0), fp16_tflops=300)
    assert codes(found) == ["D800 note", "D802 note"]
    assert "70 W" in found[1].message


def test_heat_is_named_and_stays_a_warning():
    gpu = MeasuredGpu("GPU 0 (H100)", sheet=H100, throttle=("power cap", "thermal slowdown (hardware)"))
    found = judge(gpu, fp16_tflops=300)
    assert codes(found) == ["D800 note", "D802 warning"]
    assert "thermal slowdown (hardware)" in found[1].message


def test_an_older_generation_under_load_is_a_warning_and_not_a_slow_copy_too():
    gpu = MeasuredGpu("GPU 0 (H100)", pinned=True, sheet=H100, generation=3, generation_max=5, width=16)
    assert codes(judge(gpu, h2d_gb_s=8)) == ["D800 note", "D805 warning"]


def test_a_copy_far_below_its_link_is_a_warning():
    found = judge(h2d_gb_s=20)
    assert codes(found) == ["D800 note", "D803 warning"]
    assert "PCIe 5.0 x16" in found[1].message


def test_a_copy_from_pageable_memory_does_not_measure_the_link():
    gpu = MeasuredGpu("GPU 0 (H100)", pinned=False, sheet=H100, generation=5, generation_max=5, width=16)
    assert codes(judge(gpu, h2d_gb_s=8)) == ["D800 note"]


def test_without_a_data_sheet_nothing_is_judged():
    found = judge(MeasuredGpu("GPU 0 (NVIDIA Something)"), memory_gb_s=1)
    assert codes(found) == ["D800 note"]
    assert "%" not in found[0].message


def test_a_skipped_gpu_is_shown_with_the_reason():
    skipped = MeasuredGpu("GPU 1", skipped="only 300 MiB of its memory are free")
    (finding,) = evaluate(Reading((skipped,), "torch 2.11.0"))
    assert (finding.code, finding.severity) == ("D804", "note")
    assert "300 MiB" in finding.message


def test_a_slice_of_a_gpu_is_held_to_its_share():
    l4 = Catalogue.load().tables.gpus["L4"]
    whole, eighth = data_sheet(l4), data_sheet(l4, 0.125)
    assert whole is not None
    assert eighth is not None
    assert eighth.memory_gb_s == pytest.approx(whole.memory_gb_s / 8)


def test_figures_of_low_confidence_are_no_data_sheet():
    assert data_sheet(Catalogue.load().tables.gpus["RTX-PRO-4500"]) is None


def test_a_link_s_rate_grows_with_lanes_and_generation():
    assert link_gb_s(4, 16) == pytest.approx(26.8, abs=0.1)
    assert link_gb_s(3, 8) == pytest.approx(6.7, abs=0.1)
    assert link_gb_s(None, 16) is None
    assert link_gb_s(9, 16) is None


def test_without_full_nothing_is_measured():
    assert measured_rates.read(Machine()) is None
    assert not measured_rates.CHECK.quick


def test_a_machine_without_a_gpu_reports_that_it_cannot_measure(tmp_path: Path):
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(tmp_path)}
    reading = read(Machine(environment=environment, full=True))
    (finding,) = evaluate(reading)
    assert (finding.code, finding.severity) == ("D804", "note")
    assert "the NVIDIA driver is not installed" in text(finding)


FAKE_TORCH = """
import types
__version__ = "9.9"
float32, float16, bfloat16, uint8 = "float32", "float16", "bfloat16", "uint8"

class Tensor:
    def copy_(self, other, non_blocking=False): return self
    def to(self, dtype): return self

def empty(*size, **kwargs): return Tensor()
ones = randn = empty_like = empty
def mm(a, b, out=None): return out
backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace(allow_tf32=None)))
class cuda:
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 2)
    set_device = staticmethod(lambda index: None)
    get_device_capability = staticmethod(lambda index: (7, 5) if index == 0 else (8, 6))
    mem_get_info = staticmethod(lambda index: (16 << 30, 16 << 30))
    synchronize = staticmethod(lambda index: None)
    empty_cache = staticmethod(lambda: None)
"""


@pytest.fixture
def two_gpus(tmp_path: Path) -> Machine:
    """A T4 and an A10G at work, by the stub NVML, and a `torch` whose every kernel takes no time."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/torch.py").write_text(FAKE_TORCH)
    shown = (
        Scenario(tmp_path / "gpus.txt").gpu(0, "Tesla T4", compute_capability=(7, 5)).gpu(1, "NVIDIA A10G")
    )
    for index in (0, 1):
        shown.health(index, width=8, width_max=16, generation=3, generation_max=3)
        shown.at(0, index, util=99, throttle=0x4)
    shown.write()
    environment = {
        **os.environ,
        **shown.environment(build_library(tmp_path)),
        "PYTHONPATH": str(tmp_path / "site"),
    }
    machine = Machine(environment=environment, python=sys.executable, full=True)
    vars(machine)["packages"] = Packages(versions={"torch": "9.9"})
    return machine


@pytest.mark.slow
def test_the_probe_measures_every_gpu_and_leaves_out_what_it_has_no_units_for(two_gpus: Machine):
    reading = read(two_gpus)
    assert (reading.framework, reading.problem) == ("torch 9.9", None)
    t4, a10g = reading.gpus
    assert [name for name, _ in t4.rates] == ["memory_gb_s", "h2d_gb_s", "fp32_tflops", "fp16_tflops"]
    assert {"tf32_tflops", "bf16_tflops"} <= {name for name, _ in a10g.rates}
    assert t4.label == "GPU 0 (Tesla T4)"
    assert t4.sheet is not None
    assert t4.sheet.fp16_tflops == 65


@pytest.mark.slow
def test_clocks_and_links_are_watched_while_it_measures(two_gpus: Machine):
    reading = read(two_gpus)
    assert [gpu.throttle for gpu in reading.gpus] == [("power cap",), ("power cap",)]
    assert [(gpu.generation, gpu.width, gpu.pinned) for gpu in reading.gpus] == [(3, 8, True)] * 2


@pytest.mark.slow
def test_gpus_are_named_as_nvml_numbers_them_under_cuda_visible_devices(two_gpus: Machine, tmp_path: Path):
    torch = (tmp_path / "site/torch.py").read_text().replace("lambda: 2", "lambda: 1")
    (tmp_path / "site/torch.py").write_text(torch)
    machine = replace(two_gpus, environment={**two_gpus.environment, "CUDA_VISIBLE_DEVICES": "1"})
    vars(machine)["packages"] = Packages(versions={"torch": "9.9"})
    reading = read(machine)
    assert [gpu.label for gpu in reading.gpus] == ["GPU 1 (NVIDIA A10G)"]


@pytest.mark.slow
def test_a_framework_that_fails_on_one_gpu_still_measures_the_other(two_gpus: Machine, tmp_path: Path):
    broken = "lambda index: 1 / index and (16 << 30, 16 << 30)"
    torch = (tmp_path / "site/torch.py").read_text().replace("lambda index: (16 << 30, 16 << 30)", broken)
    (tmp_path / "site/torch.py").write_text(torch)
    reading = read(two_gpus)
    first, second = reading.gpus
    assert "ZeroDivisionError" in (first.skipped or "")
    assert second.rates


def test_a_build_that_sees_no_gpu_is_reported(two_gpus: Machine, tmp_path: Path):
    torch = (tmp_path / "site/torch.py").read_text().replace("lambda: True", "lambda: False")
    (tmp_path / "site/torch.py").write_text(torch)
    reading = read(two_gpus)
    assert reading == Reading(problem="torch 9.9 sees no GPU")
