"""What is still to be filled in, and what is certainly no secret."""

import pytest

from gpuproof.linter.knowledge.placeholders import find_placeholder, is_not_secret


@pytest.mark.parametrize("text", ["s3://your-bucket/data", "<your-bucket>", "YOUR_ACCOUNT_ID", "<role-arn>"])
def test_a_placeholder_is_recognized(text: str) -> None:
    assert find_placeholder(text)


@pytest.mark.parametrize("text", ["s3://research-data/x", "behaviour-bucket", "a < b > c", "yourself"])
def test_a_real_name_is_not_a_placeholder(text: str) -> None:
    assert find_placeholder(text) is None


@pytest.mark.parametrize(
    "text", ["", "xxxxxxxxxxxx", "<token>", "${HF_TOKEN}", "AKIAIOSFODNN7EXAMPLE", "arn:aws:x:y:z"]
)
def test_what_stands_in_a_secrets_place_may_be_none(text: str) -> None:
    assert is_not_secret(text)


def test_a_token_is_taken_for_one() -> None:
    assert not is_not_secret("hf_QmVyZ2tyaXN0YWxs")
