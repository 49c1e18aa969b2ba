"""One pass, bounded memory, whatever the log is like."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuproof.explain.prefilter import Prefilter
from gpuproof.explain.scan import BLOCK_BYTES, LOOKAHEAD_BYTES, Scan, scan_chunks, scan_lines

OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.58 GiB"
NOISE = b"Epoch 3/10 step 1200/4000 - loss: 0.4312 - mean_squared_error: 0.0312 - 32ms/step\n"


def scanned(*lines: str) -> Scan:
    return scan_lines(lines)


def cut(content: bytes, seed: int, largest: int) -> Iterator[bytes]:
    dice = random.Random(seed)
    at = 0
    while at < len(content):
        size = dice.randint(1, largest)
        yield content[at : at + size]
        at += size


@pytest.mark.parametrize("largest", [7_000, 300_000, 3_000_000])
def test_the_size_of_the_pieces_changes_nothing(largest: int) -> None:
    content = NOISE * 20_000 + OOM + b"\n" + NOISE * 20_000 + OOM + b"\n" + NOISE * 3
    scan = scan_chunks(cut(content, 1, largest))
    seen = scan.occurrences["torch-out-of-memory"]
    assert (seen.line, seen.last_line, seen.count) == (20_001, 40_002, 2)
    assert scan.lines == 40_005
    assert seen.groups["wanted"] == "2.00 GiB"


def test_a_context_that_follows_in_the_next_piece_is_still_seen() -> None:
    first = "NVIDIA RTX PRO 6000 with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n"
    second = "The current PyTorch install supports CUDA capabilities sm_50 sm_90.\n"
    padding = NOISE * ((BLOCK_BYTES - len(first)) // len(NOISE))
    content = padding + first.encode() + second.encode() + NOISE * (LOOKAHEAD_BYTES // 10)
    scan = scan_chunks(cut(content, 3, 100_000))
    assert scan.occurrences["torch-capability-not-compatible"].groups["supported"] == "sm_50 sm_90"


@pytest.mark.slow
def test_a_log_of_64_mib_takes_a_few_mib_of_memory() -> None:
    def pieces() -> Iterator[bytes]:
        block = NOISE * (BLOCK_BYTES // len(NOISE))
        for _ in range(64):
            yield block
        yield OOM

    tracemalloc.start()
    scan = scan_chunks(pieces())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "torch-out-of-memory" in scan.occurrences
    assert peak < 12 * 1024 * 1024


def test_megabytes_without_a_line_end_are_looked_at_in_windows() -> None:
    scan = scan_chunks([b"x" * 3_000_000, OOM, b"y" * 3_000_000])
    assert len(scan.occurrences["torch-out-of-memory"].text) < 10_000
    assert scan.lines == 1


def test_binary_junk_causes_no_failure() -> None:
    junk = random.Random(7).randbytes(500_000)
    scan = scan_chunks([junk, b"\n", OOM, b"\n", junk])
    assert scan.occurrences["torch-out-of-memory"].line == junk.count(b"\n") + 2


def test_of_a_progress_bar_the_part_with_the_message_counts() -> None:
    scan = scan_chunks([b"\r".join([b" 3%|", b" 4%|", OOM, b" 5%|"])])
    assert scan.occurrences["torch-out-of-memory"].text.startswith("torch.OutOfMemoryError")


def test_a_message_two_hundred_times_is_one_occurrence() -> None:
    scan = scan_chunks([(OOM + b"\n") * 200])
    assert len(scan.occurrences) == 1
    assert scan.occurrences["torch-out-of-memory"].count == 200


def test_the_last_tracebacks_final_line_is_the_failure() -> None:
    scan = scanned(
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in <module>',
        "KeyError: 'first'",
        "retrying",
        "Traceback (most recent call last):",
        '  File "a.py", line 9, in <module>',
        "    step()",
        "ZeroDivisionError: division by zero",
        "bye",
    )
    assert scan.failure == (8, "ZeroDivisionError: division by zero")
    assert scan.occurrences == {}


def test_a_traceback_behind_mpi_prefixes_ends_in_its_exception() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in f',
        "    g()",
        "mylib.Broken: no flux",
    ]
    scan = scan_lines(f"[1,2]<stderr>:{line}" for line in lines)
    assert scan.failure == (4, "mylib.Broken: no flux")


@pytest.mark.parametrize(
    "ending",
    [
        "RuntimeError: the flux is gone",
        "mylib.Broken: no flux",
        "KeyboardInterrupt",
        "panic: runtime error: index out of range",
    ],
)
def test_an_exception_that_ends_a_log_without_its_traceback_is_the_failure(ending: str) -> None:
    assert scanned("Epoch 1", "Epoch 2", ending, "").failure == (3, ending)


def test_a_log_that_ends_inside_a_traceback_failed() -> None:
    scan = scanned("Epoch 1", "Traceback (most recent call last):", '  File "a.py", line 9, in <module>')
    assert scan.failure == (2, "Traceback (most recent call last):")


@pytest.mark.parametrize(
    "line", ["Test Error: ", "mean error: 0.31", "train.loss: 0.2", "Errors: 0", "0 errors"]
)
def test_a_metric_that_ends_a_log_is_no_failure(line: str) -> None:
    assert scanned("Epoch 1", line).failure is None


def test_an_exception_far_from_the_end_is_no_failure() -> None:
    assert scanned("ValueError: tried the next mirror", *["step"] * 40).failure is None


def test_source_lines_of_a_traceback_are_not_matched() -> None:
    scan = scanned('    raise AssertionError("Torch not compiled with CUDA enabled")')
    assert scan.occurrences == {}


def test_a_log_identifies_its_machine() -> None:
    scan = scanned(
        "| NVIDIA-SMI 550.163.01             Driver Version: 550.163.01     CUDA Version: 12.4     |",
        "Created device /job:localhost/replica:0/task:0/device:GPU:0 with 13764 MB memory:  -> device: 0, name: Tesla T4,"
        " pci bus id: 0000:00:1e.0, compute capability: 7.5",
        '    "current_instance_type": "ml.g4dn.xlarge",',
        "AWS_REGION=eu-west-1",
        "PyTorch version: 2.6.0+cu124",
    )
    assert scan.facts == {
        "driver": "550.163.01",
        "gpu": "Tesla T4",
        "instance_type": "ml.g4dn.xlarge",
        "region": "eu-west-1",
        "torch": "2.6",
    }


def test_an_empty_log_has_no_lines() -> None:
    assert scan_chunks([]) == Scan()
    assert scan_chunks([b""]).lines == 0
    assert scan_chunks([b"a"]).lines == 1
    assert scan_chunks([b"a\n"]).lines == 1


def test_the_prefilter_finds_every_clue_wherever_it_stands() -> None:
    clues = ["CUDA out of memory", "std::bad_alloc", "undefined symbol", "Xid (PCI", "exit code"]
    prefilter = Prefilter(clues)
    for clue in clues:
        block = b"..." + clue.encode() + b"..."
        ((place, possible),) = prefilter.find(block, 0, len(block))
        assert 3 <= place < 3 + len(clue)
        assert clue.encode() in possible


def test_a_clue_that_overlaps_another_one_is_not_hidden_by_it() -> None:
    clues = ["(AccessDenied) when calling", "AccessDenied", "Denied by", "Exit Code", "Exit Code: 9"]
    prefilter = Prefilter(clues)
    for clue in clues:
        block = f"... {clue} ...".encode()
        possible = {match for _, found in prefilter.find(block, 0, len(block)) for match in found}
        assert {other.encode() for other in clues if other in clue} <= possible


def test_ordinary_lines_are_not_looked_at() -> None:
    from gpuproof.explain.patterns import known_errors

    prefilter = Prefilter(clue for error in known_errors() for clue in error.clues)
    text = (Path(__file__).parent / "quiet" / "sagemaker_success.log").read_bytes()
    looked_at = {text.count(b"\n", 0, place) for place, _ in prefilter.find(text, 0, len(text))}
    assert len(looked_at) <= text.count(b"\n") / 5
