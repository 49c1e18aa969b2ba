"""The reports as HTML and text, from values."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from gpuproof.agent.verdict import CPU_ONLY, PARTLY_USED, USED, Bottleneck, GpuVerdict, Verdict
from gpuproof.gpu.telemetry import Series
from gpuproof.notebook.cell_report import CellReport
from gpuproof.notebook.extension import has_magic, remove_magic
from gpuproof.notebook.kernels import Kernel
from gpuproof.notebook.machine_report import MachineReport
from gpuproof.notebook.plot import HEIGHT, WIDTH, gpu_plot
from gpuproof.watch.report import Instance, WatchReport
from gpuproof.watch.running.gpu_state import GpuHolder, GpuMachine, GpuState

GIB = 1 << 30


def gpu(index: int = 0, *, worked: bool = True) -> GpuVerdict:
    return GpuVerdict(
        index,
        "NVIDIA A10G",
        worked=worked,
        touched=worked,
        mean_utilization=80.0 if worked else None,
        p90_utilization=95.0 if worked else None,
        peak_memory=9 * GIB if worked else None,
        memory_total=24 * GIB,
        series=Series(
            1.0,
            (0.0, 90.0, None, 70.0) if worked else (0.0,) * 4,
            memory=(1.0 * GIB, 9.0 * GIB, 9.0 * GIB, 9.0 * GIB),
        ),
    )


def report(
    *gpus: GpuVerdict, outcome: str = USED, reason: str = "1 of 1 GPU worked.", seconds: float = 4.0
) -> WatchReport:
    wait = Bottleneck("one-core", "One process kept a core busy <while> the GPU waited.", {})
    verdict = Verdict(
        outcome, reason, gpus_expected=len(gpus), gpus=gpus, bottlenecks=(wait,), seconds=seconds
    )
    return WatchReport.of(verdict)


class Balanced(HTMLParser):
    """Fails if an element is not closed in order, and collects names, texts and addresses."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: list[str] = []
        self.addresses: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_has_the_verdict_the_cause_and_a_plot() -> None:
    page = CellReport(report(gpu())).html()
    assert "<b>used</b>: 1 of 1 GPU worked." in page
    assert "One process kept a core busy &lt;while&gt; the GPU waited." in page
    assert 'aria-label="GPU 0 A10G: mean 80%, p90 95%, peak 9.0 of 24.0 GiB, over 4.0 s"' in page


def test_the_page_is_complete_and_loads_nothing() -> None:
    page = Balanced(CellReport(report(gpu(), gpu(1, worked=False))).html())
    assert page.addresses == []
    assert not {"script", "style", "link", "iframe", "object"} & set(page.names)


def test_text_is_the_alternative() -> None:
    bundle = CellReport(report(gpu())).mimebundle()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"].startswith("verdict    used: 1 of 1 GPU worked.")


def test_the_cost_follows_the_instance() -> None:
    known = dataclasses.replace(report(gpu()), instance=Instance("g5.xlarge", "us-east-1", "spot"))
    assert "4.0 s on g5.xlarge in us-east-1 (spot), $0.0011" in CellReport(known, 0.0011).html()
    assert "g5.xlarge in us-east-1 (spot)" in CellReport(known).text()


def test_of_many_gpus_those_without_work_are_folded() -> None:
    gpus = [gpu(index, worked=index < 2) for index in range(16)]
    page = CellReport(report(*gpus, outcome=PARTLY_USED, reason="2 of 16 GPUs worked.")).html()
    Balanced(page)
    assert "<summary>14 GPUs without work</summary>" in page
    assert page.count('role="img"') == 16


def test_without_a_gpu_there_is_one_sentence() -> None:
    reason = "No usable GPU: the NVIDIA driver is not installed. The job ran on the CPU only."
    shown = CellReport(report(outcome=CPU_ONLY, reason=reason))
    assert shown.text() == "GPUproof: no usable GPU: the NVIDIA driver is not installed."
    assert "<svg" not in shown.html()


def test_a_verdict_of_a_newer_version_shows_its_outcome() -> None:
    newer = report(gpu())
    newer = dataclasses.replace(newer, verdict={**newer.verdict, "version": 99})
    assert "used: 1 of 1 GPU worked." in CellReport(newer).text()
    Balanced(CellReport(newer).html())


def test_the_plot_has_a_dashed_line_for_memory_if_it_is_known() -> None:
    before = report(gpu())
    page = CellReport(WatchReport.from_json(before.to_json())).html()
    figure = page[: page.index("utilization, 0 to 100%")]
    assert 'd="M0 48H90V32H360" fill="none"' in figure
    (known,) = before.verdict["gpus"]
    older = {**known, "series": {"step_s": 1.0, "values": known["series"]["values"]}}
    without = CellReport(dataclasses.replace(before, verdict={**before.verdict, "gpus": [older]})).html()
    assert "H90V32H360" not in without
    assert 'fill-opacity="0.45"' in without


def test_a_report_with_memory_of_its_own_as_of_older_releases_is_readable() -> None:
    document = report(gpu()).to_json()
    document["memory"] = [{"index": 0, "step_s": 1.0, "values": [1, 2]}]
    assert WatchReport.from_json(document) == WatchReport.from_json(report(gpu()).to_json())


def test_without_its_shapes_the_page_reads_well() -> None:
    page = CellReport(report(gpu())).html()
    assert re.findall(r"<svg.*?</svg>", page)
    assert all(not re.sub(r"<[^>]*>", "", plot) for plot in re.findall(r"<svg.*?</svg>", page))


def test_unknown_values_leave_a_gap() -> None:
    plot = gpu_plot("GPU 0", 4.0, Series(1.0, (50.0, None, 100.0, 100.0)), None)
    assert 'd="M0 50V26H90V50Z"' in plot
    assert 'd="M180 50V2H360V50Z"' in plot
    assert f'viewBox="0 0 {WIDTH} {HEIGHT}"' in plot


def test_a_step_beyond_the_end_is_cut() -> None:
    plot = gpu_plot("GPU 0", 1.5, Series(1.0, (50.0, 50.0)), None)
    assert f'd="M0 50V26H{WIDTH}V50Z"' in plot


def test_a_plot_takes_little_of_the_notebook_file() -> None:
    noisy = Series(1.0, tuple(float(37 * second % 101) for second in range(120)))
    noisy = dataclasses.replace(noisy, memory=tuple(float(31 * second % 97) * GIB for second in range(120)))
    assert len(gpu_plot("GPU 0", 120.0, noisy, 100 * GIB)) < 4000


def test_the_state_names_notebooks_commands_and_what_is_hidden() -> None:
    holders = (
        GpuHolder(10, 8 * GIB, ("python", "-m", "ipykernel_launcher")),
        GpuHolder(11, GIB, ("/usr/bin/python3", "worker.py")),
        GpuHolder(12, GIB, ("/opt/bin/python", "/home/me/train.py", "--epochs", "3")),
        GpuHolder(13, None),
    )
    machine = GpuMachine((GpuState(0, "NVIDIA A10G", 50, 10 * GIB, 24 * GIB, 150.0, holders),))
    kernels = {10: Kernel("abc", 10, "a<b>.ipynb"), 11: Kernel("abc", 10, "a<b>.ipynb")}
    text = MachineReport(machine, kernels, own_pid=10).text()
    assert "a<b>.ipynb (this notebook)  " in text
    assert "a<b>.ipynb (this notebook): python3 worker.py" in text
    assert "python /home/me/train.py --epochs 3" in text
    assert "a process that is not visible here" in text
    page = MachineReport(machine, kernels).html()
    assert "a&lt;b&gt;.ipynb" in page
    Balanced(page)


def test_an_idle_machine_says_that_no_process_holds_memory() -> None:
    machine = GpuMachine((GpuState(0, "NVIDIA A10G", 0, 0, 24 * GIB, 15.0, ()),))
    assert MachineReport(machine).text().endswith("No process holds memory on a GPU.")
    assert GpuMachine.from_json(machine.to_json()) == machine


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%%gpu\nx = 1", True),
        ("\n\n%%gpu  \nx", True),
        ("%%time\n%%gpu\nx", True),
        ("x = 1\n%%gpu", False),
        ("%%gpus\nx", False),
        ("%%gpu now\nx", False),
        ("%%gpu?", False),
        ("", False),
    ],
)
def test_where_the_magic_counts(cell: str, expected: bool) -> None:
    assert has_magic(cell) == expected


def test_the_lines_of_a_cell_stay_where_they_are() -> None:
    assert remove_magic(["%%gpu\n", "x = 1\n"]) == ["# %%gpu\n", "x = 1\n"]
    assert remove_magic(["%%gpu\n", "%%time\n", "x = 1"]) == ["%%time\n", "x = 1"]
    assert remove_magic(["x = 1\n"]) == ["x = 1\n"]
    assert remove_magic([]) == []
