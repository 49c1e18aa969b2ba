"""A job's verdict: out of archives and objects, and that of several hosts."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from gpuproof.backends.aws import Aws
from gpuproof.backends.remote.results.agent_reports import (
    MOST_ARCHIVE,
    AgentReport,
    from_archive,
    from_objects,
    merge_states,
    merge_verdicts,
)
from support.archives import archive


def verdict(outcome: str, met: bool | None = True, **more: Any) -> dict[str, Any]:
    nothing = {"expectation": {}, "gpus": [], "bottlenecks": [], "notes": []}
    return {"version": 1, "outcome": outcome, "reason": "", "gpu_requirement_met": met, **nothing, **more}


def stored(bucket: Any, content: bytes) -> dict[str, AgentReport]:
    bucket.put(**{"run/output.tar.gz": content})
    aws = Aws()
    item = aws.object(bucket.name, "run/output.tar.gz")
    assert item is not None
    return from_archive(aws, item)


def test_it_is_read_out_of_an_archive_with_other_things(bucket: Any) -> None:
    content = archive(
        **{
            "metrics.json": b"{}",
            "deep/gpuproof/algo-1/verdict.json": b'{"outcome": "wrong place"}',
            "gpuproof/algo-1/run.json": b'{"exit_code": 3}',
            "gpuproof/algo-1/verdict.json": json.dumps(verdict("used")).encode(),
            "./gpuproof/algo-2/verdict.json": json.dumps(verdict("idle")).encode(),
        }
    )
    found = stored(bucket, content)
    outcomes = {host: one.verdict["outcome"] for host, one in found.items() if one.verdict}
    assert outcomes == {"algo-1": "used", "algo-2": "idle"}
    assert (found["algo-1"].state, found["algo-2"].state) == ({"exit_code": 3}, {})


def test_a_truncated_archive_yields_its_readable_part(bucket: Any) -> None:
    noise = random.Random(1).randbytes(500_000)
    whole = archive(**{"gpuproof/algo-1/verdict.json": json.dumps(verdict("used")).encode(), "big": noise})
    assert stored(bucket, whole[: len(whole) // 2]).keys() == {"algo-1"}


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", archive(), archive(**{"gpuproof/algo-1/verdict.json": b"["})],
    ids=["nothing", "no archive", "an empty archive", "half a verdict"],
)
def test_an_archive_without_one_has_none(bucket: Any, content: bytes) -> None:
    assert all(item == AgentReport() for item in stored(bucket, content).values())


def test_an_archive_that_is_too_large_is_not_downloaded(bucket: Any) -> None:
    from gpuproof.backends.aws import S3Object

    assert from_archive(Aws(), S3Object(bucket.name, "not there", MOST_ARCHIVE + 1, "e", 0.0)) == {}


def test_objects_of_each_host_are_read(bucket: Any) -> None:
    bucket.put(**{"v/algo-1/verdict.json": json.dumps(verdict("used")).encode()})
    bucket.put(**{"v/algo-2/verdict.json": b"broken"})
    bucket.put(**{"v/algo-1/run.json": b'{"exit_code": 3}'})
    bucket.put(**{"v2/algo-3/verdict.json": json.dumps(verdict("used")).encode()})
    found = from_objects(Aws(), bucket.name, "v")
    assert {host: one.verdict is not None for host, one in found.items()} == {"algo-1": True, "algo-2": False}
    assert found["algo-1"].state == {"exit_code": 3}


class TestSeveralHosts:
    def test_all_hosts_count_also_one_without_a_verdict(self) -> None:
        found = {"algo-1": AgentReport(verdict("used")), "algo-2": AgentReport(verdict("used"))}
        three = merge_verdicts(found, 3)
        assert three is not None
        assert [host["outcome"] for host in three["hosts"]] == ["used", "used", None]

    def test_when_each_script_ran_is_known_from_the_agents_states(self) -> None:
        found = {
            "algo-1": AgentReport(verdict("used"), {"script_started": 1000.0, "script_ended": 1100.0}),
            "algo-2": AgentReport(verdict("used"), {"script_started": 1070.0, "script_ended": 1100.0}),
        }
        both = merge_verdicts(found, 2)
        assert both is not None
        assert [bottleneck["kind"] for bottleneck in both["bottlenecks"]] == ["start-skew"]

    def test_one_host_is_taken_as_it_is(self) -> None:
        assert merge_verdicts({"algo-1": AgentReport(verdict("used"))}, 1) == verdict("used")

    def test_without_any_there_is_none(self) -> None:
        assert merge_verdicts({"algo-1": AgentReport()}, 2) is None


class TestAgentReports:
    def test_notes_of_all_hosts_are_shown_once_and_others_with_their_hosts(self) -> None:
        reports = {
            "algo-1": AgentReport(state={"exit_code": 0, "notes": ["both", "mine"]}),
            "algo-2": AgentReport(state={"exit_code": 1, "notes": ["both"], "failure_reason": "no data"}),
        }
        state = merge_states(reports, completed=False)
        assert state["notes"] == ["both", "algo-1: mine"]
        assert (state["exit_code"], state["failure_reason"]) == (0, "no data")

    def test_without_its_file_the_log_has_its_words_and_the_first_is_why_it_failed(self) -> None:
        reports = {"algo-1": AgentReport(messages=("it failed", "and a note"))}
        state = merge_states(reports, completed=False)
        assert (state["failure_reason"], state["notes"]) == ("it failed", ["and a note"])
        assert merge_states(reports, completed=True)["notes"] == ["it failed", "and a note"]

    def test_without_any_there_is_nothing(self) -> None:
        assert merge_states({}, completed=True) == {}
