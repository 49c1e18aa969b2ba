"""Files that look like secrets are found by name and by content, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuproof.errors import UsageError
from gpuproof.jobs.source.secret_files import SecretFile, find_secret_names, find_secrets, reject_secrets

# Written in two parts, so that no scanner takes this file for a leak.
AWS_KEY = "AKIA" + "QZ7RTWXK2MNB4VHE"
HF_TOKEN = "hf_" + "aGk3Lm9PqRs7TuVwXyZ1bCdEfGhIjKl2Mn"


def found(folder: Path, name: str, text: str, *include: str) -> list[SecretFile]:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return list(find_secrets(folder, [name], include))


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.production",
        "prod.env",
        "id_rsa",
        "keys/id_ed25519",
        "server.pem",
        "private.key",
        "credentials",
        ".aws/credentials",
        "credentials.json",
        "Credentials.csv",
        "credentials.py",
        "service-account-prod.json",
        "kaggle.json",
        ".netrc",
        "secrets.yaml",
    ],
)
def test_names_of_secrets_are_found(name: str, tmp_path: Path) -> None:
    assert found(tmp_path, name, "x") == [SecretFile(name, "by its name")]


@pytest.mark.parametrize(
    "name",
    [
        ".env.example",
        "id_rsa.pub",
        "environment.yml",
        "credentials_provider.py",
        "keyboard.py",
        "tokenizer.json",
        "secrets.py",
        "docs/credentials.md",
    ],
)
def test_similar_names_are_not(name: str, tmp_path: Path) -> None:
    assert found(tmp_path, name, "x") == []


def test_a_bundle_of_certificates_is_public(tmp_path: Path) -> None:
    certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    assert found(tmp_path, "ca.pem", certificate * 2) == []
    key = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"
    assert found(tmp_path, "both.pem", certificate + key) == [SecretFile("both.pem", "by its name")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"import os\nKEY = '{AWS_KEY}'\n", "an AWS access key in line 2"),
        (f"token: {HF_TOKEN}\n", "a Hugging Face token in line 1"),
        (
            "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXkt\n",
            "a private key in line 1",
        ),
        (
            '{"db_password": "' + "q7Zr2XkP9vLm4TnW8sYb" + '"}',
            "a value that looks like a password in line 1",
        ),
        (
            "aws_secret_access_key = " + "wJ4lrXUt9FEMI7K7MDENGbPxRf1CYzEAoKEYsqPb",
            "a value that looks like a secret in line 1",
        ),
    ],
)
def test_tokens_are_found_in_files_of_any_name(text: str, reason: str, tmp_path: Path) -> None:
    ((name, why),) = found(tmp_path, "settings.ini", text)
    assert name == "settings.ini"
    assert why == reason


@pytest.mark.parametrize(
    "text",
    [
        "api_key = os.environ['WANDB_API_KEY']\n",
        "pad_token = '<|endoftext|>'\nmax_new_tokens = 2048\n",
        "token = 'sentence-transformers/all-MiniLM-L6-v2'\n",
        "AKIAIOSFODNN7EXAMPLE\n",
        "secret_name = 'prod/training/hub-token-2024-01-01'\n",
        "tokenizer = AutoTokenizer.from_pretrained('meta-llama/Llama-3.1-8B-Instruct')\n",
        "api_key = 'YOUR_API_KEY_GOES_HERE_1234567890'\n",
        "sha256 = '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'\n",
        "key_padding_mask = attention_mask_2d_float32_contiguous\n",
    ],
)
def test_ordinary_code_has_no_secret(text: str, tmp_path: Path) -> None:
    assert found(tmp_path, "train.py", text) == []


def test_made_up_tokens_of_tests_are_no_secrets(tmp_path: Path) -> None:
    assert found(tmp_path, "tests/test_login.py", f"KEY = '{AWS_KEY}'") == []


def test_a_binary_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"\0\1" + AWS_KEY.encode())
    assert list(find_secrets(tmp_path, ["model.bin"])) == []


def test_a_link_to_a_secret_is_found_by_the_name_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text("x")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "settings").symlink_to(tmp_path / "id_rsa")
    assert list(find_secret_names(tmp_path / "code", ["settings"])) == [SecretFile("settings", "by its name")]


def test_include_names_the_file_itself_and_not_its_folder(tmp_path: Path) -> None:
    assert found(tmp_path, "conf/.env", "x", "conf/.env") == []
    assert found(tmp_path, "conf/.env", "x", "conf/*") == []
    assert found(tmp_path, "conf/.env", "x", "**/.env") == []
    assert found(tmp_path, "conf/.env", "x", str(tmp_path / "conf" / ".env")) == []
    assert found(tmp_path, "conf/.env", "x", "conf") != []


def test_the_refusal_names_the_files_and_what_to_type(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refusal:
        reject_secrets(
            tmp_path, [SecretFile(".env", "by its name"), SecretFile("a.py", "an AWS access key in line 3")]
        )
    assert refusal.value.message == (
        f"Nothing was uploaded, because 2 files of {tmp_path} look like secrets: "
        ".env (by its name), a.py (an AWS access key in line 3)."
    )
    assert refusal.value.remedy is not None
    assert "--include '.env' --include 'a.py'" in refusal.value.remedy
    reject_secrets(tmp_path, [])


@pytest.mark.parametrize(
    "word", ["a1", "token", "secret_", "-----BEGIN "], ids=["hex", "token", "secret", "pem"]
)
def test_a_long_line_is_searched_in_linear_time(word: str, tmp_path: Path) -> None:
    assert found(tmp_path, "data.json", "token " + word * (400_000 // len(word))) == []
