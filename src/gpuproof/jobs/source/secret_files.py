"""Finds files that look like secrets, which are not uploaded unless `include` names them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuproof.errors import UsageError
from gpuproof.jobs.source.ignore_rules import IncludePatterns
from gpuproof.util.humanize import pluralize

# In lower case. Sources: the formats' own documentation (OpenSSH, AWS CLI, netrc, PostgreSQL, pip, npm, Docker, Kaggle,
# Google Cloud) and https://github.com/github/gitignore. Plain tests of strings: every run starts with them.
_NAMES = frozenset(
    {
        *(".env", ".envrc", "id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"),
        *(".git-credentials", "application_default_credentials.json", "kaggle.json"),
        *("secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml"),
        *(".netrc", "_netrc", ".pgpass", ".my.cnf", ".pypirc", ".htpasswd", ".dockercfg", "kubeconfig"),
    }
)
_SUFFIXES = (".env", ".pem", ".key", ".ppk", ".p12", ".pfx", ".jks", ".keystore", ".kdbx")
_PREFIXES = (".env.", "credentials", "client_secret")
_HARMLESS_SUFFIXES = (".example", ".sample", ".template", ".dist", ".md", ".rst", "example.env", "sample.env")
_CERTIFICATES = rb"-----BEGIN (CERTIFICATE|PUBLIC KEY|DH PARAMETERS|X509 CRL)-----"
_PEM = rb"-----BEGIN [A-Z0-9 ]+-----"

# Each issuer documents the prefix of its tokens, so that they can be found. Compiled on first use.
_TOKENS = (
    ("a private key", rb"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----\s*[A-Za-z0-9+/=:\\]"),
    ("an AWS access key", rb"(?<![A-Za-z0-9+/=])(AKIA|ASIA)[A-Z2-7]{16}(?![A-Za-z0-9+/=])"),
    ("a Hugging Face token", rb"\bhf_[A-Za-z0-9]{30,}\b"),
    ("a GitHub token", rb"\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})\b"),
    ("a GitLab token", rb"\bglpat-[A-Za-z0-9_-]{20,}"),
    ("an OpenAI or Anthropic key", rb"\bsk-(proj-|ant-|svcacct-)?[A-Za-z0-9_-]{32,}"),
    ("a Slack token", rb"\bxox[abeoprs]-[A-Za-z0-9-]{20,}"),
    ("a Google API key", rb"\bAIza[A-Za-z0-9_-]{35}\b"),
    ("a PyPI token", rb"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{20,}"),
    ("an npm token", rb"\bnpm_[A-Za-z0-9]{36}\b"),
)
# A value of high entropy that is assigned to a name such as `api_key` or `DB_PASSWORD`.
# Every repetition is bounded: a file may be one line of half a million letters.
_ASSIGNMENT = (
    rb"(?i)(secret|token|passw(?:or)?d|api_?key|access_?key|auth_?key|private_?key)[a-z0-9_]{0,40}"
    rb"[\"']?\s{0,5}[:=]\s{0,5}[\"']?([A-Za-z0-9+/_=.-]{20,200})(?=[\"'\s,;]|$)"
)
_HINTS = rb"(?i)secret|token|passw|_?key|AKIA|ASIA|hf_|gh[pousr]_|github_pat|glpat-|sk-|xox|AIza|npm_|pypi-"
_PLACEHOLDER = rb"(?i)example|xxx|your[-_]|changeme|placeholder|dummy|\.\.\."
_MIN_ENTROPY = 3.7  # bits per character; English words have about 2.5 to 3.5 at this length
_LONGEST_READ = 512 * 2**10
_TESTS = r"(^|/)(tests?|testing|fixtures)/|(^|/)test_[^/]*$|_test\.py$|(^|/)conftest\.py$"
_MOST_NAMED = 10
_IGNORE = "List {it} in .gpuproofignore"


class SecretFile(NamedTuple):
    """A file that looks like a secret.

    Args:
        name: relative to its folder.
        reason: why, as a phrase.
    """

    name: str
    reason: str


def find_secret_names(root: Path, names: Sequence[str], include: Sequence[str] = ()) -> Iterator[SecretFile]:
    """The files whose name is one that secrets have.

    Args:
        root: the folder that contains them.
        names: relative to the folder.
        include: patterns of files that the user wants to send; see `IncludePatterns`.
    """
    patterns = IncludePatterns(include, root)
    for name in names:
        if _has_secret_name(root / name) and not patterns.match(name):
            yield SecretFile(name, "by its name")


def find_secrets(root: Path, names: Sequence[str], include: Sequence[str] = ()) -> Iterator[SecretFile]:
    """The files whose name or content looks like a secret; arguments as for `find_secret_names`."""
    patterns = IncludePatterns(include, root)
    for name in names:
        path = root / name
        reason = "by its name" if _has_secret_name(path) else _token_in(path, name)
        if reason is not None and not patterns.match(name):
            yield SecretFile(name, reason)


def reject_secrets(
    root: Path | str, secrets: Sequence[SecretFile], *, done: str = "uploaded", instead: str = _IGNORE
) -> None:
    """Refuses to upload files that look like secrets.

    Args:
        root: where they are, for the message.
        done: what would have been done with them.
        instead: how to leave them out; `{it}` stands for them.

    Raises:
        UsageError: there are some.
    """
    if not secrets:
        return
    shown = [f"{secret.name} ({secret.reason})" for secret in secrets[:_MOST_NAMED]]
    if len(secrets) > _MOST_NAMED:
        shown.append(f"and {len(secrets) - _MOST_NAMED} more")
    looks, it = ("looks like a secret", "it") if len(secrets) == 1 else ("look like secrets", "them")
    flags = " ".join(f"--include '{secret.name}'" for secret in secrets[:3])
    raise UsageError(
        f"Nothing was {done}, because {pluralize(len(secrets), 'file')} of {root} {looks}: {', '.join(shown)}.",
        f"{instead.format(it=it)}, or have {it} {done} on purpose: {flags}",
    )


def _has_secret_name(path: Path) -> bool:
    names = {path.name.lower()}
    if path.is_symlink():
        names.add(path.resolve().name.lower())
    if not any(map(_is_secret_name, names)):
        return False
    return not (path.suffix in (".pem", ".key") and _has_only_certificates(path))


def _is_secret_name(name: str) -> bool:
    is_account = name.endswith(".json") and "service_account" in name.replace("-", "_")
    if (
        not is_account
        and name not in _NAMES
        and not name.endswith(_SUFFIXES)
        and not name.startswith(_PREFIXES)
    ):
        return False
    is_module = name.startswith(("credentials_", "client_secret")) and name.endswith(".py")
    return not is_module and not name.endswith(_HARMLESS_SUFFIXES)


def _has_only_certificates(path: Path) -> bool:
    content = _content(path)
    blocks = re.findall(_PEM, content)
    return bool(blocks) and len(blocks) == len(re.findall(_CERTIFICATES, content))


def _token_in(path: Path, name: str) -> str | None:
    """What a file contains, as a phrase with the line; None if nothing in it looks like a secret."""
    if re.search(_TESTS, name):
        return None
    content = _content(path)
    if b"\0" in content[:8192] or not re.search(_HINTS, content):
        return None
    for what, pattern in _TOKENS:
        for match in re.finditer(pattern, content):
            if not re.search(_PLACEHOLDER, match.group(0)):
                return f"{what} in line {_line(content, match.start())}"
    for match in re.finditer(_ASSIGNMENT, content):
        if _is_random(match.group(2)):
            name = match.group(1).decode().lower().replace("_", " ")
            article = "an" if name[0] in "aeiou" else "a"
            return f"a value that looks like {article} {name} in line {_line(content, match.start())}"
    return None


def _is_random(value: bytes) -> bool:
    """Whether a value has the entropy of a generated token and is no placeholder, path, version or dotted name."""
    text = value.decode()
    digits = sum(character.isdigit() for character in text)
    letters = sum(character.isalpha() for character in text)
    if (
        digits < 3
        or letters < 3
        or re.search(_PLACEHOLDER, value)
        or text.count("/") > 2
        or text.count(".") > 2
    ):
        return False
    if max((len(part) for part in re.split(r"[-_./]", text)), default=0) < 16:
        return False  # words joined by hyphens, as in the name of a model
    counts = Counter(text)
    entropy = -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values())
    is_hexadecimal = re.fullmatch(r"[0-9a-fA-F]{32,}", text) is not None
    return entropy >= (3.0 if is_hexadecimal else _MIN_ENTROPY)


def _line(content: bytes, position: int) -> int:
    return content.count(b"\n", 0, position) + 1


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LONGEST_READ)
    except OSError:
        return b""  # the upload will say so
