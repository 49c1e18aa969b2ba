"""On a real NVIDIA GPU, with a real CUDA build of torch: what the stub pretends must be what NVML says."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pynvml
import pytest

from gpuproof.agent.verdict import CPU_ONLY, IDLE, USED, Expectation, Verdict, judge
from gpuproof.gpu.nvml import Nvml, count_gpus
from gpuproof.gpu.sampler import Sampler
from support.nvml_stub import unload

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

HOLD = (
    "import torch, time; x = torch.ones(4096, 4096, device='cuda'); torch.cuda.synchronize(); time.sleep(12)"
)
WORK = """
import time, torch
x = torch.randn(4096, 4096, device='cuda')
end = time.monotonic() + 6
while time.monotonic() < end:
    x = torch.tanh(x @ x)
    torch.cuda.synchronize()
"""
NOTHING = "import time, torch; torch.ones(8) @ torch.ones(8); time.sleep(2)"


def verdict_of(program: str) -> Verdict:
    child = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    watching = Sampler(child.pid)
    watching.start()
    _, error = child.communicate(timeout=120)
    evidence = watching.stop()
    assert child.returncode == 0, error
    return judge(Expectation(1, required=True), evidence)


@pytest.fixture(autouse=True)
def real_gpu() -> Iterator[None]:
    """The real NVML; out of this process again afterwards, for the tests that bring the stub."""
    if count_gpus() == 0:
        pytest.skip("there is no NVIDIA GPU here")
    yield
    unload()


@pytest.fixture(scope="module")
def cuda_torch() -> None:
    """A torch that can use the GPU. Probed in a separate process: this one must not hold a context."""
    if count_gpus() == 0:
        pytest.skip("there is no NVIDIA GPU here")
    asked = subprocess.run(
        [sys.executable, "-c", "import torch; assert torch.cuda.is_available()"],
        capture_output=True,
        text=True,
    )
    if asked.returncode:
        pytest.skip(f"torch cannot use the GPU here: {asked.stderr.strip().splitlines()[-1]}")


def test_a_real_gpu_provides_every_reading():
    with Nvml.open() as nvml:
        info = nvml.gpus()[0]
        reading = nvml.read(0)
    assert info.name
    assert info.uuid
    assert info.memory_total
    assert info.compute_capability
    assert reading.error is None
    assert reading.utilization is not None
    assert reading.memory_used is not None
    assert reading.power_w is not None
    assert reading.temperature_c is not None


def test_the_energy_is_that_of_the_gpus_own_counter(cuda_torch: None):
    def millijoules() -> int:
        return pynvml.nvmlDeviceGetTotalEnergyConsumption(pynvml.nvmlDeviceGetHandleByIndex(0))

    pynvml.nvmlInit()
    try:
        before = millijoules()
        found = verdict_of(WORK)
        used = (millijoules() - before) / 1000
    except pynvml.NVMLError_NotSupported:
        pytest.skip("this GPU has no counter of its energy (before Volta)")
    finally:
        pynvml.nvmlShutdown()
    assert found.gpus[0].energy_j == pytest.approx(used, rel=0.25)


def test_reading_a_real_gpu_takes_little_of_a_core():
    with Nvml.open() as nvml:
        nvml.with_counters(nvml.read(0), frozenset())
        before = time.process_time()
        for _ in range(20):
            nvml.with_counters(nvml.read(0), frozenset())
        assert (time.process_time() - before) / 20 < 0.01


def test_reading_pcie_traffic_of_a_real_gpu_takes_little_of_a_core():
    with Nvml.open() as nvml:
        reading = nvml.read(0)
        before = time.process_time()
        for _ in range(5):
            nvml.with_pcie(reading)
        assert (time.process_time() - before) / 5 < 0.01


@pytest.mark.usefixtures("cuda_torch")
def test_a_matrix_product_occupies_most_multiprocessors_where_they_are_counted():
    with Nvml.open() as nvml:
        if not nvml.counts_performance(0):
            pytest.skip("NVML has no performance counters for this GPU")
    intensity = verdict_of(WORK).gpus[0].intensity
    assert intensity is not None
    assert intensity.source == "gpm"
    assert (intensity.sm_active or 0) > 0.3
    assert (intensity.sm_occupancy or 0) > 0.02
    assert (intensity.dram_active or 0) > 0.01


@pytest.mark.usefixtures("cuda_torch")
def test_real_work_is_used():
    verdict = verdict_of(WORK)
    assert verdict.outcome == USED, verdict.to_json()
    assert (verdict.gpus[0].mean_utilization or 0) > 20


@pytest.mark.usefixtures("cuda_torch")
def test_memory_that_is_only_held_is_idle():
    verdict = verdict_of(HOLD)
    assert verdict.outcome == IDLE, verdict.to_json()


@pytest.mark.usefixtures("cuda_torch")
def test_a_script_that_never_requests_the_gpu_is_cpu_only():
    verdict = verdict_of(NOTHING)
    assert verdict.outcome == CPU_ONLY, verdict.to_json()
