"""Separate processes for probes that might crash or hang."""

import os
import sys
import time
from pathlib import Path

import pytest

from gpuproof.gpu.cuda import read_cuda
from gpuproof.gpu.probe_process import ask, parse_records
from gpuproof.gpu.probe_record import MARK
from support.cli_sandbox import gone
from support.cuda_stub import CUDA_VARIABLE, build_cuda


@pytest.fixture
def python(tmp_path: Path):
    """Make an interpreter from a shell script."""

    def write(script: str) -> str:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return write


def probe(python: str, seconds: float = 120):
    return ask(python, "packages", environment=dict(os.environ), seconds=seconds)


def test_records_are_found_among_whatever_else_is_printed() -> None:
    lines = [
        "banner",
        f'{MARK}{{"kind": "a"}}',
        f'no newline before{MARK}{{"kind": "b"}}',
        f'{MARK}{{"kind": "cut',
    ]
    assert [record["kind"] for record in parse_records(lines)] == ["a", "b"]


def test_a_probe_that_dies_has_still_reported_its_step(python) -> None:
    answer = probe(
        python('printf \'\\036gpuproof {"kind": "step", "name": "import torch"}\\n\'; kill -SEGV $$')
    )
    assert answer.problem == "died of SIGSEGV"
    assert answer.step == "import torch"
    assert not answer.hung


@pytest.mark.slow
def test_a_probe_that_hangs_is_given_up_with_its_children(python, tmp_path: Path) -> None:
    child = tmp_path / "child"
    started = time.monotonic()
    answer = probe(python(f"sleep 600 & echo $! > {child}; wait"), seconds=3)
    assert time.monotonic() - started < 300
    assert answer.hung
    assert answer.problem == "did not respond within 3 s"
    assert gone(int(child.read_text()))


def test_garbage_is_not_a_valid_record(python) -> None:
    assert probe(python('echo \'{"kind": "packages"}\'')).problem == "printed no valid record"


def test_an_exit_code_comes_with_the_last_words(python) -> None:
    answer = probe(python("echo one >&2; echo two >&2; exit 3"))
    assert answer.problem == "exited with code 3: two"


def test_an_invalid_interpreter_is_reported(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("not a program")
    assert "could not be started" in (probe(str(tmp_path / "python")).problem or "")


def test_a_module_in_the_current_folder_does_not_shadow_what_a_probe_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "platform.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    assert probe(sys.executable).problem is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "hung", "seconds"), [("hang cuInit", True, 5), ("crash cuDeviceGetName", False, 120)]
)
def test_a_driver_that_hangs_or_crashes_affects_no_other_process(
    statement: str, hung: bool, seconds: float, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = build_cuda(tmp_path_factory.mktemp("stub"))
    scenario = tmp_path / "cuda.txt"
    scenario.write_text(f"version 12040\ndevice 8 6 100 NVIDIA A10G\n{statement}\n")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), CUDA_VARIABLE: str(scenario)}
    reading = read_cuda(environment, seconds)
    assert reading.hung is hung
    assert "cuInit" in (reading.problem or "")
    assert reading.devices == ()
