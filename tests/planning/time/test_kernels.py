"""What the kernels of convolutions and norms do, by layout, groups and phase."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuproof.planning.time.kernels import TENSOR, VECTOR, Work, kernel_work
from gpuproof.trace.document import CHANNELS_LAST, CONTIGUOUS, MIXED, STRIDED, Operator

FLOPS, BYTES = 1e9, 1e6


def convolution(
    kind: str, groups: int, filters: tuple[int, ...], layout: str = CHANNELS_LAST, phase: str = "forward"
) -> Operator:
    images = (8, groups * filters[1], 14, 14)
    backward = phase == "backward"
    shapes = ((8, filters[0], 14, 14), images, filters) if backward else (images, filters)
    product = (groups, 8 * 14 * 14, filters[0] // groups, filters[1] * filters[2] * filters[3])
    name = "aten.convolution_backward" if backward else "aten.convolution"
    return Operator(name, kind, "float16", phase, FLOPS, BYTES, 1, shapes, 1, product, layout)


def half(operator: Operator) -> Work:
    return kernel_work(operator, half=True, tensor_cores=True)


@pytest.mark.parametrize(
    ("groups", "filters"), [(32, (128, 4, 3, 3)), (32, (1024, 32, 3, 3)), (8, (256, 32, 3, 3))]
)
def test_tensor_cores_compute_many_narrow_groups_with_channels_last(
    groups: int, filters: tuple[int, ...]
) -> None:
    for phase in ("forward", "backward"):
        assert half(convolution("grouped-conv", groups, filters, phase=phase)) == Work(FLOPS, TENSOR, BYTES)


@pytest.mark.parametrize(
    ("groups", "filters"),
    [(3, (192, 64, 3, 3)), (12, (384, 32, 3, 3)), (14, (560, 40, 3, 3)), (64, (512, 4, 3, 3))],
)
def test_other_groups_are_slow_backwards(groups: int, filters: tuple[int, ...]) -> None:
    forward, backward = (
        half(convolution("grouped-conv", groups, filters, phase=phase)) for phase in ("forward", "backward")
    )
    assert forward == Work(FLOPS, VECTOR, BYTES)
    assert backward.unit == VECTOR
    assert backward.flops > 5 * FLOPS


def test_grouped_convolutions_of_contiguous_tensors_use_no_tensor_cores_but_are_copied() -> None:
    for phase in ("forward", "backward"):
        traced = convolution("grouped-conv", 32, (128, 4, 3, 3), CONTIGUOUS, phase)
        assert half(traced) == Work(FLOPS, VECTOR, BYTES, copied=BYTES)
        assert kernel_work(traced, half=False, tensor_cores=False) == Work(FLOPS, VECTOR, BYTES)


@pytest.mark.parametrize(
    ("layout", "copied"), [(CHANNELS_LAST, 0), (CONTIGUOUS, BYTES), (STRIDED, BYTES), (MIXED, BYTES)]
)
def test_tensor_cores_need_channels_last(layout: str, copied: float) -> None:
    traced = convolution("conv", 1, (64, 64, 3, 3), layout)
    assert half(traced) == Work(FLOPS, TENSOR, BYTES, copied)
    assert kernel_work(traced, half=False, tensor_cores=False).copied == 0


def test_depthwise_convolutions_are_far_from_the_peak_and_take_both_layouts() -> None:
    for layout in (CHANNELS_LAST, CONTIGUOUS):
        work = half(convolution("depthwise-conv", 64, (64, 1, 3, 3), layout))
        assert (work.unit, work.bytes, work.copied) == (VECTOR, BYTES, 0)
        assert work.flops > 2 * FLOPS
    assert half(convolution("depthwise-conv", 64, (64, 1, 3, 3), MIXED)).copied == BYTES


def test_group_normalization_copies_what_has_channels_last() -> None:
    traced = Operator(
        "aten.native_group_norm", "norm", "float32", "forward", FLOPS, BYTES, 1, (), 1, (), CHANNELS_LAST
    )
    assert half(traced).copied == BYTES
    assert half(replace(traced, layout=CONTIGUOUS)).copied == 0
    assert half(replace(traced, name="aten.native_batch_norm")).copied == 0


def test_without_shapes_a_convolution_has_no_special_kernels() -> None:
    traced = Operator("Conv2D", "grouped-conv", "float16", "forward", FLOPS, BYTES, 1, (), 1, ())
    assert half(traced).flops == FLOPS


def test_a_plain_product_of_pixels_is_not_copied() -> None:
    traced = convolution("conv", 1, (64, 64, 1, 1), CONTIGUOUS)
    assert half(traced).copied == 0
    assert half(convolution("conv", 1, (64, 64, 1, 1), CONTIGUOUS, "backward")).copied == 0
    # Every other pixel: the product has a quarter of the rows.
    assert half(replace(traced, gemm=(1, 8 * 7 * 7, 64, 64))).copied == BYTES


def test_batch_normalization_of_contiguous_images_has_a_block_for_each_channel() -> None:
    traced = Operator(
        "aten.native_batch_norm", "norm", "float32", "forward", FLOPS, BYTES, 1, ((8, 64, 14, 14),), 1
    )
    numbers = 8 * 64 * 14 * 14
    assert (half(traced).by_channel, half(traced).channels) == (numbers, 64)
    backward = replace(traced, name="aten.native_batch_norm_backward", phase="backward")
    assert half(backward).by_channel > 2 * numbers
    assert half(replace(traced, layout=CHANNELS_LAST)).by_channel == 0
