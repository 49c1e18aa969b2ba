"""The progress line."""

from typing import Any

import pytest

from gpuproof.backends.live_samples import merge_samples
from gpuproof.terminal.live import progress_text

GIB = 2**30


def sample(*utilization: float | None, **more: Any) -> dict[str, Any]:
    gpus = [
        {"index": index, "utilization": value, "memory_used": (index + 1) * GIB, "memory_total": 24 * GIB}
        for index, value in enumerate(utilization)
    ]
    return {"seconds": 62.0, "gpus": gpus, "cores": 1.5, "rss": GIB, **more}


def test_one_gpu_and_two_have_their_own_parts():
    assert progress_text("Training", sample(91)) == (
        "Training · 1:02 · GPU 0 91 %, 1.0 GiB of 24.0 GiB · CPU 150 % · 1.0 GiB"
    )
    assert "GPU 0 91 %, 1.0 GiB of 24.0 GiB · GPU 1 90 %" in progress_text("Training", sample(91, 90))


def test_many_gpus_are_summarized_so_that_the_line_fits_an_ordinary_terminal():
    line = progress_text("Training", sample(98, 62, 91, 90, 97, 92, 95, 90, cost=1.2345))
    assert (
        line
        == "Training · 1:02 · 8 GPUs 89 % (62 to 98 %), 8.0 GiB of 24.0 GiB · CPU 150 % · 1.0 GiB · $1.23"
    )
    assert progress_text(None, sample(90, 90, 90)).startswith("1:02 · 3 GPUs 90 %, 3.0 GiB")


def test_several_hosts_are_one_line():
    both = merge_samples({"algo-1": sample(100, 100, seconds=70.0), "algo-2": sample(62, 98)})
    assert [(gpu["host"], gpu["index"]) for gpu in both["gpus"]] == [
        ("algo-1", 0),
        ("algo-1", 1),
        ("algo-2", 0),
        ("algo-2", 1),
    ]
    assert progress_text("Training", both) == (
        "Training · 1:10 · 2 hosts, 4 GPUs 90 % (62 to 100 %), 2.0 GiB of 24.0 GiB · CPU 300 % · 2.0 GiB"
    )


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        ({"algo-1": sample(), "algo-2": sample()}, "2 hosts · CPU"),
        ({"algo-1": sample(None), "algo-2": sample(None)}, "2 hosts, 2 GPUs ?, 1.0 GiB"),
    ],
)
def test_what_is_unknown_is_left_out(samples: dict[str, Any], text: str):
    assert text in progress_text("Training", merge_samples(samples))
