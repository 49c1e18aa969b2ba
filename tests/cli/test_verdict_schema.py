"""The schema of `verdict.json`: current, complete, and what real verdicts follow."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpuproof.agent.verdict import Expectation, HostReport, Verdict, host_throughput, judge, merge_hosts
from gpuproof.agent.verdict.evidence import (
    PHASES,
    Activity,
    CodeLocation,
    Intensity,
    Mfu,
    RankSteps,
    RunEvent,
    Steps,
    StepTimes,
    Straggler,
)
from gpuproof.cli.main import main
from gpuproof.cli.verdict_schema import verdict_schema
from gpuproof.gpu.telemetry import NvmlState
from support.gpu_timelines import JOB, STRANGER, cpu, gpu, watched

PUBLISHED = Path(__file__).parents[2] / "docs" / "verdict.schema.json"
FOUR = Expectation(4, "A10G", "instance_type: g5.12xlarge", required=True)
BUSY = {"mib": 8000, "pids": {JOB: 7900}}
COUNTS = {"rank": 0, "examples": 1032, "first_examples": 32, "first": 100.0, "last": 110.5}


def strict(schema: Any) -> Any:
    """The schema without further keys: what it does not describe is an error."""
    if isinstance(schema, list):
        return [strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {name: strict(value) for name, value in schema.items()}
    return {**copy, "additionalProperties": False} if "properties" in copy else copy


def check(document: dict[str, Any]) -> None:
    jsonschema.validate(json.loads(json.dumps(document)), strict(verdict_schema()))


def full() -> Verdict:
    """A verdict with everything that one may have."""
    times = StepTimes(60, 17.5, dict.fromkeys(PHASES, 1.5), epoch=0)
    location = CodeLocation("train.py", 38, "DataLoader", 120, 1.5, {"num_workers": 0})
    rank = RankSteps(0, "algo-1", "pytorch", "cuda", times, (times,), {"input": location}, 0.28, 0.25)
    straggler = Straggler(1, "algo-2", 0.5, "clocks", "algo-2 is slow.")
    throttled = gpu(90, **BUSY, since=5, throttle=("thermal",))
    found = judge(
        FOUR,
        watched(60, throttled, gpu(0, **BUSY), gpu(), gpu(5, mib=900, pids={STRANGER: 900}), cpu=cpu(1.0)),
    )
    gpus = tuple(
        replace(
            gpu_verdict,
            intensity=Intensity("gpm", 55.0, 0.9),
            activity=Activity("working", "measured", "busy 90 %"),
        )
        for gpu_verdict in found.gpus
    )
    return replace(
        found,
        gpus=gpus,
        events=(
            RunEvent(5.0, "first-use", "first use of GPU 0"),
            RunEvent(60.0, "epoch", "epoch 1", "algo-1"),
        ),
        cause="torch-driver-too-old",
        cuda_compat="580.95",
        throughput=host_throughput([COUNTS]),
        steps=Steps(times, (times,), (rank,), straggler),
        mfu=Mfu(0.41, 1e12, 0.28, 125e12, "bfloat16", "plan"),
    )


def test_the_published_schema_is_the_one_that_gpuproof_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "verdict"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(PUBLISHED.read_text()), (
        "gpuproof schema verdict > docs/verdict.schema.json"
    )


def test_it_is_a_valid_schema_that_describes_each_part() -> None:
    schema = verdict_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert [name for name, part in schema["$defs"].items() if not part["description"]] == []
    assert schema["properties"]["gpus_working"]["description"].startswith("number of GPUs")
    assert "`null`" in schema["$defs"]["GpuVerdict"]["properties"]["worked"]["description"]


def test_a_verdict_with_everything_follows_it() -> None:
    check(full().to_json())


def test_the_verdict_of_several_hosts_follows_it() -> None:
    state = {"script_started": 1000.0, "script_ended": 1060.0, "start_wait_s": 1.5, "end_wait_s": 0.0}
    report = HostReport(full().to_json(), state)
    document = merge_hosts(["algo-1", "algo-2", "algo-3"], {"algo-1": report, "algo-2": report})
    assert document is not None
    check(document)


@pytest.mark.parametrize("nvml", [NvmlState.MISSING, NvmlState.FAILED, NvmlState.NOT_QUERIED])
def test_a_verdict_without_gpus_follows_it(nvml: NvmlState) -> None:
    check(judge(FOUR, watched(60, nvml=nvml)).to_json())
    check(judge(Expectation(), watched(60, nvml=nvml)).to_json())


@pytest.mark.parametrize(
    "change", [{"outcome": "great"}, {"version": 1}, {"gpus_working": "one"}, {"gpus": [{}]}, {"more": 1}]
)
def test_another_document_does_not_follow_it(change: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check({**full().to_json(), **change})


def test_further_keys_are_allowed_for_readers() -> None:
    jsonschema.validate(json.loads(json.dumps({**full().to_json(), "more": 1})), verdict_schema())
