"""The tables are small, load fast, and say what the real packages say where those are installed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuproof.linter.sdk.tables import FOLDER, Sdk

ROOT = Path(__file__).parents[3]
ENVIRONMENTS = os.environ.get("GPUPROOF_SDK_ENVIRONMENTS", "")
"""A folder that `tools/build_sdk_tables.py --keep` filled: sagemaker v1, v2, v3 and two botocores."""


def test_tables_stay_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.glob("*.json")) < 480_000
    assert (FOLDER / "attributes.csv").stat().st_size < 40_000
    tables = ("botocore_history", "changes_v2", "changes_v3", "distribution", "needs", "v3_words")
    assert sum((FOLDER / f"{name}.csv").stat().st_size for name in tables) < 90_000


@pytest.mark.parametrize("table", ["v2", "v3"])
def test_a_table_answers_within_a_tenth_of_a_second(table: str) -> None:
    took: list[float] = []
    for _ in range(10):
        began = time.process_time()
        assert Sdk(table).has("sagemaker")
        took.append(time.process_time() - began)
    assert min(took) < 0.1


@pytest.mark.parametrize("table", ["v2", "v3"])
def test_every_signature_and_every_name_can_be_read(table: str) -> None:
    sdk = Sdk(table)
    for module in sdk.modules:
        for name in sdk.names(module) or ():
            home = sdk.definition(f"{module}.{name}")
            signature = sdk.signature(home)
            assert signature is None or all(each.name.isidentifier() for each in signature.parameters), home


@pytest.mark.slow
@pytest.mark.skipif(not ENVIRONMENTS, reason="GPUPROOF_SDK_ENVIRONMENTS names no folder with the packages")
def test_the_tables_are_what_the_packages_say() -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "build_sdk_tables.py"), "--compare", "--keep", ENVIRONMENTS],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
