from __future__ import annotations

import pytest

from gpuproof.util.redaction import hide_secrets, is_secret, is_secret_argument


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("python train.py --hf-token abc --lr 0.1", "python train.py --hf-token *** --lr 0.1"),
        ("train.py --wandb_api_key=abc in out", "train.py --wandb_api_key=*** in out"),
        ("train.py --password --resume", "train.py --password --resume"),
        ("train.py -token abc def", "train.py -token *** def"),
        ("env HF_TOKEN=abc python train.py", "env HF_TOKEN=*** python train.py"),
        ("train.py hf_abcdefgh1234", "train.py ***"),
        ("train.py --db postgres://me:pass@host/db", "train.py --db ***"),
        ("train.py --db=postgres://me:pass@host/db", "train.py --db=***"),
        ("train.py --max-new-tokens 9 --tokenizer=gpt2 --eos-token </s>",) * 2,
        ("train.py --num-keys 8 --key-dim 64 --author me --url https://host/data",) * 2,
    ],
)
def test_the_values_of_secret_arguments_are_hidden(command: str, shown: str) -> None:
    assert " ".join(hide_secrets(command.split())) == shown


def test_variables_are_judged_by_their_whole_name() -> None:
    assert is_secret("MAX_TOKENS", "9")
    assert not is_secret_argument("--max-tokens", "9")
