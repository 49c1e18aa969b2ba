"""Version numbers without the `packaging` library."""

from __future__ import annotations

import pytest

from gpuproof.util.versions import version_key


@pytest.mark.parametrize(
    ("version", "numbers"),
    [
        ("2.21.0", (2, 21, 0)),
        ("2.11.0+cu126", (2, 11, 0)),
        ("2.5.0rc1", (2, 5, 0)),
        ("2.6.0a0+git12", (2, 6, 0)),
        ("v1.2", (1, 2)),
        ("12", (12,)),
        ("", ()),
        ("nightly", ()),
    ],
)
def test_the_numbers_of_a_release(version: str, numbers: tuple[int, ...]) -> None:
    assert version_key(version) == numbers
