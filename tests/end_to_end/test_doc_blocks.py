"""Every block of README and of docs runs: here and against the emulator, or a mark says what it needs.

`support/doc_blocks.py` lists the marks. The blocks of a page run in one folder, from the top to the bottom, with the emulator as AWS,
in whose jobs a GPU works while the script does. What a page takes for granted (a bucket, `train.py`) is created by `pages/PAGE.sh`, which runs
before the first block; `. ../gpus.sh` in it gives this machine two such GPUs, too. To run one page: `pytest tests/end_to_end/test_doc_blocks.py -k guides/NAME`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

from support.account_history import add_last_month
from support.aws_emulator import RunningEmulator, running_emulator
from support.doc_blocks import EC2_GUIDES, ROOT, blocks_of, mistakes, pages
from support.doc_gpus import gpus_at_work
from support.doc_pages import PageRun
from support.emulated_account import emulated_account
from support.nvml_stub import build_library

pytestmark = [pytest.mark.journey, pytest.mark.slow]

REGIONS = ("us-east-1", "eu-west-1")
"""That are enabled for the account: AWS's number of regions would take minutes."""
HISTORIES = {"docs/guides/what-did-our-gpus-do.md": add_last_month}
"""Pages whose account has a past."""
_WORKERS = 3
"""How many workers share the pages, each with an emulator of its own."""


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the stub NVML."""
    return build_library(tmp_path_factory.mktemp("stub"))


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory, nvml: Path) -> Iterator[RunningEmulator]:
    """An emulator in whose containers there is an A10G that works while a script runs."""
    folder = tmp_path_factory.mktemp("aws")
    gpu = gpus_at_work(folder / "gpu", nvml, 1, in_container=True)
    environment = {**gpu, "OMP_NUM_THREADS": "1"}
    words = tuple(word for region in REGIONS for word in ("--enabled-region", region))
    with running_emulator(folder, environment=environment, role=True, words=words) as started:
        yield started


@pytest.fixture
def page_run(emulator: RunningEmulator, nvml: Path, tmp_path: Path) -> Iterator[PageRun]:
    run = PageRun(tmp_path, emulator.credentials)
    run.offer_gpus(gpus_at_work(tmp_path / "gpus", nvml, 2, in_container=False))
    yield run
    run.close()
    emulator.reset()


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.xdist_group(f"doc-blocks-{number % _WORKERS}"))
        for number, page in enumerate(page for page in pages() if page not in {*HISTORIES, *EC2_GUIDES})
    ],
)
def test_the_blocks_of_a_page_run(page_run: PageRun, page: str) -> None:
    page_run.run_page(page)


@pytest.mark.parametrize("page", HISTORIES)
def test_the_blocks_of_a_page_about_the_past_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regions = [region for region in RegionsAndZonesBackend.regions if region.name in REGIONS]
    monkeypatch.setattr(RegionsAndZonesBackend, "regions", regions)
    for name in ("aws", "page"):
        (tmp_path / name).mkdir()
    with emulated_account(tmp_path / "aws") as account:
        HISTORIES[page](account)
        run = PageRun(tmp_path / "page", account.environment)
        run.run_page(page)
        run.close()


def test_every_block_is_run_or_marked() -> None:
    blocks = [block for page in pages() for block in blocks_of(page)]
    assert {str(block): mistakes(block) for block in blocks if mistakes(block)} == {}


def test_the_page_of_limits_counts_the_blocks_that_are_not_run() -> None:
    tool = [sys.executable, ROOT / "tools" / "build_blocks_not_run.py", "--check"]
    assert subprocess.run(tool).returncode == 0
