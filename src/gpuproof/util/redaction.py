"""Hides values that look like secrets, by their names or by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

HIDDEN = "***"
"""Printed instead of a secret."""

_NAME = re.compile(
    r"secret|token|passw|passphrase|credential|private|cookie|signature|bearer|connection_?string|webhook"
    r"|api_?key|access_?key|(^|_)(keys?|auth|pwd|pass|pat|dsn|jwt|license|salt)(_|$)",
    re.IGNORECASE,
)
_VALUE = re.compile(
    r"://[^/@\s]+@|-----BEGIN |\b(AKIA|ASIA)[A-Z0-9]{16}\b|\b(gh[opsu]|github_pat|hf|glpat|xox[a-z])[-_]\w{8,}"
    r"|\bsk-[\w-]{8,}|\beyJ[\w-]{10,}\.",
)
"""A password in an address, private keys, and the prefixes of access keys of AWS, GitHub, Hugging Face, GitLab, Slack and OpenAI,
and of JSON web tokens.

Source: https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml
"""
_MODEL_SETTING = re.compile(
    r"(pad|eos|bos|unk|sep|cls|mask|special|num|max|min|new|vocab\w*)_?tokens?|tokens(_|$)|tokenizer|(^|_)(num|n)_keys|keys?_(dim|size)",
    re.IGNORECASE,
)
"""Arguments of language models."""


def is_secret(name: str, value: str) -> bool:
    """Whether an environment variable looks like a secret, by its name or its value."""
    return bool(_NAME.search(name) or _VALUE.search(value))


def is_secret_argument(name: str, value: str) -> bool:
    """Whether the value of a script's argument looks like a secret.

    Args:
        name: such as `--hf-token`; empty for an argument without a name.
    """
    name = name.lstrip("-").replace("-", "_")
    return bool(_VALUE.search(value) or (_NAME.search(name) and not _MODEL_SETTING.search(name)))


def hide_secrets(command: Sequence[str]) -> Iterator[str]:
    """The words of a command, with `***` for the values of arguments that look like secrets."""
    name = ""
    for word in command:
        option, equals, value = word.partition("=")
        if equals and is_secret_argument(option, value):
            yield f"{option}={HIDDEN}"
        elif is_secret_argument("" if word.startswith("-") else name, word):
            yield HIDDEN
        else:
            yield word
        name = "" if equals or not word.startswith("-") else word
