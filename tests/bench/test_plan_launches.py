"""What a launch takes, by steps that launches bound."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from bench.plan.launches import Launches, fit_launches, launch_accuracy, measured_launches
from bench.plan.tables import nvidia_convnets

from gpuproof.trace.document import Operator, write_trace
from support.plan_examples import training

MICROSECOND = 1e-6
ROWS = [
    Launches("a", "V100", 100, 5e-3),
    Launches("b", "V100", 200, 12e-3),
    Launches("c", "A100", 100, 3e-3),
    Launches("d", "A100", 200, 6e-3),
]
HEADER = "path,section,preceding_text,columns,row"
COLUMNS = "Batch Size | Throughput Avg | Latency Avg"
FOLDER = "PyTorch/Classification/ConvNets/resnet50v1.5/README.md"


def test_the_fastest_kind_of_host_counts() -> None:
    found = fit_launches(ROWS)
    assert found["host_s_per_call"] == pytest.approx(30 * MICROSECOND)
    assert found["launch_spread"] == [0.5, pytest.approx(2.0)]


def test_a_model_is_predicted_by_the_others() -> None:
    found = launch_accuracy(ROWS)
    assert found["rows"] == 4
    assert found["microseconds_of_a_call"] == {"A100": 30.0, "V100": 55.0}
    # Those of the A100 are exact, those of the V100 40 and 50 % off.
    assert found["median_error"] == pytest.approx(0.2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    section = "Inference performance: NVIDIA DGX-1 (1x V100 16GB) > FP32 Inference Latency"
    lines = [HEADER, "# a comment,,,,"]
    for batch, throughput in ((1, 100), (4, 390), (8, 400), (128, 1000)):
        lines.append(f"{FOLDER},{section},,{COLUMNS},{batch} | {throughput} img/s | 10 ms")
    with gzip.open(tmp_path / "nvidia_deeplearningexamples_tables.csv.gz", "wt") as file:
        file.write("\n".join(lines))
    return tmp_path


def test_rows_of_the_wanted_batches_are_read(folder: Path) -> None:
    assert [(convnet.batch, convnet.seconds) for convnet in nvidia_convnets(folder)] == [(128, 1e-3)]
    small = nvidia_convnets(folder, batches=(1, 8))
    assert [(item.batch, item.seconds) for item in small] == [(1, 1e-2), (8, 1 / 400)]


def test_a_step_that_takes_as_long_with_four_samples_is_bound_by_launches(folder: Path) -> None:
    operators = [Operator("aten.relu", "elementwise", "float32", "forward", 0, 0, 1, (), 170)]
    trace = training(1)
    trace.operators[:] = operators
    (folder / "convnet-inference-resnet50-float32.json").write_text(write_trace(trace))
    assert measured_launches(folder, folder) == [Launches("resnet50", "V100-16GB", 170, 1e-2)]
