"""`gpuproof receipt` and `gpuproof verify` on a real run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from support.cli_sandbox import CliSandbox

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("ssh-keygen") is None and "CI" not in os.environ,
        reason="ssh-keygen is not installed (Debian package openssh-client)",
    ),
]


@pytest.fixture
def cli(tmp_path: Path) -> CliSandbox:
    sandbox = CliSandbox(tmp_path / "home", tmp_path / "project")
    sandbox.home.mkdir()
    sandbox.project.mkdir()
    return sandbox


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "my key"
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    subprocess.run(words, check=True, capture_output=True)
    return path


@pytest.fixture
def ended(cli: CliSandbox) -> CliSandbox:
    cli.write("train.py", "print('trained')\n")
    assert cli.gpuproof("run", "train.py", "--no-check").returncode == 0
    return cli


def edited(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))


def test_a_signed_receipt_verifies_until_it_or_the_source_is_changed(ended: CliSandbox, key: Path) -> None:
    done = ended.gpuproof("receipt", "--sign", key, "-o", "receipt.json")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no git repository" in done.stderr
    public, receipt = f"{key}.pub", ended.home / "receipt.json"
    (ended.project / "receipt.json").rename(receipt)
    run_id = json.loads(receipt.read_text())["receipt"]["run"]["id"]
    words = ("verify", receipt, "--key", public, "--run", run_id, "--source", ".")
    done = ended.gpuproof(*words)
    assert done.returncode == 0
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [
        ["signature", "ok:"],
        ["run", "ok:"],
        ["verdict", "ok:"],
        ["code", "ok:"],
    ]
    ended.write("train.py", "print('other')\n")
    checks = json.loads(ended.gpuproof(*words, "--json").stdout)["checks"]
    assert [check["result"] for check in checks] == ["ok", "ok", "ok", "failed"]
    edited(
        ended.home / "receipt.json", lambda document: document["receipt"]["verdict"].update(outcome="used")
    )
    done = ended.gpuproof("verify", ended.home / "receipt.json", "--key", public)
    assert (done.returncode, done.stdout) == (
        1,
        "signature  failed: the receipt was changed after it was signed\n",
    )


def test_an_unsigned_receipt_is_printed_and_says_so(ended: CliSandbox, key: Path) -> None:
    done = ended.gpuproof("receipt")
    assert json.loads(done.stdout)["signature"] is None
    ended.write("receipt.json", done.stdout)
    done = ended.gpuproof("verify", "receipt.json")
    assert done.returncode == 3
    assert done.stdout.startswith("signature  unsigned")
    assert ended.gpuproof("verify", "receipt.json", "--key", f"{key}.pub").returncode == 1


def test_a_folder_that_was_pulled_has_the_verdict(ended: CliSandbox) -> None:
    ended.gpuproof("receipt", "-o", "receipt.json")
    ended.gpuproof("pull", "--to", "pulled")
    assert ended.gpuproof("verify", "receipt.json", "--run", "pulled").returncode == 0
    edited(ended.project / "pulled" / "verdict.json", lambda document: document.update(outcome="used"))
    assert ended.gpuproof("verify", "receipt.json", "--run", "pulled").returncode == 1


def test_the_verdict_of_a_real_run_follows_its_schema(ended: CliSandbox) -> None:
    schema = json.loads(ended.gpuproof("schema", "verdict").stdout)
    jsonschema.validate(json.loads((ended.newest() / "verdict.json").read_text()), schema)


def test_wrong_usage_ends_with_2(ended: CliSandbox, key: Path) -> None:
    ended.gpuproof("receipt", "-o", "receipt.json")
    for words in (
        ("verify", "missing.json"),
        ("verify", "receipt.json", "--key", "missing.pub"),
        ("verify", "receipt.json", "--key", key, "--allowed-signers", key),
        ("receipt", "--sign", "missing"),
        ("receipt", "-o", "missing/receipt.json"),
    ):
        assert ended.gpuproof(*words).returncode == 2, words


def test_a_run_in_a_clean_repository_names_its_commit(cli: CliSandbox) -> None:
    cli.write("train.py", "print('trained')\n")
    for words in (
        ["init", "-q"],
        ["add", "."],
        [
            "-c",
            "user.name=me",
            "-c",
            "user.email=me@example.com",
            "-c",
            "commit.gpgsign=false",
            "commit",
            "-qm",
            "x",
        ],
    ):
        subprocess.run(["git", *words], cwd=cli.project, check=True, capture_output=True)
    cli.gpuproof("run", "train.py", "--no-check")
    done = cli.gpuproof("receipt")
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=cli.project, check=True, capture_output=True, text=True
    ).stdout.strip()
    assert json.loads(done.stdout)["receipt"]["code"]["git"] == {"commit": head, "dirty": False}
    assert done.stderr == ""
