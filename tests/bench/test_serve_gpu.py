"""`bench/serve_gpu.py`: its quick mode end to end, and its checks of answers, GPUs and figures."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpuproof.gpu.nvml import MIB, GpuReading, count_gpus
from support.cli_sandbox import until
from support.nvml_stub import SCENARIO_VARIABLE, Scenario, build_library, loaded

BENCH = Path(__file__).parents[2] / "bench"


def package() -> ModuleType:
    """`bench/serve` under a name that nothing else has, and `bench` not on the path: its scripts have common names."""
    if "bench_serve" not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            "bench_serve", BENCH / "serve" / "__init__.py", submodule_search_locations=[str(BENCH / "serve")]
        )
        assert spec is not None
        assert spec.loader is not None
        sys.modules["bench_serve"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["bench_serve"])
    return sys.modules["bench_serve"]


def part(name: str) -> Any:
    package()
    return importlib.import_module(f"bench_serve.{name}")


def bench(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / "serve_gpu.py"), *map(str, words)]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=900
    )


def kept() -> list[str]:
    return sorted(path.name for path in (BENCH / "results").iterdir())


ANSWERS = np.array([[1.0, 0.0, -2.0], [0.5, 0.5, 0.5], [-1.0, 2.0, 0.0]], np.float32)


def test_the_difference_is_a_share_of_the_largest_number() -> None:
    given = ANSWERS.copy()
    given[0, 0] += 0.01
    assert part("gpu_variant").difference(given, ANSWERS, 0.01) == pytest.approx(0.005, rel=1e-3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (ANSWERS[[1, 0, 2]], "are not the bare loop's"),
        (ANSWERS * np.nan, "are not the bare loop's"),
        (ANSWERS[:, :2], "have the shape"),
        (ANSWERS[:2], "have the shape"),
    ],
)
def test_answers_of_other_questions_shapes_or_none_are_refused(given: Any, words: str) -> None:
    with pytest.raises(part("stack").StackFailed, match=words):
        part("gpu_variant").difference(given, ANSWERS, 0.03)


def test_answers_among_which_a_mix_up_would_not_show_prove_nothing() -> None:
    alike = ANSWERS[[0, 0, 2]]
    with pytest.raises(part("stack").StackFailed, match="too much alike"):
        part("gpu_variant").difference(alike, alike, 0.03)


def test_the_questions_are_all_different() -> None:
    cases = part("gpu_cases")
    for net in (*cases.FULL.nets, *cases.QUICK.nets):
        items = net.items()
        assert (items.shape, str(items.dtype)) == ((cases.ITEMS, *net.shape), net.dtype)
        assert len({item.tobytes() for item in items}) == cases.ITEMS


def test_the_use_of_a_gpu_leaves_out_what_was_before_and_after() -> None:
    watch = part("gpu_utilization")
    seen = [(0.5, 5, 9), (1.5, 50, 3), (2.5, 90, 4), (3.5, 5, 9)]
    readings = [(when, GpuReading(0, utilization=busy, memory_used=memory)) for when, busy, memory in seen]
    assert watch.use(readings, (0.2, 3.0)) == watch.Use(70, 4)
    assert watch.use(readings, (5.0, 6.0)) is None
    assert watch.use([(1.9, GpuReading(0, error="lost"))], (0.0, 2.0)) is None


def table(rate: float, *names: str, where: str = "a GPU") -> Any:
    report, reading = part("gpu_report"), part("generators").Reading
    rows = [
        report.GpuRow(
            part("report").Row(
                name, {1: [reading(rate, 0.002, 0.004, 0)], 64: [reading(900.0, 0.07, 0.09, 0)]}
            ),
            f"--{name}",
            {1: [reading(100.0, 0.01, 0.02, 0)], 32: [reading(1000.0, 0.032, 0.04, 0)]},
            {1: [part("gpu_utilization").Use(30.0, 2**30)]},
            {64: [part("gpu_utilization").Use(98.0, 3 * 2**30)]},
            1e-4,
            25_557_032,
        )
        for name in names
    ]
    return report.GpuTable("resnet50", "(1, 2) of uint8", 130, (1, 64), (1, 32), where, "today.", rows)


def test_the_report_sets_the_server_against_the_loop_of_its_batches() -> None:
    text = part("gpu_report").as_markdown([table(80.0, "fp32")])
    assert "25,557,032 parameters" in text
    assert (
        "| --fp32 | 100, 10.0, 20.0 | 1,000, 32.0, 40.0 | 80, 2.0, 4.0 | 900, 70.0, 90.0 | 0.80 | 0.90 |"
        in text
    )
    assert "| --fp32 | 30, 1.0 | -, - | -, - | 98, 3.0 |" in text


def test_what_was_not_measured_stands_in_the_report_with_its_reason() -> None:
    lame = table(80.0, "fp32")
    lame.rows[0].served.skipped = "it fell"
    assert "--fp32: not measured: it fell" in part("gpu_report").as_markdown([lame])


def test_ways_measured_before_stay_and_those_measured_again_are_replaced() -> None:
    report = part("gpu_report")
    written = json.loads(json.dumps(report.as_json([table(80.0, "fp32", "compile")])))
    before = [report.GpuTable.from_json(network) for network in written["networks"]]
    (found,) = report.together(before, [table(90.0, "autocast", "fp32")])
    assert found == replace(
        table(0.0),
        rows=[*table(90.0, "fp32").rows, *table(80.0, "compile").rows, *table(90.0, "autocast").rows],
    )


def test_figures_of_another_gpu_or_version_do_not_stay_beside_new_ones() -> None:
    now = table(90.0, "fp32", where="another GPU")
    assert part("gpu_report").together([table(80.0, "compile")], [now]) == [now]


@pytest.mark.slow
@pytest.mark.nightly
def test_the_networks_are_of_the_published_sizes() -> None:
    torch = pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location(
        "bench_deep_models", BENCH / "serve" / "handlers" / "deep_models.py"
    )
    assert spec is not None
    assert spec.loader is not None
    models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    sizes: dict[str, int] = {}
    for net in part("gpu_cases").FULL.nets:
        with torch.device("meta"):
            network = models.build(net.name, dict(net.size))
        sizes[net.name] = sum(parameter.numel() for parameter in network.parameters())
    # torchvision's resnet50 and transformers' BertModel of bert-base-uncased.
    assert sizes == {"resnet50": 25_557_032, "bert": 109_482_240}


def test_without_a_gpu_it_is_stated_and_the_code_is_0() -> None:
    before = kept()
    done = bench(CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, kept()) == (0, before), done.stderr
    assert "Nothing was measured: there is no CUDA GPU to use here (" in done.stdout


def test_without_the_requested_gpu_it_fails() -> None:
    done = bench("--device", "cuda", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1
    assert "there is no CUDA GPU to use here (" in done.stdout


@pytest.mark.slow
@pytest.mark.nightly
def test_a_gpu_that_pytorch_cannot_use_is_named(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.version.cuda:
        pytest.skip("this PyTorch is built for GPUs")
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0, "NVIDIA A10G")
    scenario.now(0)
    done = bench(**scenario.environment(build_library(tmp_path)))
    assert done.returncode == 0, done.stderr
    assert f"PyTorch {torch.__version__} does not see the NVIDIA A10G, which NVML names" in done.stdout


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scenario]:
    """A V100 and an A10G in this process's NVML, and a PyTorch that sees them."""
    scenario = Scenario(tmp_path / "gpus.txt").gpu(0, "Tesla V100-SXM2-16GB", compute_capability=(7, 0))
    scenario.gpu(1, "NVIDIA A10G").at(0, 1, util=70, memory_mib=2048).now(0)
    monkeypatch.setenv(SCENARIO_VARIABLE, str(scenario.path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    figures = {"torch": "2.13.0", "there": True, "cuda": "13.0", "cudnn": 92000}
    monkeypatch.setattr(part("gpu_device"), "_torch", lambda environment, info: figures)
    with loaded(build_library(tmp_path)):
        yield scenario


@pytest.mark.parametrize(
    ("visible", "index", "slug", "half"),
    [
        (None, 0, "tesla-v100-sxm2-16gb", "fp16"),
        ("1", 1, "nvidia-a10g", "bf16"),
        ("1,0", 1, "nvidia-a10g", "bf16"),
        ("GPU-00000001-0000-0000-0000-000000000000", 1, "nvidia-a10g", "bf16"),
    ],
)
def test_the_first_visible_gpu_alone_is_measured_in_its_half_precision(
    two_gpus: Scenario, monkeypatch: pytest.MonkeyPatch, visible: str | None, index: int, slug: str, half: str
) -> None:
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    place = part("gpu_device").gpu()
    assert (place.index, place.slug, place.half) == (index, slug, half)
    assert place.environment == {"CUDA_VISIBLE_DEVICES": str(index), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert place.flags == ("--require-gpu",)
    assert "driver 550.54.15" in place.words
    assert "PyTorch 2.13.0 with CUDA 13.0" in place.words


def test_the_watch_reads_the_gpu_that_is_measured(two_gpus: Scenario) -> None:
    watching = part("gpu_utilization")
    began = time.monotonic()
    with watching.UtilizationMonitor(1) as watch:
        found = until(lambda: watch.during((began, time.monotonic())), "a reading")
    assert found == watching.Use(70, 2048 * MIB)


def test_the_whole_networks_are_not_begun_on_a_cpu() -> None:
    done = bench("--device", "cpu")
    assert done.returncode == 2
    assert "--device cpu goes with --quick" in done.stderr


def check_quick_mode(folder: Path, device: str) -> dict[str, Any]:
    """Run it, compare the server's answers with the bare loop's, and return what it wrote."""
    before = kept()
    done = bench(
        "--device", device, "--quick", "--results", folder / "results", "--scratch", folder / "scratch"
    )
    assert (done.returncode, kept()) == (0, before), done.stdout + done.stderr
    (path,) = (folder / "results").glob("serve-gpu-*-quick.json")
    figures = json.loads(path.read_text())
    assert [network["name"] for network in figures["networks"]] == ["resnet50", "bert"]
    for network in figures["networks"]:
        assert [row["served"]["name"] for row in network["rows"]] == ["fp32", "autocast"]
        for row in network["rows"]:
            readings = [*row["bare"].values(), *row["served"]["readings"].values()]
            assert all(item["rate"] > 0 and not item["failed"] for reading in readings for item in reading)
            answers = folder / "scratch" / f"{network['name']}-{row['served']['name']}"
            wanted, served, together = (
                np.load(answers / f"{name}.npy") for name in ("bare", "served", "together")
            )
            # The same kernels sum in another order where batches are larger.
            allowed = (3e-2 if "autocast" in row["flags"] or device == "cuda" else 1e-5) * np.abs(
                wanted
            ).max()
            np.testing.assert_allclose(served, wanted, rtol=0, atol=allowed)
            np.testing.assert_allclose(together, np.tile(wanted, (4, 1)), rtol=0, atol=allowed)
            nearest = min(np.abs(one - two).max() for at, one in enumerate(wanted) for two in wanted[:at])
            assert nearest > 2 * allowed
    return figures


@pytest.mark.slow
@pytest.mark.nightly
def test_the_quick_mode_serves_both_networks_with_the_answers_of_the_bare_loop(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    figures = check_quick_mode(tmp_path, "cpu")
    assert all(network["where"].startswith("The CPU of") for network in figures["networks"])
    text = next((tmp_path / "results").glob("*.md")).read_text()
    assert "| --autocast bf16 |" in text
    for name in ("resnet50", "bert"):
        exact, half = (
            np.load(tmp_path / f"scratch/{name}-{variant}/served.npy") for variant in ("fp32", "autocast")
        )
        # The flag reached the server: mixed precision rounds.
        assert np.abs(exact - half).max() > 1e-4


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.nightly
def test_the_quick_mode_measures_a_real_gpu(tmp_path: Path) -> None:
    if count_gpus() == 0:
        pytest.skip("there is no NVIDIA GPU here")
    figures = check_quick_mode(tmp_path, "cuda")
    for network in figures["networks"]:
        assert "driver" in network["where"]
        uses = [use for row in network["rows"] for found in row["served_use"].values() for use in found]
        assert uses
        assert all(use["memory"] > 0 for use in uses)
