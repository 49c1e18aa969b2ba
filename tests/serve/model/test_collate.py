"""Which data may go together in one batch, joined and split again."""

from __future__ import annotations

import pytest

from gpuproof.serve.codecs.tensorflow_json import TensorRequest
from gpuproof.serve.model import collate


def test_numbers_of_several_requests_are_joined_and_split_again() -> None:
    np = pytest.importorskip("numpy")
    items = [{"a": np.ones((1, 2)) * n, "b": np.ones((1,))} for n in range(3)]
    assert len({collate.batch_key_of(item) for item in items}) == 1
    joined = collate.join(items, np.concatenate)
    assert joined["a"].shape == (3, 2)
    parts = collate.split({"y": joined["a"] * 2}, [1, 1, 1])
    assert [part["y"].tolist() for part in parts] == [[[0, 0]], [[2, 2]], [[4, 4]]]


def test_only_equal_types_and_trailing_shapes_go_together() -> None:
    np = pytest.importorskip("numpy")
    keys = [
        collate.batch_key_of(value)
        for value in (
            np.zeros((1, 2)),
            np.zeros((5, 2)),
            np.zeros((1, 3)),
            np.zeros((1, 2), np.float32),
            [np.zeros((1, 2))],
        )
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4
    assert [collate.batch_key_of(value) for value in (np.float32(1), np.zeros((0, 2)), 3, "text", [])] == [
        None
    ] * 5


def test_rows_and_columns_of_tensorflows_json_are_not_mixed() -> None:
    np = pytest.importorskip("numpy")
    keys = {
        collate.batch_key_of(TensorRequest({"x": np.zeros((1, 2))}, by_row, signature))
        for by_row in (True, False)
        for signature in ("", "total")
    }
    assert len(keys) == 4


def test_texts_are_joined_as_one_list() -> None:
    assert collate.join([["a"], ["b", "c"]], list) == ["a", "b", "c"]
    assert collate.split(["A", "B", "C"], [1, 2]) == [["A"], ["B", "C"]]


def test_an_answer_without_a_row_for_each_row_is_inseparable() -> None:
    np = pytest.importorskip("numpy")
    for prediction in (np.zeros(2), np.float32(1), {"y": np.zeros((2, 2))}, ["a"], "text"):
        with pytest.raises(collate.NotSplittable):
            collate.split(prediction, [1, 1, 1])
