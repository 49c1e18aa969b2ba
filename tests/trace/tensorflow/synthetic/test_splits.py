"""Parts of data sets, by the names of TensorFlow Datasets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.optional_packages import skip_without

skip_without("tensorflow")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("keras-synthetic")]

SIZES = {"train": 1000, "test": 200}


@pytest.fixture
def examples_in() -> Callable[[str, dict[str, int]], int]:
    """The function; its package imports TensorFlow."""
    from gpuproof.trace.tensorflow.synthetic.splits import examples_in

    return examples_in


@pytest.mark.parametrize(
    ("split", "count"),
    [
        ("train", 1000),
        ("train[:80%]", 800),
        ("train[80%:]", 200),
        ("train[10:25]", 15),
        ("train[-100:]", 100),
        ("train[:-100]", 900),
        ("train[:5000]", 1000),
        ("train[:33%](pct1_dropremainder)", 330),
        ("train+test", 1200),
        ("train[:10%] + test[:50%]", 200),
        ("all", 1200),
    ],
)
def test_how_many_examples_a_split_has(
    examples_in: Callable[[str, dict[str, int]], int], split: str, count: int
) -> None:
    assert examples_in(split, SIZES) == count


@pytest.mark.parametrize("split", ["validation", "train[::2]", "train[a:b]", ""])
def test_what_is_no_split(examples_in: Callable[[str, dict[str, int]], int], split: str) -> None:
    with pytest.raises(ValueError, match="split"):
        examples_in(split, SIZES)
