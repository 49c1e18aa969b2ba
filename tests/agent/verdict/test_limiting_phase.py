"""The bottleneck that the steps show, with the line of the script."""

from dataclasses import replace
from typing import Any

import pytest

from gpuproof.agent.verdict import Bottleneck, Expectation, judge
from gpuproof.agent.verdict.evidence import LAUNCH_BOUND, Activity
from gpuproof.agent.verdict.limiting_phase import Machine, limiting_phase, with_limiting_phase
from gpuproof.agent.verdict.steps import host_steps
from gpuproof.agent.verdict.stragglers import find_straggler
from gpuproof.gpu.telemetry import Telemetry
from support.gpu_timelines import JOB, Timeline, cpu, gpu, watched
from support.step_documents import document, location

OURS = {"mib": 8000, "pids": {JOB: 7900}}
STARVED: Timeline = gpu(50, **OURS)
FED: Timeline = gpu(97, **OURS)
NO_GPU = Telemetry()


def found(
    telemetry: Telemetry, *documents: Any, vcpus: int = 8, activity: str | None = None
) -> Bottleneck | None:
    verdict = judge(Expectation(), telemetry)
    steps = host_steps(documents)
    assert steps is not None
    steps = replace(steps, straggler=find_straggler(steps.ranks, {}))
    gpus = [replace(each, activity=activity and Activity(activity, "inferred", "")) for each in verdict.gpus]
    return limiting_phase(steps, Machine(100.0, vcpus, 0.0, gpus, telemetry.waiting))


def sentence(*arguments: Any, **options: Any) -> str:
    limit = found(*arguments, **options)
    assert limit is not None
    assert limit.sentence.startswith(f"{limit.head}: ")
    return limit.sentence


LOADER = {"input": location("DataLoader", num_workers=0)}


def test_input_wait_names_the_loader_its_workers_and_the_vcpus():
    limit = found(NO_GPU, document(input=0.41, forward=0.5, locations=LOADER))
    assert limit is not None
    assert limit.head == "input wait 41%"
    assert limit.sentence == (
        "input wait 41%: DataLoader at train.py:38 has 0 workers; the instance has 8 vCPUs: set num_workers=7."
    )
    assert limit.numbers["share"] == pytest.approx(0.41)
    assert limit.numbers["seconds"] == pytest.approx(20.5)
    assert limit.numbers["run_share"] == pytest.approx(0.205)
    assert (limit.numbers["path"], limit.numbers["line"]) == ("train.py", 38)


def test_input_wait_keeps_which_process_was_busy_as_the_reason():
    telemetry = watched(60, STARVED, cpu=cpu(0.99))
    assert f"8 vCPUs, while python (process {JOB}) ran at 99% of one core: set num_workers=7." in sentence(
        telemetry, document(input=0.41, forward=0.5, locations=LOADER)
    )


def test_more_workers_are_not_advised_where_storage_or_all_cores_are_the_limit():
    busy = document(input=0.41, locations={"input": location("DataLoader", num_workers=4)})
    assert "reading 90 MB/s): read fewer and bigger files" in sentence(
        watched(60, STARVED, cpu=cpu(0.2, disk=1), read_rate=90e6), busy
    )
    assert "while all 8 cores were busy: choose an instance with more vCPUs" in sentence(
        watched(60, STARVED, cpu=cpu(7.6), cpu_count=8), busy
    )


def test_workers_are_divided_among_the_ranks_of_the_host():
    ranks = [document(rank, input=0.41, locations=LOADER) for rank in range(2)]
    assert sentence(NO_GPU, *ranks).endswith("set num_workers=3.")


def test_a_tf_data_pipeline_without_prefetch_is_told_what_is_missing():
    settings = {"parallel_calls": False, "prefetch": False}
    pipeline = {"input": location("tf.data", **settings)}
    assert sentence(NO_GPU, document(input=0.5, locations=pipeline)) == (
        "input wait 50%: tf.data at train.py:38 maps in one thread and has no prefetch; the instance has 8 vCPUs: "
        "map with num_parallel_calls=tf.data.AUTOTUNE and end with prefetch(tf.data.AUTOTUNE)."
    )


def test_input_wait_is_no_loss_while_the_gpu_is_busy_all_the_time():
    # Its queue is full: the script loads the next batch while the GPU computes on earlier ones.
    assert found(watched(60, FED, cpu=cpu(0.99)), document(input=0.41, locations=LOADER)) is None


def test_a_copy_from_pageable_memory_is_named():
    copy = {"copy": location(".to()", 45, pinned=False, non_blocking=False)}
    assert sentence(watched(60, FED), document(copy=0.3, forward=0.6, locations=copy)) == (
        "host to device 30%: .to() at train.py:45 copies from pageable memory: set pin_memory=True in the "
        "DataLoader, and non_blocking=True."
    )


def test_a_value_read_in_each_step_is_the_bottleneck_only_if_the_gpu_waits_afterwards():
    item = {"synchronization": location(".item()", 51, count=200, seconds=20)}
    training = document(forward=0.4, backward=0.5, locations=item)
    assert sentence(watched(60, STARVED, cpu=cpu(0.5)), training).startswith(
        "synchronization 50%: .item() at train.py:51 waits for the GPU in each step"
    )
    assert found(watched(60, FED), training) is None


def test_a_value_read_once_in_a_while_is_no_bottleneck():
    item = {"synchronization": location(".item()", 51, count=4, seconds=20)}
    limit = found(watched(60, STARVED, cpu=cpu(0.5)), document(forward=0.4, backward=0.5, locations=item))
    assert limit is None


def test_short_kernels_are_the_bottleneck_by_activity_or_by_a_busy_core():
    training = document(forward=0.4, backward=0.5)
    inferred = found(watched(60, STARVED, cpu=cpu(0.5)), training, activity=LAUNCH_BOUND)
    by_core = found(watched(60, STARVED, cpu=cpu(0.99)), training)
    assert inferred is not None
    assert by_core is not None
    assert (inferred.kind, by_core.kind) == (LAUNCH_BOUND, LAUNCH_BOUND)
    assert f"python (process {JOB}) ran at 99% of one core" in by_core.sentence
    assert found(watched(60, FED), training) is None


def test_the_time_in_which_the_gpu_waits_for_input_is_not_blamed_on_short_kernels():
    limit = found(watched(60, STARVED, cpu=cpu(0.99)), document(input=0.45, forward=0.5))
    assert limit is not None
    assert limit.kind == "input"


@pytest.mark.parametrize(
    ("phase", "what", "expected"),
    [
        (
            "evaluation",
            "Model.evaluate",
            "evaluation 60%: Model.evaluate at train.py:38 ran 10 times, 3 s each: evaluate less",
        ),
        (
            "checkpoint",
            "torch.save",
            "checkpoint 60%: torch.save at train.py:38 ran 10 times, 3 s each: save less often",
        ),
    ],
)
def test_evaluation_and_checkpoints_are_named_with_how_often_they_ran(phase: str, what: str, expected: str):
    there = {phase: location(what, count=10, seconds=30)}
    assert expected in sentence(NO_GPU, document(forward=0.3, locations=there, **{phase: 0.6}))


def test_sound_training_has_no_bottleneck():
    training = document(
        input=0.03, forward=0.35, backward=0.45, optimizer=0.05, communication=0.08, evaluation=0.03
    )
    assert found(watched(60, FED), training) is None


def test_a_few_steps_show_nothing():
    assert found(NO_GPU, document(steps=5, input=0.9)) is None


def test_what_the_steps_show_replaces_guesses_and_nothing_else():
    telemetry = watched(60, STARVED, cpu=cpu(0.99))
    guess = judge(Expectation(1), telemetry).bottlenecks
    shm = Bottleneck("shm", "Shared memory was full.", {})
    steps = host_steps([document(input=0.41, locations=LOADER)])
    machine = Machine(60.0, 8, 1.0, judge(Expectation(1), telemetry).gpus, telemetry.waiting)
    assert [each.kind for each in guess] == ["one-core"]
    assert [each.kind for each in with_limiting_phase([*guess, shm], steps, machine)] == ["input", "shm"]
    assert with_limiting_phase(guess, None, machine) == guess
