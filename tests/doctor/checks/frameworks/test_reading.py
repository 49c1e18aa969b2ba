"""GPU models in the catalogue."""

from gpuproof.doctor.checks.frameworks.reading import find_gpu
from gpuproof.gpu.cuda import CudaDevice
from support.framework_builds import CATALOGUE


def test_a_name_that_means_several_models_is_settled_by_the_memory() -> None:
    model = find_gpu(CATALOGUE, CudaDevice(0, "NVIDIA A100", 80 << 30, (8, 0)))
    assert model is not None
    assert model.name == "A100-80GB"
