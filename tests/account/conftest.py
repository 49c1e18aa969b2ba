"""One emulated account for all tests of a worker, empty for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_sandbox import CliSandbox
from support.emulated_account import EmulatedAccount, emulated_account


@pytest.fixture(scope="session")
def _account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedAccount]:
    folder = tmp_path_factory.mktemp("aws")
    folder.chmod(0o700)
    with emulated_account(folder) as account:
        yield account


@pytest.fixture
def account(_account: EmulatedAccount) -> EmulatedAccount:
    """An empty account."""
    _account.reset()
    return _account


@pytest.fixture
def cli(account: EmulatedAccount, tmp_path: Path) -> CliSandbox:
    """`gpuproof` in an empty home, which reaches the account."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    return CliSandbox(home, project, dict(account.environment))
