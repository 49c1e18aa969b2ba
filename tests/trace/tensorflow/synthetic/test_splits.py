"""Parts of data sets, by the names of TensorFlow Datasets."""

from __future__ import annotations

import pytest

from gpuproof.trace.tensorflow.synthetic.splits import examples_in

SIZES = {"train": 1000, "test": 200}


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
def test_how_many_examples_a_split_has(split: str, count: int) -> None:
    assert examples_in(split, SIZES) == count


@pytest.mark.parametrize("split", ["validation", "train[::2]", "train[a:b]", ""])
def test_what_is_no_split(split: str) -> None:
    with pytest.raises(ValueError, match="split"):
        examples_in(split, SIZES)
