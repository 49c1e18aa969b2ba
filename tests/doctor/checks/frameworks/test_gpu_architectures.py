"""Kernels of builds against GPUs."""

from dataclasses import replace

from gpuproof.doctor.checks.frameworks import gpu_architectures
from gpuproof.gpu.cuda import CudaDevice
from support.framework_builds import build, stack


def test_a_gpu_that_the_catalogue_does_not_know_is_judged_by_its_number() -> None:
    one = build("2.11")
    old = CudaDevice(0, "NVIDIA GeForce GTX 1080", 8 << 30, (6, 1))
    new = CudaDevice(0, "NVIDIA GeForce RTX 4090", 24 << 30, (8, 9))
    assert [finding.code for finding in gpu_architectures.evaluate(stack(one, device=old))] == ["D411"]
    assert not list(gpu_architectures.evaluate(stack(one, device=new)))


def test_a_build_whose_kernels_are_unknown_is_not_judged() -> None:
    one = replace(build("2.11"), architectures=())
    assert not list(gpu_architectures.evaluate(stack(one, device=CudaDevice(0, "NVIDIA A10G", 1, (3, 0)))))


def test_each_model_is_reported_once() -> None:
    one = build("2.11")
    four = tuple(CudaDevice(index, "Tesla V100-SXM2-16GB", 16 << 30, (7, 0)) for index in range(4))
    target = stack(one)
    target = replace(target, cuda=replace(target.cuda, devices=four))
    assert [str(found.location) for found in gpu_architectures.evaluate(target)] == [
        "GPU 0 (Tesla V100-SXM2-16GB)"
    ]
