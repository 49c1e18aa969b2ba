"""Mixed precision by compute capability."""

from __future__ import annotations

import pytest

from gpuproof.runtime.framework_settings.precision import choose_precision

K80, M60, V100, T4, A10G, H100 = (3, 7), (5, 2), (7, 0), (7, 5), (8, 6), (9, 0)


@pytest.mark.parametrize(
    ("wanted", "gpus", "dtype"),
    [
        ("auto", (K80,), "float32"),
        ("auto", (M60,), "float32"),
        ("auto", (V100,), "float16"),
        ("auto", (T4,), "float16"),
        ("auto", (A10G,), "bfloat16"),
        ("auto", (H100, H100), "bfloat16"),
        ("auto", (A10G, T4), "float16"),
        ("auto", (), "float32"),
        ("float16", (A10G,), "float16"),
        ("bfloat16", (T4,), "float32"),
        (None, (H100,), "float32"),
    ],
)
def test_the_weakest_gpu_decides(wanted: str | None, gpus: tuple[tuple[int, int], ...], dtype: str) -> None:
    assert choose_precision(wanted, gpus).dtype == dtype


def test_bfloat16_on_a_t4_is_refused_with_the_supported_type() -> None:
    precision = choose_precision("bfloat16", (T4,))
    assert not precision.as_asked
    assert "use 'auto', which selects float16" in precision.why


def test_an_unknown_precision_is_refused() -> None:
    with pytest.raises(ValueError, match="'auto', 'bfloat16', 'float16' or None"):
        choose_precision("fp8", (H100,))
