from gpuproof.serve.frontend.verdict import MIN_GROWTH, server_verdict
from gpuproof.serve.observability.gpu_monitor import GpuUsage


def gpu(grown: int = 0, utilization: int | None = 0) -> GpuUsage:
    return GpuUsage(0, baseline=1000, max_memory=1000 + grown, max_utilization=utilization)


def verdict(*gpus: GpuUsage, devices: tuple[str, ...] = ("cuda",), problems: tuple[str, ...] = ()) -> str:
    return server_verdict(devices, problems, gpus, answered=3)["verdict"]


def test_a_gpu_whose_memory_grew_by_a_context_is_used() -> None:
    assert verdict(gpu(MIN_GROWTH)) == "used"
    assert verdict(gpu(MIN_GROWTH - 1)) == "unknown"


def test_a_gpu_that_computed_is_used() -> None:
    assert verdict(gpu(utilization=3)) == "used"


def test_readings_that_are_missing_leave_the_verdict_open() -> None:
    assert verdict(GpuUsage(0)) == "unknown"
    assert verdict() == "unknown"
    assert verdict(devices=()) == "unknown"


def test_a_model_on_the_cpu_is_cpu_only_even_if_the_memory_grew() -> None:
    document = server_verdict(["cuda"], ["The model is on the CPU"], [gpu(MIN_GROWTH)], 3)
    assert (document["verdict"], document["reason"]) == ("cpu-only", "The model is on the CPU")


def test_workers_without_a_gpu_see_none() -> None:
    assert verdict(devices=("cpu", "cpu")) == "no-gpu"
