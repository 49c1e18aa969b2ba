"""Which version of the SDK a constraint allows, and the words of v3 that the rules suggest."""

import csv

import pytest

from gpuproof.linter.sdk import Signature, v3
from gpuproof.linter.sdk.calls import major_minor, pinned_major
from gpuproof.linter.sdk.tables import FOLDER

HOMES = ("sagemaker.train.configs", "sagemaker.train", "sagemaker.train.distributed", "sagemaker.serve")


@pytest.mark.parametrize(
    ("constraint", "major"),
    [
        ("==2.257.7", 2),
        (">=2.100,<3", 2),
        ("~=2.200", 2),
        (">=2,<3.0", 2),
        ("<2", 1),
        ("==1.72.1", 1),
        (">=3", 3),
        ("==3.*", 3),
        (">=2", None),
        ("<3", 2),
        ("", None),
    ],
)
def test_a_constraint_brings_the_newest_version_that_it_allows_unless_that_may_be_v3(
    constraint: str, major: int | None
) -> None:
    assert pinned_major(constraint) == major


@pytest.mark.parametrize(
    ("text", "pair"), [("2.1.0", (2, 1)), ("2", (2, 0)), ("1.2-1", (1, 2)), ("latest", None), (None, None)]
)
def test_a_release_is_its_first_two_numbers(text: str | None, pair: tuple[int, int] | None) -> None:
    assert major_minor(text) == pair


def test_every_suggested_field_of_v3_is_there_and_its_word_is_not() -> None:
    with (FOLDER / "v3_words.csv").open(encoding="utf-8") as file:
        file.readline()
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        signature = _of(row["class"])
        assert row["field"] in signature.names, row
        assert not signature.accepts(row["word"]), row


def _of(name: str) -> Signature:
    found = (v3().signature(f"{home}.{name}") for home in HOMES)
    return next(signature for signature in found if signature is not None)
