"""Which binaries run on which GPUs, by NVIDIA's rules."""

from __future__ import annotations

import pytest

from gpuproof.gpu.compute_capability import NATIVE, NONE, PTX, UNKNOWN, match_architectures

TORCH_2_15 = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
TENSORFLOW_2_21 = ("sm_60", "sm_70", "sm_80", "sm_89", "compute_90")


@pytest.mark.parametrize(
    ("architectures", "capability", "kind"),
    [
        (TORCH_2_15, (7, 0), NONE),
        (TORCH_2_15, (7, 5), NATIVE),
        (TORCH_2_15, (8, 9), NATIVE),
        (TORCH_2_15, (3, 7), NONE),
        (TENSORFLOW_2_21, (7, 5), NATIVE),
        (TENSORFLOW_2_21, (9, 0), PTX),
        (TENSORFLOW_2_21, (12, 0), PTX),
        (TENSORFLOW_2_21, (3, 7), NONE),
        (("sm_90a",), (9, 0), NATIVE),
        (("sm_90a",), (10, 0), NONE),
        (("compute_90a",), (10, 0), NONE),
        (("sm_100f",), (10, 3), NATIVE),
        (("sm_100f",), (12, 0), NONE),
        ((), (8, 0), UNKNOWN),
        (("gfx90a",), (8, 0), UNKNOWN),
    ],
)
def test_a_build_serves_a_gpu(architectures: tuple[str, ...], capability: tuple[int, int], kind: str) -> None:
    assert match_architectures(architectures, capability)[0] == kind


@pytest.mark.parametrize(
    ("architectures", "capability", "kind"),
    [
        (["sm_80"], (8, 0), "native"),
        (["sm_80"], (8, 6), "native"),
        (["sm_86"], (8, 0), "no"),
        (["sm_80"], (9, 0), "no"),
        (["compute_80"], (9, 0), "ptx"),
        (["compute_80"], (8, 0), "ptx"),
        (["compute_90"], (8, 9), "no"),
        (["sm_80", "compute_80"], (8, 9), "native"),
        (["sm_90a"], (9, 0), "native"),
        (["sm_90a"], (10, 0), "no"),
        (["compute_90a"], (10, 0), "no"),
        (["compute_90a"], (9, 0), "ptx"),
        (["sm_100f"], (10, 3), "native"),
        (["sm_103f"], (10, 0), "no"),
        (["compute_100f"], (10, 3), "ptx"),
        (["compute_100f"], (12, 0), "no"),
        (["sm_120"], (12, 0), "native"),
        (["sm_100"], (12, 0), "no"),
        (["compute_100"], (12, 0), "ptx"),
        ([], (8, 0), "unknown"),
        (["gfx942"], (8, 0), "unknown"),
    ],
)
def test_binary_rules(architectures: list[str], capability: tuple[int, int], kind: str) -> None:
    assert match_architectures(architectures, capability)[0] == kind


def test_a_native_binary_is_taken_before_ptx() -> None:
    assert match_architectures(["compute_70", "sm_80", "sm_86"], (8, 9)) == ("native", "sm_86")
