"""Which object becomes which file."""

from __future__ import annotations

import pytest

from gpuproof.backends.aws import S3Object
from gpuproof.backends.s3_inputs.mapping import Layout, S3Prefix, lay_out
from gpuproof.errors import ExitCode, InvalidJob


def laid_out(prefix: str, *keys: str, size: int = 1) -> Layout:
    """The layout of the keys that a bucket with exactly these would list."""
    objects = [S3Object("rows", key, size, '"e"', 0.0) for key in keys if key.startswith(prefix)]
    return lay_out(S3Prefix("rows", prefix), objects)


def places(prefix: str, *keys: str) -> dict[str, str]:
    return {path: item.key for path, item in laid_out(prefix, *keys).files.items()}


@pytest.mark.parametrize(
    ("text", "bucket", "prefix"),
    [
        ("s3://rows/data/train", "rows", "data/train"),
        ("s3://rows/", "rows", ""),
        ("s3://rows", "rows", ""),
        ("s3://rows//x", "rows", "/x"),
    ],
)
def test_an_address_is_a_bucket_and_a_prefix(text: str, bucket: str, prefix: str) -> None:
    assert S3Prefix.parse(text) == S3Prefix(bucket, prefix)


def test_an_address_is_written_as_it_was_read() -> None:
    assert str(S3Prefix.parse("s3://rows/data/train")) == "s3://rows/data/train"


@pytest.mark.parametrize("prefix", ["data/train", "data/train/"])
def test_objects_below_the_prefix_are_at_the_top(prefix: str) -> None:
    assert places(prefix, "data/train/a.csv", "data/train/deep/b.csv") == {
        "a.csv": "data/train/a.csv",
        "deep/b.csv": "data/train/deep/b.csv",
    }


def test_the_whole_bucket_keeps_its_folders() -> None:
    assert places("", "a.csv", "deep/b.csv") == {"a.csv": "a.csv", "deep/b.csv": "deep/b.csv"}


def test_one_object_becomes_a_file_of_its_name() -> None:
    assert places("data/train.csv", "data/train.csv") == {"train.csv": "data/train.csv"}


def test_a_prefix_that_ends_within_names_keeps_whole_names() -> None:
    layout = laid_out("data/train-", "data/train-1.csv", "data/train-2/x.csv")
    assert list(layout.files) == ["train-1.csv", "train-2/x.csv"]
    assert layout.notes == ()


def test_a_folder_with_the_same_prefix_is_included_with_a_note() -> None:
    layout = laid_out("data/train", "data/train/a.csv", "data/train2/b.csv", "data/train3/c.csv")
    assert list(layout.files) == ["a.csv", "train2/b.csv", "train3/c.csv"]
    (note,) = layout.notes
    assert "also matches s3://rows/data/train2/b.csv and 1 more" in note
    assert "s3://rows/data/train/ matches only the folder" in note


def test_a_file_with_the_same_prefix_is_included_with_a_note() -> None:
    (note,) = laid_out("train.csv", "train.csv", "train.csv.bak").notes
    assert note == "s3://rows/train.csv also matches s3://rows/train.csv.bak, as on SageMaker"


def test_empty_folders_of_the_console_are_passed_over() -> None:
    layout = lay_out(
        S3Prefix("rows", "data/"),
        [S3Object("rows", "data/", 0, '"e"', 0.0), S3Object("rows", "data/a", 1, '"e"', 0.0)],
    )
    assert list(layout.files) == ["a"]
    assert layout.notes == ()


def test_content_under_a_name_that_ends_in_a_slash_is_left_out_and_named() -> None:
    layout = laid_out("data/", "data/a", "data/odd/", size=7)
    assert list(layout.files) == ["a"]
    assert layout.notes == (
        "s3://rows/data/odd/ ends in a slash and cannot become a file: its 7 bytes were skipped",
    )


@pytest.mark.parametrize("keys", [(), ("other",), ("data/", "data/sub/")])
def test_a_prefix_without_a_file_is_an_error(keys: tuple[str, ...]) -> None:
    with pytest.raises(InvalidJob, match="No object matches s3://rows/data/") as caught:
        laid_out("data/", *keys)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.remedy == "List the bucket: aws s3 ls s3://rows/data/"


@pytest.mark.parametrize("key", ["data/../../etc/passwd", "data/a/../b", "data/..", "data/./a"])
def test_a_key_that_leads_out_of_the_folder_is_refused(key: str) -> None:
    with pytest.raises(InvalidJob, match=r"has \. or \.\. in its path") as caught:
        laid_out("data/", "data/fine", key)
    assert key in caught.value.message


def test_a_key_like_an_absolute_path_lies_in_the_folder() -> None:
    assert places("", "/etc/passwd") == {"etc/passwd": "/etc/passwd"}


def test_empty_parts_of_a_key_vanish() -> None:
    assert places("data/", "data//a///b") == {"a/b": "data//a///b"}


def test_two_keys_that_would_be_one_file_are_refused() -> None:
    with pytest.raises(InvalidJob, match="map to the same file, a/b"):
        laid_out("data/", "data/a/b", "data/a//b")


def test_a_key_that_is_file_and_folder_is_refused() -> None:
    with pytest.raises(InvalidJob, match="s3://rows/data/a is a file and also a folder of data/a/b/c"):
        laid_out("data/", "data/a", "data/a/b/c")


@pytest.mark.parametrize("name", ["x" * 256, "ü" * 128, "nul\0"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidJob, match="is not a valid file name"):
        laid_out("data/", f"data/{name}")


def test_a_name_as_long_as_a_file_may_have_is_fine() -> None:
    assert places("data/", "data/" + "x" * 255)
