"""Snapshots as text: 1, 8 and 128 GPUs, narrow terminals, and terminals without block characters."""

from __future__ import annotations

import pytest

from gpuproof.app.live_view.snapshot import GpuView, HostView, Outcome, Readings, Snapshot
from gpuproof.cli.top.lines import Layout, body_lines, header_lines, plain, readings_text, snapshot_text
from support.live_snapshots import gpu, job

INPUT = {"kind": "input", "text": "60% of the steps' time: DataLoader at train.py:38 has 0 workers"}
CORE = {"kind": "one-core", "text": "python (process 4711) ran at 99% of one core"}


def test_the_header_has_state_time_cost_and_gpus() -> None:
    lines = header_lines(job(2, 4, cost_usd=1.234, instance="2 x g5.12xlarge in eu-west-1"), Layout(100))
    assert plain(lines).splitlines() == [
        "train-1 · InProgress (Training) · 2 x g5.12xlarge in eu-west-1",
        "12:34 · $1.23 · 2 hosts, 8 GPUs 90 %, 20.0 GiB of 24.0 GiB",
    ]


def test_a_gpu_is_a_line_with_its_history_and_what_it_waits_for() -> None:
    found = job(hosts=0)
    host = HostView("algo-1", (gpu(0, 12, waiting_for=CORE, power_w=71.6, temperature_c=45),))
    text = plain(body_lines(Snapshot("run", found.name, hosts=(host,)), Layout(80)).lines)
    assert text.splitlines() == [
        "algo-1",
        "  GPU  busy  history                             GiB      W    °C  waits for",
        "    0   12%                         ▁▅▁    20.0/24.0     72    45  one core",
        "  GPU 0: waits for one core: python (process 4711) ran at 99% of one core",
    ]


def test_gpus_with_the_same_evidence_share_a_line() -> None:
    gpus = tuple(gpu(index, 10, waiting_for=INPUT) for index in range(3))
    text = plain(body_lines(Snapshot("run", "train-1", hosts=(HostView("algo-1", gpus),)), Layout(100)).lines)
    assert "  GPUs 0, 1 and 2: waits for input: 60% of the steps' time: DataLoader" in text


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize(("hosts", "gpus"), [(1, 1), (1, 8), (16, 8)])
def test_no_line_is_longer_than_the_terminal_is_wide(
    width: int, unicode: bool, hosts: int, gpus: int
) -> None:
    found = job(hosts, gpus)
    layout = Layout(width, unicode, "algo-1", [host.name for host in found.hosts])
    text = plain([*header_lines(found, layout), *body_lines(found, layout).lines])
    assert max(map(len, text.splitlines())) <= width
    assert unicode or text.isascii()


def test_hosts_are_lines_and_only_expanded_ones_list_their_gpus() -> None:
    found = job(16, 8)
    body = body_lines(found, Layout(100, selected="algo-3", expanded={"algo-2"}))
    text = plain(body.lines).splitlines()
    assert len(text) == 16 + 1 + 8
    assert text[0] == "+ algo-1  8 GPUs 90 %, 20.0 GiB of 24.0 GiB, CPU 3.2 cores, memory 1.0 GiB"
    assert text[1].startswith("- algo-2")
    assert text[body.cursor].startswith("+ algo-3")
    assert body.lines[body.cursor][0].style == "reverse"


def test_a_host_says_what_its_gpus_wait_for() -> None:
    gpus = (gpu(0, 5, waiting_for=INPUT), gpu(1, 5, waiting_for=INPUT), gpu(2, 5, waiting_for=CORE), gpu(3))
    found = Snapshot("run", "train-1", hosts=(HostView("algo-1", gpus), HostView("algo-2")))
    text = plain(body_lines(found, Layout(100)).lines).splitlines()
    assert text[0].endswith("waits for input (2), one core (1)")


def test_unknown_values_are_question_marks() -> None:
    host = HostView("algo-1", (GpuView(0), GpuView(1, error="GPU is lost")))
    text = plain(body_lines(Snapshot("run", "train-1", hosts=(host,)), Layout(80)).lines)
    assert text.splitlines()[2].split() == ["0", "?", "?"]
    assert text.splitlines()[3].endswith("GPU is lost")


def test_the_end_has_the_verdict_and_why_it_counts_as_failed() -> None:
    outcome = Outcome(
        4, "FAILED: the requested GPU did no work (exit code 4)", {"outcome": "idle", "reason": "R"}
    )
    lines = header_lines(job(status="Completed", secondary_status="Completed", outcome=outcome), Layout(80))
    assert plain(lines).splitlines()[2:] == ["verdict: idle: R", outcome.text]
    assert "red" in lines[2][0].style


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        (None, None),
        (Readings("agent", newest=100), None),
        (Readings("agent", newest=40), "GPU values: the newest is 62 s old"),
        (
            Readings("cloudwatch", 60, 30),
            "GPU values of CloudWatch: one every 60 s, the newest is 72 s old",
        ),
        (Readings("s3", 15), "GPU values of the instances, through S3: none yet"),
        (Readings("cloudwatch", problem="No permission."), "No permission."),
    ],
)
def test_old_values_are_said_to_be_old(readings: Readings | None, expected: str | None) -> None:
    assert readings_text(readings, 102.0) == expected


def test_the_text_of_a_snapshot_ends_with_its_log() -> None:
    text = snapshot_text(job(log=tuple(f"epoch {number}" for number in range(20))), 80, unicode=False, log=2)
    assert text.endswith("\n\nepoch 18\nepoch 19")
    assert text.isascii()
