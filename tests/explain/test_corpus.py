"""Real error texts: quoted from public threads with their address, or raised by the frameworks that are installed here.

In `corpus/public.csv`, placeholders of a source such as <type> are filled in.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpuproof.explain import Context, explain_lines
from gpuproof.explain.patterns import known_errors

CORPUS = Path(__file__).parent / "corpus"
QUIET = Path(__file__).parent / "quiet"
RUNNER = Path(__file__).parents[1] / "support" / "live_errors.py"
CODES = sorted((error.code for error in known_errors()), key=len, reverse=True)
with (CORPUS / "public.csv").open(newline="") as file:
    PUBLIC = list(csv.DictReader(file))


def live_cases(name: str) -> list[str]:
    return [case for case in tomllib.loads((CORPUS / f"{name}.toml").read_text()) if case != "setup"]


def wanted_code(case: str) -> str:
    return next(code for code in CODES if case == code or case.startswith(f"{code}-"))


def test_there_are_at_least_150_texts_and_20_healthy_logs() -> None:
    texts = len(PUBLIC) + sum(len(live_cases(name)) for name in ("torch", "tensorflow", "python"))
    assert texts >= 150
    assert len(list(QUIET.glob("*.log"))) >= 20


def test_every_public_text_has_its_source_and_none_is_there_twice() -> None:
    assert all(row["source"].startswith("https://github.com/") for row in PUBLIC)
    assert len({row["text"] for row in PUBLIC}) >= 0.9 * len(PUBLIC)


@pytest.mark.parametrize("number", range(len(PUBLIC)))
def test_a_public_text_is_recognized(number: int, context: Context) -> None:
    row = PUBLIC[number]
    found = [explain_line.code for explain_line in explain_lines(row["text"].splitlines(), context)]
    assert found[:1] == [row["code"]], row["source"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "package"), [("torch", "torch"), ("tensorflow", "tensorflow"), ("python", "numpy")]
)
def test_what_the_installed_packages_raise_is_recognized(name: str, package: str, context: Context) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    result = subprocess.run(
        [sys.executable, str(RUNNER), str(CORPUS / f"{name}.toml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    lines = [line for line in result.stdout.splitlines() if line.startswith('{"case"')]
    texts = {record["case"]: record["text"] for record in map(json.loads, lines)}
    assert list(texts) == live_cases(name), result.stderr[-2000:]
    wrong = {
        case: (found, text[-300:])
        for case, text in texts.items()
        if (found := [explain_line.code for explain_line in explain_lines(text.splitlines(), context)])[:1]
        != [wanted_code(case)]
    }
    assert wrong == {}
