"""The rank for which the others wait, and why it is slower."""

from dataclasses import replace
from typing import Any

import pytest

from gpuproof.agent.verdict import NO_GPU_EXPECTED, GpuVerdict, HostReport, Verdict, merge_hosts
from gpuproof.agent.verdict.evidence import Intensity, Straggler
from gpuproof.agent.verdict.schema import ProcessSummary
from gpuproof.agent.verdict.steps import host_steps
from gpuproof.agent.verdict.stragglers import HostFacts, find_straggler
from support.step_documents import document, location

HOT = GpuVerdict(
    0, worked=True, throttle={"thermal slowdown (hardware)": 0.8}, intensity=Intensity("gpm", clock_share=0.6)
)
COOL = GpuVerdict(0, worked=True, intensity=Intensity("gpm", clock_share=0.98))


def straggler(*documents: Any, **facts: Any) -> Straggler | None:
    steps = host_steps(documents)
    assert steps is not None
    return find_straggler(steps.ranks, {None: HostFacts(**facts)})


def three(slow: dict[str, Any] | None = None, **more: Any) -> list[dict[str, Any]]:
    """Ranks 0 and 1, which wait for 31 % of each step, and rank 2, which does not."""
    waits = {"own": 0.69, "communication": 0.31, **more}
    return [document(0, **waits), document(1, **waits), document(2, own=1.0, **{**more, **(slow or {})})]


def test_the_rank_that_never_waits_makes_the_others_wait():
    found = straggler(*three())
    assert found is not None
    assert (found.rank, found.cause) == (2, "unknown")
    assert found.share == pytest.approx(0.31)
    assert found.waited_s == pytest.approx(0.31 * 50)
    assert found.sentence == "rank 2 makes the others wait 31% of each step: for no measured reason."


def test_equal_ranks_have_no_straggler_however_long_they_communicate():
    ranks = [document(rank, own=0.5 + 0.02 * rank, communication=0.5) for rank in range(4)]
    assert straggler(*ranks) is None


def test_ranks_that_are_late_in_turn_have_no_straggler():
    ranks = [document(rank) for rank in range(3)]
    for rank, each in enumerate(ranks):
        for number, window in enumerate(each["windows"]):
            window[3] *= 1.0 if number % 3 == rank else 0.6
    assert straggler(*ranks) is None


def test_ranks_that_do_not_train_together_wait_for_nobody():
    assert straggler(document(0, own=0.6), document(1, steps=100, step_s=0.5)) is None
    assert straggler(document(0, own=0.6), document(1, step_s=0.4)) is None


def test_lowered_clocks_are_the_cause():
    gpus = [replace(COOL, index=0), replace(COOL, index=1), replace(HOT, index=2)]
    found = straggler(*three(), gpus=gpus)
    assert found is not None
    assert found.cause == "temperature"
    assert found.sentence == (
        "rank 2 makes the others wait 31% of each step: GPU 2 runs at 60% of its clock because of thermal slowdown (hardware)."
    )


def test_a_lower_clock_than_that_of_the_others_is_a_cause_without_a_reason_of_the_driver():
    slow = GpuVerdict(2, worked=True, intensity=Intensity("gpm", clock_share=0.6))
    found = straggler(*three(), gpus=[replace(COOL, index=0), replace(COOL, index=1), slow])
    assert found is not None
    assert found.cause == "clocks"
    assert "GPU 2 runs at 60% of its clock, and the others' at 98%" in found.sentence


def test_input_of_one_rank_is_the_cause_with_its_line():
    loader = {"input": location("DataLoader", num_workers=0)}
    found = straggler(*three({"input": 0.35, "locations": loader}))
    assert found is not None
    assert found.cause == "input"
    assert found.sentence.endswith("it waits 35% of its time for input (DataLoader at train.py:38).")


def test_checkpoints_of_one_rank_are_the_cause():
    found = straggler(*three({"checkpoint": 0.3}))
    assert found is not None
    assert found.cause == "checkpoint"


def test_waiting_that_is_hidden_in_a_compiled_step_shows_in_the_input_of_one_rank():
    found = straggler(document(0, loop="keras"), document(1, loop="keras", input=0.4))
    assert found is not None
    assert (found.rank, found.cause) == (1, "input")
    assert straggler(document(0, loop="keras"), document(1, loop="keras")) is None


def test_hosts_are_compared_by_their_steps_whatever_their_clocks_say():
    verdicts = {
        f"algo-{rank + 1}": Verdict(
            NO_GPU_EXPECTED,
            "",
            gpus=(HOT if rank == 2 else COOL,),
            processes=ProcessSummary(0, 100.0, 10.0, None, None, 1),
            cpu_count=8,
            steps=host_steps([{**each, "local_rank": 0}]),
            seconds=50.0,
        )
        for rank, each in enumerate(
            document(rank, clock=1000.0 + 977 * rank, own=own, communication=1 - own)
            for rank, own in enumerate((0.69, 0.69, 1.0))
        )
    }
    reports = {host: HostReport(verdict.to_json()) for host, verdict in verdicts.items()}
    merged = merge_hosts(reports, reports)
    assert merged is not None
    read = Verdict.from_json(merged)
    assert read.steps is not None
    assert read.steps.straggler is not None
    assert (read.steps.straggler.rank, read.steps.straggler.host) == (2, "algo-3")
    (limit,) = read.bottlenecks
    assert limit.sentence == (
        "rank 2 on algo-3 makes the others wait 31% of each step: GPU 0 there runs at 60% of its clock "
        "because of thermal slowdown (hardware)."
    )
    assert limit.head == "rank 2 on algo-3 makes the others wait 31% of each step"


def test_a_busy_cpu_is_the_cause_if_nothing_else_is():
    found = straggler(*three(), cores=7.9, cpu_count=8)
    assert found is not None
    assert found.cause == "cpu"
    assert found.sentence.endswith("all 8 cores are busy.")


def test_memory_errors_are_the_cause_if_the_clock_is_not_lowered():
    faulty = replace(COOL, index=2, ecc_errors=12)
    found = straggler(*three(), gpus=(COOL, replace(COOL, index=1), faulty))
    assert found is not None
    assert found.cause == "ecc"
    assert found.sentence.endswith("GPU 2 had 12 memory errors (ECC).")
    found = straggler(*three(), gpus=(COOL, replace(COOL, index=1), replace(HOT, index=2, ecc_errors=12)))
    assert found is not None
    assert found.cause == "temperature"
