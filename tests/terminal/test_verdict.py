"""The verdict in the terminal."""

import re
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.agent.verdict import Bottleneck, Expectation, GpuVerdict, HostReport, judge, merge_hosts
from gpuproof.agent.verdict.evidence import Mfu
from gpuproof.agent.verdict.steps import host_steps
from gpuproof.gpu.telemetry import NvmlState, Telemetry
from gpuproof.terminal.verdict import mfu_text, paragraphs_and_table, render, sparkline
from support.gpu_timelines import JOB, SPINNING, STRANGER, TRAINING, Timeline, cpu, gpu, watched
from support.step_documents import document

BUSY = {"mib": 8000, "pids": {JOB: 7900}}
FOUR = Expectation(4, "A10G", "instance_type: g5.12xlarge", required=True)


def text(expectation: Expectation, telemetry: Telemetry, width: int = 100, **options: bool) -> str:
    return render(judge(expectation, telemetry).to_json(), width, **options)


def test_a_used_gpu_has_a_headline_and_a_row():
    page = text(Expectation(1), watched(60, gpu(90, **BUSY, since=30)))
    headline, blank, header, row, *_ = page.splitlines()
    assert headline == "verdict    used: 1 of 1 GPU worked, 90% busy on average while in use."
    assert blank == ""
    assert header.split() == ["GPU", "over", "60", "s", "mean", "p90", "peak", "memory", "first", "use"]
    assert row.startswith("           0 NVIDIA A10G  ▁▁")
    assert row.endswith("██   90%  90%  7.7 of 22.5 GiB  after 30 s")


@pytest.mark.parametrize(
    ("width", "name"),
    [
        (140, "NVIDIA RTX PRO 6000 Blackwell Server Edition  "),
        (80, "NVIDIA RTX PRO …  "),
        (60, "NVIDIA RT…  "),
    ],
)
def test_a_long_name_is_shortened_for_the_sparkline(width: int, name: str):
    document = judge(Expectation(1), watched(60, gpu(90, **BUSY))).to_json()
    document["gpus"][0]["name"] = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    (row,) = [line for line in render(document, width).splitlines() if "NVIDIA" in line]
    assert row.startswith(f"           0 {name}")
    assert ("███████" in row) == (width >= 80)


def test_columns_line_up_whatever_stands_in_them():
    page = text(FOUR, watched(60, gpu(100, **BUSY), gpu(3, **BUSY), gpu(0, **BUSY), gpu()))
    rows = [line for line in page.splitlines() if "NVIDIA A10G" in line]
    assert len(rows) == 4
    ends = {row.index("%") for row in rows[:2]} | {row.index("-  ") for row in rows[2:]}
    assert len(ends) == 1
    assert rows[2].endswith("never, memory only")
    assert rows[3].endswith("never")


def test_a_gpu_of_another_process_is_marked():
    page = text(Expectation(1), watched(60, gpu(90, mib=9000, pids={STRANGER: 8900})))
    assert "never, used by others" in page


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal(width: int):
    telemetry = watched(600, *[gpu(25, **BUSY)] * 4, cpu=cpu(1.0), visible_devices="0,1")
    page = text(FOUR, telemetry, width)
    table = [line for line in page.splitlines() if "NVIDIA" in line]
    # The numbers alone need 68 columns.
    assert max(map(len, table)) <= max(width, 68)
    assert max(len(line) for line in page.splitlines() if line not in table) <= max(width, 68)
    assert "waiting" in page


def test_what_held_the_gpu_back_is_under_the_table():
    page = text(Expectation(1), watched(60, gpu(25, **BUSY), cpu=cpu(0.99)))
    assert re.search(r"^waiting    The GPU waited 75% of the time while python", page, re.MULTILINE)


def test_a_machine_without_a_gpu_gets_a_sentence_and_no_table():
    page = text(Expectation(), watched(60, nvml=NvmlState.MISSING))
    assert page.splitlines()[0] == (
        "verdict    no-gpu-expected: No GPU was expected and this machine has none: the job ran on the CPU."
    )
    assert "mean" not in page


def test_gpus_that_were_neither_expected_nor_used_get_no_table():
    assert "NVIDIA A10G" not in text(Expectation(), watched(60, gpu()))


def test_without_unicode_everything_is_ascii():
    assert text(Expectation(1), watched(60, gpu(90, **BUSY)), unicode=False).isascii()


def test_colours_are_only_there_when_wanted():
    telemetry = watched(60, gpu(90, **BUSY))
    plain, painted = text(Expectation(1), telemetry), text(Expectation(1), telemetry, colour=True)
    assert "\x1b" not in plain
    assert "\x1b[1;32mused:\x1b[0m" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain


def test_partly_used_is_never_green_and_red_only_if_it_fails_the_run():
    one_of_four = watched(60, gpu(90, **BUSY), gpu(), gpu(), gpu())
    assert "\x1b[1;31mpartly used:\x1b[0m" in text(FOUR, one_of_four, colour=True)
    waived = replace(FOUR, required=False)
    assert "\x1b[1;33mpartly used:\x1b[0m" in text(waived, one_of_four, colour=True)


def test_measured_multiprocessors_get_a_column():
    page = text(Expectation(1), watched(60, gpu(98, **BUSY, counters=TRAINING)))
    headline, rest, _, header, row, *_ = page.splitlines()
    assert headline.endswith("98% busy on average while in use, 85% of its multiprocessors")
    assert rest.strip() == "working."
    assert header.split()[-6:] == ["p90", "working", "peak", "memory", "first", "use"]
    assert "  98%  98%      85%  7.7 of 22.5 GiB" in row


def test_an_occupied_gpu_is_red_and_says_so_in_its_row():
    telemetry = watched(60, gpu(100, **BUSY, counters=SPINNING))
    page = text(Expectation(1, required=True), telemetry)
    assert page.startswith("verdict    occupied: GPU 0 did no work (busy 100%, working 1%: ")
    assert "  100%  100%       1%  7.7 of 22.5 GiB  busy, no work" in page
    assert "\x1b[1;31moccupied:\x1b[0m" in text(Expectation(1, required=True), telemetry, colour=True)


def test_kernels_that_are_too_small_get_a_line():
    small = replace(TRAINING, sm_active=0.1, dram_active=0.02)
    page = text(Expectation(1), watched(60, gpu(98, **BUSY, counters=small)), width=200)
    assert (
        "bottleneck busy 98%, working 10%: its kernels are too small or too short for the GPU: make batches"
        in page
    )


def test_probably_no_work_is_yellow():
    telemetry = watched(60, gpu(100, **BUSY, power_w=35.0))
    assert "\x1b[1;33mused:\x1b[0m" in text(Expectation(1), telemetry, colour=True)


def test_a_verdict_of_a_later_version_still_shows_its_outcome():
    page = render({"version": 99, "outcome": "used", "reason": "It worked."})
    assert page.startswith("verdict    used: It worked.")
    assert "version 99" in page


def test_a_sparkline_has_a_character_for_each_value():
    assert sparkline([0, 12, 13, 50, 99, 100, None], 10) == "▁▁▂▅██ "


def test_a_sparkline_that_is_too_long_is_averaged():
    assert sparkline([0, 100] * 30, 6) == "▅" * 6


def test_a_sparkline_of_nothing_is_nothing():
    assert sparkline([], 10) == ""


def test_a_run_that_ended_before_the_first_sample_gets_no_numbers():
    document = judge(Expectation(), watched(60, nvml=NvmlState.MISSING, cpu=cpu(1.0))).to_json()
    usual = render(document)
    assert "cores on average, at most" in usual
    document["processes"] |= {"mean_cpu_percent": 610.0, "cpu_seconds": 0.12, "peak_rss": 0}
    document["cpu_count"] = 2
    (line,) = [line for line in render(document).splitlines() if line.startswith("processes")]
    assert line.startswith("processes  0.1 s of CPU time")
    assert "memory" not in line


def hosts_page(*hosts: tuple[Timeline, ...] | None, width: int = 100, **options: Any) -> str:
    """The page of a job on several hosts; None for one that left no verdict."""
    names = [f"algo-{number}" for number in range(1, len(hosts) + 1)]
    expectation = Expectation(len(next(gpus for gpus in hosts if gpus)), required=True)
    reports = {
        name: HostReport(judge(expectation, watched(600, *gpus, cpu=cpu(0.99))).to_json())
        for name, gpus in zip(names, hosts, strict=True)
        if gpus is not None
    }
    document = merge_hosts(names, reports)
    assert document is not None
    return render(document, width, **options)


BUSY_GPU, SLOW_GPU = gpu(90, **BUSY), gpu(25, **BUSY)


def test_several_hosts_name_the_host_of_each_gpu():
    page = hosts_page((BUSY_GPU, BUSY_GPU), (BUSY_GPU, gpu()))
    rows = [line.strip() for line in page.splitlines() if "NVIDIA" in line]
    assert [row.split("  ")[0] for row in rows] == [
        "algo-1 0 NVIDIA A10G",
        "algo-1 1 NVIDIA A10G",
        "algo-2 0 NVIDIA A10G",
        "algo-2 1 NVIDIA A10G",
    ]
    assert rows[3].endswith("never")
    assert "algo-2: GPU 1 did nothing for the job." in " ".join(page.split())


def test_a_host_without_a_verdict_has_a_row():
    page = hosts_page((BUSY_GPU,), None)
    assert re.search(r"^ +algo-2 .* no verdict$", page, re.MULTILINE)


def test_many_gpus_have_a_row_for_each_host():
    page = hosts_page((BUSY_GPU,) * 8, (SLOW_GPU,) * 8, (BUSY_GPU,) * 7 + (gpu(),), None)
    rows = [line.split() for line in page.splitlines() if line.startswith("           algo-")]
    assert [(row[0], row[2], row[-3:]) for row in rows[:3]] == [
        ("algo-1", "90%", ["8", "of", "8"]),
        ("algo-2", "25%", ["8", "of", "8"]),
        ("algo-3", "90%", ["7", "of", "8"]),
    ]
    assert "23 GPUs: 25 to 90% busy on average, 2 min 30 s to 9 min of work each" in " ".join(page.split())


def test_a_bottleneck_of_several_hosts_is_explained_once():
    page = " ".join(hosts_page((SLOW_GPU,), (gpu(20, **BUSY),), (SLOW_GPU,)).split())
    assert "waiting algo-2: The GPU waited 80% of the time" in page
    assert "Likewise algo-1 and algo-3." in page
    assert page.count("of the time while python") == 1
    assert "2.0 of 24 cores on average" not in page
    assert "of memory on each host" in page


@pytest.mark.parametrize("width", [40, 60, 80, 100])
@pytest.mark.parametrize("gpus", [2, 8])
def test_no_sentence_about_hosts_is_wider_than_the_terminal(width: int, gpus: int):
    page = hosts_page((SLOW_GPU,) * gpus, (BUSY_GPU,) * gpus, None, width=width, unicode=False)
    assert page.isascii()
    assert max(len(line) for line in page.splitlines()) <= max(width, 75)


def test_the_model_flops_utilization_names_peak_precision_and_source():
    gpus = [GpuVerdict(index, "NVIDIA A100-SXM4-40GB", worked=True) for index in range(4)]
    found = Mfu(0.41, 1e15, 1.954, 1248e12, "bfloat16", "plan")
    assert mfu_text(found, gpus) == (
        "41% of 4 x A100-SXM4-40GB's 312 TFLOP/s in bfloat16 (FLOPs from gpuproof plan)"
    )
    bound = Mfu(0.0003, 1e10, 1.0, 35e12, "tf32", "plan", lower_bound=True)
    assert mfu_text(bound, [GpuVerdict(0, "NVIDIA A10G", worked=True)]) == (
        "at least 0.03% of A10G's 35 TFLOP/s in TF32 (FLOPs from gpuproof plan; float32, perhaps without TF32)"
    )


def test_throughput_is_shown_for_the_job_each_gpu_and_the_ranks():
    document = judge(Expectation(2), watched(60, BUSY_GPU, BUSY_GPU)).to_json()
    ranks = [
        {"rank": number, "examples": 9000, "seconds": 60.0, "examples_per_s": 150.0 + number}
        for number in (0, 1)
    ]
    document["throughput"] = {"examples_per_s": 301.0, "examples": 18000, "seconds": 60.0, "ranks": ranks}
    assert "throughput 301 examples/s over 60 s, 150 on each GPU; 2 ranks, 150 to 151 each" in " ".join(
        render(document).split()
    )


def test_a_notebook_shows_the_same_paragraphs_and_a_row_for_each_gpu():
    document = judge(FOUR, watched(60, gpu(100, **BUSY), gpu(3, **BUSY), gpu(0, **BUSY), gpu())).to_json()
    paragraphs, table = paragraphs_and_table(document)
    assert table is not None
    assert len(table.rows) == 4
    words = " ".join(
        [*(f"{label} {text}" for label, text in paragraphs), *table.headers, *sum(table.rows, ())]
    )
    assert sorted(words.split()) == sorted(render(document, 1000).split())


def test_a_notebook_shows_the_reason_of_a_verdict_of_another_version():
    paragraphs, table = paragraphs_and_table({"version": 99, "outcome": "used", "reason": "It worked."})
    assert paragraphs[0] == ("verdict", "used: It worked.")
    assert table is None


def steps_page(width: int = 1000, usd: dict[str, float] | None = None, **more: Any) -> str:
    found = host_steps(
        [document(**{"input": 0.41, "forward": 0.2, "backward": 0.31, "optimizer": 0.06, **more})]
    )
    head = "input wait 41%"
    why = f"{head}: DataLoader at train.py:38 has 0 workers; the instance has 8 vCPUs."
    limit = Bottleneck("input", why, {"share": 0.41, "seconds": 20.5, **(usd or {})}, head=head)
    verdict = replace(judge(Expectation(), watched(60)), steps=found, bottlenecks=(limit,))
    return render(verdict.to_json(), width)


def test_steps_have_a_line_with_the_share_of_each_phase():
    assert (
        "steps      200 of 250 ms: input wait 41%, forward 20%, backward 31%, optimizer 6%, rest 2%"
        in steps_page()
    )


def test_a_compiled_step_is_not_called_a_forward_pass():
    page = steps_page(loop="keras", input=0.4, forward=0.6, backward=0.0, optimizer=0.0)
    assert "steps      200 of 250 ms: input wait 40%, compiled step 60%" in page


def test_a_bottleneck_of_the_steps_has_its_cost_behind_its_share():
    because = "DataLoader at train.py:38 has 0 workers; the instance has 8 vCPUs."
    assert f"bottleneck input wait 41%: {because}" in steps_page()
    page = steps_page(usd={"usd": 3.1, "run_usd": 7.56})
    assert f"bottleneck input wait 41%, $3.10 of $7.56: {because}" in page
