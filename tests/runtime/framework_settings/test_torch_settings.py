"""PyTorch renamed the variable, and CUDA's allocator followed later."""

from __future__ import annotations

import pytest

from gpuproof.runtime.framework_settings.torch_settings import allocator_variable


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ((2, 4), "PYTORCH_CUDA_ALLOC_CONF"),
        ((2, 9), "PYTORCH_CUDA_ALLOC_CONF"),
        ((2, 11), "PYTORCH_CUDA_ALLOC_CONF"),
        ((2, 12), "PYTORCH_ALLOC_CONF"),
        ((3, 0), "PYTORCH_ALLOC_CONF"),
    ],
)
def test_each_version_gets_the_name_that_its_cuda_allocator_heeds(
    version: tuple[int, int], name: str
) -> None:
    assert allocator_variable(version) == name
