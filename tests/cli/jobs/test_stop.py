"""`gpuproof stop` of several runs, one of which cannot be stopped."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from gpuproof.backends.aws import AwsRefused
from gpuproof.cli.main import main
from gpuproof.errors import ExitCode


class Stoppable:
    """A run that ends when it is stopped, unless AWS refuses that."""

    is_remote = True

    def __init__(self, name: str) -> None:
        self.id = name
        self.stopped = False

    def stop(self, *, at_once: bool = False) -> None:
        if self.id.startswith("refused"):
            raise AwsRefused(f"{self.id}: AccessDeniedException. It was not stopped.", "ask for leave")
        self.stopped = True

    def wait(self) -> SimpleNamespace:
        status = "Stopped" if self.stopped else "InProgress"
        return SimpleNamespace(id=self.id, status=status, status_text=status, started=None, reason=None)


def test_one_that_is_refused_leaves_no_other_running(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("gpuproof.backends.registry.find_run", lambda name, *_: Stoppable(name))
    assert main(["stop", "refused-1", "second", "refused-2", "fourth"]) == ExitCode.AWS_REFUSED
    output = capsys.readouterr()
    assert output.out == "second: Stopped\nfourth: Stopped\n"
    assert "gpuproof: refused-1: AccessDeniedException." in output.err
    assert "gpuproof: refused-2: AccessDeniedException." in output.err
    assert "ask for leave" in output.err
