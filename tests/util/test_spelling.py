"""The word that a misspelt one stands for."""

import pytest

from gpuproof.util.spelling import edit_distance, nearest_words

REGIONS = ["us-east-1", "us-east-2", "us-west-1", "us-west-2", "eu-west-1", "ap-east-1"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("us-esat-1", "us-east-1"),
        ("us-esat-2", "us-east-2"),
        ("us-west2", "us-west-2"),
        ("eu-wst-1", "eu-west-1"),
        ("US-EAST-1", "us-east-1"),
    ],
)
def test_a_misspelt_region_is_the_one_with_the_fewest_mistakes(word: str, meant: str) -> None:
    assert nearest_words(word, REGIONS) == [meant]


def test_a_word_that_is_near_to_none_has_no_suggestion() -> None:
    assert nearest_words("mars", REGIONS) == []
    assert nearest_words("", REGIONS) == []


def test_several_suggestions_come_best_first() -> None:
    assert nearest_words("sariff", ["text", "sarif", "sarifx"], 2) == ["sarif", "sarifx"]


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [("", "", 0), ("", "abc", 3), ("ab", "ba", 1), ("abc", "abd", 1), ("abcd", "acbd", 1), ("ca", "abc", 3)],
)
def test_the_distance_counts_single_mistakes(first: str, second: str, distance: int) -> None:
    assert edit_distance(first, second) == edit_distance(second, first) == distance
