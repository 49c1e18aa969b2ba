"""This machine as an explanation sees it, from a folder that stands for it."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import pytest

from gpuproof.catalogue import Catalogue
from gpuproof.explain import Context
from gpuproof.explain.local_context import local_context, unknown_context
from gpuproof.explain.sources import explain_file

LOG = Path(__file__).parent / "logs" / "torch-out-of-memory.log"


@pytest.mark.parametrize(
    ("version", "driver"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024",
            "535.183.01",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder@U22)",
            "580.95.05",
        ),
    ],
)
def test_the_loaded_driver_is_read_from_proc(
    tmp_path: Path, catalogue: Catalogue, version: str, driver: str
) -> None:
    file = tmp_path / "proc" / "driver" / "nvidia" / "version"
    file.parent.mkdir(parents=True)
    file.write_text(f"{version}\nGCC version:  gcc version 12.3.0 (Ubuntu)\n")
    (tmp_path / "proc" / "meminfo").write_text("MemTotal:       16384000 kB\nMemFree: 1 kB\n")
    machine = local_context(catalogue, tmp_path)
    assert machine.driver == driver
    assert machine.host_memory == 16384000 * 1024
    assert machine.gpus is None


def test_a_machine_without_a_driver_has_no_gpus(tmp_path: Path, catalogue: Catalogue) -> None:
    machine = local_context(catalogue, tmp_path)
    assert (machine.driver, machine.gpus, machine.host_memory) == (None, (), None)


def test_the_region_of_the_environment_counts(monkeypatch: pytest.MonkeyPatch, catalogue: Catalogue) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    assert unknown_context(catalogue).region == "eu-north-1"


def test_a_gzipped_log_is_read_as_it_is(tmp_path: Path, context: Context) -> None:
    packed = tmp_path / "000000.gz"
    packed.write_bytes(gzip.compress(LOG.read_bytes()))
    (found,) = explain_file(packed, context).explanations
    assert found.code == "torch-out-of-memory"
    assert found.log == str(packed)


def test_a_gzipped_log_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path, context: Context) -> None:
    packed = tmp_path / "cut.gz"
    whole = gzip.compress(LOG.read_bytes() + bytes(range(256)) * 40)
    packed.write_bytes(whole[:-40])
    assert [explanation.code for explanation in explain_file(packed, context).explanations] == [
        "torch-out-of-memory"
    ]


def test_a_pipe_is_read_once_from_its_first_byte(tmp_path: Path, context: Context) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"KeyError: 'SM_CHANNEL_TRAIN'\n",))
    writer.start()
    (found,) = explain_file(pipe, context).explanations
    writer.join()
    assert (found.code, found.line) == ("sm-variable-missing", 1)
